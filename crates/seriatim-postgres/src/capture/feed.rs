//! A capture as a feed: hands each call to its kind, and says what was being done when one fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::name::{FeedName, Partition};
use seriatim::source::{
    Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Registered, Slice, SourceError, Start,
};
use seriatim::value::Key;

use super::error::Fault;
use super::kind::Wrong;
use super::patience::Patience;
use super::{Capture, books, registry};
use crate::sequencer::Share;

/// How often a reader looks that waits for the relay.
const BEHIND: Duration = Duration::from_millis(10);

impl Capture {
    pub(super) fn told<T>(&self, outcome: Result<T, Fault>, doing: &'static str) -> Result<T, SourceError> {
        outcome.map_err(|fault| fault.while_doing(&self.base.database, doing))
    }

    /// Opens the feed. Any number of hosts may do so in the same moment: the first one installs and registers.
    pub(super) async fn opened(
        &self,
        consumer: &Consumer,
        start: &Start,
        wrong: Wrong,
    ) -> Result<Position, Fault> {
        let mut patience = Patience::new();
        loop {
            match self.kind.open(&self.base, consumer, start, wrong).await {
                Err(fault) => patience.again(fault, &self.base.settings.names).await?,
                opened => return opened,
            }
        }
    }

    /// Returns when there is news for this share of the partitions, since the last read.
    async fn hear(&self, share: Option<Share<'_>>, timeout: Duration) {
        let known = self.known.load(Ordering::Relaxed);
        let every = self.base.settings.every.min(timeout);
        if self.kind.is_behind() {
            // Nobody tells when the relay has come to where it is waited for.
            return self.base.sequencer.more_than(self.kind.subject(), known, every.min(BEHIND)).await;
        }
        self.base.sequencer.news(self.kind.subject(), known, share, every).await;
    }

    async fn is_registered(&self, consumer: &Consumer) -> Result<bool, Fault> {
        let client = self.base.database.client().await?;
        Ok(registry::registration(&client, &self.base.database, consumer).await?.is_some())
    }
}

#[async_trait]
impl Feed for Capture {
    fn name(&self) -> &FeedName {
        &self.base.settings.names.feed
    }

    fn partitions(&self) -> u32 {
        self.base.settings.partitions
    }

    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError> {
        self.told(self.is_registered(consumer).await, "looking at the consumers of")
    }

    async fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        self.told(books::registered(&self.base).await, "looking at the consumers of")
    }

    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.told(self.refuse_settings().await, "looking at a table of")?;
        let opened = self.opened(consumer, start, Wrong::Refuse).await;
        self.told(opened, "watching a table of")
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let subject = self.kind.subject();
        self.known.store(self.base.sequencer.told(subject), Ordering::Relaxed);
        let read = self.kind.read(&self.base, cursors, limit).await;
        let names = &self.base.settings.names;
        let read = read.map_err(|fault| fault.of_filter(self.base.settings.filter.as_deref(), names));
        if self.kind.subject() != subject {
            // It is counted anew from here on: the next wait is none.
            self.known.store(0, Ordering::Relaxed);
        }
        self.told(read, "reading changes of")
    }

    fn may_be_read_ahead(&self) -> bool {
        self.kind.may_be_read_ahead()
    }

    /// Waits for the sequencer's word. What it does not tell of is found by a look every half minute.
    async fn wait(&self, timeout: Duration) {
        self.hear(None, timeout).await;
    }

    async fn wait_for(&self, partitions: &[Partition], timeout: Duration) {
        self.hear(Some(Share { partitions, of: self.base.settings.partitions }), timeout).await;
    }

    async fn consumed(&self, consumer: &Consumer, positions: &[Position]) -> Result<u64, SourceError> {
        let pruned = self.kind.consumed(&self.base, consumer, positions).await;
        self.told(pruned, "pruning changes of")
    }

    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError> {
        self.told(self.kind.close(&self.base, consumer).await, "ending the watch of a table of")
    }

    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.told(self.kind.rewind(&self.base, consumer, start).await, "rewinding a feed of")
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        self.told(self.kind.validate(&self.base, position).await, "checking a position in")
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        self.told(self.kind.lag(&self.base, cursors).await, "counting changes of")
    }

    async fn backfill(&self, at: &Position) -> Result<Option<Backfill>, SourceError> {
        self.told(self.kind.backfill(&self.base, at).await, "counting rows of")
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        self.told(self.kind.blockers(&self.base).await, "looking at what holds up")
    }

    fn resliced(&self, partitions: u32) -> Option<Arc<dyn Feed>> {
        Some(Arc::new(self.divided(partitions)))
    }

    async fn barrier(&self) -> Result<Position, SourceError> {
        self.told(self.kind.barrier(&self.base).await, "finding a barrier in")
    }

    async fn hashes(&self, keys: &[Key]) -> Result<Vec<u64>, SourceError> {
        self.told(self.kind.hashes(&self.base, keys).await, "hashing keys of")
    }
}
