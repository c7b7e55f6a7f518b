//! What the store knows of a partition, when it is told more, and what follows from that.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Closed, Machine, Until};
use crate::change::Position;
use crate::host::CheckpointPolicy;
use crate::store::{Checkpoint, CheckpointError, DoneAbove, Parking, Unparking};
use crate::value::Key;

/// A partition that only looked and found nothing moves its checkpoint this long after it first did. What comes again after a crash
/// is not more for it; and of a hundred partitions, one change moves all.
const IDLE_CHECKPOINT: Duration = Duration::from_secs(5);

/// What the store knows, and what the next checkpoint tells it.
#[derive(Clone, Debug)]
pub(super) struct Saving {
    /// The checkpoint in the store.
    pub position: Position,
    /// Every place before this number is behind it.
    pub upto: u64,
    /// When it was written, or the partition was opened, or the first look after that found nothing.
    pub at: Instant,
    has_saved: bool,
    /// Something was handled since the last checkpoint, and so many changes.
    pub worked: bool,
    pub done: u64,
    /// Something was handled that no checkpoint tells yet, be it beyond the mark.
    pub untold: bool,
    /// Changes to park with the next checkpoint, which has passed them.
    pub parkings: Vec<Parking>,
    /// Parked changes that are done, to be taken out of the store with the next checkpoint.
    pub unparkings: Vec<Unparking>,
    /// Parked objects that are tried again by themselves, once the store knows.
    pub resumed: Vec<Key>,
    /// The checkpoint that is being written.
    under_way: Option<UnderWay>,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug)]
struct UnderWay {
    position: Position,
    /// The first place that it does not pass.
    passed: u64,
    /// How many changes it parks, of how many objects it takes changes out, and how many are tried again.
    parked: usize,
    unparked: usize,
    resumed: usize,
}

impl Saving {
    pub fn from(position: Position, now: Instant) -> Self {
        Saving {
            position,
            upto: 0,
            at: now,
            has_saved: false,
            worked: false,
            done: 0,
            untold: false,
            parkings: Vec::new(),
            unparkings: Vec::new(),
            resumed: Vec::new(),
            under_way: None,
        }
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub fn has_no_parking(&self) -> bool {
        self.parkings.is_empty() && self.unparkings.is_empty() && self.resumed.is_empty()
    }

    /// Nothing is being written, and nothing of what is parked waits to be.
    pub fn is_settled(&self) -> bool {
        !self.is_under_way() && self.has_no_parking()
    }
}

impl Machine {
    pub(super) fn start_checkpoint(&mut self, closing: bool) {
        let due = closing || self.checkpoint_due().is_some_and(|due| due <= self.at.now);
        let free = !self.saving.is_under_way() && (self.in_flight.is_empty() || !self.rules.transactional);
        if !due || !free || !self.has_something_to_save() {
            return;
        }
        let aside = self.lanes.take_passed_aside();
        aside.iter().for_each(|parking| self.note_kept(parking));
        self.saving.parkings.extend(aside);
        let passed = self.lanes.passed();
        let position = self.lanes.low_water().unwrap_or(&self.saving.position).clone();
        #[cfg(feature = "simulation")]
        let position = match crate::simulation::has(crate::simulation::Mutant::TrackerBeforeProcess) {
            true => self.reading.position.clone(),
            false => position,
        };
        let saving = &mut self.saving;
        let (parked, unparked) = (saving.parkings.clone(), saving.unparkings.clone());
        let resumed = saving.resumed.clone();
        saving.under_way = Some(UnderWay {
            position: position.clone(),
            passed,
            parked: parked.len(),
            unparked: unparked.len(),
            resumed: resumed.len(),
        });
        (saving.worked, saving.done, saving.untold) = (false, 0, false);
        let chained = self.reading.chain.passed(passed);
        let done = match self.rules.remembers {
            true => self.lanes.done_above(&self.reading.position),
            false => DoneAbove::default(),
        };
        self.actions.push(Action::Save(Checkpoint { position, resumed, unparked, parked, chained, done }));
    }

    pub(super) fn has_something_to_save(&self) -> bool {
        if self.ending.store_knows_better {
            return false;
        }
        let moved = self.lanes.low_water().is_some_and(|mark| *mark != self.saving.position);
        moved || self.has_parking_to_save() || (self.rules.remembers && self.saving.untold)
    }

    fn has_parking_to_save(&self) -> bool {
        !self.saving.has_no_parking() || self.lanes.has_passed_aside()
    }

    /// When the next checkpoint should be written; `None` while there is nothing to write.
    pub(super) fn checkpoint_due(&self) -> Option<Instant> {
        let saving = &self.saving;
        if saving.is_under_way() || !self.has_something_to_save() {
            return None;
        }
        if self.rules.transactional && !self.in_flight.is_empty() {
            return None;
        }
        let has_seen_the_end =
            self.has_read_all() || (self.rules.until == Until::CaughtUp && self.reading.caught_up);
        let at_the_end = has_seen_the_end && self.lanes.held() == 0;
        if at_the_end || self.has_parking_to_save() {
            return Some(saving.at);
        }
        match self.rules.checkpoint {
            _ if !saving.worked => Some(saving.at + IDLE_CHECKPOINT),
            CheckpointPolicy::Batch | CheckpointPolicy::Manual => Some(saving.at),
            CheckpointPolicy::Changes(count) => (saving.done >= count).then_some(saving.at),
            // The first one after opening comes at once.
            CheckpointPolicy::Time(pause) if saving.has_saved => Some(saving.at + pause),
            CheckpointPolicy::Time(_) => Some(saving.at),
        }
    }

    pub(super) fn on_saved(&mut self, result: Result<(), CheckpointError>) -> Result<(), Closed> {
        let Some(saved) = self.saving.under_way.take() else { return Ok(()) };
        // Where it is not known whether it happened, it may be about to: late, it would undo the next one, whose epoch is the
        // same. Taking the lease anew fences it, and reads the truth.
        result.map_err(Closed::of_checkpoint)?;
        self.is_saved(saved.position, saved.passed);
        self.saving.has_saved = true;
        self.note_stored(saved.parked, saved.unparked, saved.resumed);
        self.tell_when_caught_up();
        Ok(())
    }

    /// The store has a checkpoint at this position, which has passed all places before this number.
    pub(super) fn is_saved(&mut self, position: Position, passed: u64) {
        (self.saving.position, self.saving.upto, self.saving.at) = (position, passed, self.at.now);
        self.reading.chain.saved(passed);
        self.stats.count_checkpoint();
    }

    /// So much of what was to be parked and taken out is in the store. An object of which more has come since waits for that:
    /// tried before, it would be found as it was.
    fn note_stored(&mut self, parked: usize, unparked: usize, resumed: usize) {
        let stored = self.saving.parkings.drain(..parked).filter_map(|parking| parking.change.key);
        let unparked = self.saving.unparkings.drain(..unparked).map(|unparking| unparking.key);
        let resumed = self.saving.resumed.drain(..resumed);
        let stored: Vec<Key> = stored.chain(unparked).chain(resumed).collect();
        if stored.is_empty() {
            return;
        }
        let unstored = self.unstored();
        let stored = stored.iter().filter(|key| !unstored.contains(&key.identity()));
        stored.for_each(|key| self.retries.stored(key));
    }

    /// The objects of which the store is yet to be told something.
    pub(super) fn unstored(&self) -> HashSet<String> {
        let parked = self.saving.parkings.iter().filter_map(|parking| parking.change.key.as_ref());
        let unacked = self.unacked.iter().flat_map(|unacked| &unacked.unparkings);
        let unparked = self.saving.unparkings.iter().chain(unacked).map(|unparking| &unparking.key);
        parked.chain(unparked).chain(&self.saving.resumed).map(Key::identity).collect()
    }
}
