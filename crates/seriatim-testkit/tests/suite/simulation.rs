//! The simulator: no run breaks a guarantee, the same seed gives the same history, and every deliberate bug is found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_testkit::sim::history::render;
use seriatim_testkit::sim::plan::{CallFault, Fault, Kind, Plan, Scene};
use seriatim_testkit::sim::shrink::shrink;
use seriatim_testkit::sim::timeline::timeline;
use seriatim_testkit::sim::{Mutant, run};

/// How many runs of the scenes concerned each deliberate bug may take to be found.
const FOUND_WITHIN: u64 = 1500;

/// Does something for each number, on as many threads as there are cores.
fn for_each(numbers: std::ops::Range<u64>, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

#[test]
fn a_thousand_runs_break_no_guarantee() {
    let found = Mutex::new(Vec::new());
    for_each(0..1000, |seed| {
        if let Some(violation) = run(&Plan::of(seed), None).violation {
            found.lock().unwrap().push(format!("seed {seed}: {violation}"));
        }
    });
    let found = found.into_inner().unwrap();
    assert!(
        found.is_empty(),
        "play it again: cargo run -p seriatim-testkit --bin simulate -- --runs 1 --seed …\n{found:#?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_history_byte_for_byte() {
    for seed in 0..40 {
        let history = || render(&run(&Plan::of(seed), None).history);
        let (first, second) = (history(), history());
        let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        assert!(first == second, "seed {seed}: {differs:?}");
        assert!(first.lines().count() > 5, "seed {seed}: {first}");
    }
}

/// Two workers, of which the first cannot be heard for longer than its holds last, and has a call that hangs.
fn unheard(seed: u64) -> Plan {
    let fault = |after, nth, kind| Fault { host: 0, after, nth, kind };
    let faults = vec![
        fault(1_000, 1, Kind::Call(CallFault::Slow(12_000, 0))),
        fault(3_000, 1, Kind::CutOff(15_000)),
        fault(3_000, 1, Kind::Call(CallFault::Slow(12_000, 0))),
    ];
    Plan {
        hosts: 2,
        chaos: 30_000,
        burst: 10_000,
        changes: 30,
        objects: 2,
        faults,
        ..Plan::in_scene(seed, Scene::Queue)
    }
}

#[test]
fn a_worker_that_cannot_be_heard_stops_what_it_is_sending() {
    for_each(0..100, |seed| {
        let found = run(&unheard(seed), None).violation;
        assert!(found.is_none(), "seed {seed}: {found:?}");
    });
}

/// A host that stands still for a little longer than its leases last, in the middle of handlers that fail.
fn stands_still(seed: u64) -> Plan {
    let pause = |after| Fault { host: 0, after, nth: 3, kind: Kind::Pause(9_500 + seed * 20) };
    let scene = if seed.is_multiple_of(2) { Scene::Plain } else { Scene::Transactional };
    let plan = Plan::in_scene(seed, scene);
    Plan {
        hosts: 2,
        batch: 6,
        flaky: 30,
        slow: 29,
        changes: 40,
        chaos: 40_000,
        burst: 30_000,
        faults: vec![pause(4_000), pause(20_000)],
        ..plan
    }
}

#[test]
fn a_host_that_stood_still_begins_no_further_attempt() {
    for_each(0..150, |seed| {
        let found = run(&stands_still(seed), None).violation;
        assert!(found.is_none(), "seed {seed}: {found:?}");
    });
}

/// Hosts that come and go in order, one after the other, with objects that take their time.
fn orderly(seed: u64) -> Plan {
    let plan = Plan::in_scene(seed, Scene::Plain);
    let stop = |number: u64| Fault {
        host: (number % 3) as usize,
        after: 2_000 + number * 1_700,
        nth: 1,
        kind: Kind::Stop(number * 311 % 2_000),
    };
    let faults = (0..10).map(stop).collect();
    Plan {
        hosts: 3,
        poison: 0,
        flaky: 0,
        slow: 29,
        changes: 40,
        rewinds: false,
        batch: 1 + plan.batch % 3,
        faults,
        ..plan
    }
}

#[test]
fn hosts_that_come_and_go_in_order_repeat_nothing() {
    for_each(0..300, |seed| {
        let outcome = run(&orderly(seed), None);
        let found = outcome.violation;
        assert!(found.is_none(), "seed {seed}: {found:?}\n{}", timeline(&outcome.history, usize::MAX));
    });
}

/// The scenes in which a deliberate bug can show.
fn scenes(mutant: Mutant) -> &'static [Scene] {
    match mutant {
        Mutant::HorizonIgnored => &[Scene::Windows],
        Mutant::ChildrenDoNotWait => &[Scene::Divided],
        Mutant::CompleteWithoutAttempt
        | Mutant::TakeOverWithoutCompare
        | Mutant::TimeOutByHostClock
        | Mutant::UnknownRunsAgain => &[Scene::Once],
        Mutant::RecordWithoutEpoch
        | Mutant::ReleaseInTwoSteps
        | Mutant::RecoverWithoutBeat
        | Mutant::EarlyEventForgotten
        | Mutant::SendWithoutTrust => &[Scene::Queue],
        _ => &[Scene::Plain, Scene::Transactional],
    }
}

fn finds(mutant: Mutant) -> Option<(u64, Plan)> {
    (0..FOUND_WITHIN).find_map(|seed| {
        let scenes = scenes(mutant);
        let plan = Plan::in_scene(seed, scenes[(seed % scenes.len() as u64) as usize]);
        run(&plan, Some(mutant)).violation.map(|_| (seed + 1, plan))
    })
}

#[test]
fn every_deliberate_bug_is_found() {
    let missed = Mutex::new(Vec::new());
    for_each(0..Mutant::ALL.len() as u64, |number| {
        let mutant = Mutant::ALL[number as usize];
        match finds(mutant) {
            Some((runs, _)) => println!("{mutant:?} was found within {runs} runs"),
            None => missed.lock().unwrap().push(mutant),
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found within {FOUND_WITHIN} runs: {missed:?}");
}

#[test]
fn a_failure_is_shrunk_and_fails_in_the_same_way() {
    // One with faults enough that some of them are not needed.
    let scenes = scenes(Mutant::CheckpointWithoutEpoch);
    let mut plans = (0..FOUND_WITHIN).map(|seed| Plan::in_scene(seed, scenes[0]));
    let fails = |plan: &Plan| run(plan, Some(Mutant::CheckpointWithoutEpoch)).violation.is_some();
    let plan = plans.find(|plan| plan.faults.len() >= 4 && fails(plan)).expect("it is found");
    let whole = run(&plan, Some(Mutant::CheckpointWithoutEpoch)).violation.unwrap();
    let (reduction, outcome) = shrink(&plan, Some(Mutant::CheckpointWithoutEpoch), whole.guarantee).unwrap();
    assert_eq!(outcome.violation.as_ref().unwrap().guarantee, whole.guarantee);
    let smaller = plan.clone().reduced(&reduction);
    assert!(smaller.faults.len() < plan.faults.len() && smaller.changes <= plan.changes);
    // What was shown is what a replay shows.
    let again = run(&smaller, Some(Mutant::CheckpointWithoutEpoch));
    assert_eq!(render(&again.history), render(&outcome.history));
}
