//! Names of tables and columns: whatever they look like, and when another table takes one over.

use seriatim::source::{Cursor, Feed, Install, Start};
use seriatim::{FeedName, Partition};
use seriatim_postgres::Capture;

use crate::log_kit::{Follower, LIMIT, ORDERS, Shop, consumer, told};

#[tokio::test]
async fn names_that_look_like_a_template_are_only_names() {
    let (table, key) =
        (r#""o{keys}[[x|,]]""#, r#""{w}", "[[x|,]]", "a$f$b'""\c", "{note}", "true as matches""#);
    let shop = Shop::with(&format!(
        r#"create table {table} ("{{w}}" int, "[[x|,]]" text, "a$f$b'""\c" int, "{{note}}" int, "true as matches" int,
               "{{matches}}" int, primary key ({key}))"#
    ))
    .await;
    shop.sql(&format!("insert into {table} values (1, 'a', 2, 3, 4, 5)")).await;
    let log = shop.source().log(table).partitions(1).with_deletes().filter(r#""{matches}" < 9"#);
    let mut follower = Follower::open(log.named(FeedName::new("odd").unwrap()), Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 1);
    shop.sql(&format!(r#"update {table} set "{{matches}}" = 6; update {table} set "{{w}}" = 7"#)).await;
    assert_eq!(follower.drain().await.len(), 2, "the old key and the new one");
    shop.sql(&format!(r#"alter table {table} rename "{{w}}" to "[[{{c}}|{{watched}}]]""#)).await;
    shop.sql(&format!(r#"update {table} set "[[{{c}}|{{watched}}]]" = 8; truncate {table}"#)).await;
    let gone = told(&follower.drain().await);
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(gone.iter().all(|told| told.starts_with(r#"delete {"[[{c}|{watched}]]":"#)), "{gone:?}");
    follower.consumed().await;
    assert_eq!(follower.capture.lag(&follower.cursors).await.unwrap()[0].changes, Some(0));
    follower.capture.close(&follower.consumer).await.unwrap();
}

async fn opened(capture: Capture) -> (Capture, Vec<Cursor>) {
    let position = capture.open(&consumer(capture.name().as_str()), &Start::Now).await.unwrap();
    let cursors = vec![Cursor { partition: Partition(0), after: position }];
    capture.read(&cursors, LIMIT).await.unwrap();
    (capture, cursors)
}

#[tokio::test]
async fn a_new_table_of_the_same_name_stops_the_feed() {
    let shop = Shop::with(ORDERS).await;
    let capture = |kind: &str| {
        let source = shop.source();
        let capture = if kind == "log" { source.log("orders") } else { source.journal("orders") };
        capture.partitions(1).named(FeedName::new(kind).unwrap())
    };
    let feeds = [opened(capture("log")).await, opened(capture("journal")).await];
    shop.sql("insert into orders values (1, 1); alter table orders rename to orders_old").await;
    for (feed, cursors) in &feeds {
        let read = feed.read(cursors, LIMIT).await.unwrap();
        assert_eq!(read.into_iter().map(|slice| slice.changes.count()).sum::<usize>(), 1, "it goes on");
        feed.read(cursors, LIMIT).await.unwrap();
    }
    shop.sql(ORDERS).await;
    shop.sql("insert into orders values (2, 2)").await;
    for (feed, cursors) in &feeds {
        let name = feed.name().as_str();
        let mut stopped = None;
        let mut cursors = cursors.clone();
        for _ in 0..10 {
            match feed.read(&cursors, LIMIT).await {
                Ok(slices) => slices.into_iter().for_each(|slice| cursors[0].after = slice.upto),
                Err(error) => stopped = Some(error.to_string()),
            }
        }
        let stopped = stopped.unwrap_or_else(|| panic!("{name} goes on"));
        assert!(stopped.contains("public.orders_old") && stopped.contains("unwatch"), "{stopped}");
        let refused = capture(name).open(&consumer(name), &Start::Now).await.unwrap_err().to_string();
        assert!(refused.contains("public.orders_old") && refused.contains("unwatch"), "a restart: {refused}");
        feed.close(&consumer(name)).await.unwrap();
        let again = capture(name);
        again.install(&consumer(name), &Start::Now).await.unwrap();
    }
    let mut follower = Follower::open(capture("log").named(FeedName::new("new").unwrap()), Start::Now).await;
    shop.sql("update orders set amount = 3").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":2}"#]);
}
