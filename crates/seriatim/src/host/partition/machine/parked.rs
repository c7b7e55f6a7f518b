//! Parked objects that are tried again: what failed, in its order, until it meets the live stream.
//!
//! The changes of such an object are in the store. New ones of it are set aside behind them, and stored too; only towards the
//! end, when a read of the store may be the last, they wait in memory. Once a read finds nothing and nothing is on its way to
//! the store, the object has met the live stream, and what waits goes on: no gap, no overtaking.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::failure_log::Told;
use super::failures::Verdict;
use super::parked_run::{Effort, ParkedRun, ParkedStep};
use super::retries::Past;
use super::{Action, At, Closed, Machine, Target, Ticket, Until};
use crate::change::Change;
use crate::handler::{Failure, FailureKind, Then};
use crate::store::{ParkedFailure, ParkedObject, ParkedState, Parking, StoreError, Unparking};
use crate::value::Key;

impl Machine {
    /// Whether another parked object may be tried now. With a plain handler they have half of the calls at most, so that
    /// slow failures leave room for others.
    pub(super) fn has_room_for_a_parked_one(&self) -> bool {
        let concurrency = self.concurrency();
        if self.rules.transactional {
            return self.may_start_transaction() && !self.lanes.has_aside();
        }
        self.in_flight.parked.len() < concurrency.div_ceil(2) && self.in_flight.len() < concurrency
    }

    /// Tries the next parked object that is due, if there is one.
    pub(super) fn start_parked(&mut self) -> bool {
        let Some(key) = self.retries.take_due(self.at.now) else { return false };
        if !self.rules.transactional {
            self.lanes.hold(key.hash());
        }
        let ticket = self.in_flight.ticket();
        let run = ParkedRun::new(key.clone(), self.saving.position.clone());
        self.in_flight.parked.insert(ticket, run);
        self.actions.push(Action::ReadParked(ticket, key, self.rules.batch));
        true
    }

    pub(super) fn on_parked_read(
        &mut self,
        ticket: Ticket,
        read: Result<(Option<ParkedObject>, Vec<Change>), StoreError>,
        target: &mut Target,
    ) -> Result<(), Closed> {
        let (object, changes) = read.map_err(Closed::of_store)?;
        let Some(mut run) = self.in_flight.parked.remove(&ticket) else { return Ok(()) };
        // Once it is seen as retrying it stays so until this owner says otherwise: nobody discards it meanwhile.
        let failed = match object {
            Some(object) if object.failure.state == ParkedState::Parked => {
                self.retries.stays_parked(&object, self.at);
                self.lanes.park(run.key.hash());
                self.tell_when_caught_up();
                self.list_what_was_missed();
                return Ok(());
            }
            Some(object) => object.failure.attempts,
            None => 0,
        };
        let is_all = changes.len() < self.rules.batch;
        let step = match changes.is_empty() || !self.is_closing() {
            true => run.begin(changes, is_all, failed),
            false => ParkedStep::NotBegun,
        };
        self.go_on_with_parked(ticket, run, step, target)
    }

    /// It was not tried: its turn comes again.
    pub(super) fn parked_is_due_again(&mut self, key: &Key) {
        self.retries.try_again(key, self.at.now);
        self.retries.stored(key);
        self.lanes.park(key.hash());
    }

    pub(super) fn on_parked_went(
        &mut self,
        run: ParkedRun,
        done: usize,
        failure: Option<Failure>,
        target: &mut Target,
    ) {
        let acked = run.effort.acked;
        self.count_parked(&run.changes[..done], &run.effort);
        // Before what this call has done is noted: if the acknowledgement covers that too, the last line tells.
        if acked.is_some() {
            self.acked_all_before();
        }
        self.note_parked_went(run, done, failure, target);
        if acked.is_some_and(|acked| acked >= done) {
            self.acked_all_before();
        }
    }

    fn count_parked(&self, done: &[Change], effort: &Effort) {
        self.stats.count(done.len() as u64, 0, 0, effort.failures);
        self.stats.count_redelivered(effort.redelivered);
        self.stats.count_times(done.iter().map(|change| change.at), self.at.wall);
    }

    fn note_parked_went(
        &mut self,
        run: ParkedRun,
        done: usize,
        failure: Option<Failure>,
        target: &mut Target,
    ) {
        let ParkedRun { key, changes, failed, is_all, .. } = run;
        let bytes = changes[..done].iter().map(|change| change.weight() as u64).sum();
        self.retries.lets_go(&key, done as u64, bytes);
        self.retries.handles(&key, done);
        if done > 0 && !self.rules.transactional {
            self.take_out(&key, &changes[..done]);
        }
        if let Some(failure) = failure {
            let failed = if done == 0 { failed + 1 } else { 1 };
            return self.parked_failed(&key, &changes[done], failed, failure, target);
        }
        let saw_the_end = is_all && done == changes.len();
        if !saw_the_end {
            self.lanes.park(key.hash());
        }
        if saw_the_end && self.has_met_the_live_stream(&key, done) {
            return self.rejoin(&key);
        }
        self.retries.try_again(&key, self.at.now);
        if self.rules.transactional {
            self.retries.stored(&key);
        }
    }

    /// Whether nothing of an object is in the store or on its way there, after a read that saw the end of it. With a plain
    /// handler, what was handled just now is still in the store, and changes set aside may have been stored behind it: only a
    /// read that finds nothing tells.
    fn has_met_the_live_stream(&self, key: &Key, done: usize) -> bool {
        let lane = key.hash();
        if self.rules.transactional {
            return true;
        }
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::RejoinTooEarly) {
            return true;
        }
        let on_its_way = |parking: &Parking| parking.change.lane() == lane;
        done == 0 && !self.lanes.has_aside_of(lane) && !self.saving.parkings.iter().any(on_its_way)
    }

    fn rejoin(&mut self, key: &Key) {
        let lease = &self.rules.lease;
        match self.retries.past(key) {
            Past::SteppedAside => tracing::debug!(%lease, %key, "all that waited is handled"),
            Past::Parked => tracing::info!(%lease, %key, "parked no more: all that waited is handled"),
            Past::Discarded => tracing::info!(%lease, %key, "parked no more: what waited was discarded"),
        }
        match self.retries.gone(key) {
            true => self.lanes.rejoin(key.hash()),
            // Another object shares its lane.
            false => self.lanes.park(key.hash()),
        }
    }

    /// The first change of a parked object failed again.
    fn parked_failed(
        &mut self,
        key: &Key,
        change: &Change,
        failed: u32,
        failure: Failure,
        target: &mut Target,
    ) {
        self.lanes.park(key.hash());
        if failed == 1 {
            self.retries.fails_since(key, target.successes());
        }
        let since = self.retries.since(key);
        match failure.kind {
            FailureKind::Target => target.is_gone(since, &failure, self.at),
            // One that was parked before has shown that it is to blame.
            _ if self.retries.was_parked(key) => {}
            _ => target.failed_for(key.hash(), since, &failure, self.at),
        }
        let (id, now) = (change.id, self.at.now);
        let told = Told { lease: &self.rules.lease, change, failure: &failure, failed };
        let around = Self::around(&self.rules, self.at, false, target);
        let blame = around.blame(since);
        match around.verdict(&failure, failed, since) {
            Verdict::Again(pause) => {
                told.tried_again(pause, blame);
                let next_try = self.retries.was_parked(key).then(|| after(self.at, pause)).flatten();
                self.note_failure(change, &failure, failed, ParkedState::Retrying, next_try);
                self.retries.try_again(key, now + pause);
            }
            Verdict::GiveUp(Then::Skip) => {
                told.skipped();
                self.stats.count(0, 0, 1, 0);
                self.retries.lets_go(key, 1, change.weight() as u64);
                self.take_out(key, std::slice::from_ref(change));
                self.retries.try_again(key, now);
            }
            Verdict::GiveUp(Then::Stop) => {
                let why = format!("change {id} at position {} failed: {failure}", change.position);
                self.note_failure(change, &failure, failed, ParkedState::Retrying, None);
                self.retries.try_again(key, now);
                self.ending.stopping.get_or_insert(why);
            }
            Verdict::GiveUp(Then::Park) => {
                let pause = self.retries.parks(key, &failure.to_string(), self.at);
                told.parked(pause);
                self.stats.count(0, u64::from(self.retries.is_parked_now(key)), 0, 0);
                let next_try = pause.and_then(|pause| after(self.at, pause));
                self.note_failure(change, &failure, failed, ParkedState::Parked, next_try);
            }
        }
    }

    /// Has the next checkpoint tell the store how the object stands.
    fn note_failure(
        &mut self,
        change: &Change,
        failure: &Failure,
        attempts: u32,
        state: ParkedState,
        next_try: Option<Timestamp>,
    ) {
        let failure = ParkedFailure { error: failure.to_string(), attempts, state, next_try };
        self.saving.parkings.push(Parking { change: change.clone(), failure: Some(failure) });
    }

    /// Has the next checkpoint take changes out of the store.
    fn take_out(&mut self, key: &Key, changes: &[Change]) {
        let ids = changes.iter().map(|change| change.id).collect();
        let unparking = Unparking { key: key.clone(), ids };
        match &mut self.unacked {
            Some(unacked) => unacked.unparkings.push(unparking),
            None => self.saving.unparkings.push(unparking),
        }
    }

    /// How many parked objects may be on their way from the store to the handler by themselves.
    fn most_resumed(&self) -> usize {
        self.concurrency().max(2)
    }

    /// When the next parked object is tried again by itself. While the target is away, none is.
    pub(super) fn resume_due(&self) -> Option<Instant> {
        self.may_resume().then(|| self.retries.healing_due(self.at.now, self.most_resumed())).flatten()
    }

    fn may_resume(&self) -> bool {
        !self.target_is_away && self.rules.until != Until::ShutDownOnlyParked
    }

    /// Has parked objects tried again whose time has come. First the store is told: from then on, nobody discards them.
    pub(super) fn resume_parked(&mut self) {
        while self.may_resume()
            && let Some(key) = self.retries.take_healing(self.at.now, self.most_resumed())
        {
            tracing::debug!(lease = %self.rules.lease, %key, "parked; trying again");
            self.retries.try_again(&key, self.at.now);
            self.saving.resumed.push(key);
        }
    }

    /// Somebody asked for something: looks what the store says.
    pub(super) fn on_asked(&mut self) {
        self.in_flight.list_again |= !self.in_flight.is_empty() && self.rules.transactional;
        self.actions.push(Action::ListParked(Duration::ZERO));
    }

    /// A transaction has ended. What it parked may have been asked for before this host knew of it.
    pub(super) fn list_what_was_missed(&mut self) {
        if std::mem::take(&mut self.in_flight.list_again) {
            self.on_asked();
        }
    }

    pub(super) fn on_listed(&mut self, listed: Result<Vec<ParkedObject>, StoreError>) {
        match listed {
            Ok(parked) => {
                let unstored = self.unstored();
                self.retries.heard(&parked, &unstored, self.at.now);
            }
            Err(error) => {
                tracing::warn!(lease = %self.rules.lease, %error, "cannot look what is parked; trying again");
                self.actions.push(Action::ListParked(self.rules.idle));
            }
        }
    }
}

/// The time of day after this pause.
pub(super) fn after(at: At, pause: Duration) -> Option<Timestamp> {
    at.wall.checked_add(pause).ok()
}
