//! A consumer of a feed that has no host: it reads all partitions and remembers where it is.

use std::time::Duration;

use seriatim::change::{Change, Position};
use seriatim::clock;
use seriatim::name::{Partition, StoreId};
use seriatim::source::{Consumer, Cursor, Feed, Limit, SourceError, Start};

/// As much as a host asks for at once, whatever it weighs.
const LIMIT: Limit = Limit { rows: 4096, bytes: usize::MAX };

/// After this long, what a test waits for will not come.
const BOUND: Duration = Duration::from_secs(60);

/// A consumer that reads all partitions of a window and remembers where it is.
pub struct Follower<W> {
    /// The window.
    pub window: W,
    /// Where each partition is.
    pub cursors: Vec<Cursor>,
}

impl<W: Feed> Follower<W> {
    /// Begins there.
    pub async fn open(window: W, start: Start) -> Self {
        Follower::try_open(window, start).await.expect("the window opens")
    }

    /// Begins there, if the feed lets it.
    pub async fn try_open(window: W, start: Start) -> Result<Self, SourceError> {
        let position = window.open(&Follower::consumer(&window), &start).await?;
        Ok(Follower::at(window, &position))
    }

    /// Who it is.
    pub fn consumer(window: &W) -> Consumer {
        let store = StoreId::new("store").expect("a plain word is a name");
        Consumer { feed: window.name().clone(), store }
    }

    /// Goes on after a position.
    pub fn at(window: W, position: &Position) -> Self {
        let cursor = |partition| Cursor { partition: Partition(partition), after: position.clone() };
        let cursors = (0..window.partitions()).map(cursor).collect();
        Follower { window, cursors }
    }

    /// One read; the cursors move on. Says whether all that it served are caught up.
    pub async fn try_read(&mut self) -> Result<(Vec<Change>, bool), SourceError> {
        let (mut changes, mut caught_up) = (Vec::new(), true);
        for slice in self.window.read(&self.cursors, LIMIT).await? {
            let asked = self.cursors.iter_mut().find(|cursor| cursor.partition == slice.partition);
            asked.expect("a slice is of a partition that was asked for").after = slice.upto;
            caught_up &= slice.caught_up;
            assert!(slice.changes.clone().all(|change| change.partition == slice.partition));
            changes.extend(slice.changes);
        }
        Ok((changes, caught_up))
    }

    /// One read that succeeds.
    pub async fn read(&mut self) -> (Vec<Change>, bool) {
        self.try_read().await.expect("the window is read")
    }

    /// Reads until all that was there has come.
    pub async fn drain(&mut self) -> Vec<Change> {
        let (mut all, began) = (Vec::new(), clock::now());
        loop {
            assert!(began.elapsed() < BOUND, "it never catches up");
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
        while began.elapsed() < BOUND {
            all.extend(self.read().await.0);
            let lag = self.window.lag(&self.cursors).await.expect("the lag is known");
            if lag.iter().all(|lag| lag.changes == Some(0)) {
                return all;
            }
        }
        panic!("something stays young");
    }

    /// Where the first partition is.
    pub fn position(&self) -> String {
        self.cursors[0].after.to_string()
    }
}

/// The keys of changes of a table whose key is a whole number, in their order.
pub fn keys(changes: &[Change]) -> Vec<i64> {
    changes.iter().map(key).collect()
}

/// The key of such a change.
pub fn key(change: &Change) -> i64 {
    match change.key.as_ref().map(|key| key.row().values()[0].clone()) {
        Some(seriatim::Value::Integer(key)) => key,
        other => panic!("the key is {other:?}"),
    }
}
