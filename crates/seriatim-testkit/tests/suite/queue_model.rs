//! Everything that can happen to the queue's protocol, and that the checker finds what is wrong with broken ones.

use seriatim_testkit::model::queue::{Protocol, QueueModel};
use seriatim_testkit::model::{Counterexample, Explored, explore};

/// Two workers, two objects, three events, and two crashes and a zombie at any step.
fn small(protocol: Protocol) -> QueueModel {
    QueueModel {
        protocol,
        workers: 2,
        pushes: vec![("A", 1), ("B", 1), ("A", 1)],
        batch: 1,
        crashes: 2,
        zombies: 1,
        lost_answers: 0,
    }
}

fn all_is_well(model: &QueueModel) -> Explored {
    let explored = explore(model).unwrap_or_else(|found| panic!("{model:?}: {found}"));
    println!("{} states, {} of them done", explored.states, explored.done);
    assert!(explored.done > 0);
    explored
}

fn is_caught(protocol: Protocol) -> Counterexample {
    let found = explore(&small(protocol)).expect_err("the checker finds it");
    println!("{found}");
    found
}

#[test]
fn nothing_is_lost_doubled_or_reordered_whatever_crashes_with_two_workers() {
    all_is_well(&small(Protocol::AsItIs));
}

#[test]
fn nothing_is_lost_doubled_or_reordered_with_three_workers() {
    all_is_well(&QueueModel { workers: 3, crashes: 1, zombies: 0, ..small(Protocol::AsItIs) });
}

#[test]
#[ignore = "takes a minute: cargo test -p seriatim-testkit queue_model -- --ignored"]
fn nothing_is_lost_doubled_or_reordered_whatever_crashes_with_three_workers() {
    all_is_well(&QueueModel { workers: 3, ..small(Protocol::AsItIs) });
}

#[test]
fn nothing_is_lost_when_answers_are() {
    all_is_well(&QueueModel { crashes: 1, lost_answers: 1, ..small(Protocol::AsItIs) });
}

#[test]
#[ignore = "takes half a minute: cargo test -p seriatim-testkit queue_model -- --ignored"]
fn nothing_is_lost_when_more_answers_are() {
    all_is_well(&QueueModel { crashes: 1, lost_answers: 2, ..small(Protocol::AsItIs) });
}

#[test]
fn batches_are_sent_again_whole_and_the_same() {
    let pushes = vec![("A", 2), ("B", 1), ("A", 1)];
    all_is_well(&QueueModel { pushes, batch: 2, lost_answers: 1, crashes: 1, ..small(Protocol::AsItIs) });
}

#[test]
fn a_name_mistaken_in_restart_is_caught() {
    let found = is_caught(Protocol::NameMistakenInRestart);
    assert!(found.wrong.contains("only a worker that has joined holds an object"), "{found}");
}

#[test]
fn a_release_in_two_steps_is_caught() {
    let found = is_caught(Protocol::ReleaseInTwoSteps);
    assert!(found.wrong.contains("an object with events is queued, held or parked"), "{found}");
}

#[test]
fn recording_without_the_epoch_is_caught() {
    let found = is_caught(Protocol::RecordWithoutEpoch);
    assert!(found.wrong.contains("something is never done"), "{found}");
}

#[test]
fn stamping_anew_is_caught() {
    is_caught(Protocol::StampAnew);
}
