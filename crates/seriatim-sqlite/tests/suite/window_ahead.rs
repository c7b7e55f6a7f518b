//! Windows: pages that are read ahead while the last ones are handled.

use std::num::NonZeroUsize;
use std::time::Duration;

use seriatim::Value;
use seriatim::source::{Feed, Start};
use seriatim_sqlite::{Unit, WindowCapture};

use crate::capture_kit::File;
use crate::window_kit::{Follower, NOW, key, keys, orders};

const PAGE: usize = 10;

/// So many orders, one in each millisecond since 1970.
fn old_orders(count: i64) -> File {
    let file = orders(&[]);
    file.sql(&format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
         insert into orders select i, 'tea', i from n"
    ));
    file
}

/// A follower with two pages behind it. The second one was read ahead, and so are the next ones by now.
async fn two_pages_further(file: &File) -> (Follower<WindowCapture>, Vec<i64>) {
    let window = file
        .source()
        .window("orders", "updated_at")
        .unit(Unit::Milliseconds)
        .buffer(Duration::from_millis(50))
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
    let file = old_orders(10_003);
    let (mut follower, mut seen) = two_pages_further(&file).await;
    seen.extend(keys(&follower.drain().await));
    assert_eq!(seen, (1..=10_003).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_too_young_is_not_read_ahead() {
    let file = old_orders(1_000);
    file.sql(&format!("insert into orders select id + 9000, item, {NOW} + 86400000 from orders"));
    let (mut follower, mut seen) = two_pages_further(&file).await;
    seen.extend(keys(&follower.drain().await));
    assert_eq!(
        seen,
        (1..=1_000).collect::<Vec<_>>(),
        "others may still get the moments of those that are young"
    );
}

#[tokio::test]
async fn a_row_that_changes_after_it_was_read_ahead_comes_again() {
    let file = old_orders(1_000);
    let (mut follower, _) = two_pages_further(&file).await;
    file.sql(&format!("update orders set item = 'coffee', updated_at = {NOW} where id = 35"));
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
    let file = old_orders(1_000);
    let (mut follower, _) = two_pages_further(&file).await;
    file.sql("insert into orders values (-1, 'from an import', 22)");
    let here = Start::Position(follower.cursors[0].after.clone());
    let consumer = Follower::consumer(&follower.window);
    follower.window.rewind(&consumer, &here).await.unwrap();
    assert_eq!(keys(&follower.read().await.0)[..3], [21, -1, 22]);
}
