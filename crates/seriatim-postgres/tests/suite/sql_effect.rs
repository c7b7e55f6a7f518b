//! SQL as an effect: exact values, clear errors, both ways of running it.

use seriatim::handler::{CommitError, FailureKind, Handler, TransactionalHandler};
use seriatim::store::{Checkpoint, Store};
use seriatim::{Change, Columns, Failure, Op, Position, Row, Value};
use seriatim_postgres::{Database, SqlEffect, SqlProblem, in_transaction};

use crate::support::{Place, change, context, own, see};

const KINDS: &str = "insert into copies (value) values (:new_amount)";

/// What was copied, in order, as PostgreSQL writes it.
async fn copies(place: &Place) -> Vec<Option<String>> {
    let sql = "select value::text from copies order by n";
    place.client().await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Runs the SQL for the changes, as the handler that is no store's.
async fn handle(place: &Place, effect: SqlEffect, changes: &[Change]) -> Result<(), Failure> {
    let elsewhere = Place::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    let database = Database::connect(place.url()).unwrap();
    effect.on(&database).handle(changes, &context(&lease)).await
}

async fn with_copies(of: &str) -> Place {
    let place = Place::new();
    place.run(&format!("create table copies (n bigint generated always as identity, value {of})")).await;
    place
}

async fn copied(of: &str, value: Value) -> Option<String> {
    let place = with_copies(of).await;
    handle(&place, SqlEffect::new(KINDS, None), &[change(1, 1, value)]).await.unwrap();
    copies(&place).await.remove(0)
}

#[tokio::test]
async fn values_arrive_exactly_whatever_their_type() {
    let place = Place::new();
    place
        .run("create type mood as enum ('sad', 'glad'); create domain positive as int check (value > 0)")
        .await;
    let text = |text: &str| Value::Text(text.into());
    let values = [
        ("int", Value::Null, None),
        ("bool", Value::Bool(true), Some("true")),
        ("bigint", Value::Integer(i64::MIN), Some("-9223372036854775808")),
        ("float8", Value::Real(0.1), Some("0.1")),
        ("float8", Value::Real(f64::INFINITY), Some("Infinity")),
        ("numeric", Value::Decimal("12345678901234567890.10".into()), Some("12345678901234567890.10")),
        ("text", text("a'ü\\\n"), Some("a'ü\\\n")),
        ("bytea", Value::Bytes([0, 0xff].into()), Some("\\x00ff")),
        (
            "timestamptz",
            Value::Time("2026-11-15T08:00:00.123456Z".parse().unwrap()),
            Some("2026-11-15 08:00:00.123456+00"),
        ),
        ("timestamp", Value::Time("2026-11-15T08:00:00Z".parse().unwrap()), Some("2026-11-15 08:00:00")),
        ("json", Value::Json(r#"{"a": 1.0}"#.into()), Some(r#"{"a": 1.0}"#)),
        ("jsonb", Value::Json(r#"{"a": 1.0}"#.into()), Some(r#"{"a": 1.0}"#)),
        ("uuid", text("0f8fad5b-d9cb-469f-a165-70867728950e"), Some("0f8fad5b-d9cb-469f-a165-70867728950e")),
        ("int[]", text("{1,2}"), Some("{1,2}")),
        ("inet", text("10.0.0.1"), Some("10.0.0.1/32")),
        ("mood", text("glad"), Some("glad")),
        ("positive", Value::Integer(7), Some("7")),
        ("int4range", text("[1,5)"), Some("[1,5)")),
    ];
    place.run("set timezone = 'UTC'").await;
    let database = Database::connect(&place.url_with("options=-c%20timezone%3DUTC")).unwrap();
    let elsewhere = Place::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    for (index, (of, value, expected)) in values.into_iter().enumerate() {
        place.run(&format!("drop table if exists t{index}; create table t{index} (value {of})")).await;
        let sql = format!("insert into t{index} values (:new_amount)");
        let handler = SqlEffect::new(&sql, None).on(&database);
        handler
            .handle(&[change(1, 1, value)], &context(&lease))
            .await
            .unwrap_or_else(|error| panic!("{of}: {error}"));
        let client = place.client().await;
        client.batch_execute("set timezone = 'UTC'").await.unwrap();
        let row = client.query_one(&format!("select value::text from t{index}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, Option<&str>>(0), expected, "{of}");
    }
}

#[tokio::test]
async fn whole_numbers_and_truth_of_other_databases_fit() {
    assert_eq!(copied("int", Value::Bool(true)).await.as_deref(), Some("1"));
    assert_eq!(copied("bool", Value::Integer(0)).await.as_deref(), Some("false"));
    assert_eq!(copied("int", Value::Real(3.0)).await.as_deref(), Some("3"));
}

#[tokio::test]
async fn every_parameter_has_its_value_and_what_is_missing_is_null() {
    let place = with_copies("text").await;
    let sql = "insert into copies (value) values (:op), (:id), (:at), (:key_id), (:new_amount), (:old_amount), (:new_nothing)";
    handle(&place, SqlEffect::new(sql, None), &[change(7, 42, Value::Integer(5))]).await.unwrap();
    let expected =
        [Some("insert"), Some("7"), Some("2026-11-15T08:00:00.500000Z"), Some("42"), Some("5"), None, None];
    assert_eq!(copies(&place).await, expected.map(|text| text.map(str::to_owned)));
}

#[tokio::test]
async fn rows_of_another_shape_find_their_columns() {
    let place = with_copies("int").await;
    let mut other = change(2, 2, Value::Null);
    other.after = Some(Row::new(Columns::new(["amount", "note"]), [Value::Integer(2), Value::Integer(9)]));
    let changes = [change(1, 1, Value::Integer(1)), other, change(3, 3, Value::Integer(3))];
    handle(&place, SqlEffect::new(KINDS, None), &changes).await.unwrap();
    assert_eq!(copies(&place).await, ["1", "2", "3"].map(|text| Some(text.to_owned())));
}

#[tokio::test]
async fn a_column_that_is_gone_is_no_changes_fault() {
    let place = with_copies("int").await;
    let effect = SqlEffect::new("insert into copies (value) values (:new_price)", None).for_columns(2);
    let failed = handle(&place, effect, &[change(1, 1, Value::Null)]).await.unwrap_err();
    assert_eq!(failed.kind, FailureKind::Target);
    assert!(failed.to_string().contains("price"), "{failed}");
}

#[tokio::test]
async fn thousands_of_changes_run_in_order() {
    let place = with_copies("bigint").await;
    let changes: Vec<Change> = (1..=3000).map(|id| change(id, 1, Value::Integer(id.cast_signed()))).collect();
    let sql = "insert into copies (value) values (:new_amount); update copies set value = -value where value = :new_amount";
    handle(&place, SqlEffect::new(sql, None), &changes).await.unwrap();
    let in_order = "select count(*) from copies where value = -n";
    assert_eq!(place.number(in_order).await, 3000);
}

#[tokio::test]
async fn statements_end_where_postgresql_says_so() {
    let place = with_copies("text").await;
    let sql = "insert into copies (value) values ('a;b'); -- not; here\n insert into copies (value) values (:id) returning value;\n\
               do $$ begin insert into copies (value) values ('c;d'); end $$;\n;";
    handle(&place, SqlEffect::new(sql, None), &[change(7, 1, Value::Null)]).await.unwrap();
    assert_eq!(copies(&place).await, ["a;b", "7", "c;d"].map(|text| Some(text.to_owned())));
}

#[tokio::test]
async fn deletes_may_have_sql_of_their_own() {
    let place = with_copies("int").await;
    let mut delete = change(2, 1, Value::Null);
    (delete.op, delete.before, delete.after) = (Op::Delete, delete.after, None);
    let effect = SqlEffect::new(KINDS, Some("delete from copies where value = :key_id"));
    let changes = [change(1, 1, Value::Integer(1)), delete, change(3, 1, Value::Integer(3))];
    handle(&place, effect, &changes).await.unwrap();
    assert_eq!(copies(&place).await, [Some("3".to_owned())]);
}

#[tokio::test]
async fn a_batch_happens_wholly_or_not_at_all() {
    let place = with_copies("int unique").await;
    let mut changes: Vec<Change> =
        (1..=600).map(|id| change(id, 1, Value::Integer(id.cast_signed()))).collect();
    changes.insert(300, change(9000, 42, Value::Integer(1)));
    let failed = handle(&place, SqlEffect::new(KINDS, None), &changes).await.unwrap_err();
    assert_eq!((failed.kind, failed.culprit), (FailureKind::Change, None), "all of it was undone");
    assert_eq!(copies(&place).await, []);
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_the_changes_failure() {
    let place = with_copies("int").await;
    let failed = handle(&place, SqlEffect::new(KINDS, None), &[change(1, 1, Value::Text("x".into()))]).await;
    assert_eq!(failed.unwrap_err().kind, FailureKind::Change);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_no_changes_fault() {
    let place = with_copies("int").await;
    let effect = SqlEffect::new("insert into nowhere values (:id)", None);
    let failed = handle(&place, effect, &[change(1, 1, Value::Null)]).await.unwrap_err();
    assert_eq!(failed.kind, FailureKind::Target, "{failed}");
}

#[tokio::test]
async fn a_table_that_vanishes_in_the_middle_is_no_changes_fault() {
    let place = with_copies("int").await;
    let effect = SqlEffect::new(KINDS, Some("insert into nowhere values (1)"));
    let mut delete = change(2, 1, Value::Null);
    delete.op = Op::Delete;
    let failed = handle(&place, effect, &[change(1, 1, Value::Integer(1)), delete]).await.unwrap_err();
    assert_eq!(failed.kind, FailureKind::Target, "{failed}");
    assert_eq!(copies(&place).await, []);
}

#[tokio::test]
async fn in_the_stores_transaction_it_happens_once() {
    let place = with_copies("int").await;
    let store = place.store().await;
    let (_, lease) = own(&store, "ada").await;
    let handler = in_transaction(&store, SqlEffect::new(KINDS, None).into_fn());
    let changes = [change(1, 1, Value::Integer(1))];
    let checkpoint = Checkpoint::at(Position::number(1));
    handler.handle_and_checkpoint(&changes, &checkpoint, &context(&lease)).await.unwrap();
    store.release(&lease, None).await.unwrap();
    let fenced = handler.handle_and_checkpoint(&changes, &checkpoint, &context(&lease)).await;
    assert!(matches!(fenced, Err(CommitError::Fenced { .. })), "{fenced:?}");
    assert_eq!(copies(&place).await, [Some("1".to_owned())]);
    assert_eq!(see(&store).await.position, Position::number(1));
}

async fn check(sql: &str, delete_sql: Option<&str>) -> Result<(), SqlProblem> {
    let place = with_copies("int").await;
    let columns = ["id", "amount"].map(str::to_owned);
    let database = Database::connect(place.url()).unwrap();
    SqlEffect::new(sql, delete_sql).check(&database, &columns, &columns[..1]).await
}

#[tokio::test]
async fn sql_that_is_right_passes_the_check_and_does_nothing() {
    let sql = "insert into copies (value) values (:new_amount); delete from copies where value in (:old_id, :key_id) or :op = :at";
    check(sql, Some("delete from copies")).await.unwrap();
}

#[tokio::test]
async fn a_misspelt_parameter_is_named_with_what_there_is() {
    let problem = check("insert into copies (value) values (:new_amont)", None).await.unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the SQL uses :new_amont, and there is no such parameter (did you mean :new_amount?); there are :op, :id, :at, :key_id, :new_id, \
         :new_amount, :old_id, :old_amount"
    );
    let problem = check(KINDS, Some("delete from copies where value = $1")).await.unwrap_err();
    assert!(problem.to_string().starts_with("the SQL uses $1, "), "{problem}");
}

#[tokio::test]
async fn sql_that_postgresql_does_not_accept_says_why() {
    let problem = check("insert into copes values (1)", None).await.unwrap_err();
    assert!(problem.to_string().contains("\"copes\" does not exist"), "{problem}");
    let problem = check("insert into copies (value) values (1); nonsense", None).await.unwrap_err();
    assert!(problem.to_string().contains("nonsense"), "{problem}");
    assert!(matches!(check(" -- nothing\n", None).await, Err(SqlProblem::Empty)));
}

#[tokio::test]
async fn sql_that_ends_the_transaction_is_refused_before_it_runs() {
    assert!(matches!(check("delete from copies; commit", None).await, Err(SqlProblem::Transaction)));
    let place = with_copies("int").await;
    let effect = SqlEffect::new(&format!("{KINDS}; commit"), None);
    let failed = handle(&place, effect, &[change(1, 1, Value::Integer(1))]).await.unwrap_err();
    assert_eq!((failed.kind, copies(&place).await.len()), (FailureKind::Target, 0));
}
