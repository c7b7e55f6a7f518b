//! G2: in order.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use super::places::{Of, Places};
use crate::sim::history::{EVERYTHING, Entry, What};
use crate::sim::scheduler::Machine;

#[derive(Debug)]
struct Call {
    machine: Machine,
    changes: Vec<Of>,
    /// Its machine stood still at some time since it began: others may have taken over.
    paused: bool,
}

/// Follows what is handled of each object, and by whom at the same time.
#[derive(Default)]
pub struct Order {
    places: Places,
    /// All changes in the order of their commits.
    committed: Vec<(u64, Of)>,
    done: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
    calls: BTreeMap<u64, Call>,
    paused: BTreeSet<Machine>,
}

impl Order {
    /// The changes before this one whose order with it counts.
    fn before(&self, change: u64, of: Of) -> impl Iterator<Item = u64> + '_ {
        let earlier = self.committed.iter().take_while(move |(other, _)| *other != change);
        earlier.filter(move |(_, other)| of.touches(other)).map(|(other, _)| *other)
    }

    fn done(&mut self, change: u64) -> Result<(), String> {
        let Some(of) = self.places.of(change) else {
            return Err(format!("change {change} was handled and not committed"));
        };
        let open = |other: &u64| !self.done.contains(other) && !self.dropped.contains(other);
        if let Some(skipped) = self.before(change, of).find(open) {
            let object = if of.key == EVERYTHING { "all".to_owned() } else { of.key.to_string() };
            return Err(format!("object {object}: change {change} was handled before change {skipped}"));
        }
        self.done.insert(change);
        Ok(())
    }

    /// In a chain, each change names the one of its object before it.
    fn follows(&self, change: u64, prev: Option<u64>) -> Result<(), String> {
        let Some(of) = self.places.of(change).filter(|of| of.key != EVERYTHING) else { return Ok(()) };
        let of_object = self.committed.iter().filter(|(_, other)| other.key == of.key);
        let before = of_object.map(|(other, _)| *other).take_while(|other| *other != change).last();
        match before == prev {
            true => Ok(()),
            false => Err(format!("change {change} says that it follows {prev:?}, and it follows {before:?}")),
        }
    }

    fn begins(&mut self, call: u64, machine: Machine, changes: &[u64]) -> Result<(), String> {
        if self.places.is_past(call) {
            return Ok(());
        }
        let changes: Vec<Of> = changes.iter().filter_map(|change| self.places.of(*change)).collect();
        let together =
            |other: &Call| other.changes.iter().any(|of| changes.iter().any(|mine| mine.touches(of)));
        let clash =
            |number: u64, other: &Call| !other.paused && !self.places.is_past(number) && together(other);
        if let Some((number, other)) = self.calls.iter().find(|(number, other)| clash(**number, other)) {
            return Err(format!(
                "call {call} on m{} began while call {number} on m{} was at the same object, which never stood still",
                machine.0, other.machine.0
            ));
        }
        let paused = self.paused.contains(&machine);
        self.calls.insert(call, Call { machine, changes, paused });
        Ok(())
    }
}

impl Checker for Order {
    fn guarantee(&self) -> &'static str {
        "G2 In order"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        self.places.see(&entry.what);
        match &entry.what {
            What::Committed { change, .. } => {
                self.committed.extend(self.places.of(*change).map(|of| (*change, of)));
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
            What::Handled { call, .. } if self.places.is_past(*call) => {}
            What::Handled { change, .. } => return self.done(*change),
            What::Effect { changes, .. } => return changes.iter().try_for_each(|change| self.done(*change)),
            What::Discarded { changes, .. } => self.dropped.extend(changes),
            What::Rewound { feed, partition, position, .. } => {
                for change in self.places.after((*feed, *partition), *position) {
                    self.done.remove(&change);
                    self.dropped.remove(&change);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
