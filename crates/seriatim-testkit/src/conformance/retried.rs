//! Parked objects that are tried again, and taken out of the store as they are done.

use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarding, ParkedFailure, ParkedObject, ParkedState, Unparking,
};
use seriatim::value::{Key, Value};

use super::stage::{at, change, failed, feed, steps_aside, to, waits};
use super::{Harness, Stage};

fn key(id: i64) -> Key {
    Key::of("id", Value::Integer(id))
}

fn done(position: u64, object: i64, ids: &[u64]) -> Checkpoint {
    Checkpoint { unparked: vec![Unparking { key: key(object), ids: ids.to_vec() }], ..to(position) }
}

/// Ada's lease on partition 0, with object 1 parked with the changes 20, 21 and 22.
async fn parked(stage: &Stage) -> seriatim::lease::Lease {
    let lease = stage.ada_takes(0).await;
    let all = vec![failed(change(20, 1), "no", 5), waits(change(21, 1)), waits(change(22, 1))];
    stage.store.checkpoint(&lease, &Checkpoint::parking(at(22), all)).await.unwrap();
    lease
}

async fn ids(stage: &Stage, object: i64) -> Vec<u64> {
    let changes = stage.other.parked_changes(&stage.feed, &key(object), 10).await.unwrap();
    changes.into_iter().map(|change| change.id).collect()
}

async fn object(stage: &Stage, object: i64) -> Option<ParkedObject> {
    stage.other.parked_object(&stage.feed, &key(object)).await.unwrap()
}

/// Handled, in one step with the position.
pub async fn changes_that_are_done_are_parked_no_more(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    stage.store.checkpoint(&lease, &done(23, 1, &[20, 21])).await.unwrap();
    assert_eq!((ids(&stage, 1).await, stage.see(0).await.position), (vec![22], at(23)));
    assert_eq!(object(&stage, 1).await.unwrap().waiting, 1);
}

/// Its later changes are handled as they come.
pub async fn an_object_of_which_nothing_is_left_is_gone(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    stage.store.checkpoint(&lease, &done(22, 1, &[20, 21, 22])).await.unwrap();
    assert_eq!((object(&stage, 1).await, ids(&stage, 1).await), (None, vec![]));
    assert_eq!(stage.other.parked(&stage.feed, None).await.unwrap(), []);
}

/// The answer to the first time may have been lost.
pub async fn taking_out_twice_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    for _ in 0..2 {
        stage.store.checkpoint(&lease, &done(22, 1, &[20])).await.unwrap();
    }
    stage.store.checkpoint(&lease, &done(22, 99, &[20])).await.unwrap();
    assert_eq!(ids(&stage, 1).await, [21, 22]);
}

/// Who lost the lease has handled nothing.
pub async fn a_fenced_checkpoint_takes_nothing_out(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let zombie = parked(&stage).await;
    stage.bob_takes(0).await;
    let refused = stage.store.checkpoint(&zombie, &done(22, 1, &[20])).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(ids(&stage, 1).await, [20, 21, 22]);
}

/// Its first change is another one, which has not been tried.
pub async fn what_is_left_counts_its_attempts_anew(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    let before = object(&stage, 1).await.unwrap();
    stage.store.checkpoint(&lease, &done(22, 1, &[20])).await.unwrap();
    let after = object(&stage, 1).await.unwrap();
    assert_eq!(after.failure, ParkedFailure { attempts: 0, ..before.failure });
    assert_eq!(after.since, before.since);
}

/// Taking out comes first; what is parked in the same step waits for nothing.
pub async fn a_change_parked_with_the_last_ones_removal_is_kept(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    let both = Checkpoint { parked: vec![waits(change(23, 1))], ..done(23, 1, &[20, 21, 22]) };
    stage.store.checkpoint(&lease, &both).await.unwrap();
    assert_eq!(ids(&stage, 1).await, [23]);
    assert_eq!(object(&stage, 1).await.unwrap().failure.state, ParkedState::Retrying);
}

/// It is not for a person to deal with.
pub async fn an_object_that_steps_aside_says_so(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    for (attempts, parking) in
        [(1, steps_aside(change(20, 1), "no", 1)), (5, failed(change(20, 1), "never", 5))]
    {
        let expected = parking.failure.clone();
        stage.store.checkpoint(&lease, &Checkpoint::parking(at(20), vec![parking])).await.unwrap();
        let found = object(&stage, 1).await.unwrap().failure;
        assert_eq!((found.attempts, Some(found)), (attempts, expected));
    }
    assert_eq!(ids(&stage, 1).await, [20]);
}

/// With the same error and time, and no attempts so far.
pub async fn marking_has_an_object_tried_again(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    let before = object(&stage, 1).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stage.other.retry_parked(&stage.feed, Some(&key(1))).await.unwrap(), 1);
        let failure = ParkedFailure { attempts: 0, state: ParkedState::Retrying, ..before.failure.clone() };
        assert_eq!(object(&stage, 1).await.unwrap(), ParkedObject { failure, ..before.clone() });
    }
}

/// All of one feed.
pub async fn marking_all_leaves_other_feeds_alone(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    let more = Checkpoint::parking(at(30), vec![failed(change(30, 2), "no", 5)]);
    stage.store.checkpoint(&lease, &more).await.unwrap();
    assert_eq!(stage.other.retry_parked(&feed("others"), None).await.unwrap(), 0);
    assert_eq!(object(&stage, 1).await.unwrap().failure.state, ParkedState::Parked);
    assert_eq!(stage.other.retry_parked(&stage.feed, None).await.unwrap(), 2);
    for object in stage.store.parked(&stage.feed, None).await.unwrap() {
        assert_eq!(object.failure.state, ParkedState::Retrying);
    }
}

/// It is back in the live stream, or never was parked.
pub async fn marking_what_is_not_parked_marks_nothing(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    assert_eq!(stage.other.retry_parked(&stage.feed, Some(&key(9))).await.unwrap(), 0);
    assert_eq!(object(&stage, 9).await, None);
    assert_eq!(object(&stage, 1).await.unwrap().failure.state, ParkedState::Parked);
}

/// They look at their leases, not at all that is parked.
pub async fn marking_lets_the_owners_know(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    let before = (stage.see(0).await.asked, stage.see(1).await.asked);
    stage.other.retry_parked(&stage.feed, Some(&key(1))).await.unwrap();
    let after = (stage.see(0).await.asked, stage.see(1).await.asked);
    assert_ne!(before.0, after.0);
    assert_eq!(before.1, after.1, "nothing is parked there");
    stage.other.retry_parked(&stage.feed, None).await.unwrap();
    assert_ne!(after.0, stage.see(0).await.asked);
    assert_eq!(after.1, stage.see(1).await.asked);
}

fn resuming(position: u64, objects: &[i64]) -> Checkpoint {
    Checkpoint { resumed: objects.iter().map(|object| key(*object)).collect(), ..to(position) }
}

fn next_try() -> jiff::Timestamp {
    "2026-11-15T08:01:00.5Z".parse().expect("a time")
}

/// What an owner tries again by itself nobody discards meanwhile, and everything else about it stays.
pub async fn an_object_that_is_resumed_is_tried_again_as_it_was(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let parked = vec![failed(change(20, 1), "no", 5), waits(change(21, 1)), failed(change(22, 2), "no", 5)];
    stage.store.checkpoint(&lease, &Checkpoint::parking(at(22), parked)).await.unwrap();
    let before = stage.store.parked(&stage.feed, None).await.unwrap();
    for _ in 0..2 {
        stage.store.checkpoint(&lease, &resuming(22, &[1])).await.unwrap();
        let after = stage.other.parked(&stage.feed, None).await.unwrap();
        let failure = ParkedFailure { state: ParkedState::Retrying, ..before[0].failure.clone() };
        assert_eq!(after, [ParkedObject { failure, ..before[0].clone() }, before[1].clone()]);
    }
    let dropped = stage.other.discard_parked(&stage.feed, &key(1), Discard::First(20), "a test").await;
    assert_eq!(dropped.unwrap(), Discarding::Busy);
    let kept = stage.other.parked_changes(&stage.feed, &key(1), 10).await.unwrap();
    assert_eq!(kept, [change(20, 1), change(21, 1)]);
}

/// Only its owner tries an object.
pub async fn a_fenced_checkpoint_resumes_nothing(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let parked = vec![failed(change(20, 1), "no", 5)];
    stage.store.checkpoint(&lease, &Checkpoint::parking(at(20), parked)).await.unwrap();
    stage.store.leave(&stage.ada).await.unwrap();
    stage.bob_takes(0).await;
    let refused = stage.store.checkpoint(&lease, &resuming(20, &[1])).await.unwrap_err();
    assert!(matches!(refused, CheckpointError::Fenced { .. }), "{refused:?}");
    let object = stage.other.parked_object(&stage.feed, &key(1)).await.unwrap().unwrap();
    assert_eq!(object.failure.state, ParkedState::Parked);
}

/// Somebody has discarded it in the meantime.
pub async fn resuming_what_is_not_parked_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &resuming(20, &[1, 2])).await.unwrap();
    assert_eq!(stage.other.parked(&stage.feed, None).await.unwrap(), []);
}

/// A new failure brings a new time, or none.
pub async fn an_object_tells_when_it_is_tried_again(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    for next_try in [None, Some(next_try()), None, Some(jiff::Timestamp::UNIX_EPOCH)] {
        let mut parked = failed(change(20, 1), "no", 5);
        parked.failure.iter_mut().for_each(|failure| failure.next_try = next_try);
        stage.store.checkpoint(&lease, &Checkpoint::parking(at(20), vec![parked])).await.unwrap();
        stage.store.checkpoint(&lease, &resuming(20, &[1])).await.unwrap();
        let found = stage.other.parked_object(&stage.feed, &key(1)).await.unwrap().unwrap();
        let listed = stage.other.parked(&stage.feed, None).await.unwrap().remove(0);
        assert_eq!((found.failure.next_try, listed.failure.next_try), (next_try, next_try));
    }
}
