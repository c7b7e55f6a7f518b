//! SQL as an effect: exact values, clear errors, both ways of running it.

use seriatim::handler::{CommitError, FailureKind, Handler, TransactionalHandler};
use seriatim::store::{Checkpoint, Store};
use seriatim::{Change, Columns, Failure, Op, Position, Row, Value};
use seriatim_sqlite::rusqlite::types::Value as Sqlite;
use seriatim_sqlite::{SqlEffect, SqlProblem, in_transaction};

use crate::support::{File, change, context, own, see};

const KINDS: &str = "insert into copies (value) values (:new_amount)";

fn copies(file: &File) -> Vec<Sqlite> {
    let connection = file.sqlite();
    let mut statement = connection.prepare("select value from copies order by rowid").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Runs the SQL for the changes on a file of its own, as the handler that is no store's.
async fn handle(file: &File, effect: SqlEffect, changes: &[Change]) -> Result<(), Failure> {
    let elsewhere = File::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    effect.on(file.path()).handle(changes, &context(&lease)).await
}

fn with_copies() -> File {
    let file = File::new();
    file.sqlite().execute_batch("create table copies (value)").unwrap();
    file
}

#[tokio::test]
async fn values_arrive_exactly() {
    let file = with_copies();
    let time = "2026-11-15T08:00:00.123456789Z";
    let values = [
        (Value::Null, Sqlite::Null),
        (Value::Bool(true), Sqlite::Integer(1)),
        (Value::Integer(i64::MIN), Sqlite::Integer(i64::MIN)),
        (Value::Real(0.1), Sqlite::Real(0.1)),
        (Value::Real(f64::INFINITY), Sqlite::Real(f64::INFINITY)),
        (Value::Decimal("12345678901234567890.10".into()), Sqlite::Text("12345678901234567890.10".into())),
        (Value::Text("a\0b'ü".into()), Sqlite::Text("a\0b'ü".into())),
        (Value::Bytes([0, 0xff].into()), Sqlite::Blob(vec![0, 0xff])),
        (Value::Time(time.parse().unwrap()), Sqlite::Text(time.into())),
        (Value::Json(r#"{"a": 1.0}"#.into()), Sqlite::Text(r#"{"a": 1.0}"#.into())),
    ];
    let changes: Vec<Change> =
        values.iter().zip(1..).map(|((value, _), id)| change(id, 1, value.clone())).collect();
    handle(&file, SqlEffect::new(KINDS, None), &changes).await.unwrap();
    assert_eq!(copies(&file), values.map(|(_, expected)| expected));
}

#[tokio::test]
async fn every_parameter_has_its_value_and_what_is_missing_is_null() {
    let file = with_copies();
    let sql = "insert into copies values (:op), (:id), (:at), (:key_id), (:new_amount), (:old_amount), (:new_nothing)";
    handle(&file, SqlEffect::new(sql, None), &[change(7, 42, Value::Integer(5))]).await.unwrap();
    let expected = [
        Sqlite::Text("insert".into()),
        Sqlite::Integer(7),
        Sqlite::Text("2026-11-15T08:00:00.500000Z".into()),
        Sqlite::Integer(42),
        Sqlite::Integer(5),
        Sqlite::Null,
        Sqlite::Null,
    ];
    assert_eq!(copies(&file), expected);
}

#[tokio::test]
async fn rows_of_another_shape_find_their_columns() {
    let file = with_copies();
    let mut other = change(2, 2, Value::Null);
    other.after = Some(Row::new(Columns::new(["amount", "note"]), [Value::Integer(2), Value::Integer(9)]));
    let changes = [change(1, 1, Value::Integer(1)), other, change(3, 3, Value::Integer(3))];
    handle(&file, SqlEffect::new(KINDS, None), &changes).await.unwrap();
    assert_eq!(copies(&file), [1, 2, 3].map(Sqlite::Integer));
}

#[tokio::test]
async fn statements_end_where_sqlite_says_so() {
    let file = with_copies();
    let sql = "insert into copies values ('a;b'); -- not; here\n insert into copies values (:id) returning value;\n;";
    handle(&file, SqlEffect::new(sql, None), &[change(7, 1, Value::Null)]).await.unwrap();
    assert_eq!(copies(&file), [Sqlite::Text("a;b".into()), Sqlite::Integer(7)]);
}

#[tokio::test]
async fn deletes_may_have_sql_of_their_own() {
    let file = with_copies();
    let mut delete = change(2, 1, Value::Null);
    (delete.op, delete.before, delete.after) = (Op::Delete, delete.after, None);
    let effect = SqlEffect::new(KINDS, Some("delete from copies where value = :key_id"));
    let changes = [change(1, 1, Value::Integer(1)), delete, change(3, 1, Value::Integer(3))];
    handle(&file, effect, &changes).await.unwrap();
    assert_eq!(copies(&file), [Sqlite::Integer(3)]);
}

#[tokio::test]
async fn a_batch_happens_wholly_or_not_at_all() {
    let file = File::new();
    file.sqlite().execute_batch("create table copies (value unique)").unwrap();
    let changes = [change(1, 1, Value::Integer(1)), change(2, 42, Value::Integer(1))];
    let failed = handle(&file, SqlEffect::new(KINDS, None), &changes).await.unwrap_err();
    assert_eq!(failed.kind, FailureKind::Change);
    assert_eq!(failed.culprit, None, "what came before it is not done: {failed}");
    assert_eq!(copies(&file), []);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_no_changes_fault() {
    let file = with_copies();
    let effect = SqlEffect::new("insert into nowhere values (:id)", None);
    let failed = handle(&file, effect, &[change(1, 1, Value::Null)]).await.unwrap_err();
    assert_eq!(failed.kind, FailureKind::Target, "{failed}");
}

#[tokio::test]
async fn in_the_stores_transaction_it_happens_once() {
    let file = with_copies();
    let store = file.store().await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, SqlEffect::new(KINDS, None).into_fn());
    let changes = [change(1, 1, Value::Integer(1))];
    let checkpoint = Checkpoint::at(Position::number(1));
    handler.handle_and_checkpoint(&changes, &checkpoint, &context(&lease)).await.unwrap();
    store.release(&lease, None).await.unwrap();
    let fenced = handler.handle_and_checkpoint(&changes, &checkpoint, &context(&lease)).await;
    assert!(matches!(fenced, Err(CommitError::Fenced { .. })), "{fenced:?}");
    assert_eq!(copies(&file), [Sqlite::Integer(1)]);
    assert_eq!(see(&store).await.position, Position::number(1));
}

async fn check(sql: &str, delete_sql: Option<&str>) -> Result<(), SqlProblem> {
    let columns = ["id", "amount"].map(str::to_owned);
    SqlEffect::new(sql, delete_sql).check(&with_copies().path(), &columns, &columns[..1]).await
}

#[tokio::test]
async fn sql_that_is_right_passes_the_check_and_does_nothing() {
    let sql = "insert into copies values (:new_amount); delete from copies where value in (:old_id, :key_id, :op, :at, :id)";
    check(sql, Some("delete from copies")).await.unwrap();
}

#[tokio::test]
async fn a_misspelt_parameter_is_named_with_what_there_is() {
    let problem = check("insert into copies values (:new_amont)", None).await.unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the SQL uses :new_amont, and there is no such parameter (did you mean :new_amount?); there are :op, :id, :at, :key_id, :new_id, \
         :new_amount, :old_id, :old_amount"
    );
    let problem = check(KINDS, Some("delete from copies where value = ?")).await.unwrap_err();
    assert!(problem.to_string().starts_with("the SQL uses ?, "), "{problem}");
}

#[tokio::test]
async fn sql_that_sqlite_does_not_accept_says_why() {
    let problem = check("insert into copes values (1)", None).await.unwrap_err();
    assert!(problem.to_string().contains("no such table: copes"), "{problem}");
    let problem = check("insert into copies values (1); nonsense", None).await.unwrap_err();
    assert!(problem.to_string().contains("nonsense"), "{problem}");
    assert!(matches!(check(" -- nothing\n", None).await, Err(SqlProblem::Empty)));
}
