//! What is done of calls that still run: one slow change does not keep the others of its batch from being remembered.

use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Done, Machine, Ticket};
use crate::host::CheckpointPolicy;

/// How often calls are looked at where checkpoints are not written by time.
const PAUSE: Duration = Duration::from_secs(1);

impl Machine {
    fn look_pause(&self) -> Duration {
        match self.rules.checkpoint {
            CheckpointPolicy::Time(pause) => pause,
            _ => PAUSE,
        }
    }

    /// When the calls that run are to be looked at; `None` while there is nothing to see.
    pub(super) fn look_due(&self) -> Option<Instant> {
        let sees = self.rules.remembers && self.rules.tells && !self.in_flight.batches.is_empty();
        (sees && !self.in_flight.is_looking).then(|| self.in_flight.looked_at + self.look_pause())
    }

    pub(super) fn look_at_calls(&mut self) {
        if self.look_due().is_some_and(|due| due <= self.at.now) {
            self.in_flight.is_looking = true;
            self.actions.push(Action::LookAtCalls);
        }
    }

    pub(super) fn on_told(&mut self, told: Vec<(Ticket, Vec<Done>)>) {
        (self.in_flight.is_looking, self.in_flight.looked_at) = (false, self.at.now);
        for (ticket, done) in told {
            let Some(run) = self.in_flight.batches.get(&ticket) else { continue };
            for Done { place, id } in done {
                if let Some(number) = run.number_of(place)
                    && self.lanes.tell(number, id)
                {
                    (self.saving.worked, self.saving.untold) = (true, true);
                }
            }
        }
    }
}
