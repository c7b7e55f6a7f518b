//! How a partition gets more to do: when it asks for it, and what becomes of the answer.

use std::time::Duration;

use tokio::time::Instant;

use super::chain::{Chain, Unlinked};
use super::{Action, Closed, MOST_AHEAD, Machine, Until};
use crate::change::{Change, Position};
use crate::host::ENOUGH_BYTES;
use crate::source::Slice;
use crate::store::{DoneAbove, StoreError};

/// A read takes a few milliseconds. One that takes longer keeps nobody waiting who was read before.
const PATIENCE: Duration = Duration::from_millis(20);

/// Nothing more is read while what is handled beyond the checkpoint takes so many bytes: the rest of what may be kept is for
/// what was read before.
const MOST_DONE_AHEAD: u64 = DoneAbove::MOST_BYTES as u64 / 4 * 3;

const FAR_AHEAD: &str =
    "as much is handled ahead of a slow change as can be remembered; it reads on when that change is done";

/// How far a partition has read, and what it has asked for.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// How far it has read.
    pub position: Position,
    /// The last read saw the end of what was committed.
    pub caught_up: bool,
    /// More is on its way.
    asked: bool,
    /// So long a batch may wait for that, to be filled.
    pub patient_until: Instant,
    /// The changes that are under way, where each names the one before it.
    pub chain: Chain,
    /// What was read, while the store is asked what came before it.
    unlinked: Option<Unlinked>,
    /// Why it cannot go on, as it was last told.
    waits: Option<String>,
}

impl Reading {
    pub fn from(position: Position, now: Instant) -> Self {
        Reading {
            position,
            caught_up: false,
            asked: false,
            patient_until: now,
            chain: Chain::default(),
            unlinked: None,
            waits: None,
        }
    }
}

impl Machine {
    pub(super) fn ask_for_more(&mut self) {
        let (is_full, is_far_ahead) = (self.tell_waiting(), self.is_far_ahead());
        let may_read = self.rules.until != Until::ShutDownOnlyParked && !self.has_read_all();
        let reading = &mut self.reading;
        if reading.asked || reading.unlinked.is_some() || is_full || is_far_ahead || !may_read {
            return;
        }
        // What waits for the handler's acknowledgement does not keep it from being given more: it may be waiting for that.
        let held = if self.unacked.is_some() { self.lanes.at_work() } else { self.lanes.held() };
        let has_room = held + self.saving.parkings.len() < self.rules.enough
            && self.lanes.weight() < ENOUGH_BYTES
            && self.lanes.span() < MOST_AHEAD;
        if has_room {
            reading.asked = true;
            reading.patient_until = self.at.now + PATIENCE;
            self.actions.push(Action::Read(reading.position.clone()));
        }
    }

    /// So much is handled beyond the checkpoint that there would soon be no room to remember more: a slow change holds it up.
    fn is_far_ahead(&self) -> bool {
        self.rules.remembers && self.lanes.done_above_bytes() >= MOST_DONE_AHEAD
    }

    /// A partition that cannot go on waits, and says so, rather than lose or overtake anything. Whether it is one.
    fn tell_waiting(&mut self) -> bool {
        let waits = |parked| {
            let noun = if parked == 1 { "parked object" } else { "parked objects" };
            format!("a change of the whole table waits for what is left of {parked} {noun}")
        };
        let full = self.retries.full().or_else(|| self.lanes.held_up_by_parked().map(waits));
        let full = full.or_else(|| self.unacked.as_ref()?.full(self.lanes.span()));
        if self.rules.until == Until::CaughtUp && !self.retries.is_retrying() {
            let partition = self.rules.lease.partition;
            let stop = |why: &String| format!("partition {partition} cannot go on: {why}");
            self.ending.stopping = self.ending.stopping.take().or(full.as_ref().map(stop));
        }
        let is_full = full.is_some();
        let full = full.or_else(|| self.is_far_ahead().then(|| FAR_AHEAD.to_owned()));
        if full != self.reading.waits {
            self.reading.waits.clone_from(&full);
            self.actions.push(Action::TellWaiting(full));
        }
        is_full
    }

    pub(super) fn on_read(&mut self, read: Result<Slice, Closed>) -> Result<(), Closed> {
        self.reading.asked = false;
        let slice = read?;
        if !self.rules.chain || slice.changes.is_empty() {
            self.push(slice);
            return Ok(());
        }
        let changes: Vec<Change> = slice.changes.clone().collect();
        let (unlinked, unknown) = self.reading.chain.look_up(slice, changes);
        self.reading.unlinked = Some(unlinked);
        if unknown.is_empty() {
            return self.on_chain_found(Ok(Vec::new()));
        }
        self.actions.push(Action::FindChain(unknown));
        Ok(())
    }

    /// Each change names the one before it.
    pub(super) fn on_chain_found(
        &mut self,
        found: Result<Vec<Option<u64>>, StoreError>,
    ) -> Result<(), Closed> {
        let found = found.map_err(Closed::of_store)?;
        let Some(unlinked) = self.reading.unlinked.take() else { return Ok(()) };
        // The places of its changes are the next ones.
        let slice = self.reading.chain.link(unlinked, found, self.lanes.end());
        self.push(slice);
        Ok(())
    }

    fn push(&mut self, slice: Slice) {
        let first_empty = slice.changes.is_empty() && !self.has_something_to_save();
        self.reading.position = slice.upto.clone();
        self.reading.caught_up = slice.caught_up;
        self.lanes.push(slice);
        if first_empty {
            self.saving.at = self.at.now;
        }
        if self.reading.caught_up {
            self.lanes.forget_known();
        }
        if self.reading.caught_up && self.ending.caught_up_at.is_none() {
            self.ending.caught_up_at = Some(self.lanes.end());
        }
        self.tell_when_caught_up();
    }

    /// There is less than a batch, others run, and more is on its way: it comes soon, or this is started without it. Fewer calls
    /// with more in each cost handlers and their targets less.
    pub(super) fn waits_to_be_filled(&self) -> bool {
        let reading = &self.reading;
        let more_comes = reading.asked && !reading.caught_up && self.at.now < reading.patient_until;
        more_comes && !self.in_flight.batches.is_empty() && self.lanes.in_line() < self.rules.batch
    }
}
