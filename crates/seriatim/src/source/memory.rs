//! A feed in memory: for tests and simulation, and as the plainest reading of the contract.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Registered, Slice, SourceError, Start};
use crate::change::{Change, Op, Position};
use crate::clock;
use crate::name::{FeedName, Partition, StoreId};
use crate::order::partition_of;
use crate::value::{Columns, Key, Row, Value};

/// Changes that were pushed, in the order in which they were. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryFeed {
    name: FeedName,
    partitions: u32,
    /// Into how many partitions it was divided when it was made.
    made_with: u32,
    state: Arc<Mutex<State>>,
    /// The id of the newest change.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    changes: Vec<Change>,
    consumers: BTreeMap<String, u64>,
    /// The newest change when the last read began.
    read: u64,
}

impl MemoryFeed {
    /// An empty feed.
    pub fn new(name: FeedName, partitions: u32) -> Self {
        MemoryFeed {
            name,
            partitions,
            made_with: partitions,
            state: Arc::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// The same feed, divided into another number of partitions.
    pub fn divided(&self, partitions: u32) -> Self {
        MemoryFeed { partitions, ..self.clone() }
    }

    /// Commits a change of the object with this key to this value, and returns its id.
    pub fn push(&self, key: i64, value: i64) -> u64 {
        let key = Key::of("id", Value::Integer(key));
        let after =
            Row::new(Columns::new(["id", "value"]), [key.row().values()[0].clone(), Value::Integer(value)]);
        self.add(partition_of(&key, self.partitions), Op::Update, Some((key, after)))
    }

    /// Commits a change of all objects at once, in each partition.
    pub fn truncate(&self) {
        for partition in 0..self.made_with {
            self.add(Partition(partition), Op::Truncate, None);
        }
    }

    fn add(&self, partition: Partition, op: Op, of: Option<(Key, Row)>) -> u64 {
        let mut state = self.state();
        let id = state.changes.len() as u64 + 1;
        let (key, after) = of.unzip();
        state.changes.push(Change {
            feed: self.name.clone(),
            partition,
            position: Position::number(id),
            key,
            op,
            at: clock::wall(),
            before: None,
            after,
            id,
            prev: None,
        });
        self.newest.send_replace(id);
        id
    }

    /// Whether a change is one of this partition. One of all objects is in each of them.
    fn is_in(&self, change: &Change, partition: Partition) -> bool {
        let fewer = self.partitions.min(self.made_with).max(1);
        match &change.key {
            Some(key) => partition_of(key, self.partitions) == partition,
            None => change.partition.0 % fewer == partition.0 % fewer,
        }
    }

    fn of_partition(&self, changes: &[Change], partition: Partition) -> Vec<Change> {
        let of_partition = changes.iter().filter(|change| self.is_in(change, partition));
        of_partition.map(|change| Change { partition, ..change.clone() }).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, start: &Start) -> u64 {
        match start {
            Start::Beginning => 0,
            Start::Now => *self.newest.borrow(),
            Start::Position(position) => place(position),
            Start::Time(time) => {
                self.state().changes.iter().take_while(|change| change.at < *time).count() as u64
            }
        }
    }
}

fn place(position: &Position) -> u64 {
    position.as_number().unwrap_or(0)
}

fn book_name(consumer: &Consumer) -> String {
    format!("{}@{}", consumer.feed, consumer.store)
}

#[async_trait]
impl Feed for MemoryFeed {
    fn name(&self) -> &FeedName {
        &self.name
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError> {
        Ok(self.state().consumers.contains_key(&book_name(consumer)))
    }

    async fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        let state = self.state();
        let prefix = format!("{}@", self.name);
        let stores = state.consumers.keys().filter_map(|name| StoreId::new(name.strip_prefix(&prefix)?).ok());
        // How far each is, is kept by its store alone.
        let known = |store| Registered { store, begun: false, upto: None, seen_at: clock::wall() };
        Ok(stores.map(known).collect())
    }

    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        let start = self.start(start);
        Ok(Position::number(*self.state().consumers.entry(book_name(consumer)).or_insert(start)))
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let Some(from) = cursors.iter().map(|cursor| place(&cursor.after)).min() else {
            return Ok(Vec::new());
        };
        let mut state = self.state();
        state.read = state.changes.len() as u64;
        let next_group =
            cursors.iter().map(|cursor| place(&cursor.after)).filter(|after| *after > from).min();
        let newest = state.changes.len() as u64;
        let upto = newest.min(from + limit.rows as u64).min(next_group.unwrap_or(u64::MAX)).max(from);
        let looked_at = &state.changes[from as usize..upto as usize];
        let together = cursors.iter().filter(|cursor| place(&cursor.after) == from);
        let slice = |cursor: &Cursor| Slice {
            partition: cursor.partition,
            changes: self.of_partition(looked_at, cursor.partition).into(),
            upto: Position::number(upto),
            caught_up: upto == newest,
        };
        Ok(together.map(slice).collect())
    }

    fn may_be_read_ahead(&self) -> bool {
        true
    }

    async fn wait(&self, timeout: Duration) {
        let (mut newest, read) = (self.newest.subscribe(), self.state().read);
        drop(tokio::time::timeout(timeout, newest.wait_for(|newest| *newest > read)).await);
    }

    async fn consumed(&self, _: &Consumer, _: &[Position]) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError> {
        self.state().consumers.remove(&book_name(consumer));
        Ok(())
    }

    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        let start = self.start(start);
        self.state().consumers.insert(book_name(consumer), start);
        Ok(Position::number(start))
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        match position.as_number() {
            Some(place) if place <= *self.newest.borrow() => Ok(()),
            _ => Err(SourceError::needs_attention(
                format!("{position} is not a position of feed {}", self.name),
                format!("give a number from 0 to {}", *self.newest.borrow()),
            )),
        }
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        let state = self.state();
        let behind = |partition: Partition, after: u64| {
            state.changes.iter().skip(after as usize).filter(|change| self.is_in(change, partition)).count()
                as u64
        };
        let lag = |cursor: &Cursor| Lag {
            changes: Some(behind(cursor.partition, place(&cursor.after))),
            seconds: None,
        };
        Ok(cursors.iter().map(lag).collect())
    }

    async fn backfill(&self, _: &Position) -> Result<Option<Backfill>, SourceError> {
        Ok(None)
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        Ok(Vec::new())
    }

    fn resliced(&self, partitions: u32) -> Option<Arc<dyn Feed>> {
        Some(Arc::new(self.divided(partitions)))
    }

    async fn barrier(&self) -> Result<Position, SourceError> {
        Ok(Position::number(*self.newest.borrow()))
    }
}
