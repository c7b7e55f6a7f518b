//! A journal that is taken out and put in again.

use seriatim::source::{Feed, Start};

use crate::journal_kit::{Follower, ORDERS, Shop};

#[tokio::test]
async fn ids_go_on_upwards_after_unwatch_and_watch() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    let highest = follower.all().await.iter().map(|change| change.id).max().unwrap();
    follower.capture.close(&follower.consumer).await.unwrap();
    let mut again = shop.follow(Start::Now).await;
    shop.sql("update orders set amount = 1 where id = 1").await;
    let changes = again.all().await;
    assert_eq!(changes.len(), 1);
    assert!(changes[0].id > highest, "{} after {highest}", changes[0].id);
}

#[tokio::test]
async fn ids_go_on_upwards_by_another_key_while_others_keep_the_old_journal() {
    let shop = Shop::with("create table orders (id bigint primary key, amount int not null unique)").await;
    let feed = |key: &str| shop.source().journal("orders").key(vec![key.to_owned()]).partitions(2);
    let name = |name: &str| seriatim::FeedName::new(name).unwrap();
    let other = Follower::open(feed("id").named(name("other")), Start::Now).await;
    let mut follower = Follower::open(feed("id"), Start::Now).await;
    shop.sql("insert into orders select g, g from generate_series(1, 20) g").await;
    let highest = follower.all().await.iter().map(|change| change.id).max().unwrap();
    follower.capture.close(&follower.consumer).await.unwrap();
    let mut again = Follower::open(feed("amount"), Start::Now).await;
    shop.sql("delete from orders where id = 1").await;
    assert!(again.all().await[0].id > highest);
    drop(other);
}
