//! Manual acknowledgement: changes that the handler has done and not acknowledged yet hold the checkpoint back.

use std::collections::{BTreeSet, HashMap};

use super::batch_run::Tally;
use super::lanes::Batch;
use super::{MOST_AHEAD, Machine};
use crate::store::Unparking;

/// What a handler has done and not acknowledged yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unacked {
    /// The numbers of the changes.
    numbers: BTreeSet<u64>,
    /// Parked changes, to be taken out of the store.
    pub unparkings: Vec<Unparking>,
}

impl Unacked {
    /// Why no more can be read, if so much waits for the handler's word.
    pub fn full(&self, span: usize) -> Option<String> {
        let waits = !self.numbers.is_empty() && span >= MOST_AHEAD;
        waits.then(|| {
            format!("{span} changes wait for the handler to say that they are done (Context::checkpoint)")
        })
    }
}

impl Machine {
    /// Remembers what of a batch the handler has done, and lets the checkpoint pass what it has acknowledged.
    pub(super) fn note_acked(&mut self, batch: &Batch, tally: &Tally) {
        if self.unacked.is_none() {
            return;
        }
        let acked = tally.acked.upto;
        if acked.is_some() {
            self.acked_all_before();
        }
        let Some(unacked) = &mut self.unacked else { return };
        let ids = batch.changes.iter().map(|change| change.id);
        let numbers: HashMap<u64, u64> = ids.zip(batch.numbers().iter().copied()).collect();
        let rest = tally.acked.done.iter().skip(acked.unwrap_or(0));
        unacked.numbers.extend(rest.filter_map(|id| numbers.get(id)));
        self.lanes.hold_back(unacked.numbers.first().copied());
    }

    /// The handler has acknowledged all that it had been given.
    pub(super) fn acked_all_before(&mut self) {
        if let Some(unacked) = &mut self.unacked {
            unacked.numbers.clear();
            self.saving.unparkings.append(&mut unacked.unparkings);
            self.lanes.hold_back(None);
            self.saving.worked = true;
        }
    }
}
