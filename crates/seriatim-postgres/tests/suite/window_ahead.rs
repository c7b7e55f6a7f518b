//! Windows: pages that are read ahead while the last ones are handled.

use std::num::NonZeroUsize;
use std::time::Duration;

use seriatim::Value;
use seriatim::source::{Feed, Start};
use seriatim_postgres::WindowCapture;

use crate::log_kit::Shop;
use crate::window_kit::{Follower, key, keys, orders};

const PAGE: usize = 10;

/// So many orders, one in each second since 1970.
async fn old_orders(count: i64) -> Shop {
    let shop = orders(&[]).await;
    let rows = "insert into orders select i, 'tea', to_timestamp(i) from generate_series(1, ";
    shop.sql(&format!("{rows}{count}) i")).await;
    shop
}

/// A follower with two pages behind it. The second one was read ahead, and so are the next ones by now.
async fn two_pages_further(shop: &Shop) -> (Follower<WindowCapture>, Vec<i64>) {
    let window = shop
        .source()
        .window("orders", "updated_at")
        .buffer(Duration::from_millis(1))
        .every(Duration::from_millis(5))
        .excessive_count(NonZeroUsize::new(PAGE).unwrap());
    let mut follower = Follower::open(window, Start::Beginning).await;
    let mut seen = keys(&follower.read().await.0);
    seen.extend(keys(&follower.read().await.0));
    assert_eq!(seen, (1..=2 * PAGE as i64).collect::<Vec<_>>());
    (follower, seen)
}

#[tokio::test]
async fn what_is_read_ahead_comes_in_order_and_once() {
    let shop = old_orders(10_003).await;
    let (mut follower, mut seen) = two_pages_further(&shop).await;
    seen.extend(keys(&follower.drain().await));
    assert_eq!(seen, (1..=10_003).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_late_commit_is_not_passed_by_what_is_read_ahead() {
    let shop = old_orders(100).await;
    let late = shop.place.client().await;
    late.batch_execute("begin; select 1").await.unwrap();
    shop.sql("insert into orders select i, 'tea', now() from generate_series(1001, 1100) i").await;
    let (mut follower, mut seen) = two_pages_further(&shop).await;
    late.batch_execute("insert into orders values (500, 'late', now()); commit").await.unwrap();
    seen.extend(keys(&follower.drain_all().await));
    let expected: Vec<i64> = (1..=100).chain([500]).chain(1001..=1100).collect();
    assert_eq!(seen, expected, "it is older than those that were committed before it");
}

#[tokio::test]
async fn a_row_that_changes_after_it_was_read_ahead_comes_again() {
    let shop = old_orders(1_000).await;
    let (mut follower, _) = two_pages_further(&shop).await;
    shop.sql("update orders set item = 'coffee', updated_at = now() where id = 35").await;
    let changes = follower.drain_all().await;
    let items = changes.iter().filter(|change| key(change) == 35);
    let items: Vec<Value> = items.map(|change| change.after.as_ref().unwrap().values()[1].clone()).collect();
    assert_eq!(items.last(), Some(&Value::Text("coffee".into())), "{items:?}");
    let mut others = keys(&changes);
    others.retain(|key| *key != 35);
    assert_eq!(others, (21..=1_000).filter(|key| *key != 35).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_begins_anew_does_not_get_what_was_read_ahead() {
    let shop = old_orders(1_000).await;
    let (mut follower, _) = two_pages_further(&shop).await;
    shop.sql("insert into orders values (-1, 'from an import', to_timestamp(22))").await;
    let here = Start::Position(follower.cursors[0].after.clone());
    let consumer = Follower::consumer(&follower.window);
    follower.window.rewind(&consumer, &here).await.unwrap();
    assert_eq!(keys(&follower.read().await.0)[..3], [21, -1, 22]);
}
