//! A log tells the latest state of each key, once, to everybody, however often it changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seriatim::change::{Change, Op};
use seriatim::source::{Feed, Limit, Start};
use tokio::runtime::Builder;

use crate::capture_kit::{File, Follower, LIMIT, consumer, exact, sorted, told};

const ORDERS: &str = "create table orders (id integer primary key, amount)";

#[tokio::test]
async fn ten_updates_before_a_read_are_told_once() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().log("orders"), Start::Now).await;
    file.sql("insert into orders values (1, 0), (2, 0)");
    (1..=10).for_each(|amount| file.sql(&format!("update orders set amount = {amount} where id = 1")));
    let changes = follower.drain().await;
    assert_eq!(told(&changes), [r#"upsert {"id":1}"#, r#"upsert {"id":2}"#]);
    assert_eq!(changes[0].after.as_ref().unwrap().to_json().to_string(), r#"{"id":1,"amount":10}"#);
    assert!(changes.iter().all(|change| change.before.is_none()));
    assert_eq!(file.number("select count(*) from seriatim_log_1"), 2, "one row for each key");
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_nothing() {
    let file = File::with("create table t (id integer primary key, a, b text)");
    file.sql("insert into t values (1, 1, 'x')");
    let mut follower = Follower::open(file.source().log("t"), Start::Now).await;
    file.sql("update t set a = a, b = 'x'; insert into t values (1, 1, 'x') on conflict do update set a = 1; insert or ignore into t values (1, 2, 'y')");
    assert!(follower.drain().await.is_empty());
    file.sql("update t set a = 1.0");
    assert_eq!(follower.drain().await.len(), 1, "1 and 1.0 are two values to a column without a type");
    file.sql("update t set b = 'X'");
    assert_eq!(follower.drain().await.len(), 1);
}

#[tokio::test]
async fn deletes_come_when_asked_for() {
    let file = File::with(ORDERS);
    let log = |name: &str| file.source().log("orders").named(consumer(name, "store").feed);
    let mut with = Follower::open(log("with").with_deletes(), Start::Now).await;
    let mut without = Follower::open(log("without"), Start::Now).await;
    file.sql(
        "insert into orders values (1, 1), (2, 2); delete from orders where id = 1; update orders set id = 3",
    );
    let changes = with.drain().await;
    assert_eq!(told(&changes), [r#"delete {"id":1}"#, r#"delete {"id":2}"#, r#"upsert {"id":3}"#]);
    assert!(changes[0].before.is_none() && changes[0].after.is_none());
    assert_eq!(told(&without.drain().await), [r#"upsert {"id":3}"#]);
    assert_eq!(
        (with.consumed().await, without.consumed().await),
        (0, 2),
        "deletes that all know are forgotten"
    );
    assert_eq!(file.number("select count(*) from seriatim_log_1"), 1);
    assert_eq!(file.number("select pruned from seriatim_capture"), 4);
}

#[tokio::test]
async fn the_beginning_is_every_row_once() {
    let file = File::with("create table t (id integer primary key, email not null unique, x)");
    file.sql("with recursive n(i) as (select 1 union all select i + 1 from n where i < 2500) insert into t select i, 'm' || i, 0 from n");
    let log =
        |name: &str| file.source().log("t").named(consumer(name, "store").feed).key(vec!["email".to_owned()]);
    let mut now = Follower::open(log("now"), Start::Now).await;
    file.sql("update t set x = 1 where id <= 10; delete from t where id = 2500");
    let mut beginning = Follower::open(log("beginning"), Start::Beginning).await;
    let progress = beginning.capture.backfill(beginning.position()).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.total), (0, 2500));
    let changes = beginning.drain().await;
    assert_eq!(changes.len(), 2499);
    let mut keys: Vec<String> =
        changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 2499);
    assert_eq!(now.drain().await.len(), 10, "who asked for changes only is not told of old rows");
}

#[tokio::test]
async fn rows_are_listed_again_where_a_crash_interrupted_it() {
    let file = File::with(ORDERS);
    file.sql("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into orders select i, 0 from n");
    let follower = Follower::open(file.source().log("orders"), Start::Beginning).await;
    // As if the process had died after the first 1000.
    file.sql(
        "delete from seriatim_log_1 where seq > 1000; update seriatim_capture set seeded = '[1000,[1000]]'",
    );
    let early = follower.capture.read(&follower.cursors, LIMIT).await.unwrap_err().to_string();
    assert!(early.contains("still being listed"), "{early}");
    let mut follower = Follower::open(file.source().log("orders"), Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 3000);
}

#[tokio::test]
async fn a_row_that_changes_all_the_time_reaches_a_slow_consumer() {
    let file = File::with(ORDERS);
    file.sql("with recursive n(i) as (select 1 union all select i + 1 from n where i < 200) insert into orders select i, 0 from n");
    let mut slow = Follower::open(file.source().log("orders").partitions(1), Start::Beginning).await;
    file.sql("update orders set amount = 1");
    let hot = r#"{"id":7}"#;
    for round in 0..25 {
        file.sql("update orders set amount = amount + 1 where id = 7");
        let (changes, _) = slow.read(Limit { rows: 10, bytes: usize::MAX }).await;
        slow.consumed().await;
        if told(&changes).iter().any(|told| told.ends_with(hot)) {
            assert!(round <= 2, "it stands where it stood before the first update");
            return;
        }
    }
    panic!("the hot row was never seen");
}

#[tokio::test]
async fn a_slow_consumer_does_not_slow_a_fast_one() {
    let file = File::with(ORDERS);
    let log = |name: &str| file.source().log("orders").named(consumer(name, "store").feed);
    let _slow = Follower::open(log("slow"), Start::Now).await;
    let mut fast = Follower::open(log("fast"), Start::Now).await;
    for amount in 0..5 {
        file.sql(&format!("replace into orders values (1, {amount})"));
        assert_eq!(told(&fast.drain().await), [r#"upsert {"id":1}"#], "each change is told at once");
        fast.consumed().await;
    }
}

#[tokio::test]
async fn a_log_needs_a_key_that_names_one_row() {
    let file = File::with("create table t (id integer primary key, a unique, b, c not null unique)");
    let key = |column: &str| file.source().log("t").key(vec![column.to_owned()]);
    for column in ["a", "b"] {
        let refused = Follower::try_open(key(column), Start::Now).await.err().unwrap().to_string();
        assert!(refused.contains(&format!("({column}) does not name one row")), "{refused}");
    }
    Follower::open(key("c"), Start::Now).await;
}

#[derive(Clone, Debug)]
enum Step {
    Write(String),
    Read(usize, usize),
    Consumed,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6i64;
    let write = prop_oneof![
        (key(), key(), 0..99)
            .prop_map(|(k, u, p)| format!("insert or replace into t values ({k}, {u}, {p})")),
        (key(), key(), 0..99).prop_map(|(k, u, p)| format!(
            "insert into t values ({k}, {u}, {p}) on conflict (k) do update set p = {p}"
        )),
        (key(), key(), key())
            .prop_map(|(k, u, x)| format!("update or replace t set k = {k}, u = {u} where k = {x}")),
        (key(), 0..3i64).prop_map(|(k, p)| format!("update t set p = {p} where k >= {k}")),
        key().prop_map(|k| format!("delete from t where k = {k}")),
    ];
    prop_oneof![4 => write.prop_map(Step::Write), 3 => (1..4usize, 1..900usize).prop_map(|(r, b)| Step::Read(r, b)), 1 => Just(Step::Consumed)]
}

/// What a consumer that keeps the latest state of each key has in the end.
fn apply(states: &mut BTreeMap<String, String>, changes: &[Change]) {
    for change in changes {
        let key = change.key.as_ref().unwrap().to_string();
        match (change.op, &change.after) {
            (Op::Upsert, Some(row)) => drop(states.insert(key, exact(row))),
            (Op::Delete, None) => drop(states.remove(&key)),
            other => panic!("a log has no {other:?}"),
        }
    }
}

/// Triggers of the user's own that write to the same table, while a statement is under way.
const USERS_TRIGGERS: [&str; 4] = [
    "",
    "create trigger users after insert on t when new.p < 50
     begin insert or replace into t values (new.u, new.k, 77); end",
    "create trigger users before insert on t when new.p < 50
     begin insert or replace into t values (new.u, new.k, 77); end",
    "create trigger users before insert on t begin update t set p = p + 1 where u = new.u or k = new.k; end",
];

async fn ends_in_the_same_state(recursive: &str, users: &str, key: &str, before: &[Step], during: &[Step]) {
    let file = File::with("create table t (k integer primary key, u int not null unique, p)");
    file.sql(&format!("pragma recursive_triggers = {recursive}; {users}"));
    for step in before {
        if let Step::Write(sql) = step {
            drop(file.writer.execute_batch(sql));
        }
    }
    let log = file.source().log("t").with_deletes().partitions(2).key(vec![key.to_owned()]);
    let mut follower = Follower::open(log, Start::Beginning).await;
    let mut states = BTreeMap::new();
    for step in during {
        match step {
            Step::Write(sql) => drop(file.writer.execute_batch(sql)),
            Step::Read(rows, bytes) => {
                apply(&mut states, &follower.read(Limit { rows: *rows, bytes: *bytes }).await.0)
            }
            Step::Consumed => drop(follower.consumed().await),
        }
    }
    for _ in 0..2 {
        apply(&mut states, &follower.drain().await);
    }
    let mut states: Vec<String> = states.into_values().collect();
    states.sort();
    assert_eq!(states, sorted(&file, "t"));
    let keys = file.number("select count(*) from (select distinct k0 from seriatim_log_1)");
    assert_eq!(file.number("select count(*) from seriatim_log_1"), keys, "one row for each key");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_a_log_leads_to_the_same_table(
        recursive in prop_oneof![Just("on"), Just("off")],
        users in 0..USERS_TRIGGERS.len(),
        key in prop_oneof![Just("k"), Just("u")],
        before in prop::collection::vec(step(), 0..10),
        during in prop::collection::vec(step(), 0..30),
    ) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ends_in_the_same_state(recursive, USERS_TRIGGERS[users], key, &before, &during));
    }
}
