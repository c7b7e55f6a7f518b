//! What happens to a log's table and triggers while it is watched, and to its numbers when it is watched again.

use std::time::Duration;

use seriatim::source::{Feed, Install, Installed, Limit, Start};

use crate::journal_kit;
use crate::log_kit::{Follower, LIMIT, ORDERS, Shop, consumer, told};

const PARTS: &str =
    "create table orders (id bigint primary key, amount int not null) partition by range (id);
    create table orders_1 partition of orders for values from (0) to (10)";

#[tokio::test]
async fn numbers_go_on_upwards_after_unwatch_and_watch() {
    let shop = Shop::with(ORDERS).await;
    let log = || shop.source().log("orders").partitions(1);
    let mut follower = Follower::open(log(), Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    let highest = follower.drain().await.iter().map(|change| change.id).max().unwrap();
    let before = follower.position().clone();
    follower.capture.close(&follower.consumer).await.unwrap();
    for start in [Start::Now, Start::Beginning] {
        let mut again = Follower::open(log(), start).await;
        shop.sql("update orders set amount = amount + 1 where id = 1").await;
        let changes = again.drain().await;
        assert!(!changes.is_empty() && changes.iter().all(|change| change.id > highest), "{changes:?}");
        let refused = again.capture.validate(&before).await.unwrap_err().to_string();
        assert!(refused.contains("no longer retained"), "a position of the log before: {refused}");
        again.capture.close(&again.consumer).await.unwrap();
    }
}

#[tokio::test]
async fn numbers_go_on_upwards_from_a_log_to_a_journal_and_back() {
    let shop = Shop::with(ORDERS).await;
    let mut highest = 0;
    for journal in [false, true, false] {
        let source = shop.source();
        let capture = if journal { source.journal("orders") } else { source.log("orders") };
        let mut follower = journal_kit::Follower::open(capture.partitions(1), Start::Now).await;
        let first = highest as i64 + 1;
        shop.sql(&format!("insert into orders select g, 0 from generate_series({first}, {first} + 9) g"))
            .await;
        let ids: Vec<u64> = follower.all().await.iter().map(|change| change.id).collect();
        assert!(ids.len() == 10 && ids.iter().all(|id| *id > highest), "{ids:?} after {highest}");
        highest = ids.into_iter().max().unwrap();
        follower.capture.close(&follower.consumer).await.unwrap();
    }
}

#[tokio::test]
async fn truncate_of_a_new_partition_deletes_its_rows() {
    let shop = Shop::with(PARTS).await;
    let log = || shop.source().log("orders").partitions(1).with_deletes();
    let mut follower = Follower::open(log(), Start::Now).await;
    let part = "create table orders_2 partition of orders for values from (10) to (20)";
    shop.sql(&format!("{part}; insert into orders values (1, 1), (11, 1)")).await;
    assert_eq!(follower.drain().await.len(), 2);
    shop.sql("truncate orders_2").await;
    assert_eq!(told(&follower.drain().await), [r#"delete {"id":11}"#]);
    shop.sql("insert into orders values (12, 1)").await;
    assert_eq!(log().check().await.unwrap(), Installed::Installed);
    let again = log();
    again.open(&consumer("orders"), &Start::Now).await.unwrap();
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":12}"#], "nothing has to be read again");
}

#[tokio::test]
async fn a_partition_that_is_emptied_before_anybody_saw_it_has_its_rows_deleted() {
    let shop = Shop::with(PARTS).await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Now).await;
    let part = "create table orders_2 partition of orders for values from (10) to (20)";
    for emptied in [
        format!("{part}; insert into orders values (1, 1), (11, 1); truncate orders_2"),
        format!(
            "begin; drop table orders_2; {part}; insert into orders values (11, 1); truncate orders_2; commit"
        ),
    ] {
        shop.sql(&emptied).await;
        follower.drain().await;
        follower.drain().await;
        assert_eq!(
            follower.states.keys().map(String::as_str).collect::<Vec<_>>(),
            [r#"{"id":1}"#],
            "{emptied}"
        );
    }
}

/// Most of the time the partition is emptied between two looks at the table.
#[tokio::test]
async fn rows_that_were_told_of_a_new_partition_are_deleted_with_it() {
    let shop = Shop::with(PARTS).await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    follower.drain().await;
    follower.drain().await;
    shop.sql("create table orders_2 partition of orders for values from (10) to (20); insert into orders values (11, 1)").await;
    follower.drain().await;
    assert_eq!(follower.states.len(), 2);
    shop.sql("truncate orders_2").await;
    let end = seriatim::clock::now() + Duration::from_secs(20);
    while follower.states.len() > 1 {
        follower.drain().await;
        assert!(seriatim::clock::now() < end, "{:?}", follower.states);
    }
}

#[tokio::test]
async fn a_logs_triggers_that_were_disabled_for_a_while_stop_the_feed() {
    for (schema, table) in [(ORDERS, "orders"), (PARTS, "orders"), (PARTS, "orders_1")] {
        let shop = Shop::with(schema).await;
        let log = || shop.source().log("orders").partitions(1);
        let mut follower = Follower::open(log(), Start::Now).await;
        shop.sql("insert into orders values (1, 1)").await;
        assert_eq!(follower.drain().await.len(), 1);
        shop.sql(&format!(
            "begin; alter table {table} disable trigger all; insert into orders values (2, 2);
             alter table {table} enable trigger all; commit"
        ))
        .await;
        assert!(log().check().await.unwrap_err().to_string().contains("disabled"), "{schema} {table}");
        let refused = log().open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
        assert!(refused.contains("disabled") && refused.contains("watch orders"), "{refused}");
        let refused = loop {
            if let Err(refused) = follower.try_read(LIMIT).await {
                break refused.to_string();
            }
        };
        assert!(refused.contains("disabled"), "{refused}");
        follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
        let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = position.clone());
        assert_eq!(follower.drain().await.len(), 2);
    }
}

#[tokio::test]
async fn a_log_that_is_behind_stops_when_its_triggers_are_disabled() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 100000) g").await;
    let one = Limit { rows: 1, bytes: usize::MAX };
    assert!(!follower.read(one).await.1);
    shop.sql("alter table orders disable trigger all; alter table orders enable trigger all").await;
    let mut read = 1;
    let refused = loop {
        match follower.try_read(one).await {
            Err(refused) => break refused.to_string(),
            Ok((changes, caught_up)) => {
                read += changes.len();
                assert!(!caught_up, "nothing was said though {read} changes were read");
            }
        }
    };
    assert!(refused.contains("disabled"), "{refused}");
}
