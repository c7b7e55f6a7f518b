//! Runs the simulator: `simulate --runs N --seed S --minutes M`. A failure is shrunk and shown as a timeline.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seriatim_testkit::sim::coverage::Coverage;
use seriatim_testkit::sim::history::render;
use seriatim_testkit::sim::plan::{Plan, Reduction, Scene};
use seriatim_testkit::sim::shrink::shrink;
use seriatim_testkit::sim::timeline::timeline;
use seriatim_testkit::sim::{Mutant, Outcome, Violation, run};

const HELP: &str = "\
Simulates hosts, callers and workers under faults and checks the guarantees.

  --runs N       how many runs (1000), from seed to seed
  --seed S       the first seed (0)
  --minutes M    go on until so many minutes are over, whatever --runs says
  --scene NAME   only Plain, Transactional, Windows, Once or Queue
  --mutant NAME  with this deliberate bug; `--mutant list` shows all
  --history      print the whole history of each run

To play a shrunk failure again: --seed S --runs 1 and what was shown with it:
  --hosts N  --changes N  --faults 1,4,7|none  --no-poison";

#[derive(Default)]
struct Options {
    runs: Option<u64>,
    seed: u64,
    minutes: Option<u64>,
    scene: Option<Scene>,
    mutant: Option<Mutant>,
    history: bool,
    reduction: Reduction,
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--runs" => options.runs = Some(number(&value()?)?),
            "--seed" => options.seed = number(&value()?)?,
            "--minutes" => options.minutes = Some(number(&value()?)?),
            "--scene" => options.scene = Some(named(&value()?, &Scene::ALL)?),
            "--mutant" => options.mutant = Some(named(&value()?, &Mutant::ALL)?),
            "--history" => options.history = true,
            "--hosts" => options.reduction.hosts = Some(number(&value()?)? as usize),
            "--changes" => options.reduction.changes = Some(number(&value()?)? as usize),
            "--faults" => options.reduction.faults = Some(numbers(&value()?)?),
            "--no-poison" => options.reduction.no_poison = true,
            _ => return Err(format!("{word} is not an option\n\n{HELP}")),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn numbers(text: &str) -> Result<Vec<usize>, String> {
    match text {
        "none" => Ok(Vec::new()),
        text => text.split(',').map(|number_| number(number_).map(|number| number as usize)).collect(),
    }
}

fn named<T: Copy + std::fmt::Debug>(name: &str, all: &[T]) -> Result<T, String> {
    let names = || all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
    let found = all.iter().find(|one| format!("{one:?}").eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| format!("{name} is none of: {}", names()))
}

/// What all threads have done together.
#[derive(Default)]
struct Totals {
    coverage: Mutex<Coverage>,
    runs: AtomicU64,
    steps: AtomicU64,
    found: Mutex<Vec<(Plan, Violation)>>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::from(2);
        }
    };
    let began = seriatim::clock::now();
    let totals = Totals::default();
    go(&options, &totals);
    let (runs, steps) = (totals.runs.into_inner(), totals.steps.into_inner());
    let coverage = totals.coverage.into_inner().unwrap_or_default();
    let found = totals.found.into_inner().unwrap_or_default();
    println!("{runs} runs, {steps} steps, {:.1} s\n{coverage}", began.elapsed().as_secs_f64());
    match found.first() {
        None => {
            println!("nothing found");
            ExitCode::SUCCESS
        }
        Some((plan, violation)) => {
            show(plan, violation, &options);
            ExitCode::FAILURE
        }
    }
}

fn go(options: &Options, totals: &Totals) {
    let (next, stop) = (AtomicU64::new(options.seed), AtomicBool::new(false));
    let deadline = options.minutes.map(|minutes| seriatim::clock::now() + Duration::from_secs(60 * minutes));
    let last = match (options.runs, options.minutes) {
        (None, Some(_)) => u64::MAX,
        (runs, _) => options.seed + runs.unwrap_or(1000),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && deadline.is_none_or(|at| seriatim::clock::now() < at) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        return;
                    }
                    let plan =
                        options.scene.map_or_else(|| Plan::of(seed), |scene| Plan::in_scene(seed, scene));
                    let outcome = run(&plan.clone().reduced(&options.reduction), options.mutant);
                    if totals.add(&plan, outcome, options.history) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

impl Totals {
    /// Adds what came of a run; whether something was found.
    fn add(&self, plan: &Plan, outcome: Outcome, history: bool) -> bool {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.steps.fetch_add(outcome.steps, Ordering::Relaxed);
        if history {
            print!("seed {}\n{}", plan.seed, render(&outcome.history));
        }
        if let Ok(mut coverage) = self.coverage.lock() {
            coverage.merge(outcome.coverage);
        }
        let Some(violation) = outcome.violation else { return false };
        if let Ok(mut found) = self.found.lock() {
            found.push((plan.clone(), violation));
        }
        true
    }
}

fn show(plan: &Plan, violation: &Violation, options: &Options) {
    println!("FOUND with seed {} ({:?}): {violation}", plan.seed, plan.scene);
    println!("play it again: --seed {} --runs 1{}{}", plan.seed, scene(options), options.reduction);
    if options.reduction != Reduction::default() {
        let outcome = run(&plan.clone().reduced(&options.reduction), options.mutant);
        println!("{}", timeline(&outcome.history, outcome.violation.map_or(usize::MAX, |found| found.at)));
        return;
    }
    println!("making it smaller …");
    let Some((reduction, outcome)) = shrink(plan, options.mutant, violation.guarantee) else { return };
    let Some(smaller) = outcome.violation else { return };
    let smallest = plan.clone().reduced(&reduction);
    println!("{} hosts, {} changes, {:?}", smallest.hosts, smallest.changes, smallest.faults);
    println!("play it again: --seed {} --runs 1{}{reduction}\n", plan.seed, scene(options));
    println!("{}      {smaller}", timeline(&outcome.history, smaller.at));
}

/// What the options say about which run a seed means.
fn scene(options: &Options) -> String {
    let scene = options.scene.map(|scene| format!(" --scene {scene:?}"));
    let mutant = options.mutant.map(|mutant| format!(" --mutant {mutant:?}"));
    scene.unwrap_or_default() + &mutant.unwrap_or_default()
}
