//! A database whose transactions take their time: writes are numbered when they are made, seen when they are committed, and a
//! sequencer gives the committed ones their places.
//!
//! ```text
//!   write (id drawn, the object locked) ── … ──▶ commit ──▶ sequencer: places, then published ──▶ readers
//! ```
//!
//! The sequencer is a transaction too: it takes what is committed and has no place yet, and publishes it a moment later. One
//! at a time, or a higher place is published before a lower one and readers pass that one by for ever.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition};
use seriatim::order::partition_of;
use seriatim::simulation::{Mutant, has};
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Slice, SourceError, Start};
use seriatim::store::StoreError;
use seriatim::value::{Columns, Key, Row, Value};
use tokio::sync::watch;

use super::history::{EVERYTHING, What};
use super::plan::Scene;
use super::scheduler::beginning;
use super::store::{feed_number, place};
use super::world::{Link, draw, here, record};

#[derive(Clone, Debug)]
struct Written {
    key: i64,
    partition: Partition,
    id: u64,
    committed: bool,
    place: Option<u64>,
    published: bool,
}

#[derive(Debug, Default)]
struct Tables {
    rows: Vec<Written>,
    locked: BTreeSet<i64>,
    places: u64,
    sequencing: bool,
}

impl Tables {
    fn add(&mut self, key: i64, partition: Partition, transaction: &mut Transaction) {
        let id = self.rows.len() as u64 + 1;
        self.rows.push(Written { key, partition, id, committed: false, place: None, published: false });
        transaction.ids.push(id);
        transaction.keys.push(key);
    }
}

/// A feed in a database; clones share it.
#[derive(Clone, Debug)]
pub struct Database {
    /// The feed's name.
    pub feed: FeedName,
    partitions: u32,
    tables: Arc<Mutex<Tables>>,
    news: watch::Sender<u64>,
}

/// A transaction's writes, by their ids.
#[derive(Debug)]
pub struct Transaction {
    ids: Vec<u64>,
    keys: Vec<i64>,
}

impl Database {
    /// An empty table.
    pub fn new(feed: &str, partitions: u32) -> Self {
        let feed = FeedName::new(feed).expect("the name of a feed");
        Database { feed, partitions, tables: Arc::default(), news: watch::Sender::new(0) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to these objects, those that no other transaction has locked, in a transaction that stays open.
    pub fn write(&self, keys: &[i64]) -> Transaction {
        let mut tables = self.tables();
        let mut transaction = Transaction { ids: Vec::new(), keys: Vec::new() };
        for key in keys {
            let mine = transaction.keys.contains(key);
            if !mine && (tables.locked.contains(&EVERYTHING) || !tables.locked.insert(*key)) {
                continue;
            }
            tables.add(*key, partition_of(&self::key(*key), self.partitions), &mut transaction);
        }
        transaction
    }

    /// Writes to all objects at once, once in each partition, unless another transaction has locked one.
    pub fn truncate(&self) -> Transaction {
        let mut tables = self.tables();
        let mut transaction = Transaction { ids: Vec::new(), keys: Vec::new() };
        if tables.locked.is_empty() {
            tables.locked.insert(EVERYTHING);
            (0..self.partitions)
                .for_each(|partition| tables.add(EVERYTHING, Partition(partition), &mut transaction));
        }
        transaction
    }

    /// Commits.
    pub fn commit(&self, transaction: Transaction) {
        let mut tables = self.tables();
        let feed = feed_number(&self.feed);
        for id in transaction.ids {
            let row = &mut tables.rows[id as usize - 1];
            row.committed = true;
            record(What::Committed { feed, partition: row.partition.0, key: row.key, change: id });
        }
        tables.locked.retain(|key| !transaction.keys.contains(key));
        drop(tables);
        self.news.send_modify(|news| *news += 1);
    }

    /// Gives places to what is committed. Takes a moment, during which nobody else may do the same.
    async fn sequence(&self) {
        let Some(taken) = self.take_unsequenced() else { return };
        let sequencing = Sequencing { database: self.clone(), taken };
        let moment = draw(|random| if random.bool() { random.u64(1..100) } else { 0 });
        if moment > 0 {
            tokio::time::sleep(Duration::from_millis(moment)).await;
        }
        sequencing.publish();
    }

    fn take_unsequenced(&self) -> Option<Vec<u64>> {
        let mut tables = self.tables();
        if tables.sequencing && !has(Mutant::SequencerWithoutLock) {
            return None;
        }
        let found: Vec<u64> =
            tables.rows.iter().filter(|row| row.committed && row.place.is_none()).map(|row| row.id).collect();
        if found.is_empty() {
            return None;
        }
        tables.sequencing = true;
        for id in &found {
            tables.places += 1;
            // A reader that goes by ids needs no places.
            let place = if has(Mutant::PositionsBeforeCommit) { *id } else { tables.places };
            tables.rows[*id as usize - 1].place = Some(place);
        }
        Some(found)
    }

    /// The last place that readers can see.
    pub fn newest(&self) -> u64 {
        let tables = self.tables();
        tables.rows.iter().filter(|row| row.published).filter_map(|row| row.place).max().unwrap_or(0)
    }

    /// Whether all that is written is committed and can be seen.
    pub fn is_settled(&self) -> bool {
        self.tables().rows.iter().all(|row| row.published)
    }

    fn change(&self, row: &Written, partitions: u32) -> Change {
        let of_one = row.key != EVERYTHING;
        let partition = if of_one { partition_of(&key(row.key), partitions) } else { row.partition };
        let values = [Value::Integer(row.key), Value::Integer(row.id as i64)];
        Change {
            feed: self.feed.clone(),
            partition,
            position: Position::number(row.place.unwrap_or(0)),
            key: of_one.then(|| key(row.key)),
            op: if of_one { Op::Update } else { Op::Truncate },
            at: beginning(),
            before: None,
            after: of_one.then(|| Row::new(Columns::new(["id", "value"]), values)),
            id: row.id,
            prev: None,
        }
    }

    fn read(&self, cursors: &[Cursor], limit: Limit, partitions: u32) -> Vec<Slice> {
        let tables = self.tables();
        let Some(from) = cursors.iter().map(|cursor| place(&cursor.after)).min() else { return Vec::new() };
        let others = cursors.iter().map(|cursor| place(&cursor.after)).filter(|after| *after > from).min();
        let mut rows: Vec<&Written> =
            tables.rows.iter().filter(|row| row.published && row.place > Some(from)).collect();
        rows.sort_by_key(|row| row.place);
        let newest = rows.last().and_then(|row| row.place).unwrap_or(from);
        rows.truncate(limit.rows.min(7));
        let upto = rows.last().and_then(|row| row.place).unwrap_or(from).min(others.unwrap_or(u64::MAX));
        let together = cursors.iter().filter(|cursor| place(&cursor.after) == from);
        let slice = |cursor: &Cursor| {
            let changes =
                rows.iter().filter(|row| row.place <= Some(upto)).map(|row| self.change(row, partitions));
            let changes: Vec<Change> =
                changes.filter(|change| change.partition == cursor.partition).collect();
            let upto_position = Position::number(upto);
            Slice {
                partition: cursor.partition,
                changes: changes.into(),
                upto: upto_position,
                caught_up: upto == newest,
            }
        };
        together.map(slice).collect()
    }
}

/// A sequencer's transaction. Unless it is published, nothing of it happened.
struct Sequencing {
    database: Database,
    taken: Vec<u64>,
}

impl Sequencing {
    fn publish(mut self) {
        let mut tables = self.database.tables();
        for id in std::mem::take(&mut self.taken) {
            let row = &mut tables.rows[id as usize - 1];
            row.published = true;
            let (feed, position) = (feed_number(&self.database.feed), row.place.unwrap_or(0));
            record(What::Sequenced { feed, change: id, position });
        }
        tables.sequencing = false;
        drop(tables);
        self.database.news.send_modify(|news| *news += 1);
    }
}

impl Drop for Sequencing {
    fn drop(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let mut tables = self.database.tables();
        self.taken.iter().for_each(|id| tables.rows[*id as usize - 1].place = None);
        tables.sequencing = false;
    }
}

fn key(key: i64) -> Key {
    Key::of("id", Value::Integer(key))
}

/// The feed as one life of a host reaches it.
#[derive(Clone)]
pub struct SimFeed {
    /// The database.
    pub database: Database,
    /// The way to it.
    pub link: Link,
    /// Into how many partitions it is divided.
    pub partitions: u32,
}

fn in_source(error: StoreError) -> SourceError {
    SourceError::unavailable("reading", error)
}

#[async_trait]
impl Feed for SimFeed {
    fn name(&self) -> &FeedName {
        &self.database.feed
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    async fn knows(&self, _: &Consumer) -> Result<bool, SourceError> {
        Ok(true)
    }

    async fn open(&self, _: &Consumer, _: &Start) -> Result<Position, SourceError> {
        Ok(Position::number(0))
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let (database, cursors, partitions) = (self.database.clone(), cursors.to_vec(), self.partitions);
        let read = async move {
            database.sequence().await;
            Ok::<_, StoreError>(database.read(&cursors, limit, partitions))
        };
        self.link.call("read the source", read).await.map_err(in_source)
    }

    fn may_be_read_ahead(&self) -> bool {
        // Each life of a host does it in one way or the other.
        draw(|random| random.bool())
    }

    async fn wait(&self, timeout: Duration) {
        let mut news = self.database.news.subscribe();
        drop(tokio::time::timeout(timeout, news.changed()).await);
    }

    async fn consumed(&self, _: &Consumer, _: &[Position]) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn close(&self, _: &Consumer) -> Result<(), SourceError> {
        Ok(())
    }

    async fn rewind(&self, _: &Consumer, _: &Start) -> Result<Position, SourceError> {
        Ok(Position::number(0))
    }

    async fn validate(&self, _: &Position) -> Result<(), SourceError> {
        Ok(())
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        Ok(cursors.iter().map(|_| Lag { changes: None, seconds: None }).collect())
    }

    async fn backfill(&self, _: &Position) -> Result<Option<Backfill>, SourceError> {
        Ok(None)
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        Ok(Vec::new())
    }

    fn resliced(&self, partitions: u32) -> Option<Arc<dyn Feed>> {
        let divided = || Arc::new(SimFeed { partitions, ..self.clone() }) as Arc<dyn Feed>;
        (here().plan.scene == Scene::Divided).then(divided)
    }

    async fn barrier(&self) -> Result<Position, SourceError> {
        let database = self.database.clone();
        let find = async move { Ok::<_, StoreError>(Position::number(database.newest())) };
        self.link.call("find a barrier", find).await.map_err(in_source)
    }
}
