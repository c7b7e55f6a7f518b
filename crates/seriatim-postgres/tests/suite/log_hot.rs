//! A row that changes all the time, consumers that are slow or stopped, and what is left on the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim::FeedName;
use seriatim::source::{Limit, Start};

use crate::log_kit::{Follower, ORDERS, Shop, told};

const HOT: &str = r#"upsert {"id":7}"#;

#[tokio::test]
async fn a_row_that_changes_all_the_time_reaches_a_slow_consumer() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 200) g").await;
    let mut slow = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("update orders set amount = 1").await;
    shop.number("select coalesce(seriatim.log_id_orders_update_seq(), 0)").await;
    for round in 0..30 {
        // Everything changes faster than it reads.
        shop.sql("update orders set amount = amount + 1 where id = 7 or id > 100").await;
        shop.number("select coalesce(seriatim.log_id_orders_update_seq(), 0)").await;
        let (changes, _) = slow.read(Limit { rows: 10, bytes: usize::MAX }).await;
        slow.consumed().await;
        if told(&changes).contains(&HOT.to_owned()) {
            assert!(round <= 2, "it stands where it stood at first, round {round}");
            return;
        }
    }
    panic!("the hot row was never seen");
}

#[tokio::test]
async fn a_hot_row_is_locked_all_the_time_and_reaches_everybody_within_a_bound() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 50) g").await;
    let log = |name: &str| shop.source().log("orders").partitions(1).named(FeedName::new(name).unwrap());
    let mut fast = Follower::open(log("fast"), Start::Now).await;
    let _stopped = Follower::open(log("stopped"), Start::Now).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for _ in 0..4 {
        let (client, over) = (shop.place.client().await, over.clone());
        writers.push(tokio::spawn(async move {
            let mut written = 0u32;
            while !over.load(Ordering::Relaxed) {
                client.batch_execute("update orders set amount = amount + 1 where id = 7").await.unwrap();
                written += 1;
            }
            written
        }));
    }
    // Among four writers that take turns the row is locked nearly always. Each read finds a newer state all the same.
    let (mut seen, mut reads, mut last) = (0, 0, -1i64);
    while seen < 20 {
        let (changes, _) = fast.read(Limit { rows: 1000, bytes: usize::MAX }).await;
        fast.consumed().await;
        reads += 1;
        assert!(reads <= 400, "after {reads} reads only {seen} states were seen");
        for amount in crate::log_kit::values(&changes, "amount") {
            let amount: i64 = amount.parse().unwrap();
            if amount > last {
                (seen, last) = (seen + 1, amount);
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    assert!(written > 100, "{written}");
    fast.drain().await;
    let amount = shop.number("select amount::bigint from orders where id = 7").await;
    assert_eq!(fast.states[r#"{"id":7}"#], format!("[7,{amount}]"));
    crate::support::until("at most one place for each consumer and the newest are left", async || {
        fast.consumed().await;
        shop.number("select count(*) from seriatim.log_id_orders_places where id = 7").await <= 3
    })
    .await;
}

#[tokio::test]
async fn a_stopped_consumer_slows_nobody_and_finds_each_key_once_more() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    let log = |name: &str| shop.source().log("orders").partitions(2).named(FeedName::new(name).unwrap());
    let mut stopped = Follower::open(log("stopped"), Start::Now).await;
    let mut fast = Follower::open(log("fast"), Start::Now).await;
    for amount in 1..=50 {
        shop.sql(&format!("update orders set amount = {amount}")).await;
        assert_eq!(fast.drain().await.len(), 20, "each change is told at once");
        fast.consumed().await;
    }
    // One for the stopped consumer, and the newest.
    fast.consumes_until(&shop, 40, "select count(*) from seriatim.log_id_orders_places").await;
    assert!(stopped.drain().await.len() <= 40);
    assert_eq!(stopped.states, fast.states);
    // Nobody needs the rest.
    stopped.consumes_until(&shop, 20, "select count(*) from seriatim.log_id_orders_places").await;
}

/// What a log has on the disk.
const TABLES: [&str; 6] = [
    "seriatim.log_id_orders_keys",
    "seriatim.log_id_orders_places",
    "seriatim.log_pass",
    "seriatim.log_partial",
    "seriatim.log_consumer",
    "seriatim.log",
];

/// What a function of a table comes to for all of them.
fn sum(function: &str) -> String {
    format!("select {}", TABLES.map(|table| format!("{function}('{table}')")).join(" + "))
}

/// What autovacuum does when it comes by. A sequencer runs beside it, and a vacuum leaves what a snapshot of that moment might see:
/// so it comes again until nothing dead is left.
async fn vacuum(shop: &Shop) {
    for table in TABLES {
        let dead = format!("select pg_stat_get_dead_tuples('{table}'::regclass)");
        crate::support::until("a vacuum leaves nothing dead", async || {
            shop.sql(&format!("vacuum {table}")).await;
            shop.number(&dead).await == 0
        })
        .await;
    }
}

#[derive(Debug)]
struct Kept {
    rows: i64,
    bytes: i64,
}

/// What there is once everything is consumed.
async fn kept(shop: &Shop, follower: &mut Follower) -> Kept {
    follower.consumes_until(shop, 500, "select count(*) from seriatim.log_id_orders_places").await;
    vacuum(shop).await;
    let rows = TABLES.map(|table| format!("(select count(*) from {table})")).join(" + ");
    let rows = shop.number(&format!("select {rows}")).await;
    Kept { rows, bytes: shop.number(&sum("pg_total_relation_size")).await }
}

#[tokio::test]
async fn a_log_does_not_grow_with_churn() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 500) g").await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Beginning).await;
    let mut early = None;
    for round in 0..60 {
        for _ in 0..5 {
            shop.sql("update orders set amount = amount + 1").await;
            follower.drain().await;
            follower.consumed().await;
            // Otherwise the server tidies up in between or not, as other sessions' snapshots let it.
            vacuum(&shop).await;
        }
        shop.sql(&format!("delete from orders where id % 10 = {0}; insert into orders select g, 0 from generate_series(1, 500) g where g % 10 = {0}", round % 10)).await;
        shop.sql(&format!("insert into orders values ({}, 0)", 1000 + round)).await;
        follower.drain().await;
        shop.sql(&format!("delete from orders where id = {}", 1000 + round)).await;
        follower.drain().await;
        follower.consumed().await;
        vacuum(&shop).await;
        if round == 20 {
            early = Some(kept(&shop, &mut follower).await);
        }
    }
    let (early, late) = (early.unwrap(), kept(&shop, &mut follower).await);
    assert!(late.rows <= early.rows + early.rows / 10, "{early:?} {late:?}");
    // Between two vacuums every row has a few versions. A table has room for them all if nothing is tidied up in between, and needs no more.
    for table in TABLES {
        shop.sql(&format!("vacuum full {table}")).await;
    }
    let live = shop.number(&sum("pg_total_relation_size")).await;
    assert!(late.bytes <= 8 * live, "{late:?}, of which {live} are of use");
    // Deleted keys are forgotten.
    follower.consumes_until(&shop, 500, "select count(*) from seriatim.log_id_orders_keys").await;
    follower.consumes_until(&shop, 500, "select count(*) from seriatim.log_id_orders_places").await;
}
