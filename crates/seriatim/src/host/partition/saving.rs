//! When a partition's checkpoint is written, and what follows from that.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{CheckpointPolicy, Closed, News, Running, Until};
use crate::change::Position;
use crate::clock;
use crate::store::{Checkpoint, CheckpointError, StoreError};
use crate::value::Key;

/// A partition that only looked and found nothing moves its checkpoint this rarely.
const IDLE_CHECKPOINT: Duration = Duration::from_secs(1);

/// A checkpoint that was tried.
pub(super) struct Saved {
    position: Position,
    /// The first place that it did not pass.
    passed: u64,
    /// How many changes it parked, and how many objects it took changes of out.
    parked: usize,
    unparked: usize,
    result: Result<(), CheckpointError>,
}

impl Running {
    pub(super) fn start_checkpoint(&mut self, closing: bool) {
        let due = closing || self.checkpoint_due().is_some_and(|due| due <= clock::now());
        let nothing_flies = self.flying.is_empty() && self.tailing.is_empty();
        let free = self.saving.is_empty() && (nothing_flies || !self.is_transactional());
        if !due || !free || !self.has_something_to_save() {
            return;
        }
        let aside = self.lanes.take_passed_aside();
        aside.iter().for_each(|parking| self.note_kept(parking));
        self.parkings.extend(aside);
        let passed = self.lanes.passed();
        let position = self.lanes.low_water().unwrap_or(&self.saved).clone();
        #[cfg(feature = "simulation")]
        let position = match crate::simulation::has(crate::simulation::Mutant::TrackerBeforeProcess) {
            true => self.read.clone(),
            false => position,
        };
        let (parked, unparked) = (self.parkings.clone(), self.unparkings.clone());
        let chained = self.chain.passed(passed);
        let checkpoint = Checkpoint { position: position.clone(), unparked, parked, chained };
        let (store, lease) = (Arc::clone(&self.setup.store), Arc::clone(&self.lease));
        self.worked = false;
        self.done = 0;
        self.saving.spawn(async move {
            let result = store.checkpoint(&lease, &checkpoint).await;
            Saved {
                position,
                passed,
                parked: checkpoint.parked.len(),
                unparked: checkpoint.unparked.len(),
                result,
            }
        });
    }

    pub(super) fn has_something_to_save(&self) -> bool {
        if self.store_knows_better {
            return false;
        }
        let moved = self.lanes.low_water().is_some_and(|mark| *mark != self.saved);
        moved || self.has_parking_to_save()
    }

    fn has_parking_to_save(&self) -> bool {
        !self.parkings.is_empty() || !self.unparkings.is_empty() || self.lanes.has_passed_aside()
    }

    /// When the next checkpoint should be written; `None` while there is nothing to write.
    pub(super) fn checkpoint_due(&self) -> Option<Instant> {
        if !self.saving.is_empty() || !self.has_something_to_save() {
            return None;
        }
        if self.is_transactional() && !(self.flying.is_empty() && self.tailing.is_empty()) {
            return None;
        }
        let at_the_end = self.setup.feed.until == Until::CaughtUp && self.caught_up && self.lanes.held() == 0;
        if at_the_end || self.has_parking_to_save() {
            return Some(self.saved_at);
        }
        match self.setup.feed.settings.checkpoint {
            _ if !self.worked => Some(self.saved_at + IDLE_CHECKPOINT),
            CheckpointPolicy::Batch | CheckpointPolicy::Manual => Some(self.saved_at),
            CheckpointPolicy::Changes(count) => (self.done >= count).then_some(self.saved_at),
            // The first one after opening comes at once.
            CheckpointPolicy::Time(pause) if self.has_saved => Some(self.saved_at + pause),
            CheckpointPolicy::Time(_) => Some(self.saved_at),
        }
    }

    pub(super) fn checkpointed(&mut self, saved: Saved) -> Option<Closed> {
        match saved.result {
            Ok(()) => {
                self.saved = saved.position;
                self.saved_upto = saved.passed;
                self.chain.saved(saved.passed);
                self.saved_at = clock::now();
                self.has_saved = true;
                self.setup.feed.stats.count_checkpoint();
                self.note_stored(saved.parked, saved.unparked);
                self.tell_when_caught_up();
                None
            }
            Err(CheckpointError::Fenced { by }) => Some(Closed::Lost(format!("its epoch is {by} now"))),
            // It may have happened, or be about to: late, it would undo the next one, whose epoch is the same. Taking the lease anew
            // fences it, and reads the truth.
            Err(CheckpointError::Store(error @ StoreError::Unavailable { .. })) => {
                Some(Closed::Lost(error.to_string()))
            }
            Err(CheckpointError::Store(error)) => Some(Closed::Failed(error.to_string())),
        }
    }

    /// So much of what was to be parked and taken out is in the store. An object of which more has come since waits for that:
    /// tried before, it would be found as it was.
    fn note_stored(&mut self, parked: usize, unparked: usize) {
        let stored = self.parkings.drain(..parked).filter_map(|parking| parking.change.key);
        let stored: Vec<Key> =
            stored.chain(self.unparkings.drain(..unparked).map(|unparking| unparking.key)).collect();
        let untold = self.untold();
        stored
            .iter()
            .filter(|key| !untold.contains(&key.identity()))
            .for_each(|key| self.objects.stored(key));
    }

    /// The objects of which the store is yet to be told something.
    pub(super) fn untold(&self) -> HashSet<String> {
        let parked = self.parkings.iter().filter_map(|parking| parking.change.key.as_ref());
        let unsaid = self.unsaid.iter().flat_map(|unsaid| &unsaid.unparkings);
        let unparked = self.unparkings.iter().chain(unsaid).map(|unparking| &unparking.key);
        parked.chain(unparked).map(Key::identity).collect()
    }

    /// Says, once, that everything is behind the checkpoint that was committed when it first saw the end, and that what had to
    /// step aside until then was tried to its end.
    pub(super) fn tell_when_caught_up(&mut self) {
        if !self.has_something_to_save() {
            self.saved_upto = self.lanes.passed();
        }
        // What only waits for the handler's word is handled: it will be given once more, to whoever comes next.
        let reached = if self.unsaid.is_some() { self.lanes.done_upto() } else { self.saved_upto };
        if self.told_caught_up || self.caught_up_at.is_none_or(|end| end > reached) {
            return;
        }
        let objects = &self.objects;
        let awaited = self.awaited.get_or_insert_with(|| objects.retrying().cloned().collect());
        awaited.retain(|identity| objects.is_tried_again(identity));
        if awaited.is_empty() && self.unparkings.is_empty() && self.parkings.is_empty() {
            self.told_caught_up = true;
            drop(self.setup.news.send(News::CaughtUp(self.lease.id.clone())));
        }
    }
}
