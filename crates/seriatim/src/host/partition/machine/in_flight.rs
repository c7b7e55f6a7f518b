//! What is with the handler: batches, and parked objects that are tried again.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::batch_run::{BatchRun, Step};
use super::parked_run::{ParkedRun, ParkedStep};
use super::{Action, Closed, Machine, Target, Ticket};

/// What is with the handler.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub batches: BTreeMap<Ticket, BatchRun>,
    /// Parked objects that are being tried again.
    pub parked: BTreeMap<Ticket, ParkedRun>,
    /// Batches of which a change of everything waits to be tried again.
    paused: BTreeMap<Ticket, Instant>,
    next: u64,
    /// When the calls that run were last looked at, and whether they are just now.
    pub looked_at: Instant,
    pub is_looking: bool,
    /// Where one thing is done at a time: a live batch was tried last.
    pub is_parkeds_turn: bool,
    /// Somebody asked while a transaction was under way, which may have parked something that is not known here yet.
    pub list_again: bool,
}

impl InFlight {
    pub fn none(now: Instant) -> Self {
        InFlight {
            batches: BTreeMap::new(),
            parked: BTreeMap::new(),
            paused: BTreeMap::new(),
            next: 0,
            looked_at: now,
            is_looking: false,
            is_parkeds_turn: false,
            list_again: false,
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }

    /// How many calls run.
    pub fn len(&self) -> usize {
        self.batches.len() + self.parked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the first of those that pause is to go on.
    pub fn paused_until(&self) -> Option<Instant> {
        self.paused.values().min().copied()
    }
}

impl Machine {
    /// How many calls may run at the same time.
    pub(super) fn concurrency(&self) -> usize {
        // What a handler acknowledges is clear only if there is an order in which it got it.
        if self.unacked.is_some() { 1 } else { self.rules.concurrency }
    }

    /// A transaction moves the checkpoint itself: one at a time, never beside another checkpoint, and never past a change that
    /// is still to be parked.
    pub(super) fn may_start_transaction(&self) -> bool {
        self.in_flight.is_empty() && self.saving.is_settled()
    }

    pub(super) fn start_work(&mut self) {
        match self.rules.transactional {
            true if self.may_start_transaction() => self.start_in_turns(),
            true => {}
            false if self.concurrency() == 1 && self.in_flight.is_empty() => self.start_in_turns(),
            false => {
                while self.has_room_for_a_parked_one() && self.start_parked() {}
                while self.in_flight.len() < self.concurrency()
                    && !self.waits_to_be_filled()
                    && self.start_batch()
                {}
            }
        }
    }

    /// One thing at a time, in turns: neither live changes nor parked ones wait for the other.
    fn start_in_turns(&mut self) {
        let parked_first = std::mem::take(&mut self.in_flight.is_parkeds_turn);
        if parked_first && self.has_room_for_a_parked_one() && self.start_parked() {
            return;
        }
        self.in_flight.is_parkeds_turn = self.start_batch();
        if !self.in_flight.is_parkeds_turn && self.has_room_for_a_parked_one() {
            self.start_parked();
        }
    }

    pub(super) fn on_called(
        &mut self,
        ticket: Ticket,
        called: super::Called,
        target: &mut Target,
    ) -> Result<(), Closed> {
        let mut around = Self::around(&self.rules, self.at, self.ending.is_closing(), target);
        if let Some(mut run) = self.in_flight.batches.remove(&ticket) {
            let step = run.called(called, &mut around);
            return self.go_on_with(ticket, run, step, target);
        }
        let Some(mut run) = self.in_flight.parked.remove(&ticket) else { return Ok(()) };
        let step = run.called(called, &mut around);
        self.go_on_with_parked(ticket, run, step, target)
    }

    pub(super) fn on_gave_up(
        &mut self,
        ticket: Ticket,
        result: Result<(), crate::store::CheckpointError>,
        target: &mut Target,
    ) -> Result<(), Closed> {
        let Some(mut run) = self.in_flight.batches.remove(&ticket) else { return Ok(()) };
        let mut around = Self::around(&self.rules, self.at, self.ending.is_closing(), target);
        let step = run.gave_up(result, &mut around);
        self.go_on_with(ticket, run, step, target)
    }

    /// Those whose pause is over go on.
    pub(super) fn resume_paused(&mut self, target: &mut Target) -> Result<(), Closed> {
        let now = self.at.now;
        self.resume(target, |until| until <= now)
    }

    /// All that pause go on: when it is closing, they end.
    pub(super) fn resume_all_paused(&mut self, target: &mut Target) -> Result<(), Closed> {
        self.resume(target, |_| true)
    }

    fn resume(&mut self, target: &mut Target, is_over: impl Fn(Instant) -> bool) -> Result<(), Closed> {
        if self.in_flight.paused.is_empty() {
            return Ok(());
        }
        let paused = self.in_flight.paused.iter().filter(|(_, until)| is_over(**until));
        let over: Vec<Ticket> = paused.map(|(ticket, _)| *ticket).collect();
        for ticket in over {
            self.in_flight.paused.remove(&ticket);
            let Some(mut run) = self.in_flight.batches.remove(&ticket) else { continue };
            let step = run.next(&mut Self::around(&self.rules, self.at, self.ending.is_closing(), target));
            self.go_on_with(ticket, run, step, target)?;
        }
        Ok(())
    }

    /// Carries out a step of a batch.
    pub(super) fn go_on_with(
        &mut self,
        ticket: Ticket,
        run: BatchRun,
        step: Step,
        target: &mut Target,
    ) -> Result<(), Closed> {
        match step {
            Step::Call { changes, then, attempt } => {
                self.actions.push(Action::Call { ticket, changes, then, attempt, is_first: false });
            }
            Step::GiveUp(then) => self.actions.push(Action::GiveUp(ticket, then)),
            Step::Pause(until) => drop(self.in_flight.paused.insert(ticket, until)),
            Step::Closed(closed) => return Err(closed),
            Step::Finished => {
                self.on_batch_done(run, target);
                self.list_what_was_missed();
                return Ok(());
            }
            Step::Unfinished { ids, stop } => {
                self.on_batch_unfinished(run, &ids, stop, target);
                self.list_what_was_missed();
                return Ok(());
            }
        }
        self.in_flight.batches.insert(ticket, run);
        Ok(())
    }

    /// Carries out a step of a parked object.
    pub(super) fn go_on_with_parked(
        &mut self,
        ticket: Ticket,
        run: ParkedRun,
        step: ParkedStep,
        target: &mut Target,
    ) -> Result<(), Closed> {
        match step {
            ParkedStep::Call { changes, then, attempt } => {
                self.actions.push(Action::Call { ticket, changes, then, attempt, is_first: false });
                self.in_flight.parked.insert(ticket, run);
                return Ok(());
            }
            ParkedStep::Went { done, failure } => self.on_parked_went(run, done, failure, target),
            ParkedStep::NotBegun => self.parked_is_due_again(&run.key),
            ParkedStep::Closed(closed) => return Err(closed),
        }
        self.tell_when_caught_up();
        self.list_what_was_missed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;

    #[test]
    fn events_are_small() {
        // They are moved several times on their way.
        assert!(std::mem::size_of::<Event>() <= 256, "{}", std::mem::size_of::<Event>());
    }
}
