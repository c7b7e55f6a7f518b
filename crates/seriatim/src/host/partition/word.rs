//! Where a handler itself says what is done for good: what it has done and not vouched for yet holds the checkpoint back.

use std::collections::{BTreeSet, HashMap};

use super::{Batch, CheckpointPolicy, Checkpointer, MOST_AHEAD, Running, Tally};
use crate::host::FeedSettings;
use crate::store::Unparking;

/// What a handler has done and not vouched for yet.
#[derive(Default)]
pub(super) struct Unsaid {
    word: Checkpointer,
    /// The numbers of the changes.
    numbers: BTreeSet<u64>,
    /// Parked changes, to be taken out of the store.
    pub unparkings: Vec<Unparking>,
}

impl Unsaid {
    pub fn of(settings: &FeedSettings) -> Option<Self> {
        (settings.checkpoint == CheckpointPolicy::Manual).then(Unsaid::default)
    }

    pub fn checkpointer(&self) -> Checkpointer {
        self.word.clone()
    }

    /// Why no more can be read, if so much waits for the handler's word.
    pub fn full(&self, span: usize) -> Option<String> {
        let waits = !self.numbers.is_empty() && span >= MOST_AHEAD;
        waits.then(|| {
            format!("{span} changes wait for the handler to say that they are done (Context::checkpoint)")
        })
    }
}

impl Running {
    /// Remembers what of a batch the handler has done, and lets the checkpoint pass what it has vouched for.
    pub(super) fn note_word(&mut self, batch: &Batch, tally: &Tally) {
        if self.unsaid.is_none() {
            return;
        }
        let vouched = tally.word.vouched;
        if vouched.is_some() {
            self.vouched_for_all_before();
        }
        let Some(unsaid) = &mut self.unsaid else { return };
        let ids = batch.changes.iter().map(|change| change.id);
        let numbers: HashMap<u64, u64> = ids.zip(batch.numbers().iter().copied()).collect();
        let rest = tally.word.done.iter().skip(vouched.unwrap_or(0));
        unsaid.numbers.extend(rest.filter_map(|id| numbers.get(id)));
        self.lanes.hold_back(unsaid.numbers.first().copied());
    }

    /// The handler has vouched for all that it had been given.
    pub(super) fn vouched_for_all_before(&mut self) {
        if let Some(unsaid) = &mut self.unsaid {
            unsaid.numbers.clear();
            self.unparkings.append(&mut unsaid.unparkings);
            self.lanes.hold_back(None);
            self.worked = true;
        }
    }
}
