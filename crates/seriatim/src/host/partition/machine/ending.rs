//! How a partition ends: when it is told to, when its lease lapses, when its feed has to stop; and when all that was there is
//! handled.

use std::collections::HashSet;

use tokio::time::Instant;

use super::{Action, Closed, Machine, Target};

#[derive(Clone, Debug)]
pub(super) struct Ending {
    /// It was told to close.
    pub closing: bool,
    /// The feed is to stop, for this reason, once what runs has finished.
    pub stopping: Option<String>,
    /// Until when the lease can be trusted.
    pub trusted_until: Instant,
    /// A transactional batch was interrupted between two of its commits: the store knows better than this host.
    pub store_knows_better: bool,
    /// The end of the first slice that saw the end of what was committed, by the number of its place in the lanes.
    pub caught_up_at: Option<u64>,
    /// Parked objects that were being tried when everything before that end was behind the checkpoint.
    waited_for: Option<HashSet<String>>,
    told_caught_up: bool,
}

impl Ending {
    pub fn new(trusted_until: Instant) -> Self {
        Ending {
            closing: false,
            stopping: None,
            trusted_until,
            store_knows_better: false,
            caught_up_at: None,
            waited_for: None,
            told_caught_up: false,
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing || self.stopping.is_some()
    }

    /// Others may take the lease now.
    pub fn has_lapsed(&self, now: Instant) -> bool {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::TrustForever) {
            return false;
        }
        now >= self.trusted_until
    }

    /// When that will be.
    pub fn wake_at(&self) -> Instant {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::TrustForever) {
            return self.trusted_until + std::time::Duration::from_secs(3600);
        }
        self.trusted_until
    }
}

impl Machine {
    /// Whether all that is this partition's own is read.
    pub(super) fn has_read_all(&self) -> bool {
        self.rules.upto.as_ref() == Some(&self.reading.position)
    }

    /// Closes a partition whose checkpoint has come to its end. Objects that are still parked are for those that come after it.
    pub(super) fn end_at_the_end(&mut self, target: &mut Target) -> Result<(), Closed> {
        if self.ending.closing || self.rules.upto.as_ref() != Some(&self.saving.position) {
            return Ok(());
        }
        self.ending.closing = true;
        self.resume_all_paused(target)
    }

    pub(super) fn close_when_drained(&mut self, closing: bool) -> Result<(), Closed> {
        #[cfg(feature = "simulation")]
        if closing && crate::simulation::has(crate::simulation::Mutant::HandOverWithoutDraining) {
            return Err(Closed::Drained);
        }
        match closing && self.in_flight.is_empty() && !self.saving.is_under_way() {
            true => Err(self.ending.stopping.take().map_or(Closed::Drained, Closed::Failed)),
            false => Ok(()),
        }
    }

    /// Handles what lies before something that is done: the checkpoint could not pass that, and it would come again.
    pub(super) fn finish_what_is_behind(&mut self) {
        if self.in_flight.parked.is_empty() {
            self.lanes.park_held();
        }
        while self.in_flight.len() < self.concurrency() {
            let Some(batch) = self.lanes.take_behind(self.rules.batch) else { return };
            self.start(batch);
        }
    }

    /// Says, once, that everything is behind the checkpoint that was committed when it first saw the end, and that what had to
    /// step aside until then was tried to its end.
    pub(super) fn tell_when_caught_up(&mut self) {
        if !self.has_something_to_save() {
            self.saving.upto = self.lanes.passed();
        }
        // What only waits for the handler's acknowledgement is handled: it will be given once more, to whoever comes next.
        let reached = if self.unacked.is_some() { self.lanes.done_upto() } else { self.saving.upto };
        let ending = &mut self.ending;
        if ending.told_caught_up || ending.caught_up_at.is_none_or(|end| end > reached) {
            return;
        }
        // What is parked and due is tried before the end.
        if self.resume_due().is_some_and(|due| due <= self.at.now) {
            return;
        }
        let (ending, retries) = (&mut self.ending, &self.retries);
        let waited_for = ending.waited_for.get_or_insert_with(|| retries.retrying().cloned().collect());
        waited_for.retain(|identity| retries.is_tried_again(identity));
        if waited_for.is_empty() && self.saving.has_no_parking() {
            ending.told_caught_up = true;
            self.actions.push(Action::TellCaughtUp);
        }
    }
}
