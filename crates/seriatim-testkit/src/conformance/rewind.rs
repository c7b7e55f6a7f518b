//! Rewinding a partition under whoever owns it.

use seriatim::name::Epoch;
use seriatim::store::{Checkpoint, CheckpointError, OnRewind};

use super::stage::{at, change, failed, to};
use super::{Harness, Stage};

/// Otherwise the owner's next checkpoint would undo it.
pub async fn rewinding_fences_the_owner(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    assert!(stage.other.rewind(&stage.see(0).await, &at(3), OnRewind::KeepParked).await.unwrap());
    let refused = stage.store.checkpoint(&lease, &to(20)).await;
    assert!(
        matches!(refused, Err(CheckpointError::Fenced { by }) if by == lease.epoch.next()),
        "{refused:?}"
    );
    let seen = stage.see(0).await;
    assert_eq!((seen.owner, seen.epoch, seen.position), (None, lease.epoch.next(), at(3)));
    assert_eq!(stage.bob_takes(0).await.position, at(3));
}

/// Somebody else has it now, or has rewound it.
pub async fn rewinding_what_changed_meanwhile_is_refused(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let early = stage.see(0).await;
    stage.ada_takes(0).await;
    assert!(!stage.other.rewind(&early, &at(3), OnRewind::KeepParked).await.unwrap());
    assert_eq!(stage.see(0).await.position, at(10));
}

/// A place that was right when it was seen would let changes happen again that are done by now. Freeing a lease where it stands
/// is such a rewind.
pub async fn rewinding_what_was_written_since_it_was_seen_is_refused(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    for parked in [OnRewind::KeepParked, OnRewind::DropParked] {
        let early = stage.see(0).await;
        let next = early.position.as_number().unwrap() + 10;
        stage.store.checkpoint(&lease, &to(next)).await.unwrap();
        assert!(!stage.other.rewind(&early, &early.position, parked).await.unwrap());
        let now = stage.see(0).await;
        assert_eq!((now.position, now.epoch, now.owner), (at(next), lease.epoch, early.owner));
    }
    let now = stage.see(0).await;
    assert!(stage.other.rewind(&now, &now.position, OnRewind::KeepParked).await.unwrap());
    assert_eq!(stage.see(0).await.position, now.position);
}

/// The answer to the first time may have been lost; nobody who took the lease since then is disturbed.
pub async fn repeating_a_rewind_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let seen = stage.see(0).await;
    assert!(stage.store.rewind(&seen, &at(3), OnRewind::KeepParked).await.unwrap());
    stage.store.rewind(&seen, &at(3), OnRewind::KeepParked).await.unwrap();
    assert_eq!(stage.see(0).await.epoch, seen.epoch.next());
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &to(5)).await.unwrap();
    assert!(!stage.store.rewind(&seen, &at(3), OnRewind::KeepParked).await.unwrap());
    assert_eq!(stage.see(0).await.position, at(5));
}

/// Somebody may be about to acquire it as it was.
pub async fn rewinding_a_free_lease_raises_its_epoch(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let early = stage.sight(0).await;
    assert!(stage.store.rewind(&early.lease, &at(3), OnRewind::KeepParked).await.unwrap());
    assert_eq!(stage.see(0).await.epoch, Epoch(1));
    assert_eq!(stage.other.acquire(&stage.bob, &early).await.unwrap(), None);
}

/// After a rewind to the beginning everything is read again; before any other, what is parked is all there is of it.
pub async fn rewinding_keeps_or_drops_what_is_parked_in_its_partition(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let parked = Checkpoint::parking(at(20), vec![failed(change(20, 1), "no", 5)]);
    stage.store.checkpoint(&lease, &parked).await.unwrap();
    let key = parked.parked[0].change.key.clone().unwrap();
    let waiting = async || stage.other.parked_changes(&stage.feed, &key, 10).await.unwrap().len();
    assert!(stage.store.rewind(&stage.see(0).await, &at(3), OnRewind::KeepParked).await.unwrap());
    assert_eq!(waiting().await, 1);
    assert!(stage.store.rewind(&stage.see(1).await, &at(3), OnRewind::DropParked).await.unwrap());
    assert_eq!(waiting().await, 1, "of another partition");
    assert!(stage.store.rewind(&stage.see(0).await, &at(3), OnRewind::DropParked).await.unwrap());
    assert_eq!(waiting().await, 0);
    assert_eq!(stage.other.parked(&stage.feed, None).await.unwrap(), []);
}
