//! Feeds whose number of partitions changes. A store that cannot change it says so.

use seriatim::lease::{LeaseView, Part, Reshape};
use seriatim::name::{Epoch, Partition};
use seriatim::store::{Checkpoint, CheckpointError, Discard, Discarding};

use super::stage::{at, change, failed, steps_aside, to};
use super::{Harness, Stage};

/// The stage, if the store can change the number of partitions; one that cannot refuses.
async fn set(harness: &impl Harness) -> Option<Stage> {
    let stage = Stage::set(harness).await;
    if stage.store.reshapes() {
        return Some(stage);
    }
    let refused = stage.store.reshape(&stage.feed, &leases(&stage).await, &Reshape::default()).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("cannot change the number of partitions")));
    None
}

async fn leases(stage: &Stage) -> Vec<LeaseView> {
    stage.other.view(std::slice::from_ref(&stage.feed)).await.expect("a view").leases
}

fn numbers(leases: &[LeaseView]) -> Vec<u32> {
    leases.iter().map(|lease| lease.id.partition.0).collect()
}

fn marked(leases: &[LeaseView], part: &Part) -> Reshape {
    Reshape {
        marked: leases.iter().map(|lease| (lease.id.partition, part.clone())).collect(),
        ..Reshape::default()
    }
}

/// Partitions 0 to 3 end at 50, and 4 to 6 begin there.
fn divided(leases: &[LeaseView]) -> Reshape {
    let ending = Part { upto: Some(at(50)), ..Part::of_first(4) };
    let parents: Vec<Partition> = (0..4).map(Partition).collect();
    let child = Part { first: 4, parents: parents.clone(), ..Part::of_first(3) };
    let born = (4..7).map(|new| (Partition(new), child.clone(), at(50))).collect();
    Reshape { born, free: parents, ..marked(leases, &ending) }
}

async fn divide(stage: &Stage) {
    let seen = leases(stage).await;
    assert!(stage.store.reshape(&stage.feed, &seen, &divided(&seen)).await.unwrap());
}

/// Its owner may finish and write its checkpoint, and nobody takes it who does not know.
pub async fn a_lease_that_gets_another_part_stays_its_owners_and_is_taken_by_nobody_who_saw_it_before(
    harness: &impl Harness,
) {
    let Some(stage) = set(harness).await else { return };
    let (owned, before) = (stage.ada_takes(0).await, stage.sight(1).await);
    let seen = leases(&stage).await;
    let part = Part { next: Some(3), ..Part::of_first(4) };
    assert!(stage.store.reshape(&stage.feed, &seen, &marked(&seen, &part)).await.unwrap());
    assert!(leases(&stage).await.iter().all(|lease| lease.part.as_ref() == Some(&part)));
    assert_eq!(stage.other.acquire(&stage.bob, &before).await.unwrap(), None);
    stage.store.checkpoint(&owned, &to(20)).await.unwrap();
    assert_eq!(stage.bob_takes(1).await.part, Some(part));
}

/// They come in order, never had an owner, and say which part they are on.
pub async fn new_leases_begin_where_they_are_told(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    divide(&stage).await;
    let now = leases(&stage).await;
    assert_eq!(numbers(&now), (0..7).collect::<Vec<_>>());
    for new in &now[4..] {
        assert_eq!((&new.owner, new.epoch, &new.position), (&None, Epoch(0), &at(50)));
    }
    let taken = stage.ada_takes(5).await;
    assert_eq!(
        (taken.epoch, taken.position.clone(), taken.part.clone()),
        (Epoch(1), at(50), now[5].part.clone())
    );
    stage.store.checkpoint(&taken, &to(60)).await.unwrap();
    assert_eq!(stage.see(5).await.position, at(60));
}

/// Two hosts that decide the same do it once.
pub async fn what_was_reshaped_since_it_was_seen_is_not_reshaped(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let seen = leases(&stage).await;
    assert!(stage.store.reshape(&stage.feed, &seen, &divided(&seen)).await.unwrap());
    let now = leases(&stage).await;
    assert!(!stage.other.reshape(&stage.feed, &seen, &divided(&seen)).await.unwrap());
    assert!(
        !stage.other.reshape(&stage.feed, &now[..4], &Reshape::default()).await.unwrap(),
        "some are missing"
    );
    assert_eq!(leases(&stage).await, now);
}

/// Checkpoints do not stand in its way, owners do where it says so.
pub async fn what_must_be_free_and_has_an_owner_is_not_reshaped(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let seen = leases(&stage).await;
    let owned = stage.ada_takes(2).await;
    assert!(!stage.other.reshape(&stage.feed, &seen, &divided(&seen)).await.unwrap());
    assert_eq!(numbers(&leases(&stage).await), [0, 1, 2, 3]);
    stage.store.checkpoint(&owned, &to(20)).await.unwrap();
    stage.store.release(&owned, None).await.unwrap();
    assert!(stage.other.reshape(&stage.feed, &seen, &divided(&seen)).await.unwrap());
    assert_eq!(stage.see(2).await.position, at(20));
}

/// Nobody writes to it, and nobody takes it.
pub async fn a_lease_that_was_removed_is_gone(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let owned = stage.ada_takes(0).await;
    stage.store.release(&owned, None).await.unwrap();
    divide(&stage).await;
    let (seen, before) = (leases(&stage).await, stage.sight(0).await);
    let gone: Vec<Partition> = (0..4).map(Partition).collect();
    let removed = Reshape { gone: gone.clone(), free: gone, ..Reshape::default() };
    assert!(stage.store.reshape(&stage.feed, &seen, &removed).await.unwrap());
    assert_eq!(numbers(&leases(&stage).await), [4, 5, 6]);
    assert_eq!(stage.other.acquire(&stage.bob, &before).await.unwrap(), None);
    let refused = stage.store.checkpoint(&owned, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    stage.store.release(&owned, None).await.unwrap();
    assert_eq!(numbers(&leases(&stage).await), [4, 5, 6]);
}

/// A host that starts ensures its feeds, whatever number it was given.
pub async fn ensuring_a_feed_that_was_reshaped_adds_nothing(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    divide(&stage).await;
    let before = leases(&stage).await;
    for partitions in [4, 3, 16] {
        stage.other.ensure(&stage.feed, partitions, &at(99)).await.unwrap();
    }
    assert_eq!(leases(&stage).await, before);
    assert_eq!(stage.store.feeds().await.unwrap(), std::slice::from_ref(&stage.feed));
}

/// And may come back with any number of partitions.
pub async fn a_forgotten_feed_leaves_no_parts(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    divide(&stage).await;
    stage.store.forget(&stage.feed).await.unwrap();
    assert_eq!(leases(&stage).await, []);
    stage.store.ensure(&stage.feed, 2, &at(1)).await.unwrap();
    let now = leases(&stage).await;
    assert_eq!(numbers(&now), [0, 1]);
    assert!(now.iter().all(|lease| lease.part.is_none()));
}

/// Also those of partitions that came later.
pub async fn a_host_that_leaves_frees_its_new_leases(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    divide(&stage).await;
    stage.ada_takes(1).await;
    stage.ada_takes(6).await;
    stage.store.leave(&stage.ada).await.unwrap();
    assert!(leases(&stage).await.iter().all(|lease| lease.owner.is_none()));
}

/// All hosts have to look.
pub async fn the_mark_moves_when_a_feed_is_reshaped(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let before = stage.other.pulse().await.unwrap().mark;
    divide(&stage).await;
    assert_ne!(stage.other.pulse().await.unwrap().mark, before);
}

/// With all that waits, and the owner of the new partition hears of what is asked.
pub async fn parked_objects_are_adopted_as_they_are(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let old = stage.ada_takes(0).await;
    let parked = vec![
        failed(change(11, 1), "no", 3),
        failed(change(12, 2), "no", 3),
        steps_aside(change(13, 3), "late", 1),
    ];
    stage.store.checkpoint(&old, &Checkpoint::parking(at(50), parked)).await.unwrap();
    stage.store.release(&old, None).await.unwrap();
    divide(&stage).await;
    let child = stage.bob_takes(5).await;
    let before = stage.other.parked(&stage.feed, None).await.unwrap();
    let keys: Vec<_> = [1, 3, 77].map(|key| change(0, key).key.unwrap()).into();
    stage.other.adopt_parked(&child, &keys).await.unwrap();
    stage.other.adopt_parked(&child, &keys).await.unwrap();
    let adopted = stage.store.parked(&stage.feed, Some(Partition(5))).await.unwrap();
    let expected = [&before[0], &before[2]].map(|object| {
        let mut object = object.clone();
        object.partition = Partition(5);
        object
    });
    assert_eq!(adopted, expected);
    assert_eq!(stage.store.parked(&stage.feed, Some(Partition(0))).await.unwrap(), [before[1].clone()]);
    assert_eq!(stage.store.parked_changes(&stage.feed, &keys[0], 9).await.unwrap(), [change(11, 1)]);
    let busy = stage.store.discard_parked(&stage.feed, &keys[1], Discard::First(13), "a test").await.unwrap();
    assert_eq!(busy, Discarding::Busy);
    let asked = stage.see(5).await.asked;
    stage.store.retry_parked(&stage.feed, Some(&keys[0])).await.unwrap();
    assert_ne!(stage.see(5).await.asked, asked);
    let done = seriatim::store::Unparking { key: keys[0].clone(), ids: vec![11] };
    stage.other.checkpoint(&child, &Checkpoint { unparked: vec![done], ..to(51) }).await.unwrap();
    assert_eq!(stage.store.parked_object(&stage.feed, &keys[0]).await.unwrap(), None);
}

/// Who lost the lease takes nothing over.
pub async fn a_zombie_adopts_nothing(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let old = stage.ada_takes(0).await;
    stage
        .store
        .checkpoint(&old, &Checkpoint::parking(at(50), vec![failed(change(11, 1), "no", 3)]))
        .await
        .unwrap();
    stage.store.release(&old, None).await.unwrap();
    divide(&stage).await;
    let zombie = stage.ada_takes(5).await;
    stage.bob_takes(5).await;
    let refused = stage.store.adopt_parked(&zombie, &[change(0, 1).key.unwrap()]).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.store.parked(&stage.feed, Some(Partition(5))).await.unwrap(), []);
}
