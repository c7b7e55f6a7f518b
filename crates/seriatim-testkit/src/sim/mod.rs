//! The simulator: the library itself on one thread, with simulated time, over models of the databases, and with whatever can
//! go wrong going wrong, drawn from a seed. The same seed gives the same history, byte for byte.
//!
//! ```text
//!   seed ──▶ plan ──▶ run: hosts, callers, workers (the real ones) ── link ──▶ model store, model source
//!                       │            crash · pause · stop · clock jump · cut off · call fails, is lost, slow, late
//!                       ▼
//!                    history ──▶ checkers of G1-G6, which know nothing of the library ──▶ violation ──▶ shrunk, as a timeline
//! ```

pub mod check;
pub mod coverage;
mod events;
mod feeds;
pub mod history;
mod ledger;
mod link;
pub mod plan;
mod queue;
mod scheduler;
pub mod shrink;
mod signals;
mod source;
mod store;
mod table;
pub mod timeline;
mod world;

pub use check::Violation;
use std::sync::Arc;

use seriatim::handler::Handler;

use coverage::Coverage;
use history::Entry;
use plan::{Plan, Scene};
pub use scheduler::{Machine, Scheduler};
pub use seriatim::simulation::Mutant;
use world::World;

/// A run with more steps than this does not come to an end.
const MOST_STEPS: u64 = 400_000;

/// What came of a run.
pub struct Outcome {
    /// What happened.
    pub history: Vec<Entry>,
    /// What was met on the way.
    pub coverage: Coverage,
    /// How many steps it took.
    pub steps: u64,
    /// What must not be, if it is so.
    pub violation: Option<Violation>,
}

/// Runs a plan, with a deliberate bug or without, and checks what happened.
pub fn run(plan: &Plan, mutant: Option<Mutant>) -> Outcome {
    run_with(plan, mutant, None)
}

/// Runs a plan, in [`Scene::Plain`] perhaps with a handler of somebody's own.
pub(crate) fn run_with(plan: &Plan, mutant: Option<Mutant>, handler: Option<Arc<dyn Handler>>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // All that is woken asks for its turn before the next one is drawn.
        .event_interval(u32::MAX)
        .build()
        .expect("a runtime");
    let (world, came_to_its_end) = runtime.block_on(async {
        let world = World::begin(plan.clone(), mutant);
        match plan.scene {
            Scene::Plain | Scene::Transactional | Scene::Divided => feeds::set(&world, handler.clone()),
            Scene::Windows => table::set(&world),
            Scene::Once => signals::set(&world),
            Scene::Queue => events::set(&world),
        }
        let ended = world.scheduler.run(MOST_STEPS, |alarm| world.strike(alarm)).await;
        (world, ended)
    });
    let (history, steps) = (world.history.take(), world.scheduler.steps());
    let coverage = world.coverage.take();
    World::end();
    drop(runtime);
    let violation = match (world.scheduler.panicked(), came_to_its_end) {
        (Some(machine), _) => Some(Violation::panicked(machine, &history)),
        (None, true) => check::all(&history),
        (None, false) => Some(Violation::endless(&history)),
    };
    Outcome { history, coverage, steps, violation }
}
