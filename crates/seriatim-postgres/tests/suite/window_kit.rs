//! What the tests of windows share: rows with moments.

pub use seriatim_testkit::following::{Follower, key, keys};

use crate::log_kit::Shop;

/// Orders that changed so many seconds after 1970.
pub async fn orders(seconds: &[i64]) -> Shop {
    let shop = Shop::with(
        "create table orders (id bigint primary key, item text, updated_at timestamptz default now());
         create index on orders (updated_at, id)",
    )
    .await;
    for (index, second) in seconds.iter().enumerate() {
        shop.sql(&format!("insert into orders values ({}, 'tea', to_timestamp({second}))", index + 1)).await;
    }
    shop
}

pub async fn touch(shop: &Shop, id: i64) {
    shop.sql(&format!(
        "insert into orders values ({id}, 'tea', now())
         on conflict (id) do update set updated_at = excluded.updated_at"
    ))
    .await;
}
