//! A journal tells every change, exactly, in order.

use seriatim::change::{Op, Position};
use seriatim::source::{Feed, Install, Limit, Start};
use seriatim::value::Value;

use crate::capture_kit::{File, Follower, Replica, exact, sorted, told};

const ORDERS: &str = "create table orders (id integer primary key, amount)";

#[tokio::test]
async fn inserts_updates_and_deletes_come_as_themselves() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 10), (2, 20); update orders set amount = 11 where id = 1; delete from orders where id = 2");
    let changes = follower.drain().await;
    assert_eq!(
        told(&changes),
        [r#"insert {"id":1}"#, r#"insert {"id":2}"#, r#"update {"id":1}"#, r#"delete {"id":2}"#]
    );
    let update = &changes[2];
    assert_eq!(update.before.as_ref().unwrap().get("amount"), Some(&Value::Integer(10)));
    assert_eq!(update.after.as_ref().unwrap().get("amount"), Some(&Value::Integer(11)));
    assert!(changes[0].before.is_none() && changes[3].after.is_none());
    assert!(follower.drain().await.is_empty());
}

#[tokio::test]
async fn existing_rows_come_first_then_every_change() {
    let file = File::with(ORDERS);
    file.sql("insert into orders values (1, 'a'), (2, 'b'), (3, 'c')");
    let mut follower = Follower::open(file.source().journal("orders"), Start::Beginning).await;
    file.sql("update orders set amount = 'B' where id = 2; delete from orders where id = 3; insert into orders values (4, 'd')");
    let changes = follower.drain().await;
    let mut replica = Replica::default();
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "orders"));
    let ops: Vec<Op> = changes.iter().map(|change| change.op).collect();
    assert_eq!(ops, [Op::Upsert, Op::Upsert, Op::Upsert, Op::Update, Op::Delete, Op::Insert]);
    assert_eq!(changes.iter().map(|change| change.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn every_value_comes_out_as_it_went_in() {
    let file = File::with("create table t (id integer primary key, a, b, c)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    let text = "nul \0, quote ' \" and 🦀".to_owned();
    file.writer
        .execute("insert into t values (?1, ?2, ?3, ?4)", (i64::MIN, 0.1, f64::INFINITY, -0.0))
        .unwrap();
    file.writer
        .execute("insert into t values (?1, ?2, ?3, ?4)", (i64::MAX, &text, vec![0u8, 255], ""))
        .unwrap();
    file.sql("insert into t values (1, null, x'', cast(x'ff41' as text)); update t set a = a");
    let changes = follower.drain().await;
    let texts: Vec<String> = changes.iter().map(|change| exact(change.after.as_ref().unwrap())).collect();
    let real = |real: f64| format!(r#"{{"real":{}}}"#, real.to_bits());
    let expected = [
        format!(r#"[{{"integer":{}}},{},{},{}]"#, i64::MIN, real(0.1), real(f64::INFINITY), real(-0.0)),
        format!(
            r#"[{{"integer":{}}},{{"text":{}}},{{"bytes":[0,255]}},{{"text":""}}]"#,
            i64::MAX,
            serde_json::to_string(&text).unwrap()
        ),
        r#"[{"integer":1},"null",{"bytes":[]},{"bytes":[255,65]}]"#.to_owned(),
    ];
    assert_eq!(texts[..3], expected);
    for update in &changes[3..] {
        assert_eq!(update.op, Op::Update, "an update that changes nothing is a change too");
        assert_eq!(exact(update.before.as_ref().unwrap()), exact(update.after.as_ref().unwrap()));
    }
}

#[tokio::test]
async fn any_name_and_any_primary_key_can_be_watched() {
    let tables = [
        (r#""select" ("a b" primary key, "x""y", "ünï" default 'x') without rowid"#, r#""select""#, "select"),
        (r#""it's" ("group" text, "order", v, primary key ("order", "group"))"#, r#""it's""#, "it's"),
        ("[T t] (v, k real primary key, w)", "[T t]", "T t"),
        ("exact (k any primary key, v any, w any) strict, without rowid", "exact", "EXACT"),
    ];
    for (definition, quoted, name) in tables {
        let file = File::with(&format!("create table {definition}"));
        file.sql(&format!("insert into {quoted} values ('b', 0.5, 1), ('a', 2, 2), (x'00', 'z', 3)"));
        let mut follower = Follower::open(file.source().journal(name), Start::Beginning).await;
        let mut replica = Replica::default();
        let (first, _) = follower.read(Limit { rows: 1, bytes: usize::MAX }).await;
        first.iter().for_each(|change| replica.apply(change));
        file.sql(&format!("delete from {quoted}; insert into {quoted} values (7, 8, 9)"));
        follower.drain().await.iter().for_each(|change| replica.apply(change));
        assert_eq!(replica.sorted(), sorted(&file, quoted), "{definition}");
    }
}

#[tokio::test]
async fn a_key_that_changes_is_a_delete_and_an_insert() {
    let file = File::with("create table t (id integer primary key, customer, x)");
    file.sql("insert into t values (1, 'a', 0)");
    let capture = file.source().journal("t").key(vec!["customer".to_owned()]);
    let mut follower = Follower::open(capture, Start::Now).await;
    file.sql("update t set customer = 'A'; update t set id = 2; update t set x = 1");
    let told = told(&follower.drain().await);
    let expected = ["delete a", "insert A", "delete A", "insert A", "update A"];
    let expected = expected.map(|one| {
        let (op, key) = one.split_once(' ').unwrap();
        format!(r#"{op} {{"customer":"{key}"}}"#)
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn generated_columns_are_part_of_the_row() {
    let file = File::with(
        "create table t (id integer primary key, a, double as (a * 2), more as (a || '!') stored)",
    );
    let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
    file.sql("insert into t (id, a) values (1, 4); update t set a = 5");
    let changes = follower.drain().await;
    assert_eq!(
        changes[1].before.as_ref().unwrap().to_json().to_string(),
        r#"{"id":1,"a":4,"double":8,"more":"4!"}"#
    );
    assert_eq!(
        changes[1].after.as_ref().unwrap().to_json().to_string(),
        r#"{"id":1,"a":5,"double":10,"more":"5!"}"#
    );
}

#[tokio::test]
async fn a_failed_statement_that_keeps_its_first_rows_loses_none_of_them() {
    let file = File::with(ORDERS);
    file.sql("insert into orders values (2, 'there')");
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.writer.execute_batch("insert or fail into orders values (1, 'new'), (2, 'fails')").unwrap_err();
    assert_eq!(told(&follower.drain().await), [r#"insert {"id":1}"#]);
    assert_eq!(follower.consumed().await, 1);
    let before = follower.position().clone();
    file.sql("insert into orders values (3, 'later')");
    let changes = follower.drain().await;
    assert_eq!(told(&changes), [r#"insert {"id":3}"#]);
    assert!(changes[0].id > before.as_number().unwrap(), "no number is drawn twice");
}

#[tokio::test]
async fn times_are_the_databases() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    let now = "select cast((julianday('now') - 2440587.5) * 86400000.0 as integer)";
    let before = file.number(now);
    file.sql("insert into orders values (1, 1)");
    let after = file.number(now);
    let at = follower.drain().await[0].at.as_millisecond();
    assert!((before..=after + 1).contains(&at), "{before} <= {at} <= {after}");
}

#[tokio::test]
async fn a_start_in_time_takes_what_is_retained_since_then() {
    let file = File::with(ORDERS);
    let capture = || file.source().journal("orders");
    let mut first = Follower::open(capture(), Start::Now).await;
    file.sql("insert into orders values (1, 1); insert into orders values (2, 2)");
    file.sql("update seriatim_journal_1 set at = 5000 where id = 1; update seriatim_journal_1 set at = 7000 where id = 2");
    first.drain().await;
    let at = |ms| Start::Time(jiff::Timestamp::from_millisecond(ms).unwrap());
    let start = async |ms| first.capture.rewind(&first.consumer, &at(ms)).await.unwrap().to_string();
    assert_eq!((start(1).await, start(6000).await, start(9000).await), ("0".into(), "1".into(), "2".into()));
}

#[tokio::test]
async fn a_writer_with_an_old_sqlite_is_told_too() {
    let Ok(version) = std::process::Command::new("sqlite3").arg("--version").output() else { return };
    assert!(version.status.success());
    let file = File::with("create table t (id integer primary key, u unique, x)");
    let script = file.source().journal("t").install_sql().await.unwrap();
    let shell = |sql: &str| {
        let output =
            std::process::Command::new("sqlite3").arg("-bail").arg(file.path()).arg(sql).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    shell(&script);
    shell(
        "insert into t values (1, 1, 0.1), (2, 2, x'00'); replace into t values (3, 1, null); update t set id = 4 where id = 2",
    );
    let at_the_end = file.source().journal("t").newest().await.unwrap();
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    assert_eq!(*follower.position(), at_the_end);
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = Position::number(0));
    let mut replica = Replica::default();
    follower.drain().await.iter().for_each(|change| replica.apply(change));
    assert_eq!(replica.sorted(), sorted(&file, "t"));
}
