//! Parked objects, and the changes that wait for them.

use seriatim::change::Change;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{
    Checkpoint, ParkedCount, ParkedFailure, ParkedObject, ParkedPage, ParkedState, Parking, Unparking,
};
use seriatim::value::{Key, Value};

use super::stage::{at, change, failed, steps_aside, waits};
use super::{Harness, Stage};

fn parking(position: u64, parked: Vec<Parking>) -> Checkpoint {
    Checkpoint::parking(at(position), parked)
}

fn key(id: i64) -> Key {
    Key::of("id", Value::Integer(id))
}

/// Whole means every bit: infinities, bytes, nanoseconds, ids beyond what a signed number holds.
pub async fn parked_changes_come_back_whole_and_in_order(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let tail = [change(20, 1), change(u64::MAX, 1), change(22, 1)];
    let first = parking(22, vec![failed(tail[0].clone(), "no", 5), failed(change(21, 2), "never", 1)]);
    stage.store.checkpoint(&lease, &first).await.unwrap();
    let second = parking(23, vec![waits(tail[1].clone()), waits(tail[2].clone())]);
    stage.store.checkpoint(&lease, &second).await.unwrap();
    assert_eq!(stage.other.parked_changes(&stage.feed, &key(1), 10).await.unwrap(), tail);
    let waiting: Vec<_> = stage
        .other
        .parked(&stage.feed, None)
        .await
        .unwrap()
        .into_iter()
        .map(|object| object.waiting)
        .collect();
    assert_eq!(waiting, [3, 1]);
}

/// The answer to the first time may have been lost, or the owner has crashed and handles the change again.
pub async fn parking_twice_keeps_one(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let both = parking(22, vec![failed(change(20, 1), "no", 5), waits(change(21, 1))]);
    stage.store.checkpoint(&lease, &both).await.unwrap();
    stage.store.checkpoint(&lease, &both).await.unwrap();
    let kept = stage.store.parked_changes(&stage.feed, &key(1), 10).await.unwrap();
    assert_eq!(kept, [change(20, 1), change(21, 1)]);
    assert_eq!(stage.store.parked(&stage.feed, None).await.unwrap().len(), 1);
}

/// A new failure of a parked object replaces the old one; it has been parked since the first.
pub async fn an_object_keeps_its_time_and_shows_its_last_failure(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let park = |error, attempts| parking(20, vec![failed(change(20, 1), error, attempts)]);
    stage.store.checkpoint(&lease, &park("no", 5)).await.unwrap();
    let before = stage.store.parked(&stage.feed, None).await.unwrap().remove(0);
    stage.store.checkpoint(&lease, &park("still not", 6)).await.unwrap();
    let after = stage.store.parked(&stage.feed, None).await.unwrap().remove(0);
    let failure = ParkedFailure {
        error: "still not".to_owned(),
        attempts: 6,
        state: ParkedState::Parked,
        next_try: None,
    };
    assert_eq!(after.failure, failure);
    assert_eq!((after.since, after.key, after.waiting), (before.since, key(1), 1));
}

/// The one that has waited longest comes first.
pub async fn parked_objects_are_listed_oldest_first_by_partition(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let (zero, one) = (stage.ada_takes(0).await, stage.ada_takes(1).await);
    for (lease, object) in [(&one, 9), (&zero, 5), (&one, 1)] {
        let change = Change { partition: lease.id.partition, ..change(20, object) };
        let parked = parking(20, vec![failed(change, "no", 5)]);
        stage.store.checkpoint(lease, &parked).await.unwrap();
    }
    let listed = async |partition| -> Vec<_> {
        let objects = stage.other.parked(&stage.feed, partition).await.unwrap();
        objects.into_iter().map(|object| (object.partition.0, object.key)).collect()
    };
    assert_eq!(listed(None).await, [(1, key(9)), (0, key(5)), (1, key(1))]);
    assert_eq!(listed(Some(Partition(1))).await, [(1, key(9)), (1, key(1))]);
    assert_eq!(listed(Some(Partition(3))).await, []);
}

/// A tail may be longer than memory.
pub async fn no_more_changes_come_than_asked_for(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let tail = (21..30).map(|id| waits(change(id, 1)));
    let all = std::iter::once(failed(change(20, 1), "no", 5)).chain(tail);
    stage.store.checkpoint(&lease, &parking(30, all.collect())).await.unwrap();
    let some = stage.store.parked_changes(&stage.feed, &key(1), 2).await.unwrap();
    assert_eq!(some, [change(20, 1), change(21, 1)]);
}

/// A caller's fault must not cost a change.
pub async fn a_change_that_waits_for_nothing_is_not_lost(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &parking(20, vec![waits(change(20, 1))])).await.unwrap();
    let parked = stage.store.parked(&stage.feed, None).await.unwrap().remove(0);
    assert_eq!((parked.waiting, parked.failure.attempts), (1, 0));
    assert_eq!(parked.failure.state, ParkedState::Retrying, "nothing stands in its way");
    assert_eq!(stage.store.parked_changes(&stage.feed, &key(1), 10).await.unwrap(), [change(20, 1)]);
}

/// The number 1 and the text "1" are two objects.
pub async fn keys_of_another_type_are_other_objects(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let text = Key::of("id", Value::Text("1".into()));
    let mut other = change(21, 1);
    other.key = Some(text.clone());
    let both = parking(21, vec![failed(change(20, 1), "no", 5), failed(other.clone(), "no", 5)]);
    stage.store.checkpoint(&lease, &both).await.unwrap();
    assert_eq!(stage.store.parked_changes(&stage.feed, &key(1), 10).await.unwrap(), [change(20, 1)]);
    assert_eq!(stage.store.parked_changes(&stage.feed, &text, 10).await.unwrap(), [other]);
}

/// They belong to the partition, whoever owns it.
pub async fn parked_changes_survive_their_owner(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &parking(20, vec![failed(change(20, 1), "no", 5)])).await.unwrap();
    stage.store.leave(&stage.ada).await.unwrap();
    let next = stage.bob_takes(0).await;
    stage.other.checkpoint(&next, &parking(21, vec![waits(change(21, 1))])).await.unwrap();
    let kept = stage.other.parked_changes(&stage.feed, &key(1), 10).await.unwrap();
    assert_eq!(kept, [change(20, 1), change(21, 1)]);
}

/// A database may give a whole number as either; they share a lane, and their order with it.
pub async fn one_and_one_point_zero_are_one_object(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let mut real = change(21, 1);
    real.key = Some(Key::of("id", Value::Real(1.0)));
    let both = parking(21, vec![failed(change(20, 1), "no", 5), waits(real.clone())]);
    stage.store.checkpoint(&lease, &both).await.unwrap();
    assert_eq!(stage.store.parked_changes(&stage.feed, &key(1), 10).await.unwrap(), [change(20, 1), real]);
}

/// It is the same as in the list.
pub async fn a_parked_object_is_found_by_its_key(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    assert_eq!(stage.other.parked_object(&stage.feed, &key(1)).await.unwrap(), None);
    let both = vec![failed(change(20, 1), "no", 5), waits(change(21, 1)), failed(change(22, 2), "no", 5)];
    stage.store.checkpoint(&lease, &parking(22, both)).await.unwrap();
    let listed = stage.store.parked(&stage.feed, None).await.unwrap().remove(0);
    let found = stage.other.parked_object(&stage.feed, &key(1)).await.unwrap().unwrap();
    assert!(found.bytes > 100, "two changes take some room: {}", found.bytes);
    assert_eq!(found, listed);
}

/// However much is parked, a page is short; all pages together have each object once.
pub async fn parked_objects_come_page_by_page(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let parked = (0..7).map(|object| failed(change(20 + object, i64::try_from(object).unwrap()), "no", 5));
    stage.store.checkpoint(&lease, &parking(30, parked.collect())).await.unwrap();
    let all = stage.other.parked(&stage.feed, None).await.unwrap();
    let (mut paged, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = stage.other.parked_page(&stage.feed, after.as_deref(), 3).await.unwrap();
        assert!(page.objects.len() <= 3);
        let gone = page.objects.first().map(|object| object.key.clone());
        paged.extend(page.objects);
        if after.is_none() {
            // What is read later does not depend on what is gone by then.
            let done = Unparking { key: gone.unwrap(), ids: (20..27).collect() };
            let taken = Checkpoint { unparked: vec![done], ..parking(31, Vec::new()) };
            stage.store.checkpoint(&lease, &taken).await.unwrap();
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let name = |object: &ParkedObject| object.key.identity();
    let mut names = [all.iter().map(name).collect::<Vec<_>>(), paged.iter().map(name).collect()];
    names.iter_mut().for_each(|names| names.sort());
    assert_eq!(names[0], names[1]);
    assert!(paged.iter().all(|object| all.contains(object)), "each as the whole list shows it");
    let other = FeedName::new("other").unwrap();
    assert_eq!(stage.other.parked_page(&other, None, 3).await.unwrap(), ParkedPage::default());
}

/// A count says that there are more than it has looked at.
pub async fn parked_objects_are_counted_up_to_a_bound(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let count = async |most| stage.other.parked_count(&stage.feed, most).await.unwrap();
    assert_eq!(count(10).await, ParkedCount::default());
    let parked = [(20, 1), (21, 2), (22, 3)].map(|(id, object)| failed(change(id, object), "no", 5));
    let all = parked.into_iter().chain([waits(change(23, 3)), steps_aside(change(24, 4), "later", 1)]);
    stage.store.checkpoint(&lease, &parking(30, all.collect())).await.unwrap();
    let whole = ParkedCount { objects: 3, changes: 4, more: false };
    assert_eq!(count(10).await, whole, "without the one that only stepped aside");
    assert_eq!(count(4).await, whole);
    let some = count(2).await;
    assert!(some.more && some.objects <= 2, "{some:?}");
}
