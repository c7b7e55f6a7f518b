//! Many writers, large statements, and what is left of them.

use std::collections::BTreeMap;

use seriatim::source::{Cursor, Feed, Install, Limit, Start};
use seriatim::{Partition, Value};

use crate::journal_kit::{ORDERS, Shop, by_key, consumer, expected, run};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_writers_on_fifty_keys_are_told_of_in_their_order_and_completely() {
    const WRITERS: usize = 200;
    const ROUNDS: i64 = 10;
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(0, 49) g").await;
    let mut follower = shop.follow(Start::Now).await;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let session = shop.session().await;
        writers.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let key = (writer as i64 * 7 + round * 13) % 50;
                let sql = format!("begin; update orders set amount = amount + 1 where id = {key}; commit");
                run(&session, &sql).await;
            }
        }));
    }
    let mut told: BTreeMap<String, i64> = BTreeMap::new();
    let mut count = 0;
    let total = WRITERS as i64 * ROUNDS;
    while count < total {
        let (changes, _) = follower.read(Limit { rows: 100, bytes: usize::MAX }).await;
        for change in changes {
            count += 1;
            let Some(Value::Integer(amount)) =
                change.after.as_ref().and_then(|row| row.get("amount")).cloned()
            else {
                panic!("{change:?}")
            };
            let last = told.entry(change.key.unwrap().to_string()).or_default();
            assert_eq!(amount, *last + 1, "one after the other, none missing");
            *last = amount;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(told.values().sum::<i64>(), shop.number("select sum(amount) from orders").await);
    assert_eq!(follower.all().await, []);
}

#[tokio::test]
async fn ids_that_were_drawn_in_vain_hide_nothing() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    for (id, drawn) in [(1, 100_000), (2, 20_000_000), (3, 20_000_001)] {
        shop.sql(&format!("insert into orders values ({id}, 0)")).await;
        shop.sql(&format!("select setval('seriatim.journal_1_id', {drawn})")).await;
    }
    shop.sql("update orders set amount = 1").await;
    let alone = follower.cursors[1].clone();
    let limit = Limit { rows: 10, bytes: usize::MAX };
    let all = follower.all_by(limit).await;
    let each: &[&str] = &["insert 0", "update 1"];
    assert_eq!(by_key(&all), expected(&[(1, each), (2, each), (3, each)]));
    // One partition alone finds its own, wherever they are.
    let own: Vec<u64> =
        all.iter().filter(|change| change.partition == alone.partition).map(|change| change.id).collect();
    let mut by_itself = Vec::new();
    let mut cursor = alone;
    loop {
        let slices = follower.capture.read(std::slice::from_ref(&cursor), limit).await.unwrap();
        let slice = slices.into_iter().next().unwrap();
        cursor.after = slice.upto;
        by_itself.extend(slice.changes.map(|change| change.id));
        if slice.caught_up {
            break;
        }
    }
    assert_eq!(by_itself, own);
}

#[tokio::test]
async fn what_everybody_has_handled_is_forgotten_and_the_journal_does_not_grow() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, amount int, note text default repeat('x', 200))",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    let other = shop.source().journal("orders").named(seriatim::FeedName::new("other").unwrap());
    let beginning = other.open(&consumer("other"), &Start::Now).await.unwrap();
    shop.sql("insert into orders select g, 0 from generate_series(1, 10000) g").await;
    let sizes = "select sum(pg_total_relation_size(c.oid))::bigint from pg_class c where c.relname like 'journal_1%' and c.relkind = 'r'";
    let churn = async |follower: &mut crate::journal_kit::Follower| {
        for _ in 0..6 {
            shop.sql("update orders set amount = amount + 1").await;
            assert_eq!(follower.all().await.len() % 10000, 0);
            follower.consumed().await;
        }
        shop.number(sizes).await
    };
    churn(&mut follower).await;
    // The other one has handled nothing yet, so nothing is forgotten.
    let cursors = |after: &seriatim::Position| vec![Cursor { partition: Partition(0), after: after.clone() }];
    let slices = other.read(&cursors(&beginning), Limit { rows: 10, bytes: usize::MAX }).await.unwrap();
    assert!(!slices[0].changes.is_empty());
    other.close(&consumer("other")).await.unwrap();
    let first = churn(&mut follower).await;
    let second = churn(&mut follower).await;
    let third = churn(&mut follower).await;
    assert!(second.max(third) < first * 3 / 2 && third < 200 << 20, "{first} {second} {third}");
    let refused = other.read(&cursors(&beginning), Limit { rows: 10, bytes: usize::MAX }).await;
    assert!(refused.unwrap_err().to_string().contains("no longer retained"));
    assert!(shop.number("select count(*) from seriatim.tick").await < 50, "ticks are forgotten too");
}

#[tokio::test]
async fn an_open_writer_is_not_cut_off_by_pruning() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, amount int, note text default repeat('x', 200))",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 30000) g").await;
    let open = shop.session().await;
    run(&open, "begin; insert into orders values (0, 7)").await;
    for _ in 0..5 {
        shop.sql("update orders set amount = amount + 1 where id > 0").await;
        follower.all().await;
        follower.consumed().await;
    }
    assert!(shop.number("select ring::bigint from seriatim.capture").await > 0, "the ring has turned");
    run(&open, "commit").await;
    assert_eq!(follower.all().await.len(), 1);
    follower.consumed().await;
}

#[tokio::test]
async fn lag_counts_what_is_committed_and_is_never_zero_when_it_is_unknown() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    let late = shop.session().await;
    run(&late, "begin; insert into orders values (1000, 0)").await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    let total = async |follower: &crate::journal_kit::Follower| {
        let lags = follower.capture.lag(&follower.cursors).await.unwrap();
        assert!(lags.iter().all(|lag| (lag.changes == Some(0)) == (lag.seconds == Some(0.0))), "{lags:?}");
        lags.iter().map(|lag| lag.changes.unwrap()).sum::<u64>()
    };
    assert_eq!(total(&follower).await, 20);
    follower.all().await;
    assert_eq!(total(&follower).await, 0);
    run(&late, "commit").await;
    assert_eq!(total(&follower).await, 1);
    shop.sql("insert into orders values (30, 0), (31, 0), (32, 0)").await;
    let (read, _) = follower.read(Limit { rows: 2, bytes: usize::MAX }).await;
    assert_eq!(total(&follower).await, 4 - read.len() as u64);
    follower.all().await;
    assert_eq!(total(&follower).await, 0);
    let filling = shop.source().journal("orders").named(seriatim::FeedName::new("filling").unwrap());
    let after = filling.open(&consumer("filling"), &Start::Beginning).await.unwrap();
    let lag = filling.lag(&[Cursor { partition: Partition(0), after }]).await.unwrap();
    assert_eq!((lag[0].changes, lag[0].seconds), (None, None));
}

#[tokio::test]
async fn whoever_holds_changes_back_is_named() {
    let shop = Shop::with(ORDERS).await;
    let follower = shop.follow(Start::Now).await;
    assert_eq!(follower.capture.blockers().await.unwrap(), []);
    let late = shop.session().await;
    run(&late, "set application_name = 'billing'; begin; insert into orders values (1, 0)").await;
    shop.sql("begin; insert into orders values (2, 0); prepare transaction 'held'").await;
    crate::support::until("both are named", || async {
        let blockers = follower.capture.blockers().await.unwrap();
        let named = |word: &str| blockers.iter().any(|blocker| blocker.what.contains(word));
        named("billing") && named("held") && blockers.len() == 2
    })
    .await;
    run(&late, "rollback").await;
    shop.sql("rollback prepared 'held'").await;
}

#[tokio::test]
async fn a_position_of_another_history_is_found_out() {
    let shop = Shop::with(ORDERS).await;
    let follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    let position = follower.capture.newest().await.unwrap();
    follower.capture.validate(&position).await.unwrap();
    // As a restore of an older backup would: the ticks since are gone, others were made.
    shop.sql("delete from seriatim.tick where n = (select max(n) from seriatim.tick)").await;
    for id in 2..4 {
        shop.sql(&format!("insert into orders values ({id}, 1)")).await;
        shop.sql("select seriatim.tick()").await;
    }
    let refused = follower.capture.validate(&position).await.unwrap_err().to_string();
    assert!(refused.contains("restored from a backup"), "{refused}");
    for foreign in ["x", "7-9"] {
        let refused = follower.capture.validate(&seriatim::Position::text(foreign)).await;
        assert!(refused.unwrap_err().to_string().contains("not a position"));
    }
}

#[tokio::test]
async fn a_feed_starts_now_at_a_time_or_at_a_position() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    let position = follower.capture.newest().await.unwrap();
    let time: i64 = shop.number("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").await;
    let time = seriatim_postgres_time(time);
    shop.sql("insert into orders values (2, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    for start in [Start::Position(position), Start::Time(time)] {
        let after = follower.capture.rewind(&follower.consumer, &start).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = after.clone());
        assert_eq!(by_key(&follower.all().await), expected(&[(2, &["insert 1"])]));
    }
    let future = Start::Time(time + std::time::Duration::from_secs(3600));
    let refused = follower.capture.rewind(&follower.consumer, &future).await.unwrap_err();
    assert!(refused.to_string().contains("in the future"));
}

fn seriatim_postgres_time(microseconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(microseconds).unwrap()
}
