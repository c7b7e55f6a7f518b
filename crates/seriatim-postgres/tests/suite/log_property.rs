//! Whatever sessions do, in whatever order they commit: everybody ends with the same table.

use proptest::prelude::*;
use seriatim::FeedName;
use seriatim::source::{Limit, Start};
use seriatim_postgres::tokio_postgres::Client;
use tokio::runtime::Builder;

use crate::log_kit::{Follower, Shop};

const SESSIONS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A session writes; it begins a transaction if it has none.
    Write(usize, String),
    Commit(usize),
    Rollback(usize),
    /// Numbers are given, up to a batch.
    Sequence(u32),
    /// A consumer reads a page.
    Read(usize, usize),
    Consumed(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..SESSIONS;
    let key = || 0..6i64;
    let write = prop_oneof![
        (key(), 0..9).prop_map(|(k, v)| format!(
            "insert into t values ({k}, {v}) on conflict (k) do update set v = excluded.v"
        )),
        (key(), 0..9).prop_map(|(k, v)| format!("update t set v = {v} where k = {k}")),
        (key(), key()).prop_map(|(k, to)| format!(
            "update t set k = {to} where k = {k} and not exists (select 1 from t where k = {to})"
        )),
        key().prop_map(|k| format!("delete from t where k = {k}")),
        (key(), 0..9).prop_map(|(k, v)| format!("update t set v = {v} where k >= {k}")),
    ];
    prop_oneof![
        6 => (session(), write).prop_map(|(session, sql)| Step::Write(session, sql)),
        4 => session().prop_map(Step::Commit),
        1 => session().prop_map(Step::Rollback),
        2 => (1..4u32).prop_map(Step::Sequence),
        4 => (0..2usize, 1..4usize).prop_map(|(consumer, rows)| Step::Read(consumer, rows)),
        1 => (0..2usize).prop_map(Step::Consumed),
    ]
}

/// A session whose statement does not wait: one that would is ended, and its transaction with it.
async fn write(client: &Client, open: &mut bool, sql: &str) {
    if !*open {
        client.batch_execute("begin; set local lock_timeout = '20ms'").await.unwrap();
        *open = true;
    }
    if client.batch_execute(sql).await.is_err() {
        client.batch_execute("rollback").await.unwrap();
        *open = false;
    }
}

async fn end(client: &Client, open: &mut bool, how: &str) {
    if std::mem::take(open) {
        client.batch_execute(how).await.unwrap();
    }
}

async fn everybody_ends_with_the_same_table(table: &str, steps: &[Step], page: usize) {
    let shop = Shop::with(table).await;
    shop.sql("insert into t values (0, 0), (3, 0)").await;
    let log =
        |name: &str| shop.source().log("t").partitions(2).with_deletes().named(FeedName::new(name).unwrap());
    let mut consumers = [
        Follower::open(log("one"), Start::Beginning).await,
        Follower::open(log("two"), Start::Beginning).await,
    ];
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push((shop.place.client().await, false));
    }
    for step in steps {
        match step {
            Step::Write(session, sql) => {
                let (client, open) = &mut sessions[*session];
                write(client, open, sql).await;
            }
            Step::Commit(session) => {
                let (client, open) = &mut sessions[*session];
                end(client, open, "commit").await;
            }
            Step::Rollback(session) => {
                let (client, open) = &mut sessions[*session];
                end(client, open, "rollback").await;
            }
            Step::Sequence(batch) => {
                shop.number(&format!("select coalesce(seriatim.log_id_t_update_seq({batch}), 0)")).await;
            }
            Step::Read(consumer, rows) => {
                consumers[*consumer].read(Limit { rows: *rows, bytes: usize::MAX }).await;
            }
            Step::Consumed(consumer) => drop(consumers[*consumer].consumed().await),
        }
    }
    for (client, open) in &mut sessions {
        end(client, open, "commit").await;
    }
    let mut expected = shop.texts("select format('[%s,%s]', k, v) from t").await;
    expected.sort();
    for consumer in &mut consumers {
        consumer.drain_by(Limit { rows: page, bytes: usize::MAX }).await;
        let mut states: Vec<String> = consumer.states.values().cloned().collect();
        states.sort();
        assert_eq!(states, expected);
        consumer.consumed().await;
    }
    // One place for each row in the end.
    let rows = shop.number("select count(*) from t").await;
    consumers[0].consumes_until(&shop, rows, "select count(*) from seriatim.log_id_t_places").await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_sessions_do_a_log_leads_to_the_same_table(
        partitioned in any::<bool>(),
        steps in prop::collection::vec(step(), 0..60),
        page in 1..5usize,
    ) {
        let table = match partitioned {
            false => "create table t (k bigint primary key, v int)",
            true => "create table t (k bigint primary key, v int) partition by range (k);
                     create table low partition of t for values from (minvalue) to (3);
                     create table high partition of t for values from (3) to (maxvalue)",
        };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(everybody_ends_with_the_same_table(table, &steps, page));
    }
}
