//! Everything that can happen to one partition, and that the checker finds what is wrong with broken ones.

use std::rc::Rc;
use std::task::Waker;

use jiff::{SignedDuration, Timestamp};
use seriatim::simulation::{self, Doors, Mutant, Turn};
use seriatim_testkit::model::partition::PartitionModel;
use seriatim_testkit::model::{Counterexample, Explored, explore};

/// Two objects and three changes.
fn small(transactional: bool) -> PartitionModel {
    PartitionModel {
        changes: vec![1, 2, 1],
        transactional,
        batch: 2,
        failures: 1,
        crashes: 1,
        lost_answers: 1,
        hand_overs: 0,
        zombies: 0,
        heals: false,
    }
}

/// Two objects, each in a call of its own: one can be ahead of the other.
fn side_by_side() -> PartitionModel {
    PartitionModel { changes: vec![1, 2, 2], batch: 1, ..small(false) }
}

fn all_is_well(model: &PartitionModel) -> Explored {
    let explored = explore(model).unwrap_or_else(|found| panic!("{model:?}: {found}"));
    println!("{model:?}: {} states, {} of them done", explored.states, explored.done);
    assert!(explored.done > 0);
    explored
}

/// A thread on which a deliberate bug is switched on.
struct With(Mutant);

impl Doors for With {
    fn started(&self) -> u64 {
        0
    }
    fn turn(&self, _: u64, _: &Waker) -> Turn {
        Turn::Run
    }
    fn has_run(&self, _: u64) {}
    fn ended(&self, _: u64) {}
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn offset(&self) -> SignedDuration {
        SignedDuration::ZERO
    }
    fn has(&self, mutant: Mutant) -> bool {
        self.0 == mutant
    }
}

fn is_caught(mutant: Mutant, model: &PartitionModel) -> Counterexample {
    simulation::open(Some(Rc::new(With(mutant))));
    let found = explore(model);
    simulation::open(None);
    let found = found.expect_err("the checker finds it");
    println!("{mutant:?}: {found}");
    found
}

#[test]
fn nothing_is_lost_or_reordered_whatever_fails_crashes_or_is_not_answered() {
    all_is_well(&small(false));
}

#[test]
fn nothing_is_lost_or_reordered_when_an_object_is_given_up_and_retried() {
    all_is_well(&PartitionModel { failures: 2, ..small(false) });
    all_is_well(&PartitionModel { changes: vec![1, 1, 1, 1], batch: 1, failures: 2, ..small(false) });
}

#[test]
fn nothing_is_lost_or_reordered_when_what_is_parked_heals_by_itself() {
    all_is_well(&PartitionModel { failures: 2, heals: true, ..small(false) });
    all_is_well(&PartitionModel { failures: 2, heals: true, ..small(true) });
}

#[test]
fn what_a_checkpoint_tells_to_be_handled_ahead_of_a_slow_change_is_handled_and_comes_never_again() {
    all_is_well(&side_by_side());
    all_is_well(&PartitionModel { crashes: 2, failures: 0, hand_overs: 1, ..side_by_side() });
}

#[test]
fn nothing_comes_again_by_a_hand_over() {
    all_is_well(&PartitionModel { hand_overs: 1, ..small(false) });
}

#[test]
fn a_change_of_everything_waits_for_all_before_it() {
    all_is_well(&PartitionModel { changes: vec![1, -1, 2], ..small(false) });
    all_is_well(&PartitionModel { changes: vec![1, -1, 2], ..small(true) });
}

#[test]
fn a_transactional_handlers_effects_happen_once_whatever_fails_crashes_or_is_not_answered() {
    all_is_well(&small(true));
    all_is_well(&PartitionModel { failures: 2, ..small(true) });
}

#[test]
fn a_zombies_transaction_counts_for_nothing() {
    all_is_well(&PartitionModel { zombies: 1, ..small(true) });
}

#[test]
fn a_position_that_moves_before_the_work_is_done_is_caught() {
    let found = is_caught(Mutant::TrackerBeforeProcess, &small(false));
    assert!(found.wrong.contains("neither handled nor parked"), "{found}");
}

#[test]
fn later_changes_of_a_parked_object_that_are_handled_are_caught() {
    let found = is_caught(Mutant::TailNotHeld, &small(false));
    assert!(found.wrong.contains("was handled before change"), "{found}");
}

#[test]
fn a_failed_batch_that_counts_as_done_is_caught() {
    let found = is_caught(Mutant::FailedBatchCounts, &small(false));
    assert!(found.wrong.contains("neither handled nor parked"), "{found}");
}

#[test]
fn a_change_that_waits_to_be_parked_and_is_told_to_be_handled_is_caught() {
    let found = is_caught(Mutant::AsideCountsAsHandled, &side_by_side());
    assert!(found.wrong.contains("is handled, and it is not"), "{found}");
}

#[test]
fn an_object_that_rejoins_too_early_is_caught() {
    let one_object = PartitionModel { changes: vec![1, 1, 1, 1], batch: 1, ..small(false) };
    is_caught(Mutant::RejoinTooEarly, &one_object);
}

#[test]
fn a_change_of_everything_that_waits_for_nobody_is_caught() {
    is_caught(Mutant::EverythingAtOnce, &PartitionModel { changes: vec![1, -1, 2], ..small(false) });
}

#[test]
fn a_partition_given_up_while_its_batch_runs_is_caught() {
    is_caught(Mutant::HandOverWithoutDraining, &PartitionModel { hand_overs: 1, ..small(false) });
}
