//! Each checker rejects a bad history, made by hand, and accepts the good one beside it.

use super::*;
use crate::sim::history::{EVERYTHING, What};
use crate::sim::scheduler::Machine;

/// Things that happened on machines, a second apart.
fn history(happened: impl IntoIterator<Item = (u32, What)>) -> Vec<Entry> {
    let entry = |(number, (machine, what)): (usize, (u32, What))| Entry {
        step: number as u64,
        at: number as u64 * 1000,
        machine: Machine(machine),
        what,
    };
    happened.into_iter().enumerate().map(entry).collect()
}

fn verdict(happened: Vec<(u32, What)>) -> String {
    all(&history(happened)).map_or_else(|| "fine".to_owned(), |violation| violation.to_string())
}

#[track_caller]
fn rejects(guarantee: &str, says: &str, happened: Vec<(u32, What)>) {
    let verdict = verdict(happened);
    assert!(verdict.starts_with(guarantee) && verdict.contains(says), "{verdict}");
}

fn committed(change: u64, key: i64) -> (u32, What) {
    (0, What::Committed { feed: 0, partition: 0, key, change })
}
fn sequenced(change: u64, position: u64) -> (u32, What) {
    (0, What::Sequenced { feed: 0, change, position })
}
fn acquired(machine: u32, epoch: u64, from: Option<&str>) -> (u32, What) {
    let from = from.map(str::to_owned);
    (machine, What::Acquired { feed: 0, partition: 0, epoch, from, seen: epoch - 1 })
}
fn checkpoint(machine: u32, epoch: u64, position: u64, unparked: &[u64], parked: &[u64]) -> (u32, What) {
    let (unparked, parked) = (unparked.to_vec(), parked.to_vec());
    (machine, What::Checkpointed { feed: 0, partition: 0, epoch, position, unparked, parked })
}
fn began(machine: u32, call: u64, changes: &[u64]) -> (u32, What) {
    (machine, What::Began { call, feed: 0, partition: 0, epoch: 1, changes: changes.to_vec() })
}
fn handled(machine: u32, call: u64, change: u64) -> (u32, What) {
    (machine, What::Handled { call, change })
}
fn ended(machine: u32, call: u64) -> (u32, What) {
    (machine, What::Ended { call })
}
fn effect(machine: u32, changes: &[u64]) -> (u32, What) {
    (machine, What::Effect { feed: 0, partition: 0, epoch: 1, changes: changes.to_vec() })
}
fn over() -> (u32, What) {
    (0, What::Over)
}

/// One change, from its commit to its checkpoint.
fn a_good_start() -> Vec<(u32, What)> {
    vec![
        committed(1, 7),
        sequenced(1, 1),
        acquired(1, 1, None),
        began(1, 1, &[1]),
        handled(1, 1, 1),
        ended(1, 1),
        checkpoint(1, 1, 1, &[], &[]),
    ]
}

fn then(more: Vec<(u32, What)>) -> Vec<(u32, What)> {
    a_good_start().into_iter().chain(more).collect()
}

#[test]
fn a_good_history_is_accepted() {
    assert_eq!(verdict(then(vec![(0, What::Calm), (0, What::Cured), over()])), "fine");
    // A change that is parked with the checkpoint that passes it, and handled later.
    let parked = vec![
        committed(2, 7),
        sequenced(2, 2),
        checkpoint(1, 1, 2, &[], &[2]),
        began(1, 2, &[2]),
        handled(1, 2, 2),
        ended(1, 2),
        checkpoint(1, 1, 2, &[2], &[]),
        over(),
    ];
    assert_eq!(verdict(then(parked)), "fine");
}

#[test]
fn g1_a_checkpoint_past_what_nobody_handled_is_rejected() {
    let passed = vec![committed(2, 7), sequenced(2, 2), checkpoint(1, 1, 2, &[], &[])];
    rejects("G1", "neither handled nor parked", then(passed));
    let behind = vec![committed(2, 7), sequenced(2, 1)];
    rejects("G1", "neither handled nor parked", then(behind));
    let forgotten = vec![
        committed(2, 7),
        sequenced(2, 2),
        checkpoint(1, 1, 2, &[], &[2]),
        checkpoint(1, 1, 2, &[2], &[]),
    ];
    rejects("G1", "taken out", then(forgotten));
    rejects("G1", "never handled", then(vec![committed(2, 7), over()]));
    rejects("G1", "still parked", then(vec![(0, What::LeftParked { feed: 0, change: 1 })]));
}

#[test]
fn g2_overtaking_and_two_at_once_are_rejected() {
    let overtakes = vec![committed(2, 7), committed(3, 7), began(1, 2, &[3]), handled(1, 2, 3)];
    rejects("G2", "before change 2", then(overtakes));
    let together = vec![committed(2, 7), began(1, 2, &[2]), began(2, 3, &[2])];
    rejects("G2", "at the same object", then(together));
    rejects(
        "G2",
        "says that it follows",
        then(vec![committed(2, 7), (1, What::Linked { change: 2, prev: None })]),
    );
    assert_eq!(verdict(then(vec![committed(2, 7), (1, What::Linked { change: 2, prev: Some(1) })])), "fine");
    // Nobody can keep a process that stands still from going on later.
    let zombie = vec![committed(2, 7), began(1, 2, &[2]), (1, What::Paused), began(2, 3, &[2])];
    assert_eq!(verdict(then(zombie)), "fine");
}

#[test]
fn g3_an_effect_that_happens_twice_is_rejected() {
    rejects("G3", "happened twice", vec![committed(1, 7), effect(1, &[1]), effect(2, &[1])]);
    let dropped = (0, What::Discarded { feed: 0, changes: vec![1] });
    rejects("G3", "discarded", vec![committed(1, 7), dropped, effect(2, &[1])]);
}

#[test]
fn g3_a_change_that_comes_again_after_an_orderly_end_is_rejected() {
    let again = || vec![began(2, 2, &[1]), handled(2, 2, 1), ended(2, 2)];
    assert_eq!(verdict(then(again())), "fine");
    rejects("G3", "every host had ended", then([over()].into_iter().chain(again()).collect()));
    let later = || vec![acquired(2, 3, None), began_later(&[1]), handled(2, 9, 1)];
    rejects("G3", "nothing had gone wrong", then(later()));
    let crashed = (1, What::Crashed { at: "handle".to_owned() });
    assert_eq!(verdict(then([crashed].into_iter().chain(later()).collect())), "fine");
    let failed = (1, What::Failed { call: 1, change: 1 });
    assert_eq!(verdict(then([failed].into_iter().chain(later()).collect())), "fine");
}

#[test]
fn g3_a_signal_that_is_completed_twice_or_runs_twice_at_once_is_rejected() {
    let began = |machine, run, alone| (machine, What::RunBegan { signal: 0, run, alone, first: false });
    let done = |machine, run| (machine, What::RunEnded { signal: 0, run, done: true });
    let recorded = |machine, run| (machine, What::Completed { signal: 0, run, recorded: true });
    let told = |machine, run| (machine, What::Told { signal: 0, run, ran: false });
    assert_eq!(verdict(vec![began(1, 1, false), done(1, 1), recorded(1, 1), told(2, 1)]), "fine");
    rejects("G3", "in its time", vec![began(1, 1, false), began(2, 2, false)]);
    let late = [(1, What::Calm), (1, What::Calm), (1, What::Calm), (1, What::Calm), (1, What::Calm)];
    let later =
        |alone| std::iter::once(began(1, 1, alone)).chain(late.clone()).chain([began(2, 2, alone)]).collect();
    assert_eq!(verdict(later(false)), "fine");
    rejects("G3", "in its time", later(true));
    let both =
        vec![began(1, 1, false), done(1, 1), began(2, 2, false), done(2, 2), recorded(1, 1), recorded(2, 2)];
    rejects("G3", "was completed, and then", both);
    rejects("G3", "did not succeed", vec![began(1, 1, false), recorded(1, 1)]);
    rejects("G3", "another of", vec![told(1, 1), told(2, 2)]);
    rejects("G3", "not completed", vec![(0, What::LastlyRecorded { signal: 0, run: None })]);
    let first = |machine, run| (machine, What::RunBegan { signal: 0, run, alone: false, first: true });
    let failed = (1, What::RunEnded { signal: 0, run: 1, done: false });
    assert_eq!(verdict(vec![first(1, 1), failed, first(2, 2)]), "fine");
    rejects("G3", "may have happened", vec![first(1, 1), first(2, 2)]);
    rejects("G3", "may have happened", vec![first(1, 1), done(1, 1), first(2, 2)]);
}

#[test]
fn g4_a_write_under_an_old_epoch_is_rejected() {
    rejects("G4", "a checkpoint", then(vec![acquired(2, 2, None), checkpoint(1, 1, 1, &[], &[])]));
    let released = (1, What::Released { feed: 0, partition: 0, epoch: 1 });
    rejects("G4", "a release", then(vec![acquired(2, 2, None), released]));
    rejects("G4", "after 1", then(vec![acquired(2, 1, None)]));
}

#[test]
fn g5_an_owner_that_is_replaced_before_its_time_is_rejected() {
    let joined = (1, What::Joined { session: "s1".to_owned() });
    let start: Vec<_> = std::iter::once(joined).chain(a_good_start()).collect();
    let early: Vec<_> = start.iter().cloned().chain([acquired(2, 2, Some("s1"))]).collect();
    rejects("G5", "a sign of life 8000 ms before", early);
    let crashed = (1, What::Crashed { at: "handle".to_owned() });
    let dead = start.iter().cloned().chain([crashed, acquired(2, 2, Some("s1"))]).collect();
    assert_eq!(verdict(dead), "fine");
    let silence = std::iter::repeat_n((0, What::Calm), 10);
    let in_time = start.into_iter().chain(silence).chain([acquired(2, 2, Some("s1"))]).collect();
    assert_eq!(verdict(in_time), "fine");
}

#[test]
fn g6_a_healthy_object_that_waits_for_a_sick_one_is_rejected() {
    rejects("G6", "which never failed", then(vec![committed(2, 8), (0, What::Cured)]));
    let failed = vec![committed(2, 8), (1, What::Failed { call: 9, change: 2 }), (0, What::Cured)];
    assert_eq!(verdict(then(failed)), "fine");
}

#[test]
fn what_a_rewind_brings_again_is_handled_again() {
    let rewound = || (0, What::Rewound { feed: 0, partition: 0, epoch: 2, position: 0, dropped: Vec::new() });
    let again = |epoch| (2, What::Began { call: 2, feed: 0, partition: 0, epoch, changes: vec![1] });
    let good = [rewound(), acquired(2, 3, None), again(3), handled(2, 2, 1), ended(2, 2)];
    let good = || then(good.iter().cloned().chain([checkpoint(2, 3, 1, &[], &[]), over()]).collect());
    assert_eq!(verdict(good()), "fine");
    let passed = vec![rewound(), acquired(2, 3, None), checkpoint(2, 3, 1, &[], &[])];
    rejects("G1", "neither handled nor parked", then(passed));
    rejects("G1", "never handled", then(vec![rewound(), over()]));
    rejects("G4", "a checkpoint", then(vec![rewound(), checkpoint(1, 1, 0, &[], &[])]));
    rejects("G6", "which never failed", then(vec![rewound(), (0, What::Cured)]));
    // Who owned it before does not know yet: what it does then counts for nothing.
    rejects("G1", "never handled", then(vec![rewound(), again(1), handled(2, 2, 1), over()]));
    let overtaken = vec![committed(2, 7), sequenced(2, 2), rewound(), began_later(&[2]), handled(2, 9, 2)];
    rejects("G2", "before change 1", then(overtaken));
    let twice = vec![committed(1, 7), sequenced(1, 1), effect(1, &[1]), rewound(), effect(1, &[1])];
    assert_eq!(verdict(twice.clone()), "fine");
    rejects("G3", "happened twice", twice.into_iter().chain([effect(1, &[1])]).collect());
}

fn began_later(changes: &[u64]) -> (u32, What) {
    (2, What::Began { call: 9, feed: 0, partition: 0, epoch: 3, changes: changes.to_vec() })
}

#[test]
fn a_change_of_everything_stands_between_those_before_and_after_it() {
    let everything = |change| committed(change, EVERYTHING);
    rejects("G2", "before change 2", then(vec![committed(2, 7), everything(3), handled(1, 9, 3)]));
    rejects("G2", "before change 2", then(vec![everything(2), committed(3, 8), handled(1, 9, 3)]));
    let together = vec![committed(2, 7), everything(3), began(1, 2, &[2]), began(1, 3, &[3])];
    rejects("G2", "at the same object", then(together));
    let elsewhere = (0, What::Committed { feed: 0, partition: 1, key: 8, change: 3 });
    assert_eq!(verdict(then(vec![everything(2), elsewhere, handled(1, 9, 3)])), "fine");
    // It waits for what fails, and all that comes after it waits too.
    let failed = (1, What::Failed { call: 9, change: 2 });
    let waits = vec![committed(2, 7), failed, everything(3), committed(4, 8), (0, What::Cured)];
    assert_eq!(verdict(then(waits)), "fine");
    rejects("G6", "which never failed", then(vec![everything(2), committed(3, 8), (0, What::Cured)]));
}

#[test]
fn queues_that_lose_reorder_or_fork_are_rejected() {
    let pushed = |event| (0, What::Pushed { object: 0, event });
    let sending =
        |machine, send, event, id, prev| (machine, What::Sending { send, object: 0, event, id, prev });
    let sent = |machine, send| (machine, What::Sent { send });
    let ends = |machine, send| (machine, What::SendEnded { send });
    let applied = |event, id| (0, What::Applied { object: 0, id, event });
    let start = |more: Vec<(u32, What)>| {
        let start = [pushed(10), pushed(11), (1, What::Taken { object: 0, epoch: 5 })];
        let first = [sending(1, 1, 10, 1, None), sent(1, 1), ends(1, 1)];
        start.into_iter().chain(first).chain(more).collect::<Vec<_>>()
    };
    let good =
        vec![sending(1, 2, 11, 2, Some(1)), sent(1, 2), ends(1, 2), applied(10, 1), applied(11, 2), over()];
    assert_eq!(verdict(start(good)), "fine");
    rejects("G1-G4", "was sent as", start(vec![sending(2, 2, 10, 3, None)]));
    rejects("G1-G4", "two events", start(vec![sending(1, 2, 11, 1, Some(1))]));
    rejects("G1-G4", "the one before it is", start(vec![sending(1, 2, 11, 2, None)]));
    rejects(
        "G1-G4",
        "never stood still",
        start(vec![sending(1, 2, 10, 1, None), sending(2, 3, 10, 1, None)]),
    );
    rejects(
        "G1-G4",
        "recorded under epoch 4",
        start(vec![(2, What::Recorded { object: 0, epoch: 4, upto: 1 })]),
    );
    rejects("G1-G4", "out of its turn", start(vec![applied(11, 2)]));
    rejects("G1-G4", "out of its turn", start(vec![applied(10, 1), applied(10, 1)]));
    rejects("G1-G4", "never applied", start(vec![applied(10, 1), over()]));
    let beat = (1, What::Beat { worker: "w".to_owned(), kept: true });
    rejects("G1-G4", "taken out", start(vec![beat, (2, What::Recovered { worker: "w".to_owned() })]));
}

#[test]
fn windows_that_miss_a_version_are_rejected() {
    let written = |version| (0, What::Written { record: 3, version });
    let processed = |version| (1, What::Processed { record: 3, version });
    assert_eq!(verdict(vec![written(1), processed(1), written(2), processed(2), over()]), "fine");
    rejects("G1", "never processed", vec![written(1), processed(1), written(2), over()]);
    rejects("G1", "not written", vec![processed(1)]);
}
