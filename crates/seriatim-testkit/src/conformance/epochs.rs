//! Acquiring and releasing: who owns a lease, and under which epoch.

use std::sync::Arc;

use seriatim::lease::Owner;
use seriatim::name::{Epoch, Partition};
use seriatim::store::Renewal;

use super::stage::{at, host, take, to};
use super::{Harness, Stage};

/// Every owner has an epoch of its own.
pub async fn acquiring_raises_the_epoch(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    assert_eq!(stage.ada_takes(0).await.epoch, Epoch(1));
    let lease = stage.bob_takes(0).await;
    assert_eq!((lease.epoch, &lease.session, &lease.position), (Epoch(2), &stage.bob.id, &at(10)));
    let owner = Owner { host: stage.bob.host.clone(), session: stage.bob.id.clone() };
    let seen = stage.see(0).await;
    assert_eq!((seen.owner, seen.epoch), (Some(owner), Epoch(2)));
}

/// A race has one winner, and the others are told so.
pub async fn of_many_who_acquire_at_once_one_wins(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let seen = Arc::new(stage.see(0).await);
    let mut acquiring = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (store, seen) = (harness.open().await, seen.clone());
        let session = store.join(&host(&format!("host-{number}")), &[], None).await.unwrap();
        acquiring.spawn(async move { (store.acquire(&session, &seen).await.unwrap(), store) });
    }
    let answers = acquiring.join_all().await;
    let won: Vec<_> = answers.iter().filter_map(|(lease, _)| lease.as_ref()).collect();
    assert_eq!(won.len(), 1);
    let owner = stage.see(0).await.owner.unwrap();
    assert_eq!((won[0].epoch, &won[0].session), (Epoch(1), &owner.session));
}

/// What was seen must still be so.
pub async fn a_lease_seen_too_early_is_not_acquired(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let early = stage.see(0).await;
    let lease = stage.ada_takes(0).await;
    assert_eq!(stage.other.acquire(&stage.bob, &early).await.unwrap(), None);
    stage.store.release(&lease, None).await.unwrap();
    // Free again, as it was seen; but the epoch tells that somebody had it in between.
    assert_eq!(stage.other.acquire(&stage.bob, &early).await.unwrap(), None);
}

/// The answer to the first time may have been lost.
pub async fn repeating_an_acquire_returns_the_same_lease(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let seen = stage.see(0).await;
    let lease = take(&*stage.store, &stage.ada, &seen).await;
    assert_eq!(stage.store.acquire(&stage.ada, &seen).await.unwrap(), Some(lease.clone()));
    assert_eq!(stage.see(0).await.epoch, lease.epoch);
}

/// After a lapse, the owner itself comes back: what it had under way then is fenced too.
pub async fn acquiring_ones_own_lease_again_raises_the_epoch(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let before = stage.ada_takes(0).await;
    stage.store.checkpoint(&before, &to(20)).await.unwrap();
    let after = stage.ada_takes(0).await;
    assert_eq!((after.epoch, &after.position), (before.epoch.next(), &at(20)));
    let renewed = stage.store.renew(&stage.ada, &[before, after]).await.unwrap();
    assert_eq!(renewed, [Renewal::Lost, Renewal::Kept { hand_over_to: None }]);
}

/// The next owner goes on where this one stopped.
pub async fn releasing_keeps_position_and_epoch(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    stage.store.release(&lease, None).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((&seen.owner, seen.epoch), (&None, lease.epoch));
    let next = stage.bob_takes(0).await;
    assert_eq!((next.epoch, next.position), (lease.epoch.next(), at(20)));
}

/// The answer to the first time may have been lost.
pub async fn releasing_twice_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.release(&lease, None).await.unwrap();
    let next = stage.bob_takes(0).await;
    stage.store.release(&lease, None).await.unwrap();
    assert_eq!(stage.see(0).await.owner.unwrap().session, next.session);
}

/// A feed may be forgotten between seeing and taking.
pub async fn a_lease_that_is_not_there_is_not_acquired(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let mut seen = stage.see(0).await;
    seen.id.partition = Partition(4);
    assert_eq!(stage.store.acquire(&stage.ada, &seen).await.unwrap(), None);
}

/// The version is what others judge an owner by.
pub async fn versions_move_with_every_renewal(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let leases = [stage.ada_takes(0).await, stage.ada_takes(1).await];
    let before = [stage.see(0).await.version, stage.see(1).await.version];
    let kept = Renewal::Kept { hand_over_to: None };
    assert_eq!(stage.store.renew(&stage.ada, &leases).await.unwrap(), [kept.clone(), kept]);
    assert_ne!(stage.see(0).await.version, before[0]);
    assert_ne!(stage.see(1).await.version, before[1]);
}

/// Its owner counts on keeping it for as long as its renewals last.
pub async fn a_lease_that_was_renewed_since_it_was_seen_is_not_acquired(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let silent = stage.see(0).await;
    stage.store.renew(&stage.ada, std::slice::from_ref(&lease)).await.unwrap();
    assert_eq!(stage.other.acquire(&stage.bob, &silent).await.unwrap(), None);
    let silent = stage.see(0).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    assert_eq!(stage.other.acquire(&stage.bob, &silent).await.unwrap(), None);
    stage.store.checkpoint(&lease, &to(30)).await.unwrap();
}
