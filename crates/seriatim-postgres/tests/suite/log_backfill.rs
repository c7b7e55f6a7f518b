//! Rows that existed before the log did.

use seriatim::FeedName;
use seriatim::source::{Feed, Limit, Start};

use crate::log_kit::{Follower, ORDERS, Shop, told};

const TEN: Limit = Limit { rows: 10, bytes: usize::MAX };

#[tokio::test]
async fn the_beginning_is_every_row_once_and_now_is_told_of_changes_only() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 2500) g").await;
    let log = |name: &str| shop.source().log("orders").partitions(4).named(FeedName::new(name).unwrap());
    let mut now = Follower::open(log("now"), Start::Now).await;
    shop.sql("update orders set amount = 1 where id <= 10; delete from orders where id = 2500").await;
    let mut beginning = Follower::open(log("beginning"), Start::Beginning).await;
    let progress = beginning.capture.backfill(beginning.position()).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.total), (0, 2499));
    let changes = beginning.drain().await;
    assert_eq!(changes.len(), 2499);
    assert_eq!(beginning.states.len(), 2499);
    assert_eq!(beginning.capture.backfill(beginning.position()).await.unwrap(), None);
    assert_eq!(now.drain().await.len(), 10, "who asked for changes only is not told of old rows");
    shop.sql("update orders set amount = 2 where id = 77").await;
    assert_eq!(told(&beginning.drain().await), [r#"upsert {"id":77}"#]);
    assert_eq!(told(&now.drain().await), [r#"upsert {"id":77}"#]);
}

#[tokio::test]
async fn live_changes_do_not_wait_for_the_rest_of_the_rows() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 5000) g").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Beginning).await;
    for _ in 0..5 {
        follower.read(TEN).await;
    }
    shop.sql("update orders set amount = 1 where id = 4999").await;
    let mut read = 0;
    while !follower.states.contains_key(r#"{"id":4999}"#) {
        read += follower.read(Limit { rows: 100, bytes: usize::MAX }).await.0.len();
    }
    assert!(read <= 1200, "it waited for {read} rows");
    follower.drain().await;
    assert_eq!(follower.states.len(), 5000);
}

#[tokio::test]
async fn rows_are_listed_on_where_a_crash_interrupted_it() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 3000) g").await;
    let mut first = Follower::open(shop.source().log("orders").partitions(2), Start::Beginning).await;
    while first.states.len() < 1500 {
        first.read(TEN).await;
    }
    let (cursors, states) = (first.cursors.clone(), first.states.clone());
    drop(first);
    let mut second = Follower::open(shop.source().log("orders").partitions(2), Start::Beginning).await;
    (second.cursors, second.states) = (cursors, states);
    let rest = second.drain().await.len();
    assert_eq!(second.states.len(), 3000);
    assert!(rest <= 1500, "what was read is not read again: {rest}");
}

#[tokio::test]
async fn rows_that_change_meanwhile_are_told_of_as_they_end() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 2500) g").await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(3).with_deletes(), Start::Beginning).await;
    for round in 1..=20 {
        follower.read(TEN).await;
        shop.sql(&format!(
            "update orders set amount = {round} where id % 40 = {round}; delete from orders where id = {round} * 100; \
             update orders set id = id + 10000 where id = {round} * 7; insert into orders values ({round} + 20000, 0)"
        ))
        .await;
    }
    follower.drain().await;
    let mut expected = shop.texts("select format('[%s,%s]', id, amount) from orders").await;
    let mut states: Vec<String> = follower.states.values().cloned().collect();
    expected.sort();
    states.sort();
    assert_eq!(states, expected);
}

#[tokio::test]
async fn rewinding_reads_everything_again() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 30) g").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("update orders set amount = 1 where id = 3").await;
    assert_eq!(follower.drain().await.len(), 1);
    follower.consumed().await;
    let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors[0].after = position;
    follower.drain().await;
    assert_eq!(follower.states.len(), 30);
    let beyond = seriatim::Position::number(1_000_000);
    assert!(follower.capture.validate(&beyond).await.unwrap_err().to_string().contains("not in the history"));
    follower.capture.validate(&follower.cursors[0].after).await.unwrap();
}
