//! G2: in order.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use crate::sim::history::{Entry, What};
use crate::sim::scheduler::Machine;

#[derive(Debug)]
struct Call {
    machine: Machine,
    keys: BTreeSet<i64>,
    /// Its machine stood still at some time since it began: others may have taken over.
    paused: bool,
}

/// Follows what is handled of each object, and by whom at the same time.
#[derive(Default)]
pub struct Order {
    /// The changes of each object in the order of their commits.
    committed: BTreeMap<i64, Vec<u64>>,
    key: BTreeMap<u64, i64>,
    done: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
    calls: BTreeMap<u64, Call>,
    paused: BTreeSet<Machine>,
}

impl Order {
    fn done(&mut self, change: u64) -> Result<(), String> {
        let Some(key) = self.key.get(&change) else {
            return Err(format!("change {change} was handled and not committed"));
        };
        let before = self.committed[key].iter().take_while(|other| **other != change);
        let mut skipped = before.filter(|other| !self.done.contains(other) && !self.dropped.contains(other));
        if let Some(skipped) = skipped.next() {
            return Err(format!("object {key}: change {change} was handled before change {skipped}"));
        }
        self.done.insert(change);
        Ok(())
    }

    /// In a chain, each change names the one before it.
    fn follows(&self, change: u64, prev: Option<u64>) -> Result<(), String> {
        let of_object = self.key.get(&change).and_then(|key| self.committed.get(key));
        let before = of_object.into_iter().flatten().take_while(|other| **other != change).last().copied();
        match before == prev {
            true => Ok(()),
            false => Err(format!("change {change} says that it follows {prev:?}, and it follows {before:?}")),
        }
    }

    fn begins(&mut self, call: u64, machine: Machine, changes: &[u64]) -> Result<(), String> {
        let keys: BTreeSet<i64> = changes.iter().filter_map(|change| self.key.get(change).copied()).collect();
        let clash = |other: &Call| !other.paused && other.keys.iter().any(|key| keys.contains(key));
        if let Some((number, other)) = self.calls.iter().find(|(_, other)| clash(other)) {
            return Err(format!(
                "call {call} on m{} began while call {number} on m{} was at the same object, which never stood still",
                machine.0, other.machine.0
            ));
        }
        let paused = self.paused.contains(&machine);
        self.calls.insert(call, Call { machine, keys, paused });
        Ok(())
    }
}

impl Checker for Order {
    fn guarantee(&self) -> &'static str {
        "G2 In order"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Committed { key, change, .. } => {
                self.committed.entry(*key).or_default().push(*change);
                self.key.insert(*change, *key);
            }
            What::Began { call, changes, .. } => return self.begins(*call, entry.machine, changes),
            What::Linked { change, prev } => return self.follows(*change, *prev),
            What::Ended { call } => drop(self.calls.remove(call)),
            What::Paused => {
                self.paused.insert(entry.machine);
                let here = self.calls.values_mut().filter(|call| call.machine == entry.machine);
                here.for_each(|call| call.paused = true);
            }
            What::Resumed => drop(self.paused.remove(&entry.machine)),
            What::Handled { change, .. } => return self.done(*change),
            What::Effect { changes, .. } => return changes.iter().try_for_each(|change| self.done(*change)),
            What::Discarded { changes, .. } => self.dropped.extend(changes),
            _ => {}
        }
        Ok(())
    }
}
