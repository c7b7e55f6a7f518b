//! Chaos: a fleet of real processes on real databases, to which a seed does what happens to fleets.
//!
//! ```text
//!   seed ──▶ plan ──▶ run: hosts of the real program, writers ── kill -9 · SIGSTOP · SIGTERM · servers restarted · connections cut
//!                       │  each process notes what it does in one journal
//!                       ▼
//!            journal + what the databases say ──▶ story ──▶ the simulator's history and checkers ──▶ violation
//! ```
//!
//! The plan follows from the seed; what comes of it does not, since the system runs the processes: a seed that found something
//! may have to be run several times to find it again.

mod database;
mod deeds;
mod fleet;
mod journal;
mod metronome;
mod place;
pub mod plan;
mod run;
mod story;
mod trouble;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sim::check::{self, Violation};
use crate::sim::history::{Entry, What};
use crate::sim::timeline::timeline;
use place::Place;
use plan::Plan;
use run::Run;
pub use trouble::Trouble;

/// How many entries of a history are shown before what went wrong.
const SHOWN: usize = 120;

/// What came of a run.
pub struct Outcome {
    /// The plan that was carried out.
    pub plan: Plan,
    /// What happened.
    pub history: Vec<Entry>,
    /// How long it took.
    pub took: Duration,
    /// What processes said that could not begin because something was done to their servers.
    pub gave_up: Vec<String>,
    /// What must not be, if it is so.
    pub violation: Option<Violation>,
    /// Where the run's files were kept, if something went wrong.
    pub kept: Option<PathBuf>,
}

/// Carries a plan out with this program, and judges what happened.
pub fn run(plan: &Plan, program: &Path) -> Result<Outcome, Trouble> {
    let began = seriatim::clock::now();
    let mut run = Run::begin(plan, Place::prepare(plan, program)?)?;
    let carried_out = run.carry_out();
    let (wrong, gave_up) = (std::mem::take(&mut run.wrong), std::mem::take(&mut run.gave_up));
    let mut place = run.into_place();
    let (lines, facts) = match carried_out {
        Ok(done) => done,
        Err(trouble) => {
            let kept = place.keep();
            return Err(Trouble::new(format!("{trouble} (its files are in {})", kept.display())));
        }
    };
    let history = story::history(&lines, &facts);
    let violation =
        check::all(&history).or_else(|| stated(&wrong, &history)).or_else(|| panicked(&place, &history));
    let kept = violation.is_some().then(|| place.keep());
    Ok(Outcome { plan: plan.clone(), history, took: began.elapsed(), gave_up, violation, kept })
}

/// What the one who carried the plan out saw.
fn stated(wrong: &[String], history: &[Entry]) -> Option<Violation> {
    let what = wrong.first()?.clone();
    Some(Violation { guarantee: "G6 No stall", what, at: history.len() })
}

/// No process panics, whatever is done to it.
fn panicked(place: &Place, history: &[Entry]) -> Option<Violation> {
    let logs = (1..).map(|machine| place.path(&fleet::log_of(machine))).take_while(|log| log.exists());
    let mut panics = logs.filter_map(|log| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().find(|line| line.contains("panicked")).map(str::to_owned)
    });
    let what = panics.next()?;
    Some(Violation { guarantee: "G6 No stall", what, at: history.len() })
}

impl Outcome {
    fn count(&self, is_meant: impl Fn(&What) -> bool) -> usize {
        self.history.iter().filter(|entry| is_meant(&entry.what)).count()
    }

    /// How many changes of the table were committed.
    pub fn committed(&self) -> usize {
        self.count(|what| matches!(what, What::Committed { feed: 0, .. }))
    }

    /// How often a command was given a change again that was handled.
    pub fn again(&self) -> usize {
        let mut times = BTreeMap::<u64, usize>::new();
        for entry in &self.history {
            if let What::Handled { change, .. } = entry.what {
                *times.entry(change).or_default() += 1;
            }
        }
        times.values().map(|times| times - 1).sum()
    }

    /// The plan, what was wrong and what had happened before it, for people to read.
    pub fn told(&self) -> String {
        let Some(violation) = &self.violation else { return String::new() };
        let plan = &self.plan;
        let steps: String = plan
            .steps
            .iter()
            .map(|step| format!("  after {:>2} changes: {}\n", step.after, step.deed))
            .collect();
        let before =
            timeline(&story::about(&self.history[..violation.at], &violation.what, SHOWN), usize::MAX);
        let kept = self.kept.as_ref().map(|kept| kept.display().to_string()).unwrap_or_default();
        format!(
            "seed {} on {}: {violation}\nthe plan: {} hosts, {} writers, {} objects, {} partitions\n{steps}\
             what came before it:\n{before}its files are in {kept}",
            plan.seed,
            plan.site.name(),
            plan.hosts,
            plan.writers,
            plan.keys,
            plan.partitions
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hurt = self.count(|what| matches!(what, What::Hurt { .. } | What::CutOff));
        write!(
            f,
            "{} changes, {} effects, {} handled again; {} processes, {} killed, {} stood still, {hurt} times servers or \
             connections hurt, {} starts that failed; {:.1} s",
            self.committed(),
            self.count(|what| matches!(what, What::Effect { .. })),
            self.again(),
            self.count(|what| matches!(what, What::Started { .. })),
            self.count(|what| matches!(what, What::Crashed { .. })),
            self.plan.steps.iter().filter(|step| matches!(step.deed, plan::Deed::Stand { .. })).count(),
            self.gave_up.len(),
            self.took.as_secs_f64()
        )
    }
}
