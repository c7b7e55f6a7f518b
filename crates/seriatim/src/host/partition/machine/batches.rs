//! Live batches: how one is begun, and what follows when it is done.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::batch_run::{BatchRun, Step, Tally};
use super::lanes::Batch;
use super::{Action, Machine, Target};
use crate::store::Parking;

impl Machine {
    /// Starts the next batch, if there is one.
    pub(super) fn start_batch(&mut self) -> bool {
        let batch = self.lanes.take(self.rules.batch);
        batch.map(|batch| self.start(batch)).is_some()
    }

    pub(super) fn start(&mut self, batch: Batch) {
        let upto = self.lanes.low_water_after(&batch).unwrap_or_else(|| self.saving.position.clone());
        let aside = if self.rules.transactional { self.take_aside() } else { BTreeMap::new() };
        let (run, step) = BatchRun::begin(batch, upto, aside, &self.rules);
        let ticket = self.in_flight.ticket();
        if let Step::Call { changes, then, attempt } = step {
            self.actions.push(Action::Call { ticket, changes, then, attempt, is_first: true });
        }
        self.in_flight.batches.insert(ticket, run);
    }

    /// All that is set aside, for a transaction that passes it.
    fn take_aside(&mut self) -> BTreeMap<u64, Parking> {
        let aside = self.lanes.take_aside();
        aside.values().for_each(|parking| self.note_kept(parking));
        aside
    }

    /// A change is on its way into the store, or there.
    pub(super) fn note_kept(&mut self, parking: &Parking) {
        self.retries.keeps(parking, self.at.now);
    }

    pub(super) fn on_batch_done(&mut self, run: BatchRun, target: &Target) {
        let BatchRun { batch, upto, tally, .. } = run;
        self.count(&batch, &HashSet::new(), &tally);
        self.note_parked(&tally, target);
        self.note_acked(&batch, &tally);
        if self.rules.transactional {
            // What was parked on the way is in the store already: only its objects are to be remembered.
            tally.parked.iter().for_each(|parking| self.lanes.park(parking.change.lane()));
            self.lanes.complete(batch, Vec::new());
            self.retries.all_stored();
            self.is_saved(upto, self.lanes.passed());
        } else {
            self.lanes.complete(batch, tally.parked);
            (self.saving.worked, self.saving.untold) = (true, true);
        }
        self.tell_when_caught_up();
    }

    /// The batch did not get to its end: what it did counts, unless the store knows that better.
    pub(super) fn on_batch_unfinished(
        &mut self,
        run: BatchRun,
        unfinished: &HashSet<u64>,
        stop: Option<String>,
        target: &Target,
    ) {
        self.ending.stopping = self.ending.stopping.take().or(stop);
        let BatchRun { batch, tally, .. } = run;
        self.count(&batch, unfinished, &tally);
        self.note_acked(&batch, &tally);
        if self.rules.transactional {
            self.ending.store_knows_better = true;
        } else {
            self.note_parked(&tally, target);
            self.lanes.abandon(batch, unfinished, tally.parked);
            (self.saving.worked, self.saving.untold) = (true, true);
        }
    }

    /// Remembers which objects were parked on the way, and when those that only stepped aside are due.
    fn note_parked(&mut self, tally: &Tally, target: &Target) {
        for parking in &tally.parked {
            let Some(key) = &parking.change.key else { continue };
            match self.rules.transactional {
                true => self.note_kept(parking),
                // Its changes are counted when a checkpoint takes them.
                false => self.retries.open(key),
            }
            if let Some(failure) = parking.given_up() {
                self.retries.parks(key, &failure.error, self.at);
                self.stats.count(0, u64::from(self.retries.is_parked_now(key)), 0, 0);
            }
            if parking.steps_aside() {
                let again = tally.again.get(&parking.change.lane()).copied();
                let (pause, since) = again.unwrap_or((Duration::ZERO, target.successes()));
                self.retries.try_again(key, self.at.now + pause);
                self.retries.fails_since(key, since);
            }
        }
    }

    fn count(&mut self, batch: &Batch, unfinished: &HashSet<u64>, tally: &Tally) {
        let done = (batch.changes.len() - unfinished.len()) as u64;
        let handled = done - tally.parked.len() as u64 - tally.skipped;
        self.saving.done += done;
        let stats = &self.stats;
        stats.count(handled, 0, tally.skipped, tally.failures);
        stats.count_redelivered(tally.redelivered);
        let not_handled: HashSet<u64> = tally.parked.iter().map(|parking| parking.change.id).collect();
        let handled = batch.changes.iter().filter(|change| {
            let id = &change.id;
            (unfinished.is_empty() || !unfinished.contains(id))
                && (not_handled.is_empty() || !not_handled.contains(id))
        });
        stats.count_times(handled.map(|change| change.at), self.at.wall);
    }
}
