//! What the tests of windows share: a follower that keeps its cursors, and rows with moments.

use std::time::Duration;

use seriatim::change::{Change, Position};
use seriatim::clock;
use seriatim::name::Partition;
use seriatim::source::{Cursor, Feed, Limit, SourceError, Start};
use seriatim_sqlite::WindowCapture;

use crate::capture_kit::{File, consumer};

pub const LIMIT: Limit = Limit { rows: 4096, bytes: usize::MAX };

/// The present in milliseconds, as SQLite has it.
pub const NOW: &str = "cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer)";

/// Orders whose moments are whole seconds long ago.
pub fn orders(seconds: &[i64]) -> File {
    let file = File::with(
        "create table orders (id integer primary key, item text, updated_at integer);
         create index orders_updated_at on orders (updated_at)",
    );
    for (index, second) in seconds.iter().enumerate() {
        file.sql(&format!("insert into orders values ({}, 'tea', {second})", index + 1));
    }
    file
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
        let position = window.open(&consumer(window.name().as_str(), "store"), &start).await?;
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
