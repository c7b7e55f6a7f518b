//! G6: no stall.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use crate::sim::history::{Entry, What};

/// When the faults have been over for long enough, whatever never failed is handled: only what fails waits.
#[derive(Default)]
pub struct Stall {
    open: BTreeMap<u64, i64>,
    key: BTreeMap<u64, i64>,
    failed: BTreeSet<i64>,
}

impl Checker for Stall {
    fn guarantee(&self) -> &'static str {
        "G6 No stall"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Committed { key, change, .. } => {
                self.open.insert(*change, *key);
                self.key.insert(*change, *key);
            }
            What::Handled { change, .. } => drop(self.open.remove(change)),
            What::Effect { changes, .. } | What::Discarded { changes, .. } => {
                self.open.retain(|change, _| !changes.contains(change));
            }
            What::Failed { change, .. } => self.failed.extend(self.key.get(change)),
            What::Cured => {
                if let Some((change, key)) = self.open.iter().find(|(_, key)| !self.failed.contains(key)) {
                    return Err(format!(
                        "change {change} of object {key}, which never failed, is not handled"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
