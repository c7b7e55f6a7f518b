//! G1: nothing is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use super::places::{Lease, Places};
use crate::sim::history::{Entry, What};

/// Follows each change from its commit to where it is handled.
#[derive(Default)]
pub struct Loss {
    places: Places,
    committed: BTreeSet<u64>,
    checkpoint: BTreeMap<Lease, u64>,
    done: BTreeSet<u64>,
    parked: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
}

impl Loss {
    fn is_safe(&self, change: u64) -> bool {
        self.done.contains(&change) || self.parked.contains(&change) || self.dropped.contains(&change)
    }

    fn check(&self, lease: Lease) -> Result<(), String> {
        let Some(upto) = self.checkpoint.get(&lease) else { return Ok(()) };
        match self.places.upto(lease, *upto).find(|(_, change)| !self.is_safe(*change)) {
            None => Ok(()),
            Some((place, change)) => Err(format!(
                "the checkpoint of partition {} is at {upto}, and change {change} at {place} is neither handled nor parked",
                lease.1
            )),
        }
    }

    /// What comes after the place has to be handled again.
    fn rewound(&mut self, lease: Lease, place: u64, dropped: &[u64]) {
        for change in self.places.after(lease, place) {
            self.done.remove(&change);
            self.dropped.remove(&change);
        }
        self.parked.retain(|change| !dropped.contains(change));
        self.checkpoint.insert(lease, place);
    }
}

impl Checker for Loss {
    fn guarantee(&self) -> &'static str {
        "G1 Nothing is lost"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        self.places.see(&entry.what);
        match &entry.what {
            What::Committed { change, .. } => drop(self.committed.insert(*change)),
            What::Sequenced { change, .. } => {
                let Some(of) = self.places.of(*change) else {
                    return Err(format!("change {change} was published and not committed"));
                };
                return self.check(of.lease);
            }
            What::Handled { call, .. } if self.places.is_past(*call) => {}
            What::Handled { change, .. } => drop(self.done.insert(*change)),
            What::Effect { changes, .. } => self.done.extend(changes),
            What::Discarded { changes, .. } => {
                self.dropped.extend(changes);
                self.parked.retain(|change| !changes.contains(change));
            }
            What::Rewound { feed, partition, position, dropped, .. } => {
                self.rewound((*feed, *partition), *position, dropped);
            }
            What::Checkpointed { feed, partition, position, unparked, parked, .. } => {
                if let Some(lost) = unparked.iter().find(|change| !self.done.contains(change)) {
                    return Err(format!(
                        "change {lost} was taken out of what is parked, and nobody handled it"
                    ));
                }
                self.parked.retain(|change| !unparked.contains(change));
                self.parked.extend(parked);
                self.checkpoint.insert((*feed, *partition), *position);
                return self.check((*feed, *partition));
            }
            What::LeftParked { change, .. } => {
                return Err(format!("nothing fails any more, and change {change} is still parked"));
            }
            What::Over => {
                let lost = |change: &&u64| !self.done.contains(change) && !self.dropped.contains(change);
                if let Some(change) = self.committed.iter().find(lost) {
                    return Err(format!("change {change} was never handled"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
