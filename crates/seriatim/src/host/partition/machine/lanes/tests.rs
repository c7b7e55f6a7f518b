//! Lanes from outside: what runs, what waits, what is set aside, and how far everything is done.

use std::collections::HashSet;

use super::*;
use crate::change::Op;
use crate::name::{FeedName, Partition};
use crate::value::{Key, Value};
use proptest::prelude::*;

fn change(id: u64, key: i64) -> Change {
    Change {
        feed: FeedName::new("f").unwrap(),
        partition: Partition(0),
        position: Position::number(id),
        key: (key >= 0).then(|| Key::of("id", Value::Integer(key))),
        op: if key >= 0 { Op::Update } else { Op::Truncate },
        at: jiff::Timestamp::UNIX_EPOCH,
        before: None,
        after: None,
        id,
        prev: None,
    }
}

fn slice(changes: Vec<Change>, upto: u64) -> Slice {
    Slice { partition: Partition(0), changes: changes.into(), upto: Position::number(upto), caught_up: false }
}

fn ids(batch: &Batch) -> Vec<u64> {
    batch.changes.iter().map(|change| change.id).collect()
}

#[test]
fn a_key_in_flight_waits_and_others_pass() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 7), change(2, 7), change(3, 8)], 3));
    let first = lanes.take(1).unwrap();
    let second = lanes.take(10).unwrap();
    assert_eq!((ids(&first), ids(&second)), (vec![1], vec![3]));
    assert!(lanes.take(10).is_none(), "2 waits for 1");
    lanes.complete(first, vec![]);
    assert_eq!(ids(&lanes.take(10).unwrap()), [2]);
}

#[test]
fn the_low_water_mark_waits_for_the_slowest() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 1), change(2, 2)], 9));
    let (slow, fast) = (lanes.take(1).unwrap(), lanes.take(1).unwrap());
    lanes.complete(fast, vec![]);
    assert_eq!(lanes.low_water(), None);
    lanes.complete(slow, vec![]);
    assert_eq!(lanes.low_water(), Some(&Position::number(9)), "up to where the read looked");
}

#[test]
fn where_the_mark_will_be_is_known_before() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 1), change(2, 2), change(3, 3)], 9));
    let first = lanes.take(2).unwrap();
    assert_eq!(lanes.low_water_after(&first), Some(Position::number(2)));
    lanes.complete(first, vec![]);
    let last = lanes.take(2).unwrap();
    assert_eq!(lanes.low_water_after(&last), Some(Position::number(9)));
}

#[test]
fn a_read_that_found_nothing_moves_the_mark() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![], 5));
    assert_eq!(lanes.low_water(), Some(&Position::number(5)));
}

fn parked(change: &Change) -> Vec<Parking> {
    vec![Parking { change: change.clone(), failure: None }]
}

fn parked_ids(parkings: &[Parking]) -> Vec<u64> {
    parkings.iter().map(|parking| parking.change.id).collect()
}

#[test]
fn changes_of_a_parked_object_are_set_aside_in_order() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 7), change(2, 7), change(3, 8), change(4, 7)], 4));
    let poison = lanes.take(1).unwrap();
    let parking = parked(&poison.changes[0]);
    lanes.complete(poison, parking);
    let other = lanes.take(10).unwrap();
    assert_eq!(ids(&other), [3]);
    assert_eq!(parked_ids(&lanes.take_passed_aside()), [1, 2], "4 is not passed before 3 is done");
    lanes.complete(other, vec![]);
    assert_eq!(parked_ids(&lanes.take_passed_aside()), [4]);
    assert!(!lanes.has_passed_aside());
}

#[test]
fn a_change_is_parked_only_when_everything_before_it_is_done() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 1), change(2, 2)], 2));
    let (slow, poison) = (lanes.take(1).unwrap(), lanes.take(1).unwrap());
    let parking = parked(&poison.changes[0]);
    lanes.complete(poison, parking);
    assert_eq!(parked_ids(&lanes.take_passed_aside()), [0u64; 0]);
    lanes.complete(slow, vec![]);
    assert_eq!(parked_ids(&lanes.take_passed_aside()), [2]);
}

#[test]
fn changes_of_a_held_object_wait_and_then_go_on_or_are_set_aside() {
    let mut lanes = Lanes::new([change(0, 7).lane()], DoneAbove::default());
    let lane = change(0, 7).lane();
    lanes.hold(lane);
    lanes.push(slice(vec![change(1, 7), change(2, 8), change(3, 7)], 3));
    let other = lanes.take(10).unwrap();
    assert_eq!(ids(&other), [2]);
    lanes.complete(other, vec![]);
    lanes.park(lane);
    assert_eq!(parked_ids(&lanes.take_passed_aside()), [1, 3], "it failed again");
    assert_eq!(lanes.low_water(), Some(&Position::number(3)));
    lanes.hold(lane);
    lanes.push(slice(vec![change(4, 7), change(5, 7)], 5));
    assert!(lanes.take(10).is_none());
    lanes.rejoin(lane);
    assert_eq!(ids(&lanes.take(10).unwrap()), [4, 5], "it came back");
}

#[test]
fn a_change_of_everything_waits_for_parked_objects() {
    let (parked, other) = (change(1, 7), change(2, 8));
    let lane = parked.lane();
    let mut lanes = Lanes::new([lane], DoneAbove::default());
    lanes.push(slice(vec![other, change(3, -1), change(4, 8)], 4));
    let first = lanes.take(10).unwrap();
    assert_eq!(ids(&first), [2]);
    lanes.complete(first, vec![]);
    assert!(lanes.take(10).is_none());
    assert_eq!(lanes.held_up_by_parked(), Some(1));
    lanes.rejoin(lane);
    assert_eq!(lanes.held_up_by_parked(), None);
    assert_eq!(ids(&lanes.take(10).unwrap()), [3]);
}

#[test]
fn a_batch_given_up_halfway_counts_for_what_it_did() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 1), change(2, 2), change(3, 3)], 3));
    let batch = lanes.take(3).unwrap();
    lanes.abandon(batch, &HashSet::from([2]), vec![]);
    assert_eq!(lanes.low_water(), Some(&Position::number(1)));
    assert_eq!(lanes.held(), 1);
}

#[test]
fn what_is_behind_lies_before_something_that_was_begun() {
    let mut lanes = Lanes::default();
    let keys = [1, 1, 2, 1, 3];
    lanes.push(slice((1..).zip(keys).map(|(id, key)| change(id, key)).collect(), 5));
    let slow = lanes.take(1).unwrap();
    assert_eq!(ids(&slow), [1]);
    let fast = lanes.take(1).unwrap();
    assert_eq!(ids(&fast), [3], "the second of the slow one waits");
    lanes.complete(fast, vec![]);
    assert!(lanes.take_behind(10).is_none(), "its lane is busy");
    lanes.complete(slow, vec![]);
    let behind = lanes.take_behind(10).unwrap();
    assert_eq!(ids(&behind), [2]);
    lanes.complete(behind, vec![]);
    assert_eq!(lanes.low_water(), Some(&Position::number(3)));
    assert!(lanes.take_behind(10).is_none(), "nothing after the mark was begun");
    assert_eq!(ids(&lanes.take(10).unwrap()), [4, 5]);
}

#[test]
fn a_change_of_everything_runs_alone() {
    let mut lanes = Lanes::default();
    lanes.push(slice(vec![change(1, 1), change(2, -1), change(3, 2)], 3));
    let before = lanes.take(10).unwrap();
    assert_eq!(ids(&before), [1]);
    assert!(lanes.take(10).is_none());
    lanes.complete(before, vec![]);
    let truncate = lanes.take(10).unwrap();
    assert_eq!(ids(&truncate), [2]);
    assert!(lanes.take(10).is_none());
    lanes.complete(truncate, vec![]);
    assert_eq!(ids(&lanes.take(10).unwrap()), [3]);
}

proptest! {
    /// Whatever is pushed, taken and completed in whatever order: each change runs once, each key in order and one
    /// batch at a time, and the mark never passes a change that is not done nor goes back.
    #[test]
    fn every_key_in_order_and_the_mark_is_honest(
        keys in prop::collection::vec(-1i64..6, 1..120),
        steps in prop::collection::vec((0usize..4, 1usize..5, any::<usize>()), 1..300),
    ) {
        let mut lanes = Lanes::default();
        let mut incoming = keys.iter().enumerate().map(|(i, key)| change(i as u64 + 1, *key));
        let mut flying: Vec<Batch> = Vec::new();
        let mut started: Vec<u64> = Vec::new();
        let mut done = vec![false; keys.len() + 1];
        done[0] = true;
        let endgame = (0..keys.len() * 4).map(|_| (3, 5, 0usize));
        let steps: Vec<_> = steps.into_iter().chain(endgame).collect();
        let mut mark = 0;
        for (kind, size, which) in steps {
            if kind == 0 || kind == 3 {
                let changes: Vec<Change> = incoming.by_ref().take(size).collect();
                if let Some(last) = changes.last().map(|change| change.id) {
                    lanes.push(slice(changes, last));
                }
            }
            if let Some(batch) = (kind == 1 || kind == 3).then(|| lanes.take(size)).flatten() {
                for change in &batch.changes {
                    let clash = flying.iter().flat_map(|other| &other.changes).any(|other| {
                        other.key == change.key || other.key.is_none() || change.key.is_none()
                    });
                    prop_assert!(!clash, "two batches of one key in flight");
                    let earlier = started.iter().filter(|id| keys[**id as usize - 1] == keys[change.id as usize - 1]);
                    prop_assert!(earlier.max().is_none_or(|last| *last < change.id), "overtaken");
                    started.push(change.id);
                }
                flying.push(batch);
            }
            if (kind == 2 || kind == 3) && !flying.is_empty() {
                let batch = flying.remove(which % flying.len());
                batch.changes.iter().for_each(|change| done[change.id as usize] = true);
                lanes.complete(batch, vec![]);
            }
            let now = lanes.low_water().and_then(Position::as_number).unwrap_or(0);
            prop_assert!(now >= mark, "the mark went back");
            mark = now;
            prop_assert!(done[..=mark as usize].iter().all(|done| *done), "the mark passed an open change");
        }
        prop_assert_eq!(started.len(), keys.len());
        prop_assert_eq!(mark as usize, keys.len());
        prop_assert_eq!((lanes.held(), lanes.weight()), (0, 0));
    }
}

#[test]
fn what_an_earlier_owner_has_handled_is_passed_over_and_still_told() {
    let done = DoneAbove::new(Position::number(9), [2, 3, 5, 7]);
    let mut lanes = Lanes::new([], done.clone());
    lanes.push(slice((1..=4).map(|id| change(id, id as i64)).collect(), 4));
    let batch = lanes.take(10).unwrap();
    assert_eq!(batch.changes.iter().map(|change| change.id).collect::<Vec<_>>(), [1, 4]);
    let told = lanes.done_above(&Position::number(4));
    assert!([2, 3, 5, 7].iter().all(|id| told.contains(*id)) && !told.contains(1) && !told.contains(4));
    lanes.complete(batch, vec![]);
    assert_eq!((lanes.low_water(), lanes.held(), lanes.weight()), (Some(&Position::number(4)), 0, 0));
    lanes.push(slice((5..=6).map(|id| change(id, id as i64)).collect(), 6));
    let batch = lanes.take(10).unwrap();
    assert_eq!(batch.changes.iter().map(|change| change.id).collect::<Vec<_>>(), [6]);
    let told = lanes.done_above(&Position::number(6));
    assert_eq!(told, DoneAbove::new(Position::number(9), [7]), "5 is passed, and 7 is ahead");
    lanes.forget_known();
    assert!(lanes.done_above(&Position::number(6)).is_empty(), "7 did not come");
}

#[test]
fn what_is_done_of_a_batch_that_runs_is_told_and_holds_the_mark_until_all_is() {
    let mut lanes = Lanes::default();
    lanes.push(slice((1..=3).map(|id| change(id, id as i64)).collect(), 3));
    let batch = lanes.take(3).unwrap();
    assert!(lanes.tell(batch.numbers()[0], 1) && lanes.tell(batch.numbers()[2], 3));
    assert!(!lanes.tell(batch.numbers()[2], 3), "that is known");
    assert_eq!(lanes.low_water(), None);
    assert_eq!(lanes.done_above(&Position::number(3)), DoneAbove::new(Position::number(3), [1, 3]));
    lanes.complete(batch, vec![]);
    assert_eq!(lanes.low_water(), Some(&Position::number(3)));
    assert!(lanes.done_above(&Position::number(3)).is_empty());
    assert_eq!(lanes.done_above_bytes(), DoneAbove::most_bytes(0, 0));
}
