//! Discarding what is parked.

use seriatim::lease::Lease;
use seriatim::name::Partition;
use seriatim::store::{Checkpoint, DISCARDS_KEPT, Discard, Discarded, Discarding, ParkedState};
use seriatim::value::{Key, Value};

use super::stage::{at, change, failed, waits};
use super::{Harness, Stage};

fn key(id: i64) -> Key {
    Key::of("id", Value::Integer(id))
}

/// Ada's lease on partition 0, with object 1 parked with the changes 20 and 21.
async fn parked(stage: &Stage) -> Lease {
    let lease = stage.ada_takes(0).await;
    let both = vec![failed(change(20, 1), "no", 5), waits(change(21, 1))];
    stage.store.checkpoint(&lease, &Checkpoint::parking(at(21), both)).await.unwrap();
    lease
}

async fn discard(stage: &Stage, what: Discard) -> Discarding {
    stage.other.discard_parked(&stage.feed, &key(1), what, "a test order").await.unwrap()
}

async fn ids(stage: &Stage) -> Vec<u64> {
    let changes = stage.other.parked_changes(&stage.feed, &key(1), 10).await.unwrap();
    changes.into_iter().map(|change| change.id).collect()
}

/// In order, and without anybody asking.
pub async fn the_first_change_is_dropped_and_the_rest_goes_on(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    assert_eq!(discard(&stage, Discard::First(20)).await, Discarding::Done(1));
    assert_eq!(ids(&stage).await, [21]);
    let left = stage.store.parked_object(&stage.feed, &key(1)).await.unwrap().unwrap();
    assert_eq!((left.failure.state, left.failure.attempts, left.waiting), (ParkedState::Retrying, 0, 1));
}

/// Nothing of the object is left.
pub async fn the_whole_tail_is_dropped(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    assert_eq!(discard(&stage, Discard::All(20)).await, Discarding::Done(2));
    assert_eq!(ids(&stage).await, [0u64; 0]);
    assert_eq!(stage.store.parked(&stage.feed, None).await.unwrap(), []);
}

/// What, why it was parked, why it was dropped, and when.
pub async fn a_discard_is_remembered_with_its_reason(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    let since = stage.store.parked(&stage.feed, None).await.unwrap()[0].since;
    discard(&stage, Discard::All(20)).await;
    let kept = stage.store.discarded(&stage.feed, 10).await.unwrap();
    let at = kept[0].at;
    assert!(at >= since, "{at} is before {since}");
    let expected = Discarded {
        feed: stage.feed.clone(),
        partition: Partition(0),
        key: key(1),
        first: 20,
        last: 21,
        changes: 2,
        error: "no".to_owned(),
        reason: "a test order".to_owned(),
        at,
    };
    assert_eq!(kept, [expected]);
}

/// The answer to the first time may have been lost.
pub async fn repeating_a_discard_drops_nothing_more(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    discard(&stage, Discard::First(20)).await;
    assert_eq!(discard(&stage, Discard::First(20)).await, Discarding::Changed);
    assert_eq!(discard(&stage, Discard::All(20)).await, Discarding::Changed);
    assert_eq!(ids(&stage).await, [21]);
    assert_eq!(stage.store.discarded(&stage.feed, 10).await.unwrap().len(), 1);
}

/// The caller has seen something that is not so any more.
pub async fn what_begins_with_another_change_is_not_discarded(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    assert_eq!(discard(&stage, Discard::First(20)).await, Discarding::Changed, "nothing is parked");
    parked(&stage).await;
    assert_eq!(discard(&stage, Discard::First(21)).await, Discarding::Changed);
    assert_eq!(ids(&stage).await, [20, 21]);
}

/// The owner may be about to handle the very change.
pub async fn what_its_owner_may_be_trying_is_not_discarded(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    stage.other.retry_parked(&stage.feed, Some(&key(1))).await.unwrap();
    assert_eq!(discard(&stage, Discard::First(20)).await, Discarding::Busy);
    assert_eq!(discard(&stage, Discard::All(20)).await, Discarding::Busy);
    assert_eq!(ids(&stage).await, [20, 21]);
    assert_eq!(stage.store.discarded(&stage.feed, 10).await.unwrap(), []);
}

/// Nobody can be trying it.
pub async fn what_nobody_owns_may_be_discarded_while_it_is_retrying(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = parked(&stage).await;
    stage.other.retry_parked(&stage.feed, Some(&key(1))).await.unwrap();
    stage.store.release(&lease, None).await.unwrap();
    assert_eq!(discard(&stage, Discard::First(20)).await, Discarding::Done(1));
}

/// It goes on with the rest, or with what comes.
pub async fn discarding_lets_the_owner_know(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    let before = stage.see(0).await.asked;
    discard(&stage, Discard::First(21)).await;
    assert_eq!(before, stage.see(0).await.asked, "nothing was dropped");
    discard(&stage, Discard::All(20)).await;
    assert_ne!(before, stage.see(0).await.asked);
}

/// Latest first; the store does not grow with time.
pub async fn of_many_discards_the_latest_are_remembered(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let many = DISCARDS_KEPT as u64 + 20;
    for id in 100..100 + many {
        let parked = Checkpoint::parking(at(id), vec![failed(change(id, 1), "no", 1)]);
        stage.store.checkpoint(&lease, &parked).await.unwrap();
        assert_eq!(discard(&stage, Discard::First(id)).await, Discarding::Done(1));
    }
    let latest: Vec<u64> = stage
        .store
        .discarded(&stage.feed, 3)
        .await
        .unwrap()
        .iter()
        .map(|discarded| discarded.first)
        .collect();
    assert_eq!(latest, [99 + many, 98 + many, 97 + many]);
    let all = stage.store.discarded(&stage.feed, usize::MAX).await.unwrap().len();
    assert!((DISCARDS_KEPT..2 * DISCARDS_KEPT).contains(&all), "{all} are kept");
}

/// With the feed goes its history.
pub async fn a_forgotten_feed_leaves_no_discards(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    parked(&stage).await;
    discard(&stage, Discard::First(20)).await;
    stage.store.forget(&stage.feed).await.unwrap();
    assert_eq!(stage.store.discarded(&stage.feed, 10).await.unwrap(), []);
}
