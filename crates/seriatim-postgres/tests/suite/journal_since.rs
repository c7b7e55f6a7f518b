//! What happens to a journal's table while it is watched, and when that is noticed.

use seriatim::source::{Install, Limit, Start};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop};
use crate::mirror::Mirror;

#[tokio::test]
async fn a_journal_that_is_behind_stops_when_its_triggers_are_disabled() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().journal("orders").partitions(1), Start::Now).await;
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

#[tokio::test]
async fn a_new_partition_that_was_emptied_before_anybody_saw_it_stops_the_feed() {
    let part = "create table orders_2 partition of orders for values from (10) to (20)";
    // Each statement for itself, and all of them in one transaction.
    for emptied in [
        format!("{part}; insert into orders values (1, 1), (11, 1); truncate orders_2"),
        format!(
            "{part}; insert into orders values (11, 1); truncate orders_2; insert into orders values (12, 1)"
        ),
        format!("begin; {part}; insert into orders values (11, 1); truncate orders_2; commit"),
        format!(
            "begin; {part}; insert into orders values (11, 1); truncate orders_2; insert into orders values (12, 1); commit"
        ),
    ] {
        let shop = Shop::with(
            "create table orders (id bigint primary key, n int) partition by range (id);
             create table orders_1 partition of orders for values from (0) to (10)",
        )
        .await;
        let mut follower = shop.follow(Start::Now).await;
        for statement in emptied.split("; ") {
            shop.sql(statement).await;
        }
        let refused = loop {
            match follower.try_read(LIMIT).await {
                Err(refused) => break refused.to_string(),
                Ok((_, caught_up)) => assert!(!caught_up, "{emptied}"),
            }
        };
        assert!(refused.contains("orders_2") && refused.contains("was emptied"), "{refused}");
        assert!(
            follower.try_read(LIMIT).await.unwrap_err().to_string().contains("rewind orders --to beginning")
        );
        let mut mirror = Mirror::default();
        mirror.begin_anew(&mut follower).await;
        shop.sql("insert into orders values (13, 1); truncate orders_2").await;
        assert!(
            follower.all().await.iter().any(|change| change.op.as_str() == "delete"),
            "from now on it is noted"
        );
    }
}

#[tokio::test]
async fn a_new_partition_whose_rows_come_and_go_is_followed() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, n int) partition by range (id);
         create table orders_1 partition of orders for values from (0) to (10)",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    for sql in [
        "create table orders_2 partition of orders for values from (10) to (20)",
        "insert into orders values (11, 1), (12, 1), (13, 1)",
        "update orders set n = 2; update orders set id = id - 10 where id = 12",
        "delete from orders where id = 13; update orders set n = 3 where id = 11",
        "vacuum orders_2",
        "insert into orders values (14, 1); update orders set n = 4 where id = 14",
    ] {
        shop.sql(sql).await;
    }
    assert_eq!(follower.all().await.len(), 12);
}

#[tokio::test]
async fn a_key_that_is_written_in_another_way_stops_the_feed() {
    for (before, now, stops) in [
        ("int", "bigint", false),
        ("varchar(3)", "text", false),
        ("uuid", "text", false),
        ("char(40)", "char(50)", true),
        ("int", "text", true),
        ("int", "numeric", true),
        ("date", "timestamp", true),
    ] {
        let value = match before {
            "int" | "varchar(3)" => "7",
            "date" => "2026-11-16",
            _ => "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        };
        let shop = Shop::with(&format!("create table orders (id {before} primary key, n int)")).await;
        let mut follower = Follower::open(shop.source().journal("orders").partitions(64), Start::Now).await;
        shop.sql(&format!("insert into orders values ('{value}', 1)")).await;
        let first = follower.all().await;
        shop.sql(&format!(
            "update orders set n = 2; alter table orders alter column id type {now}; update orders set n = 3"
        ))
        .await;
        if !stops {
            let rest = follower.all().await;
            assert!(
                rest.len() == 2
                    && rest
                        .iter()
                        .all(|change| change.partition == first[0].partition && change.key == first[0].key)
            );
            continue;
        }
        let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
        assert!(refused.contains("was given a type"), "{before} to {now}: {refused}");
        follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
        assert!(
            follower.try_read(LIMIT).await.unwrap_err().to_string().contains("rewind orders --to beginning")
        );
        Mirror::default().begin_anew(&mut follower).await;
        shop.sql("update orders set n = 4").await;
        let rest = follower.all().await;
        assert!(
            rest.iter().all(|change| change.partition == rest[0].partition && change.key == rest[0].key),
            "{rest:?}"
        );
    }
}
