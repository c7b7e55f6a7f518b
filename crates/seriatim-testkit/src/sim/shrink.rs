//! Makes a failure small enough to read: fewer hosts, fewer faults, fewer changes.

use super::plan::{Plan, Reduction};
use super::{Mutant, Outcome, run};

/// How many runs shrinking may take.
const MOST_RUNS: usize = 300;

/// The smallest reduction found under which the plan still breaks the same guarantee, and what came of it.
pub fn shrink(plan: &Plan, mutant: Option<Mutant>, guarantee: &str) -> Option<(Reduction, Outcome)> {
    let mut shrinking = Shrinking { plan, mutant, guarantee, runs: 0, best: None };
    let mut reduction = Reduction::default();
    if !shrinking.fails(&reduction) {
        return None;
    }
    for hosts in 1..plan.hosts {
        let fewer = Reduction { hosts: Some(hosts), ..reduction.clone() };
        if shrinking.fails(&fewer) {
            reduction = fewer;
            break;
        }
    }
    let without = Reduction { no_poison: true, ..reduction.clone() };
    if plan.poison > 0 && shrinking.fails(&without) {
        reduction = without;
    }
    reduction = shrinking.fewer_faults(reduction);
    reduction = shrinking.fewer_changes(reduction);
    reduction = shrinking.fewer_faults(reduction);
    shrinking.best.map(|outcome| (reduction, outcome))
}

struct Shrinking<'a> {
    plan: &'a Plan,
    mutant: Option<Mutant>,
    guarantee: &'a str,
    runs: usize,
    best: Option<Outcome>,
}

impl Shrinking<'_> {
    fn fails(&mut self, reduction: &Reduction) -> bool {
        if self.runs >= MOST_RUNS {
            return false;
        }
        self.runs += 1;
        let outcome = run(&self.plan.clone().reduced(reduction), self.mutant);
        let same = outcome.violation.as_ref().is_some_and(|found| found.guarantee == self.guarantee);
        if same {
            self.best = Some(outcome);
        }
        same
    }

    /// Leaves faults out, in ever smaller groups.
    fn fewer_faults(&mut self, from: Reduction) -> Reduction {
        let mut kept = from.faults.clone().unwrap_or_else(|| (0..self.plan.faults.len()).collect());
        let mut group = kept.len().div_ceil(2).max(1);
        loop {
            let mut start = 0;
            while start < kept.len() {
                let without: Vec<usize> = kept
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| !(start..start + group).contains(place))
                    .map(|(_, fault)| *fault)
                    .collect();
                let fewer = Reduction { faults: Some(without.clone()), ..from.clone() };
                if self.fails(&fewer) {
                    kept = without;
                } else {
                    start += group;
                }
            }
            if group == 1 {
                return Reduction { faults: Some(kept), ..from };
            }
            group = group.div_ceil(2);
        }
    }

    fn fewer_changes(&mut self, from: Reduction) -> Reduction {
        let mut best = from;
        for changes in 1..self.plan.changes {
            let fewer = Reduction { changes: Some(changes), ..best.clone() };
            if self.fails(&fewer) {
                best = fewer;
                break;
            }
        }
        best
    }
}
