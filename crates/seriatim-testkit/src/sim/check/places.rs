//! Where changes lie, and what a rewind makes a thing of the past: shared by the checkers of feeds.

use std::collections::BTreeMap;

use crate::sim::history::{EVERYTHING, What};

/// A feed and a partition of it.
pub type Lease = (u32, u32);

/// A change that was committed.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    /// Where it belongs.
    pub lease: Lease,
    /// Its object, or [`EVERYTHING`].
    pub key: i64,
}

impl Of {
    /// Whether the order of the two counts.
    pub fn touches(&self, other: &Of) -> bool {
        let same = self.key == other.key || self.key == EVERYTHING || other.key == EVERYTHING;
        self.lease == other.lease && same
    }
}

/// What was committed, and where readers find it.
#[derive(Default)]
pub struct Places {
    committed: BTreeMap<u64, Of>,
    places: BTreeMap<Lease, BTreeMap<u64, u64>>,
    calls: BTreeMap<u64, (Lease, u64)>,
    rewound: BTreeMap<Lease, u64>,
}

impl Places {
    /// Takes in what happened.
    pub fn see(&mut self, what: &What) {
        match what {
            What::Committed { feed, partition, key, change } => {
                self.committed.insert(*change, Of { lease: (*feed, *partition), key: *key });
            }
            What::Sequenced { change, position, .. } => {
                if let Some(of) = self.committed.get(change) {
                    self.places.entry(of.lease).or_default().insert(*position, *change);
                }
            }
            What::Began { call, feed, partition, epoch, .. } => {
                self.calls.insert(*call, ((*feed, *partition), *epoch));
            }
            What::Rewound { feed, partition, epoch, .. } => {
                self.rewound.insert((*feed, *partition), *epoch);
            }
            _ => {}
        }
    }

    /// What a change is of; `None` when it was not committed.
    pub fn of(&self, change: u64) -> Option<Of> {
        self.committed.get(&change).copied()
    }

    /// The changes of a partition up to a place, with their places.
    pub fn upto(&self, lease: Lease, place: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let places = self.places.get(&lease).into_iter();
        places.flat_map(move |places| places.range(..=place).map(|(place, change)| (*place, *change)))
    }

    /// The changes of a partition after a place: those that come again when it is set back to there.
    pub fn after(&self, lease: Lease, place: u64) -> Vec<u64> {
        let places = self.places.get(&lease).into_iter();
        places.flat_map(|places| places.range(place + 1..).map(|(_, change)| *change)).collect()
    }

    /// Whether a call belongs to what was before its partition was rewound under its owner.
    pub fn is_past(&self, call: u64) -> bool {
        let Some((lease, epoch)) = self.calls.get(&call) else { return false };
        self.rewound.get(lease).is_some_and(|rewound| epoch < rewound)
    }
}
