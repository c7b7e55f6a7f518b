//! **Notice.** Where changes come from.
//!
//! A [`Feed`] is one capture of one table of a database: a named, partitioned, ordered stream. Each
//! database's crate implements this contract; the host knows nothing else of it.
//!
//! ```text
//!   open ──▶ where a new consumer begins
//!   read ──▶ slices: for each partition asked for, its changes after a position, and how far that went
//!   wait ──▶ returns when another read may find more
//!   consumed ─▶ what nobody needs any more may be pruned
//! ```
//!
//! Positions are the feed's own: the host keeps them and hands them back. A slice says how far it *looked*
//! ([`Slice::upto`]), not only what it found, so a partition for which nothing happens still moves on.

pub(crate) mod ahead;
pub(crate) mod changes;
mod error;
pub(crate) mod filter;
mod install;
mod memory;
mod registered;
mod sliced;
pub mod window;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use changes::Changes;
pub use error::{Cause, SourceError};
pub use install::{Install, Installed, Shape, Slot};
pub use memory::MemoryFeed;
pub use registered::{Lost, Registered};
pub use sliced::Sliced;

#[cfg(doc)]
use crate::change::Change;
use crate::change::Position;
use crate::name::{FeedName, Partition, StoreId};
use crate::value::Key;

/// Where a new consumer of a feed begins. Ignored once there is a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The rows that exist already come first, then every change.
    Beginning,
    /// Only what is written from now on. Pinned when the feed is first opened.
    Now,
    /// Changes from this moment on, as far back as the source still has them.
    Time(Timestamp),
    /// What comes after a position that the source still retains.
    Position(Position),
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Start::Beginning => f.write_str("beginning"),
            Start::Now => f.write_str("now"),
            Start::Time(time) => time.fmt(f),
            Start::Position(position) => position.fmt(f),
        }
    }
}

/// Who consumes a feed, by the source's own books: retention waits for each consumer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    /// The feed's name.
    pub feed: FeedName,
    /// The store that keeps its checkpoints.
    pub store: StoreId,
}

/// One partition, and the position after which it wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The partition.
    pub partition: Partition,
    /// Everything up to and including this is already read.
    pub after: Position,
}

/// How much one read may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At most this many rows are looked at.
    pub rows: usize,
    /// No further row is added once the changes weigh this many bytes (see [`Change::weight`]).
    pub bytes: usize,
}

/// What a read found for one partition.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The partition.
    pub partition: Partition,
    /// Its changes, in order.
    pub changes: Changes,
    /// How far the read looked: the next one goes on after this.
    pub upto: Position,
    /// The read saw the end of what was committed when it began.
    pub caught_up: bool,
}

/// How far behind a partition is. `None` means unknown, never zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// Changes committed and not yet checkpointed.
    pub changes: Option<u64>,
    /// Age of the oldest of them by the source's clock; zero when there is none.
    pub seconds: Option<f64>,
}

/// How far the reading of existing rows has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// Rows read, over all partitions.
    pub done: u64,
    /// Rows that existed when it began.
    pub total: u64,
}

/// Something that holds a feed back, in words for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocker {
    /// What blocks, by name.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// The consumer that keeps changes from being pruned: that fills the source, and holds no other feed back.
    pub of: Option<Consumer>,
}

/// A consumer in a source's books, with what is watched for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watching {
    /// The feed, and the store that has its checkpoints.
    pub consumer: Consumer,
    /// The capture, by the word for it in the configuration.
    pub capture: String,
    /// The table, by its name when it was first watched or its present one.
    pub table: String,
    /// When the consumer was last heard of, by the source's clock.
    pub seen_at: Timestamp,
}

/// One capture of one table of a database, as a stream of changes.
///
/// # Promises
/// - Every change committed after the consumer's start is returned by a read of its key's partition. None is skipped,
///   however late its transaction commits.
/// - The changes of one key are all in one partition, in the order in which they committed.
/// - No two changes of a partition have the same position.
/// - Reading again after the same position returns the same changes with the same ids, as long as they are retained;
///   a position that retention has passed is an error, never a gap.
#[async_trait]
pub trait Feed: Send + Sync + 'static {
    /// The feed's name.
    fn name(&self) -> &FeedName;

    /// Into how many partitions the feed is sliced.
    fn partitions(&self) -> u32;

    /// Whether this consumer is in the source's books. One that has checkpoints in its store and is not was opened on
    /// another database: the source was replaced or restored, and the checkpoints mean nothing in it.
    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError>;

    /// The consumers of this feed, by its name and what it watches, that the source has in its books: one for each store. By them,
    /// a store that has lost the feed is told from one that never had it (see [`Lost`]). Empty where the source keeps no books.
    async fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        Ok(Vec::new())
    }

    /// Installs what is missing in the source, registers the consumer, and returns the position at which every
    /// partition of a new consumer begins. Calling it again changes nothing and returns the same position.
    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError>;

    /// Reads on for the cursors that stand furthest behind, in one pass, and returns a slice for each of them.
    ///
    /// A pass ends, at the latest, where another cursor stands: from there on both are read together. Rows of partitions
    /// that were not asked for are passed over. The caller sees to it that those in front get their turn too, by
    /// leaving out the others.
    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError>;

    /// Whether what was read stays true: a later read after the same position returns the same changes, with the same rows in
    /// them. Then the host may read before anybody asks, and keep what it read for a while.
    fn may_be_read_ahead(&self) -> bool {
        false
    }

    /// Whether the id of a change can be that of a later change, too: then a host cannot tell by ids what it has handled beyond
    /// its checkpoint.
    fn ids_come_back(&self) -> bool {
        false
    }

    /// Returns when something may have been committed since the last read began, or after `timeout`. A source that is sure to be told
    /// of it may wait longer.
    async fn wait(&self, timeout: Duration);

    /// The same for these partitions only. A source that is told whose changes were committed need not return for those of others.
    async fn wait_for(&self, partitions: &[Partition], timeout: Duration) {
        let _ = partitions;
        self.wait(timeout).await;
    }

    /// Tells the source that this consumer has handled everything up to these positions, one for each partition,
    /// so that it can prune, in small steps. Returns how many rows it pruned; more may be left for the next call.
    async fn consumed(&self, consumer: &Consumer, positions: &[Position]) -> Result<u64, SourceError>;

    /// Forgets the consumer; takes out what was installed when it was the last one.
    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError>;

    /// The position that a rewind to `start` means for this consumer. Moves the consumer's start in the source's books.
    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError>;

    /// Whether this position, given by a user, is one of the feed's and still retained.
    async fn validate(&self, position: &Position) -> Result<(), SourceError>;

    /// How far each partition is behind, in the order of the cursors. Reads only; cheap enough for a dashboard.
    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError>;

    /// How far a running backfill is for the partition at this position; `None` when the position is past it.
    async fn backfill(&self, at: &Position) -> Result<Option<Backfill>, SourceError>;

    /// What holds this feed back right now, if anything does.
    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError>;

    /// The same feed, divided into another number of partitions; `None` where that number cannot change. It has to be opened
    /// before it is read.
    fn resliced(&self, partitions: u32) -> Option<Arc<dyn Feed>> {
        let _ = partitions;
        None
    }

    /// A place at which partitions can end and others begin, for a feed that can be divided anew and has no backfill under way.
    ///
    /// It lies behind every place that was reached before, of all partitions. A cursor that stands there has every pass of those
    /// before it end there, with exactly this position.
    async fn barrier(&self) -> Result<Position, SourceError> {
        Err(SourceError::needs_attention(
            format!("the number of partitions of feed {} cannot change", self.name()),
            "set `partitions` as it was, or give the feed a new name to start it afresh",
        ))
    }

    /// For each key, the number whose remainder by the number of partitions is the key's partition.
    async fn hashes(&self, keys: &[Key]) -> Result<Vec<u64>, SourceError> {
        Ok(keys.iter().map(Key::hash).collect())
    }
}
