//! Which call meets which fault: decided here, carried out in `mod.rs`.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use super::Hold;

/// An operation of the store, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Identity,
    Join,
    Leave,
    Ensure,
    Feeds,
    View,
    Acquire,
    Renew,
    RequestHandOver,
    Release,
    Checkpoint,
    Rewind,
    Parked,
    ParkedObject,
    ParkedChanges,
    RetryParked,
    DiscardParked,
    Discarded,
    Chained,
    Reshape,
    AdoptParked,
    Forget,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 22] = [
        Operation::Identity,
        Operation::Join,
        Operation::Leave,
        Operation::Ensure,
        Operation::Feeds,
        Operation::View,
        Operation::Acquire,
        Operation::Renew,
        Operation::RequestHandOver,
        Operation::Release,
        Operation::Checkpoint,
        Operation::Rewind,
        Operation::Parked,
        Operation::ParkedObject,
        Operation::ParkedChanges,
        Operation::RetryParked,
        Operation::DiscardParked,
        Operation::Discarded,
        Operation::Chained,
        Operation::Reshape,
        Operation::AdoptParked,
        Operation::Forget,
    ];
}

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It fails and does not happen.
    Before,
    /// It happens and fails all the same: the answer is lost.
    After,
    /// It waits until the test lets it go.
    Hold(Hold),
    /// It waits this long, then happens.
    Slow(Duration),
}

/// How likely each fault is for a call, from 0 to 1. Together they are at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odds {
    /// Of failing before it takes effect.
    pub before: f64,
    /// Of losing the answer.
    pub after: f64,
    /// Of being slow.
    pub slow: f64,
    /// How slow at most.
    pub delay: Duration,
}

/// The faults to come, for the operations of one contract.
pub(super) struct Plan<O = Operation> {
    next: HashMap<O, VecDeque<Fault>>,
    always: HashMap<O, Fault>,
    random: Option<(fastrand::Rng, Odds)>,
    calls: HashMap<O, u64>,
}

impl<O> Default for Plan<O> {
    fn default() -> Self {
        Plan { next: HashMap::default(), always: HashMap::default(), random: None, calls: HashMap::default() }
    }
}

impl<O: Copy + Eq + Hash> Plan<O> {
    pub(super) fn next(&mut self, operation: O, fault: Fault) {
        self.next.entry(operation).or_default().push_back(fault);
    }

    pub(super) fn always(&mut self, operation: O, fault: Fault) {
        self.always.insert(operation, fault);
    }

    pub(super) fn at_random(&mut self, seed: u64, odds: Odds) {
        self.random = Some((fastrand::Rng::with_seed(seed), odds));
    }

    pub(super) fn heal(&mut self) {
        self.always.clear();
        self.random = None;
    }

    pub(super) fn calls(&self, operation: O) -> u64 {
        self.calls.get(&operation).copied().unwrap_or(0)
    }

    /// The fault for a call that comes now.
    pub(super) fn draw(&mut self, operation: O) -> Option<Fault> {
        *self.calls.entry(operation).or_default() += 1;
        let next = self.next.get_mut(&operation).and_then(VecDeque::pop_front);
        let fault = next.or_else(|| self.always.get(&operation).cloned());
        fault.or_else(|| self.random.as_mut().and_then(|(random, odds)| odds.draw(random)))
    }
}

impl Odds {
    fn draw(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        let (luck, delay) = (random.f64(), self.delay.mul_f64(random.f64()));
        if luck < self.before {
            Some(Fault::Before)
        } else if luck < self.before + self.after {
            Some(Fault::After)
        } else if luck < self.before + self.after + self.slow {
            Some(Fault::Slow(delay))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_fault_comes_once_and_before_the_lasting_one() {
        let mut plan = Plan::default();
        plan.always(Operation::Renew, Fault::Before);
        plan.next(Operation::Renew, Fault::After);
        assert!(matches!(plan.draw(Operation::Renew), Some(Fault::After)));
        assert!(matches!(plan.draw(Operation::Renew), Some(Fault::Before)));
        plan.heal();
        assert!(plan.draw(Operation::Renew).is_none());
        assert_eq!((plan.calls(Operation::Renew), plan.calls(Operation::View)), (3, 0));
    }

    #[test]
    fn one_seed_draws_the_same_faults() {
        let odds = Odds { before: 0.2, after: 0.2, slow: 0.2, delay: Duration::from_millis(5) };
        let faults = |seed| {
            let mut plan = Plan::default();
            plan.at_random(seed, odds);
            let drawn: Vec<String> =
                (0..64).map(|_| format!("{:?}", plan.draw(Operation::Checkpoint))).collect();
            drawn
        };
        assert_eq!(faults(7), faults(7));
        assert_ne!(faults(7), faults(8));
    }
}
