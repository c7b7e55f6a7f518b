//! Large transactions: they are delivered whole and in bounded pieces, and delay only what committed after them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use seriatim::change::Change;
use seriatim::handler::{Context, Failure, Handler, Handling};
use seriatim::host::FeedSettings;
use seriatim::source::{Limit, Start};
use seriatim::{Host, Value};
use seriatim_postgres::Source;
use tokio::sync::{Semaphore, watch};

use crate::journal_kit::{ORDERS, Shop, by_key, expected, run};
use crate::support::until;

/// The number that is a change's key.
fn id(change: &Change) -> i64 {
    match change.key.as_ref().and_then(|key| key.row().get("id")) {
        Some(Value::Integer(id)) => *id,
        _ => panic!("{change:?}"),
    }
}

#[tokio::test]
async fn one_statement_that_updates_very_many_rows_is_delivered_whole_in_bounded_pieces() {
    const ROWS: i64 = 1_000_000;
    let shop = Shop::with(ORDERS).await;
    shop.sql(&format!("insert into orders select g, 0 from generate_series(1, {ROWS}) g")).await;
    let mut follower = shop.follow(Start::Now).await;
    let large = shop.session().await;
    run(&large, "begin; update orders set amount = 1").await;
    // Others are not kept waiting while it is not committed.
    shop.sql("insert into orders values (0, 0)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(0, &["insert 0"])]));
    run(&large, "commit").await;
    shop.sql("update orders set amount = 2 where id = 0").await;
    let limit = Limit { rows: 4096, bytes: 1 << 20 };
    let mut seen = vec![0u8; ROWS as usize + 1];
    loop {
        let (changes, caught_up) = follower.read(limit).await;
        assert!(changes.iter().map(Change::weight).sum::<usize>() < (1 << 20) + 4096);
        for change in changes {
            seen[id(&change) as usize] += 1;
        }
        if caught_up {
            break;
        }
    }
    assert!(seen.iter().all(|times| *times == 1));
}

#[tokio::test]
async fn what_committed_before_a_large_transaction_comes_before_it() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 5000) g").await;
    let mut follower = shop.follow(Start::Now).await;
    let large = shop.session().await;
    run(&large, "begin; update orders set amount = 1").await;
    // Nobody reads meanwhile, so that all of it is there at once.
    for id in 6001..6006 {
        shop.sql(&format!("insert into orders values ({id}, 0)")).await;
        shop.sql("select seriatim.tick()").await;
    }
    run(&large, "commit").await;
    shop.sql("select seriatim.tick()").await;
    shop.sql("insert into orders values (7001, 0)").await;
    let all = follower.all_by(Limit { rows: 1000, bytes: usize::MAX }).await;
    let before = all.iter().take(5).map(id).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(before, (6001..6006).collect());
    // What comes after it waits for it, and for nothing else.
    assert_eq!((all.len(), id(&all[5005])), (5006, 7001));
}

#[tokio::test]
async fn each_change_of_a_transaction_that_committed_late_is_looked_at_a_few_times_at_most() {
    const ROWS: i64 = 300_000;
    let shop = Shop::with(ORDERS).await;
    shop.sql(&format!("insert into orders select g, 0 from generate_series(1, {ROWS}) g")).await;
    let mut follower = shop.follow(Start::Now).await;
    let large = shop.session().await;
    run(&large, "begin; update orders set amount = 1").await;
    shop.sql("insert into orders values (0, 0)").await;
    assert_eq!(follower.all().await.len(), 1);
    run(&large, "commit").await;
    assert_eq!(follower.all_by(Limit { rows: 4096, bytes: usize::MAX }).await.len() as i64, ROWS);
    let looked = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_all_tables where relname ~ '^journal_1_[0-9]$'";
    // The server tells some time after.
    until("the server tells", async || shop.number(looked).await >= ROWS).await;
    let looked = shop.number(looked).await;
    assert!(looked < 10 * ROWS, "{looked} rows were looked at");
}

/// Statements after which the server may keep a plan for few rows.
const SMALL: [&str; 3] = [
    "update orders set amount = 0 where id = 0",
    "update orders set amount = 0 where id = 1",
    "update orders set id = -1 where id = 1; update orders set id = 1 where id = -1",
];

#[tokio::test]
async fn whoever_changed_few_rows_before_is_not_slow_to_change_many() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 10000) g").await;
    let mut follower = shop.follow(Start::Now).await;
    for small in SMALL {
        let writer = shop.session().await;
        run(&writer, small).await;
        // It takes a tenth of a second.
        run(&writer, "set statement_timeout = '20s'; update orders set amount = amount + 1").await;
        run(&writer, "update orders set id = -id; update orders set id = -id").await;
    }
    let amounts = follower.all().await;
    assert_eq!(amounts.len(), 3 * (10_000 + 2 * 20_000) + 1 + 4);
}

/// Handles only as many changes as it is let, one object not at all before it is let go, and another one never.
struct Reluctant {
    done: Mutex<HashSet<i64>>,
    may: Semaphore,
    let_go: watch::Sender<bool>,
}

const HANGS: i64 = 17;
const FAILS: i64 = 18;

impl Reluctant {
    fn who_may(handle: i64) -> Arc<Self> {
        let may = Semaphore::new(handle as usize);
        Arc::new(Reluctant { done: Mutex::default(), may, let_go: watch::Sender::new(false) })
    }

    fn done(&self) -> i64 {
        self.done.lock().unwrap().len() as i64
    }

    fn has_done(&self, id: i64) -> bool {
        self.done.lock().unwrap().contains(&id)
    }
}

#[async_trait]
impl Handler for Reluctant {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        for (place, change) in changes.iter().enumerate() {
            match id(change) {
                HANGS => drop(self.let_go.subscribe().wait_for(|free| *free).await),
                FAILS => return Err(Failure::change("always").at(place).with_done((0..place).collect())),
                _ => self.may.acquire().await.unwrap().forget(),
            }
            self.done.lock().unwrap().insert(id(change));
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_large_transaction_is_handled_nobody_else_waits_for_more_than_his_turn() {
    const ROWS: i64 = 60_000;
    const NOTES: i64 = 20;
    const BATCH: i64 = 100;
    let shop = Shop::with(ORDERS).await;
    shop.sql("create table notes (id bigint primary key)").await;
    shop.sql(&format!("insert into orders select g, 0 from generate_series(1, {ROWS}) g")).await;
    let source: Source = shop.source();
    let (orders, notes) = (Reluctant::who_may(0), Reluctant::who_may(NOTES));
    let settings = FeedSettings {
        start: Start::Now,
        batch: BATCH as usize,
        timeout: std::time::Duration::from_secs(600),
        ..FeedSettings::default()
    };
    let on = |handler: &Arc<Reluctant>| Handling::AtLeastOnce(Arc::clone(handler) as Arc<dyn Handler>);
    let host = Host::new("one", Arc::new(shop.place.store().await))
        .feed_with(Arc::new(source.journal("orders").partitions(4)), on(&orders), settings.clone())
        .feed_with(Arc::new(source.journal("notes")), on(&notes), settings);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    let registered = "select count(*) from seriatim.consumer";
    until("both are followed", async || {
        let there = "select (to_regclass('seriatim.consumer') is not null)::int::bigint";
        shop.number(there).await == 1 && shop.number(registered).await == 2
    })
    .await;

    shop.sql("update orders set amount = 1").await;
    shop.sql("insert into orders select -g, 0 from generate_series(1, 50) g").await;

    // Another table's changes are handled whenever they come, however much of the large transaction is left.
    for note in 1..=NOTES {
        shop.sql(&format!("insert into notes values (100 + {note})")).await;
        until("the note is handled", async || notes.done() == note).await;
        assert!(orders.done() < ROWS - BATCH);
        orders.may.add_permits((ROWS / NOTES / 2) as usize);
    }
    assert!(orders.done() <= ROWS / 2);
    // One object that hangs and one that fails keep nobody else from being handled, but those of the same call.
    orders.may.add_permits(ROWS as usize);
    until("all are handled, the later ones too", async || {
        orders.done() >= ROWS + 50 - BATCH && (1..=50).all(|id| orders.has_done(-id))
    })
    .await;
    assert!(!orders.has_done(HANGS));
    orders.let_go.send_replace(true);
    until("all but one are handled", async || orders.done() == ROWS + 50 - 1).await;
    assert!(!orders.has_done(FAILS));
    drop(stop);
    running.await.unwrap().unwrap();
}
