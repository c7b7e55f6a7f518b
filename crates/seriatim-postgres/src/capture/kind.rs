//! What each kind of capture does in its own way.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::source::{Backfill, Blocker, Consumer, Cursor, Installed, Lag, Limit, Slice, Slot, Start};
use seriatim::value::Key;

use super::error::Fault;
use super::settings::Settings;
use super::wal::{Relay, SlotNames};
use crate::database::Database;
use crate::sequencer::{Sequencer, Subject};

/// Who writes what a capture reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Triggers on the table, in the writers' own transactions.
    Triggers,
    /// The relay, from the server's log.
    Relay,
}

impl Writer {
    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Writer::Triggers => "triggers",
            Writer::Relay => "relay",
        }
    }

    /// The one that this word stands for.
    pub(crate) fn parse(text: &str) -> Self {
        if text == "relay" { Writer::Relay } else { Writer::Triggers }
    }
}

/// What all kinds of captures have.
#[derive(Clone)]
pub(crate) struct Base {
    pub database: Database,
    pub sequencer: Arc<Sequencer>,
    pub settings: Settings,
    pub writer: Writer,
    /// Fills journals from the server's log, where this process has a turn.
    pub relay: Arc<Relay>,
    /// What the relay's slot and publication are to be called.
    pub slot: SlotNames,
}

/// What to do when the triggers of a registered consumer are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Say so.
    Refuse,
    /// Put them back.
    Repair,
}

/// One kind of capture. The methods are those of [`Feed`](seriatim::source::Feed) and [`Capture`](super::Capture).
#[async_trait]
pub(crate) trait Capturing: Send + Sync {
    async fn check(&self, base: &Base) -> Result<Installed, Fault>;
    async fn install_sql(&self, base: &Base) -> Result<String, Fault>;
    async fn tail_start(&self, base: &Base) -> Result<Position, Fault>;
    /// A place behind all that was ever read, at which partitions may end and others begin.
    async fn barrier(&self, base: &Base) -> Result<Position, Fault> {
        self.tail_start(base).await
    }
    /// For each key, the number whose remainder by the number of partitions is its partition.
    async fn hashes(&self, base: &Base, keys: &[Key]) -> Result<Vec<u64>, Fault>;
    /// The oldest position that is retained, where the kind knows it at once.
    async fn oldest(&self, _base: &Base) -> Result<Option<Position>, Fault> {
        Ok(None)
    }
    async fn open(
        &self,
        base: &Base,
        consumer: &Consumer,
        start: &Start,
        wrong: Wrong,
    ) -> Result<Position, Fault>;
    /// The capture that notifications name, as soon as it is known.
    fn subject(&self) -> Option<Subject>;
    async fn read(&self, base: &Base, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, Fault>;
    fn may_be_read_ahead(&self) -> bool {
        false
    }
    async fn consumed(&self, base: &Base, consumer: &Consumer, positions: &[Position]) -> Result<u64, Fault>;
    async fn close(&self, base: &Base, consumer: &Consumer) -> Result<(), Fault>;
    async fn rewind(&self, base: &Base, consumer: &Consumer, start: &Start) -> Result<Position, Fault>;
    async fn validate(&self, base: &Base, position: &Position) -> Result<(), Fault>;
    async fn lag(&self, base: &Base, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault>;
    async fn backfill(&self, base: &Base, at: &Position) -> Result<Option<Backfill>, Fault>;
    async fn blockers(&self, base: &Base) -> Result<Vec<Blocker>, Fault>;
    /// The slot that it is filled from, where there is one.
    async fn slot(&self, _base: &Base) -> Result<Option<Slot>, Fault> {
        Ok(None)
    }
    /// There may be changes that nobody tells of: a reader looks again soon.
    fn is_behind(&self) -> bool {
        false
    }
}
