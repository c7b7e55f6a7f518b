//! Acquiring and releasing: who owns a lease, and under which epoch.

use std::sync::Arc;

use seriatim::lease::Owner;
use seriatim::name::{Epoch, Partition};
use seriatim::store::{Discard, OnRewind, Release, Renewal};

use super::stage::{EXPIRE, at, change, failed, feed, host, take, to};
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
    let seen = Arc::new(stage.sight(0).await);
    let mut acquiring = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (store, seen) = (harness.open().await, seen.clone());
        let session = store.join(&host(&format!("host-{number}")), &[], EXPIRE, None).await.unwrap();
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
    let early = stage.sight(0).await;
    let lease = stage.ada_takes(0).await;
    assert_eq!(stage.other.acquire(&stage.bob, &early).await.unwrap(), None);
    stage.store.release(&lease, None).await.unwrap();
    // Free again, as it was seen; but the epoch tells that somebody had it in between.
    assert_eq!(stage.other.acquire(&stage.bob, &early).await.unwrap(), None);
}

/// The answer to the first time may have been lost.
pub async fn repeating_an_acquire_returns_the_same_lease(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let seen = stage.sight(0).await;
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
    // Its own sign of life in between does not keep it from that.
    let seen = stage.sight(0).await;
    stage.store.renew(&stage.ada).await.unwrap();
    let again = take(&*stage.store, &stage.ada, &seen).await;
    assert_eq!(again.epoch, after.epoch.next());
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
    let mut seen = stage.sight(0).await;
    seen.lease.id.partition = Partition(4);
    assert_eq!(stage.store.acquire(&stage.ada, &seen).await.unwrap(), None);
}

/// What a host costs that has nothing to do must not depend on how many leases it has.
pub async fn a_renewal_writes_to_no_lease(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.ada_takes(0).await;
    let (before, mark) = (stage.sight(0).await, stage.store.pulse().await.unwrap().mark);
    assert_eq!(stage.store.renew(&stage.ada).await.unwrap(), Renewal::Kept);
    let after = stage.sight(0).await;
    assert_eq!(after.lease, before.lease);
    assert_ne!(after.beat, before.beat);
    assert_eq!(stage.store.pulse().await.unwrap().mark, mark);
}

/// Its owner counts on keeping it for as long as its renewals last.
pub async fn a_lease_whose_owner_has_beaten_since_it_was_seen_is_not_acquired(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let silent = stage.sight(0).await;
    stage.store.renew(&stage.ada).await.unwrap();
    assert_eq!(stage.other.acquire(&stage.bob, &silent).await.unwrap(), None);
    let silent = stage.sight(0).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    assert_eq!(stage.other.acquire(&stage.bob, &silent).await.unwrap(), None);
    stage.store.checkpoint(&lease, &to(30)).await.unwrap();
    take(&*stage.other, &stage.bob, &stage.sight(0).await).await;
}

/// A host that joins has its share with a few calls; each lease has an answer of its own.
pub async fn many_leases_are_acquired_in_one_call(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.store.ensure(&feed("many"), 150, &at(7)).await.unwrap();
    let of = [feed("many")];
    let view = stage.other.view(&of).await.unwrap();
    let seen: Vec<_> = view.leases.iter().map(|lease| view.sighting(lease)).collect();
    // Ada was faster with some, and took one twice.
    take(&*stage.store, &stage.ada, &seen[3]).await;
    take(&*stage.store, &stage.ada, &seen[140]).await;
    let taken = stage.other.acquire_all(&stage.bob, &seen).await.unwrap();
    let missed: Vec<_> = (0..150).filter(|place| taken[*place].is_none()).collect();
    assert_eq!(missed, [3, 140]);
    assert!(taken.iter().zip(&seen).all(|(lease, seen)| lease.iter().all(|lease| lease.id == seen.lease.id)));
    assert!(taken.iter().flatten().all(|lease| lease.epoch == Epoch(1) && lease.position == at(7)));
    assert_eq!(stage.other.acquire_all(&stage.bob, &seen).await.unwrap(), taken, "the answer was lost");
    assert_eq!(stage.other.acquire_all(&stage.bob, &[]).await.unwrap(), []);
}

/// A host that goes gives back what it has with a few calls, and what it has lost is left alone.
pub async fn many_leases_are_released_in_one_call(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let leases = [stage.ada_takes(0).await, stage.ada_takes(1).await, stage.ada_takes(2).await];
    stage.bob_takes(1).await;
    let keep_for = [None, None, Some(stage.bob.host.clone())];
    let release = |(lease, keep_for)| Release { lease, keep_for };
    let releases: Vec<_> = leases.into_iter().zip(keep_for).map(release).collect();
    stage.store.release_all(&releases).await.unwrap();
    let owners = [stage.see(0).await.owner, stage.see(1).await.owner, stage.see(2).await.owner];
    assert_eq!(
        owners.map(|owner| owner.map(|owner| owner.session)),
        [None, Some(stage.bob.id.clone()), None]
    );
    assert_eq!(stage.see(2).await.hand_over_to, Some(stage.bob.host.clone()));
}

/// The mark is what hosts look at: while it stands still, they read no lease.
pub async fn the_mark_moves_with_all_that_owners_have_to_know(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let mut last = stage.other.pulse().await.unwrap().mark;
    let mut moved = async |what: &str| {
        let now = stage.other.pulse().await.unwrap().mark;
        assert_ne!(now, last, "{what}");
        let view = stage.store.view(&[]).await.unwrap();
        assert_eq!(view.mark, now, "a view has the same mark after {what}");
        last = now;
    };
    let lease = stage.ada_takes(0).await;
    moved("a lease was taken").await;
    assert!(stage.other.request_hand_over(&stage.see(0).await, &stage.bob.host).await.unwrap());
    moved("a lease was asked for").await;
    let mut parking = to(20);
    parking.parked.push(failed(change(20, 1), "no", 5));
    stage.store.checkpoint(&lease, &parking).await.unwrap();
    stage.store.release(&lease, Some(&stage.bob.host)).await.unwrap();
    moved("a lease was given up").await;
    assert_eq!(stage.other.retry_parked(&stage.feed, None).await.unwrap(), 1);
    moved("a retry was asked for").await;
    let all = Discard::All(20);
    let key = change(20, 1).key.unwrap();
    stage.other.discard_parked(&stage.feed, &key, all, "no use").await.unwrap();
    moved("a parked object was discarded").await;
    assert!(stage.other.rewind(&stage.see(0).await, &at(5), OnRewind::KeepParked).await.unwrap());
    moved("a lease was rewound").await;
    stage.other.ensure(&feed("more"), 2, &at(0)).await.unwrap();
    moved("a feed came").await;
    stage.other.forget(&feed("more")).await.unwrap();
    moved("a feed went").await;
    stage.ada_takes(1).await;
    moved("a lease was taken").await;
    stage.store.leave(&stage.ada).await.unwrap();
    moved("a host left").await;
}

/// A checkpoint moves no lease from hand to hand; hosts that write many must not make all others read.
pub async fn the_mark_stands_still_while_owners_work(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let mark = stage.other.pulse().await.unwrap().mark;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    stage.store.renew(&stage.ada).await.unwrap();
    stage.other.renew(&stage.bob).await.unwrap();
    assert_eq!(stage.other.pulse().await.unwrap().mark, mark);
    assert_eq!(stage.other.view(&[]).await.unwrap().mark, mark);
}
