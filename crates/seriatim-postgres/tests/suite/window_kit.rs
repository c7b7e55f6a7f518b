//! What the tests of windows share: a follower that keeps its cursors, and rows with moments.

use std::time::Duration;

use seriatim::change::{Change, Position};
use seriatim::clock;
use seriatim::name::Partition;
use seriatim::source::{Cursor, Feed, Limit, SourceError, Start};
use seriatim_postgres::WindowCapture;

use crate::log_kit::{Shop, consumer};

const LIMIT: Limit = Limit { rows: 4096, bytes: usize::MAX };

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

/// A consumer that reads all partitions of a window and remembers where it is.
pub struct Follower {
    pub window: WindowCapture,
    pub cursors: Vec<Cursor>,
}

impl Follower {
    pub async fn open(window: WindowCapture, start: Start) -> Self {
        Follower::try_open(window, start).await.unwrap()
    }

    pub async fn try_open(window: WindowCapture, start: Start) -> Result<Self, SourceError> {
        let position = window.open(&consumer(window.name().as_str()), &start).await?;
        Ok(Follower::at(window, &position))
    }

    pub fn at(window: WindowCapture, position: &Position) -> Self {
        let cursor = |partition| Cursor { partition: Partition(partition), after: position.clone() };
        let cursors = (0..Feed::partitions(&window)).map(cursor).collect();
        Follower { window, cursors }
    }

    /// One read; the cursors move on. Says whether all that it served are caught up.
    pub async fn try_read(&mut self) -> Result<(Vec<Change>, bool), SourceError> {
        let (mut changes, mut caught_up) = (Vec::new(), true);
        for slice in self.window.read(&self.cursors, LIMIT).await? {
            let at = self.cursors.iter().position(|cursor| cursor.partition == slice.partition).unwrap();
            self.cursors[at].after = slice.upto;
            caught_up &= slice.caught_up;
            assert!(slice.changes.clone().all(|change| change.partition == slice.partition));
            changes.extend(slice.changes);
        }
        Ok((changes, caught_up))
    }

    pub async fn read(&mut self) -> (Vec<Change>, bool) {
        self.try_read().await.unwrap()
    }

    /// Reads until all that was there has come.
    pub async fn drain(&mut self) -> Vec<Change> {
        let (mut all, began) = (Vec::new(), clock::now());
        loop {
            assert!(began.elapsed() < Duration::from_secs(60), "it never catches up");
            let (changes, caught_up) = self.read().await;
            all.extend(changes);
            if caught_up {
                return all;
            }
        }
    }

    /// Reads until nothing is left, not even what is young.
    pub async fn drain_all(&mut self) -> Vec<Change> {
        let (mut all, began) = (Vec::new(), clock::now());
        while began.elapsed() < Duration::from_secs(60) {
            all.extend(self.read().await.0);
            if self.window.lag(&self.cursors).await.unwrap()[0].changes == Some(0) {
                return all;
            }
        }
        panic!("something stays young");
    }

    pub fn position(&self) -> String {
        self.cursors[0].after.to_string()
    }
}

/// The keys of changes, in their order.
pub fn keys(changes: &[Change]) -> Vec<i64> {
    changes.iter().map(key).collect()
}

pub fn key(change: &Change) -> i64 {
    match change.key.as_ref().unwrap().row().values()[0] {
        seriatim::Value::Integer(key) => key,
        ref other => panic!("{other:?}"),
    }
}
