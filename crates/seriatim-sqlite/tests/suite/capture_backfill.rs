//! The rows that exist come first, exactly as they were, while others write.

use proptest::prelude::*;
use rusqlite::Connection;
use seriatim::change::Op;
use seriatim::source::{Feed, Limit, Start};
use tokio::runtime::Builder;

use crate::capture_kit::{File, Follower, Replica, consumer, sorted};

const TABLES: [&str; 4] = [
    "create table t (k integer primary key, u unique, p)",
    "create table t (k text not null primary key, u, p)",
    "create table t (u not null, k not null, p, primary key (k desc, u)) without rowid",
    "create table t (k primary key, u, p) without rowid",
];

#[derive(Clone, Debug)]
enum Step {
    Write(String),
    /// Reads at most so many rows.
    Read(usize),
    /// The reading process dies and another goes on.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || {
        prop_oneof![
            (0..12i64).prop_map(|n| n.to_string()),
            (0..3usize).prop_map(|n| ["'a'", "'A'", "'b'"][n].to_owned())
        ]
    };
    let write = prop_oneof![
        (key(), key(), 0..99)
            .prop_map(|(k, u, p)| format!("insert or replace into t (k, u, p) values ({k}, {u}, {p})")),
        (key(), key()).prop_map(|(k, x)| format!("update or replace t set k = {k} where k = {x}")),
        (0..99i64).prop_map(|p| format!("update t set p = {p}")),
        key().prop_map(|k| format!("delete from t where k = {k}")),
        key().prop_map(|k| format!("delete from t where k > {k}")),
        Just("vacuum".to_owned()),
    ];
    prop_oneof![3 => write.prop_map(Step::Write), 3 => (1..5usize).prop_map(Step::Read), 1 => Just(Step::Restart)]
}

fn steps() -> impl Strategy<Value = (usize, Vec<Step>, Vec<Step>)> {
    let few = || prop::collection::vec(step(), 0..15);
    (0..TABLES.len(), few(), few())
}

/// The journal promises to be exact: the backfill is the table at the start, and every later change fits what came before.
async fn replays_exactly(file: &File, before: &[Step], during: &[Step]) {
    let capture = || file.source().journal("t").partitions(3);
    write_all(&file.writer, before);
    let at_start = sorted(file, "t");
    let mut follower = Follower::open(capture(), Start::Beginning).await;
    let (mut replica, mut backfilled) = (Replica::default(), Replica::default());
    let mut changes = Vec::new();
    for step in during {
        match step {
            Step::Write(_) => write_all(&file.writer, std::slice::from_ref(step)),
            Step::Read(rows) => changes.extend(follower.read(Limit { rows: *rows, bytes: 1 << 20 }).await.0),
            Step::Restart => {
                let cursors = follower.cursors.clone();
                follower = Follower { cursors, ..Follower::open(capture(), Start::Beginning).await };
            }
        }
    }
    changes.extend(drain_all(&mut follower).await);
    changes.sort_by_key(|change| change.id);
    for change in &changes {
        replica.apply(change);
        if change.op == Op::Upsert {
            backfilled.apply(change);
        }
    }
    assert_eq!(backfilled.sorted(), at_start, "the backfill is the table at the start");
    assert_eq!(replica.sorted(), sorted(file, "t"), "and the changes lead to the table at the end");
}

/// Partitions may be at different places: reads until every one is at the end.
async fn drain_all(follower: &mut Follower) -> Vec<seriatim::change::Change> {
    let mut all = Vec::new();
    loop {
        let (changes, caught_up) = follower.read(Limit { rows: 7, bytes: 1 << 20 }).await;
        all.extend(changes);
        if caught_up && follower.cursors.iter().all(|cursor| cursor.after == *follower.position()) {
            return all;
        }
    }
}

fn write_all(writer: &Connection, steps: &[Step]) {
    for step in steps {
        if let Step::Write(sql) = step {
            drop(writer.execute_batch(sql));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_backfill_among_writes_and_restarts_is_exact((table, before, during) in steps()) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let file = File::with(TABLES[table]);
        runtime.block_on(replays_exactly(&file, &before, &during));
    }
}

const MANY: &str = "create table t (k integer primary key, p);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) insert into t select i, i from n";

#[tokio::test]
async fn its_progress_is_known() {
    let file = File::with(MANY);
    let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
    follower.read(Limit { rows: 300, bytes: usize::MAX }).await;
    let progress = follower.capture.backfill(&follower.cursors[3].after).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.total), (300, 1000));
    follower.drain().await;
    let end = follower.capture.backfill(follower.position()).await.unwrap();
    assert_eq!(end, None);
}

#[tokio::test]
async fn opening_again_changes_nothing() {
    let file = File::with(MANY);
    let first = Follower::open(file.source().journal("t"), Start::Beginning).await;
    file.sql("delete from t");
    let again = Follower::open(file.source().journal("t"), Start::Now).await;
    assert_eq!(first.position(), again.position());
    assert!(again.capture.knows(&again.consumer).await.unwrap());
}

#[tokio::test]
async fn a_rewind_to_the_beginning_reads_the_rows_of_now() {
    let file = File::with(MANY);
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql("delete from t where k > 2; update t set p = 'x'");
    follower.drain().await;
    let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    file.sql("delete from t where k = 1");
    let mut replica = Replica::default();
    let changes = follower.drain().await;
    changes.iter().for_each(|change| replica.apply(change));
    assert_eq!(
        changes.iter().map(|change| change.op).collect::<Vec<_>>(),
        [Op::Upsert, Op::Upsert, Op::Delete]
    );
    assert_eq!(replica.sorted(), sorted(&file, "t"));
}

#[tokio::test]
async fn no_id_comes_twice_however_often_all_rows_are_read_again() {
    let file =
        File::with("create table t (k integer primary key, p); insert into t values (1, 1), (2, 2), (3, 3)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
    let other = file.source().journal("t").named(consumer("other", "store").feed);
    let mut other = Follower::open(other, Start::Now).await;
    let (mut ids, mut seen_by_other) = (Vec::new(), Vec::new());
    for round in 10..14 {
        file.sql(&format!("update t set p = 'x' where k = 1; insert into t (k) values ({round})"));
        ids.extend(follower.drain().await.iter().map(|change| change.id));
        seen_by_other.extend(other.drain().await.iter().map(|change| change.id));
        follower.consumed().await;
        other.consumed().await;
        let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    }
    ids.extend(follower.drain().await.iter().map(|change| change.id));
    assert_eq!(ids[..5], [1, 2, 3, 4, 5], "the first ids are those of the rows");
    assert_eq!(ids.len(), 3 + 4 * 2 + 4 + 5 + 6 + 7);
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    assert_eq!(seen_by_other.len(), 8);
    assert_eq!(other.drain().await.len(), 0);
    let lag = other.capture.lag(&other.cursors).await.unwrap();
    assert!(lag.iter().all(|lag| lag.changes == Some(0)));
    assert!(other.capture.validate(other.position()).await.is_ok());
}

#[tokio::test]
async fn rows_without_a_key_cannot_be_backfilled() {
    let file = File::with("create table t (k text primary key); insert into t values (null)");
    let refused =
        Follower::try_open(file.source().journal("t"), Start::Beginning).await.err().unwrap().to_string();
    assert!(refused.contains("NULL in their primary key"), "{refused}");
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim_journal%'"), 0);
    Follower::open(file.source().journal("t"), Start::Now).await;
}
