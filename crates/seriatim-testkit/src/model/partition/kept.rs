//! The store of a partition's model: as plain as can be.

use std::collections::BTreeMap;

use jiff::Timestamp;
use seriatim::change::Change;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{Checkpoint, DoneAbove, ParkedFailure, ParkedObject, ParkedState};
use seriatim::value::{Key, Value};

use super::PartitionModel;

/// What the store has.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub position: u64,
    pub epoch: u64,
    /// Whether somebody owns the lease.
    pub owned: bool,
    /// What it says is handled beyond the position.
    pub done: DoneAbove,
    pub parked: BTreeMap<i64, Object>,
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub changes: BTreeMap<u64, Change>,
    pub failure: ParkedFailure,
}

pub(super) fn key(number: i64) -> Key {
    Key::of("id", Value::Integer(number))
}

impl Kept {
    pub fn objects(&self) -> Vec<ParkedObject> {
        let object = |(of, object): (&i64, &Object)| ParkedObject {
            feed: FeedName::new("f").expect("a good name"),
            partition: Partition(0),
            key: key(*of),
            waiting: object.changes.len() as u64,
            bytes: 0,
            failure: object.failure.clone(),
            since: Timestamp::UNIX_EPOCH,
        };
        self.parked.iter().map(object).collect()
    }

    pub fn resume(&mut self, then: &Checkpoint) {
        let resumed = self.parked.iter_mut().filter(|(of, _)| then.resumed.contains(&key(**of)));
        resumed.for_each(|(_, object)| object.failure.state = ParkedState::Retrying);
    }

    pub fn take_out(&mut self, then: &Checkpoint) {
        for unparked in &then.unparked {
            let Some(of) = self.parked.keys().copied().find(|of| key(*of) == unparked.key) else { continue };
            let Some(object) = self.parked.get_mut(&of) else { continue };
            let before = object.changes.len();
            unparked.ids.iter().for_each(|id| drop(object.changes.remove(id)));
            if object.changes.len() < before {
                object.failure.attempts = 0;
            }
            if object.changes.is_empty() {
                self.parked.remove(&of);
            }
        }
    }

    pub fn park(&mut self, then: &Checkpoint, model: &PartitionModel) {
        for parking in &then.parked {
            let of = model.key_of(parking.change.id);
            let fresh = || Object {
                changes: BTreeMap::new(),
                failure: ParkedFailure {
                    error: String::new(),
                    attempts: 0,
                    state: ParkedState::Retrying,
                    next_try: None,
                },
            };
            let object = self.parked.entry(of).or_insert_with(fresh);
            object.changes.insert(parking.change.id, parking.change.clone());
            if let Some(failure) = &parking.failure {
                object.failure = failure.clone();
            }
        }
    }
}
