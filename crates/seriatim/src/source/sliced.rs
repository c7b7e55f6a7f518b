//! A feed as the partitions of one of its layouts see it: numbered from wherever they are, and up to where they end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Backfill, Blocker, Consumer, Cursor, Feed, Lag, Limit, Registered, Slice, SourceError, Start};
use crate::change::Position;
use crate::lease::{Layout, LeaseView, Part};
use crate::name::{FeedName, Partition};
use crate::value::Key;

/// The partition of a cursor that only stands at the end, so that no pass goes beyond it. No key is in it.
const NOBODY: Partition = Partition(u32::MAX);

/// A feed whose partitions are numbered from `first` on, and read up to a place at most.
pub struct Sliced {
    feed: Arc<dyn Feed>,
    first: u32,
    upto: Option<Position>,
}

impl Sliced {
    /// The feed as the partitions of this part see it. `None` where a feed cannot be divided into another number of partitions.
    pub fn of(feed: &Arc<dyn Feed>, part: &Part) -> Option<Arc<dyn Feed>> {
        let resliced = match feed.partitions() == part.count {
            true => Arc::clone(feed),
            false => feed.resliced(part.count)?,
        };
        match (part.first, &part.upto) {
            (0, None) => Some(resliced),
            (first, upto) => Some(Arc::new(Sliced { feed: resliced, first, upto: upto.clone() })),
        }
    }

    /// How far behind the partitions of these leases are, which are all leases of the feed, in their order. `feed` may be divided
    /// into any number of partitions.
    pub async fn lags(feed: &Arc<dyn Feed>, leases: &[&LeaseView]) -> Result<Vec<Lag>, SourceError> {
        let layout = Layout::of(leases);
        let mut lags = vec![Lag { changes: Some(0), seconds: Some(0.0) }; leases.len()];
        let parts: Vec<Part> = leases.iter().map(|lease| layout.part(lease)).collect();
        let behind = |place: &usize| !layout.has_ended(leases[*place]);
        let mut places: Vec<usize> = (0..leases.len()).filter(behind).collect();
        while let Some(first) = places.first().copied() {
            let part = &parts[first];
            let together =
                |place: &usize| (parts[*place].first, parts[*place].count) == (part.first, part.count);
            let (these, others) = places.into_iter().partition::<Vec<usize>, _>(together);
            let cursor = |place: &usize| Cursor {
                partition: leases[*place].id.partition,
                after: leases[*place].position.clone(),
            };
            let cursors: Vec<Cursor> = these.iter().map(cursor).collect();
            let sliced = Sliced::of(feed, part).unwrap_or_else(|| Arc::clone(feed));
            for (place, lag) in these.iter().zip(sliced.lag(&cursors).await?) {
                lags[*place] = lag;
            }
            places = others;
        }
        Ok(lags)
    }

    fn inside(&self, cursor: &Cursor) -> Cursor {
        Cursor { partition: self.numbered_inside(cursor.partition), after: cursor.after.clone() }
    }

    fn numbered_inside(&self, partition: Partition) -> Partition {
        Partition(partition.0.saturating_sub(self.first))
    }

    fn outside(&self, slice: Slice) -> Slice {
        let partition = Partition(slice.partition.0 + self.first);
        Slice { partition, changes: slice.changes.renumbered(partition), ..slice }
    }

    /// Nothing is left to read for a partition that stands at the end.
    fn at_the_end(&self, cursor: &Cursor) -> Option<Slice> {
        let upto = self.upto.as_ref().filter(|upto| **upto == cursor.after)?.clone();
        Some(Slice { partition: cursor.partition, changes: Vec::new().into(), upto, caught_up: true })
    }
}

#[async_trait]
impl Feed for Sliced {
    fn name(&self) -> &FeedName {
        self.feed.name()
    }

    fn partitions(&self) -> u32 {
        self.feed.partitions()
    }

    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError> {
        self.feed.knows(consumer).await
    }

    async fn registered(&self) -> Result<Vec<Registered>, SourceError> {
        self.feed.registered().await
    }

    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.feed.open(consumer, start).await
    }

    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        let ended: Vec<Slice> = cursors.iter().filter_map(|cursor| self.at_the_end(cursor)).collect();
        if ended.len() == cursors.len() {
            return Ok(ended);
        }
        let going_on = cursors.iter().filter(|cursor| self.at_the_end(cursor).is_none());
        let mut inside: Vec<Cursor> = going_on.map(|cursor| self.inside(cursor)).collect();
        // A pass ends where another cursor stands.
        inside.extend(self.upto.iter().map(|upto| Cursor { partition: NOBODY, after: upto.clone() }));
        let slices = self.feed.read(&inside, limit).await?;
        Ok(slices
            .into_iter()
            .filter(|slice| slice.partition != NOBODY)
            .map(|slice| self.outside(slice))
            .collect())
    }

    fn may_be_read_ahead(&self) -> bool {
        self.feed.may_be_read_ahead()
    }

    fn ids_come_back(&self) -> bool {
        self.feed.ids_come_back()
    }

    async fn wait(&self, timeout: Duration) {
        self.feed.wait(timeout).await;
    }

    async fn wait_for(&self, partitions: &[Partition], timeout: Duration) {
        let inside: Vec<Partition> =
            partitions.iter().map(|partition| self.numbered_inside(*partition)).collect();
        self.feed.wait_for(&inside, timeout).await;
    }

    async fn consumed(&self, consumer: &Consumer, positions: &[Position]) -> Result<u64, SourceError> {
        self.feed.consumed(consumer, positions).await
    }

    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError> {
        self.feed.close(consumer).await
    }

    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.feed.rewind(consumer, start).await
    }

    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        self.feed.validate(position).await
    }

    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        let inside: Vec<Cursor> = cursors.iter().map(|cursor| self.inside(cursor)).collect();
        self.feed.lag(&inside).await
    }

    async fn backfill(&self, at: &Position) -> Result<Option<Backfill>, SourceError> {
        self.feed.backfill(at).await
    }

    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        self.feed.blockers().await
    }

    async fn barrier(&self) -> Result<Position, SourceError> {
        self.feed.barrier().await
    }

    async fn hashes(&self, keys: &[Key]) -> Result<Vec<u64>, SourceError> {
        self.feed.hashes(keys).await
    }
}
