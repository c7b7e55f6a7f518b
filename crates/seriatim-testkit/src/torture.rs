//! A handler of one's own, under whatever can go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use seriatim::handler::Handler;

use crate::sim::history::{Entry, What};
use crate::sim::plan::{Plan, Scene};
use crate::sim::{Violation, run_with};

/// Runs a handler under crashes, pauses, hand-overs, lost answers and late commits, all simulated, and reports what it saw.
///
/// Three hosts share the handler, so what it keeps in memory stands for what it would keep in a database. Changes are of
/// objects with the key `{"id": n}`; their rows are `{"id": n, "value": v}`, where `v` is the change's own number.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
/// use seriatim::{Change, Context, Failure, Value};
/// use seriatim_testkit::torture;
///
/// // Keeps the latest value of each object: told twice, it does the same again.
/// let latest = Arc::new(Mutex::new(BTreeMap::<String, Option<Value>>::new()));
/// let kept = latest.clone();
/// let report = torture(move |change: Change, _: Context| {
///     let kept = kept.clone();
///     async move {
///         if let (Some(row), Some(key)) = (&change.after, &change.key) {
///             kept.lock().unwrap().insert(key.to_string(), row.get("value").cloned());
///         }
///         Ok::<(), Failure>(())
///     }
/// });
/// assert!(report.lost.is_empty() && report.broken.is_none(), "{report}");
/// println!("{report}");
/// // After all that, each object has the value of its last change.
/// for (object, value) in report.latest() {
///     assert_eq!(latest.lock().unwrap()[&format!("{{\"id\":{object}}}")], Some(Value::Integer(value as i64)));
/// }
/// ```
pub fn torture(handler: impl Handler) -> Report {
    Torture::default().run(handler)
}

/// How a handler is tortured. The same settings give the same faults at the same moments.
#[derive(Clone, Debug)]
pub struct Torture {
    /// Where the faults are drawn from.
    pub seed: u64,
    /// How many changes there are.
    pub changes: usize,
    /// Of how many objects they are.
    pub objects: u32,
    /// How many changes the handler gets at most in one call.
    pub batch: usize,
}

impl Default for Torture {
    fn default() -> Self {
        Torture { seed: 1, changes: 300, objects: 10, batch: 10 }
    }
}

impl Torture {
    /// Runs a handler and reports what it saw. It must not wait for anything outside of the simulation, such as a network.
    pub fn run(&self, handler: impl Handler) -> Report {
        let mut plan = Plan::in_scene(self.seed, Scene::Plain);
        let mut more = (1..).map(|number| Plan::in_scene(self.seed ^ (number << 32), Scene::Plain));
        (plan.hosts, plan.chaos, plan.burst, plan.poison) = (3, 60_000, 60_000, 0);
        (plan.changes, plan.objects, plan.batch) = (self.changes, self.objects, self.batch);
        (plan.rewinds, plan.truncates) = (false, 0);
        while plan.faults.len() < 30 {
            plan.faults.extend(more.next().into_iter().flat_map(|plan| plan.faults));
        }
        let outcome = run_with(&plan, None, Some(Arc::new(handler)));
        Report::of(&outcome.history, outcome.violation)
    }
}

/// What a handler saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The objects and numbers of all changes, in the order of their commits.
    pub committed: Vec<(i64, u64)>,
    /// The numbers of the changes that it handled successfully, in the order in which it did.
    pub handled: Vec<u64>,
    /// How often it failed.
    pub failures: u64,
    /// Changes that it handled more than once.
    pub twice: Vec<u64>,
    /// Changes that it handled after a later one of the same object, because they came again.
    pub again_after_later: Vec<u64>,
    /// Changes that it never handled: it failed to the end, and they are parked.
    pub lost: Vec<u64>,
    /// A guarantee that was broken, which is a fault of Seriatim.
    pub broken: Option<Violation>,
}

impl Report {
    fn of(history: &[Entry], violation: Option<Violation>) -> Self {
        // A handler that fails to the end keeps its changes parked: that is its own doing.
        let broken = violation.filter(|violation| !violation.what.contains("parked"));
        let mut report = Report { broken, ..Report::default() };
        let mut newest: BTreeMap<i64, usize> = BTreeMap::new();
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        let mut places = BTreeMap::new();
        for entry in history {
            match &entry.what {
                What::Committed { key, change, .. } => {
                    places.insert(*change, (*key, places.len()));
                    report.committed.push((*key, *change));
                }
                What::Failed { .. } => report.failures += 1,
                What::Handled { change, .. } => {
                    report.handled.push(*change);
                    let Some((key, place)) = places.get(change).copied() else { continue };
                    let latest = newest.entry(key).or_insert(place);
                    if place < *latest {
                        report.again_after_later.push(*change);
                    }
                    *latest = place.max(*latest);
                    if !seen.insert(*change) {
                        twice.insert(*change);
                    }
                }
                _ => {}
            }
        }
        report.twice = twice.into_iter().collect();
        report.lost = report
            .committed
            .iter()
            .map(|(_, change)| *change)
            .filter(|change| !seen.contains(change))
            .collect();
        report
    }

    /// The number of each object's last change.
    pub fn latest(&self) -> BTreeMap<i64, u64> {
        self.committed.iter().copied().collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} changes; {} handled more than once, {} of them after a later one; {} failures; {} lost",
            self.committed.len(),
            self.twice.len(),
            self.again_after_later.len(),
            self.failures,
            self.lost.len()
        )?;
        self.broken.as_ref().map_or(Ok(()), |broken| write!(f, "; a guarantee was broken: {broken}"))
    }
}
