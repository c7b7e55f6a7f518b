//! G6: no stall.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use super::places::{Of, Places};
use crate::sim::history::{EVERYTHING, Entry, What};

/// When the faults have been over for long enough, whatever never failed is handled: only what fails waits, and what has to
/// come after it because one of the two is of everything. A change of everything that fails stops its feed.
#[derive(Default)]
pub struct Stall {
    places: Places,
    open: BTreeMap<u64, Of>,
    failed: Vec<Of>,
    of_everything: BTreeSet<(u32, u32)>,
}

impl Stall {
    fn may_wait(&self, of: &Of) -> bool {
        let everything = self.of_everything.contains(&of.lease);
        let held_up = |failed: &Of| match failed.key {
            EVERYTHING => failed.lease.0 == of.lease.0,
            _ => failed.touches(of) || (everything && failed.lease == of.lease),
        };
        self.failed.iter().any(held_up)
    }
}

impl Checker for Stall {
    fn guarantee(&self) -> &'static str {
        "G6 No stall"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        self.places.see(&entry.what);
        match &entry.what {
            What::Committed { change, key, .. } => {
                let Some(of) = self.places.of(*change) else { return Ok(()) };
                self.open.insert(*change, of);
                if *key == EVERYTHING {
                    self.of_everything.insert(of.lease);
                }
            }
            What::Handled { call, .. } if self.places.is_past(*call) => {}
            What::Handled { change, .. } => drop(self.open.remove(change)),
            What::Effect { changes, .. } | What::Discarded { changes, .. } => {
                self.open.retain(|change, _| !changes.contains(change));
            }
            What::Rewound { feed, partition, position, .. } => {
                for change in self.places.after((*feed, *partition), *position) {
                    self.open.extend(self.places.of(change).map(|of| (change, of)));
                }
            }
            What::Failed { change, .. } => self.failed.extend(self.places.of(*change)),
            What::Cured => {
                if let Some((change, of)) = self.open.iter().find(|(_, of)| !self.may_wait(of)) {
                    return Err(format!(
                        "change {change} of object {}, which never failed, is not handled",
                        of.key
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
