//! G4: one owner counts. G5: no trust in clocks.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use crate::sim::history::{Entry, What};
use crate::sim::scheduler::Machine;

type Lease = (u32, u32);

/// After how many milliseconds of silence an owner may be replaced.
pub const EXPIRE: u64 = 10_000;

/// Nobody writes under an old epoch.
#[derive(Default)]
pub struct Fencing {
    epochs: BTreeMap<Lease, u64>,
}

impl Fencing {
    fn writes(&self, what: &str, lease: Lease, epoch: u64) -> Result<(), String> {
        match self.epochs.get(&lease) {
            Some(current) if *current == epoch => Ok(()),
            current => {
                let current = current.copied().unwrap_or(0);
                Err(format!(
                    "{what} of partition {} under epoch {epoch} was taken, and its epoch is {current}",
                    lease.1
                ))
            }
        }
    }
}

impl Checker for Fencing {
    fn guarantee(&self) -> &'static str {
        "G4 One owner counts"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Acquired { feed, partition, epoch, .. } => {
                let before = self.epochs.insert((*feed, *partition), *epoch).unwrap_or(0);
                if *epoch <= before {
                    return Err(format!(
                        "partition {partition} was taken under epoch {epoch}, after {before}"
                    ));
                }
                Ok(())
            }
            What::Rewound { feed, partition, epoch, .. } => {
                self.epochs.insert((*feed, *partition), *epoch);
                Ok(())
            }
            What::Checkpointed { feed, partition, epoch, .. } => {
                self.writes("a checkpoint", (*feed, *partition), *epoch)
            }
            What::Released { feed, partition, epoch } => {
                self.writes("a release", (*feed, *partition), *epoch)
            }
            _ => Ok(()),
        }
    }
}

/// Nobody is replaced who has given a sign of life within the expiry, unless its process is dead.
#[derive(Default)]
pub struct Expiry {
    /// When each session last gave one: one counts for all its leases.
    signs: BTreeMap<String, u64>,
    sessions: BTreeMap<String, Machine>,
    of_machine: BTreeMap<Machine, String>,
    crashed: BTreeSet<Machine>,
}

impl Checker for Expiry {
    fn guarantee(&self) -> &'static str {
        "G5 No trust in clocks"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Joined { session } => {
                self.sessions.insert(session.clone(), entry.machine);
                self.of_machine.insert(entry.machine, session.clone());
                self.signs.insert(session.clone(), entry.at);
            }
            What::Crashed { .. } => drop(self.crashed.insert(entry.machine)),
            What::Renewed { session } => drop(self.signs.insert(session.clone(), entry.at)),
            What::Acquired { partition, from, .. } => {
                let Some(from) = from else { return Ok(()) };
                let Some(last) = self.signs.get(from).copied() else { return Ok(()) };
                let is_dead = self.sessions.get(from).is_some_and(|machine| self.crashed.contains(machine));
                let is_own = self.of_machine.get(&entry.machine) == Some(from);
                if !is_dead && !is_own && entry.at < last + EXPIRE {
                    return Err(format!(
                        "partition {partition} was taken from an owner that had given a sign of life {} ms before",
                        entry.at - last
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
