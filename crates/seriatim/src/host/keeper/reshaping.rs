//! Changing the number of a feed's partitions: carries out what [`Layout::next_step`] says.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::super::FeedRuntime;
use super::Keeper;
use crate::clock;
use crate::lease::{
    Judged, JudgedLease, Layout, Lease, LeaseId, LeaseView, NextStep, Part, Reshape, Sighting,
};
use crate::name::{FeedName, Partition};
use crate::source::SourceError;
use crate::store::{Release, StoreError};

const ROWS_FIRST: &str = "rows that existed before are read first";

/// Why a step was not done.
enum NotDone {
    Store(StoreError),
    Source(SourceError),
}

impl From<StoreError> for NotDone {
    fn from(error: StoreError) -> Self {
        NotDone::Store(error)
    }
}

impl From<SourceError> for NotDone {
    fn from(error: SourceError) -> Self {
        NotDone::Source(error)
    }
}

/// Whether a lease has come to its end, and nobody has it.
pub(super) fn has_ended(lease: &LeaseView) -> bool {
    lease.owner.is_none() && lease.part.as_ref().is_some_and(|part| part.ends_at(&lease.position))
}

/// The leases of a feed among all.
fn of_feed<'l>(judged: &'l Judged, feed: &FeedName) -> Vec<&'l LeaseView> {
    judged.leases.iter().map(|judged| &judged.lease).filter(|lease| lease.id.feed == *feed).collect()
}

/// Without the leases that nobody may run now.
pub(super) fn runnable(judged: &Judged) -> Cow<'_, Judged> {
    let changes = |lease: &&JudgedLease| lease.lease.part.as_ref().is_some_and(Part::is_changing);
    let feeds: BTreeSet<&FeedName> =
        judged.leases.iter().filter(changes).map(|lease| &lease.lease.id.feed).collect();
    if feeds.is_empty() {
        return Cow::Borrowed(judged);
    }
    let waiting = |feed: &&FeedName| {
        let leases = of_feed(judged, feed);
        let layout = Layout::of(&leases);
        leases.iter().filter(|lease| !layout.may_run(lease)).map(|lease| lease.id.clone()).collect::<Vec<_>>()
    };
    let waiting: BTreeSet<LeaseId> = feeds.iter().flat_map(waiting).collect();
    let mut runnable = judged.clone();
    runnable.leases.retain(|lease| !waiting.contains(&lease.lease.id));
    Cow::Owned(runnable)
}

impl Keeper {
    /// Which part of its feed a lease is on.
    pub(super) fn part_of(&self, lease: &Lease) -> Part {
        let of_feed = |seen: &&LeaseView| seen.id.feed == lease.id.feed && seen.part.is_none();
        let first = || Part::of_first(self.sight.leases().iter().filter(of_feed).count() as u32);
        lease.part.clone().unwrap_or_else(first)
    }

    /// Does what is next for each feed whose number of partitions changes. Says whether leases are not as they were judged any more.
    pub(super) async fn reshape(&mut self, judged: &Judged) -> bool {
        if self.until == super::Until::ShutDownOnlyParked || !self.store.reshapes() {
            return false;
        }
        let mut has_moved = false;
        let feeds: Vec<_> = self.feeds.values().cloned().collect();
        for feed in feeds {
            let leases = of_feed(judged, &feed.consumer.feed);
            let wanted = feed.change.count();
            if wanted.is_none() && leases.iter().all(|lease| lease.part.is_none()) {
                continue;
            }
            match self.step(&feed, judged, &leases).await {
                Ok(done) => has_moved |= done,
                Err(NotDone::Source(error @ SourceError::NeedsAttention { .. })) => {
                    self.stop_feed(&feed.consumer.feed, error.to_string());
                }
                Err(NotDone::Source(error)) => {
                    tracing::warn!(feed = %feed.consumer.feed, %error, "cannot change the partitions; trying again");
                }
                Err(NotDone::Store(error)) => {
                    tracing::warn!(feed = %feed.consumer.feed, %error, "cannot change the partitions; trying again");
                }
            }
        }
        has_moved
    }

    async fn step(
        &mut self,
        feed: &FeedRuntime,
        judged: &Judged,
        leases: &[&LeaseView],
    ) -> Result<bool, NotDone> {
        let (name, layout) = (&feed.consumer.feed, Layout::of(leases));
        let can_be_had = |lease: &LeaseView| {
            judged.leases.iter().any(|judged| judged.lease.id == lease.id && judged.available)
        };
        if feed.change.count() == Some(layout.count()) {
            feed.change.is_done();
        }
        match layout.next_step(feed.change.count(), can_be_had) {
            NextStep::Wait => Ok(false),
            NextStep::Announce(count) => {
                let fills = self.fills(feed, leases).await?;
                feed.change.waits_for(fills.then_some(ROWS_FIRST));
                let done = !fills && self.carry_out_step(name, leases, &layout.announce(count)).await?;
                if done {
                    tracing::info!(feed = %name, "its partitions change to {count}: all of them stop for the barrier");
                    feed.change.is_done();
                }
                Ok(done)
            }
            NextStep::Free(left) => self.free(judged, name, &left).await,
            NextStep::Divide => {
                let barrier = feed.feed.barrier().await?;
                let done = self.carry_out_step(name, leases, &layout.divide(&barrier)).await?;
                if done {
                    tracing::info!(feed = %name, %barrier, "new partitions begin at the barrier, once the others have come there");
                }
                Ok(done)
            }
            NextStep::Remove(old) => {
                let parked = self.store.parked(name, None).await?;
                let is_empty = parked.iter().all(|object| !old.contains(&object.partition));
                let done = is_empty && self.carry_out_step(name, leases, &layout.remove(&old)).await?;
                if done {
                    tracing::info!(feed = %name, "its partitions have changed");
                }
                Ok(done)
            }
        }
    }

    /// Whether existing rows are still read for one of the partitions.
    async fn fills(&self, feed: &FeedRuntime, leases: &[&LeaseView]) -> Result<bool, SourceError> {
        for lease in leases {
            if feed.feed.backfill(&lease.position).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn carry_out_step(
        &mut self,
        feed: &FeedName,
        leases: &[&LeaseView],
        step: &Reshape,
    ) -> Result<bool, StoreError> {
        let seen: Vec<LeaseView> = leases.iter().copied().cloned().collect();
        let done = self.store.reshape(feed, &seen, step).await?;
        self.sight.forget();
        self.look_at = Some(clock::now() + super::AT_MOST_EVERY);
        Ok(done)
    }

    /// Takes leases that nobody runs any more from owners that are gone, under new epochs, and gives them up.
    async fn free(&mut self, judged: &Judged, feed: &FeedName, left: &[Partition]) -> Result<bool, NotDone> {
        if self.is_too_late() {
            return Ok(false);
        }
        let is_left = |lease: &&JudgedLease| {
            let id = &lease.lease.id;
            id.feed == *feed && left.contains(&id.partition) && !self.owned.contains_key(id)
        };
        let seen: Vec<Sighting> = judged.leases.iter().filter(is_left).map(JudgedLease::sighting).collect();
        for seen in seen.chunks(super::AT_ONCE) {
            let taken = self.store.acquire_all(&self.session, seen).await?;
            let releases: Vec<Release> =
                taken.into_iter().flatten().map(|lease| Release { lease, keep_for: None }).collect();
            if let Err(error) = self.store.release_all(&releases).await {
                releases.into_iter().for_each(|release| self.abandon(release, None));
                return Err(error.into());
            }
        }
        self.sight.forget();
        self.look_at = Some(clock::now() + super::AT_MOST_EVERY);
        Ok(true)
    }
}
