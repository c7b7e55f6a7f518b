//! Partitions that come and go: which part of its feed a lease is on, and what becomes of the leases of a feed whose number of
//! partitions changes. Pure: no I/O, no clock.
//!
//! ```text
//!   4 partitions                 nobody runs                  both                       16 partitions
//!   0 1 2 3      ──announce──▶  0 1 2 3 drain ──barrier B──▶ 0 1 2 3 run up to B ──▶    4 … 19 begin at B
//!                                                            4 … 19 wait                 0 1 2 3 are removed
//! ```
//!
//! - **Announced**: owners finish what runs, checkpoint and give their leases up. Nobody takes one to run it.
//! - **Barrier**: once all are free, a place of the source behind all that was ever read is set as the end of the old partitions.
//!   The new ones are made in the same step. They begin there, with the old ones as parents.
//! - **Ended**: an old partition at its end, without an owner. A child may begin when all its parents have ended or are gone.
//! - **Removed**: the leases of the old ones, once every child has begun and nothing is parked in them any more.
//!
//! Each step is one compare-and-set of the store over all leases of the feed ([`Reshape`]), so any host may do it, and a host
//! that dies leaves it to the others.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::LeaseView;
use crate::change::Position;
use crate::name::Partition;

#[cfg(test)]
mod tests;

/// Which part of its feed a partition is, for a feed whose number of partitions was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of the first partition that was made together with it.
    pub first: u32,
    /// How many were made together: into so many slices the feed is divided for them.
    pub count: u32,
    /// It begins when all of these have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Partition>,
    /// Where it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upto: Option<Position>,
    /// It is to end, and so many partitions come after it: its owner gives it up, and nobody takes it to run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Part {
    /// A part of a feed whose number of partitions never changed.
    pub fn of_first(count: u32) -> Self {
        Part { first: 0, count, parents: Vec::new(), upto: None, next: None }
    }

    /// Which of its slices a partition is.
    pub fn index(&self, partition: Partition) -> u32 {
        partition.0.saturating_sub(self.first)
    }

    /// Whether a partition at this position has nothing left to do.
    pub fn ends_at(&self, position: &Position) -> bool {
        self.upto.as_ref() == Some(position)
    }

    /// Whether it is part of a change that is under way.
    pub fn is_changing(&self) -> bool {
        self.next.is_some() || self.upto.is_some() || !self.parents.is_empty()
    }

    /// Whether a partition at this position is to be run by its owner.
    pub fn is_to_run(&self, position: &Position) -> bool {
        self.next.is_none() && !self.ends_at(position)
    }
}

/// A change of the leases of a feed, in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reshape {
    /// The parts that leases have from now on.
    pub marked: Vec<(Partition, Part)>,
    /// New leases, and where they begin.
    pub born: Vec<(Partition, Part, Position)>,
    /// Leases that are removed.
    pub gone: Vec<Partition>,
    /// Leases that must have no owner.
    pub free: Vec<Partition>,
}

/// What there is to do next about the partitions of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing, or others have to finish first.
    Wait,
    /// Announce this number of partitions.
    Announce(u32),
    /// Give up these leases of owners that are gone.
    Free(Vec<Partition>),
    /// Set the barrier.
    Divide,
    /// Remove these leases, once nothing is parked in them.
    Remove(Vec<Partition>),
}

/// The leases of one feed, by what they are parts of.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    leases: &'a [&'a LeaseView],
    /// How many of them have never been reshaped.
    first: u32,
    /// Those that have not ended.
    going_on: BTreeSet<Partition>,
}

impl<'a> Layout<'a> {
    /// All leases of one feed.
    pub fn of(leases: &'a [&'a LeaseView]) -> Self {
        let first = leases.iter().filter(|lease| lease.part.is_none()).count() as u32;
        let ended = |lease: &LeaseView| {
            lease.owner.is_none() && lease.part.as_ref().is_some_and(|part| part.ends_at(&lease.position))
        };
        let going_on = leases.iter().filter(|lease| !ended(lease)).map(|lease| lease.id.partition).collect();
        Layout { leases, first, going_on }
    }

    /// Which part of the feed a lease is on.
    pub fn part(&self, lease: &LeaseView) -> Part {
        lease.part.clone().unwrap_or_else(|| Part::of_first(self.first))
    }

    /// Into how many partitions the feed is divided, or will be when the change that is under way is done.
    pub fn count(&self) -> u32 {
        let newest = self.leases.iter().max_by_key(|lease| lease.id.partition);
        newest.map_or(0, |lease| {
            let part = self.part(lease);
            part.next.unwrap_or(part.count)
        })
    }

    /// Whether the number of partitions is being changed.
    pub fn is_changing(&self) -> bool {
        self.leases.iter().any(|lease| self.part(lease).is_changing())
    }

    /// Whether a lease has nothing left to do, and nobody has it.
    pub fn has_ended(&self, lease: &LeaseView) -> bool {
        !self.going_on.contains(&lease.id.partition)
    }

    /// Whether a lease may be taken and run.
    pub fn may_run(&self, lease: &LeaseView) -> bool {
        let part = self.part(lease);
        part.is_to_run(&lease.position) && part.parents.iter().all(|parent| self.is_over(*parent))
    }

    /// Whether a partition has ended, or is gone already.
    fn is_over(&self, partition: Partition) -> bool {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::ChildrenDoNotWait) {
            return true;
        }
        !self.going_on.contains(&partition)
    }

    /// What is next. `wanted` is the number of partitions that this host is to bring about; `is_dead` says whether an owner is gone.
    pub fn next_step(&self, wanted: Option<u32>, is_dead: impl Fn(&LeaseView) -> bool) -> NextStep {
        let left_behind: Vec<Partition> = self.left_behind(is_dead).collect();
        if !left_behind.is_empty() {
            return NextStep::Free(left_behind);
        }
        let announced = self.having(|part| part.next.is_some());
        if !announced.is_empty() {
            let are_free = announced.iter().all(|lease| lease.owner.is_none());
            return if are_free { NextStep::Divide } else { NextStep::Wait };
        }
        let old = self.having(|part| part.upto.is_some());
        if !old.is_empty() {
            let have_ended = old.iter().all(|lease| self.has_ended(lease));
            let children = self.having(|part| !part.parents.is_empty());
            let have_begun = children.iter().all(|child| child.epoch.0 > 0);
            let old = old.iter().map(|lease| lease.id.partition).collect();
            return if have_ended && have_begun { NextStep::Remove(old) } else { NextStep::Wait };
        }
        match wanted.filter(|wanted| !self.leases.is_empty() && *wanted != self.count()) {
            Some(wanted) => NextStep::Announce(wanted),
            None => NextStep::Wait,
        }
    }

    /// Leases that nobody will run any more, and whose owners are gone.
    fn left_behind(&self, is_dead: impl Fn(&LeaseView) -> bool) -> impl Iterator<Item = Partition> {
        let is_left = move |lease: &&&LeaseView| {
            !self.part(lease).is_to_run(&lease.position) && lease.owner.is_some() && is_dead(lease)
        };
        self.leases.iter().filter(is_left).map(|lease| lease.id.partition)
    }

    fn having(&self, is: impl Fn(&Part) -> bool) -> Vec<&'a LeaseView> {
        self.leases.iter().copied().filter(|lease| is(&self.part(lease))).collect()
    }

    /// All leases are to be given up, so that others can follow.
    pub fn announce(&self, next: u32) -> Reshape {
        let part = |lease: &&LeaseView| {
            (lease.id.partition, Part { next: Some(next), parents: Vec::new(), ..self.part(lease) })
        };
        Reshape { marked: self.leases.iter().map(part).collect(), ..Reshape::default() }
    }

    /// The announced ones end at the barrier, and new ones begin there.
    pub fn divide(&self, barrier: &Position) -> Reshape {
        let old = self.having(|part| part.next.is_some());
        let parents: Vec<Partition> = old.iter().map(|lease| lease.id.partition).collect();
        let count = old.iter().find_map(|lease| self.part(lease).next).unwrap_or(1);
        let first = self.leases.iter().map(|lease| lease.id.partition.0 + 1).max().unwrap_or(0);
        let ending = |lease: &LeaseView| Part { upto: Some(barrier.clone()), next: None, ..self.part(lease) };
        let child = Part { parents: parents.clone(), first, ..Part::of_first(count) };
        Reshape {
            marked: old.iter().map(|lease| (lease.id.partition, ending(lease))).collect(),
            born: (first..first + count)
                .map(|new| (Partition(new), child.clone(), barrier.clone()))
                .collect(),
            free: parents,
            ..Reshape::default()
        }
    }

    /// These leases go, and are nobody's parents any more.
    pub fn remove(&self, old: &[Partition]) -> Reshape {
        let children = self.having(|part| !part.parents.is_empty());
        let orphan = |lease: &LeaseView| Part { parents: Vec::new(), ..self.part(lease) };
        Reshape {
            marked: children.iter().map(|lease| (lease.id.partition, orphan(lease))).collect(),
            gone: old.to_vec(),
            free: old.to_vec(),
            ..Reshape::default()
        }
    }
}
