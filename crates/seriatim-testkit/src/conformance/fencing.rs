//! Checkpoints, and that only the owner's count.

use seriatim::store::{CheckpointError, Renewal};

use super::stage::{at, change, failed, to};
use super::{Harness, Stage};

/// The host that lost its lease is told by whom, and moves nothing.
pub async fn a_zombie_cannot_checkpoint(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.ada_takes(0).await;
    let owner = stage.bob_takes(0).await;
    stage.other.checkpoint(&owner, &to(30)).await.unwrap();
    let refused = stage.store.checkpoint(&zombie, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { by }) if by == owner.epoch), "{refused:?}");
    assert_eq!(stage.see(0).await.position, at(30));
}

/// Giving up what one has lost is success, and changes nothing.
pub async fn a_zombie_cannot_release(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.ada_takes(0).await;
    let owner = stage.bob_takes(0).await;
    stage.store.release(&zombie, Some(&stage.ada.host)).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((seen.owner.unwrap().session, seen.hand_over_to), (owner.session, None));
}

/// An owner that came back after a lapse is fenced from what it had under way before: the epoch decides, not the name.
pub async fn an_owners_own_old_epoch_cannot_write(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let before = stage.ada_takes(0).await;
    let after = stage.ada_takes(0).await;
    let refused = stage.store.checkpoint(&before, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { by }) if by == after.epoch), "{refused:?}");
    stage.store.release(&before, None).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((seen.owner.map(|owner| owner.session), seen.position), (Some(after.session), at(10)));
}

/// Free is not mine.
pub async fn a_lease_given_up_cannot_checkpoint(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.release(&lease, None).await.unwrap();
    let refused = stage.store.checkpoint(&lease, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.see(0).await.position, at(10));
}

/// Checkpoint and parking are one step, also when it fails.
pub async fn a_fenced_checkpoint_parks_nothing(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.ada_takes(0).await;
    stage.bob_takes(0).await;
    let mut parking = to(20);
    parking.parked.push(failed(change(20, 1), "no", 5));
    let refused = stage.store.checkpoint(&zombie, &parking).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.store.parked(&stage.feed, None).await.unwrap(), []);
}

/// What returned is there, for all handles.
pub async fn a_checkpoint_is_seen_by_everybody(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(2).await;
    stage.store.checkpoint(&lease, &to(u64::MAX)).await.unwrap();
    let view = stage.other.view(std::slice::from_ref(&stage.feed)).await.unwrap();
    let positions: Vec<_> = view.leases.into_iter().map(|lease| lease.position).collect();
    assert_eq!(positions, [at(10), at(10), at(u64::MAX), at(10)]);
}

/// The answer to the first time may have been lost.
pub async fn repeating_a_checkpoint_is_harmless(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((seen.position, seen.epoch), (at(20), lease.epoch));
}

/// The known fault of other processors: a renewal invalidates the checkpoint under way, or the other way round.
pub async fn renewing_and_checkpointing_at_once_never_fight(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let checkpoints = async {
        for position in 11..31 {
            stage.store.checkpoint(&lease, &to(position)).await.unwrap();
        }
    };
    let second = harness.open().await;
    let renewals = async {
        for _ in 0..20 {
            assert_eq!(second.renew(&stage.ada).await.unwrap(), Renewal::Kept);
        }
    };
    tokio::join!(checkpoints, renewals);
    assert_eq!(stage.see(0).await.position, at(30));
}

/// An owner that did not notice cannot bring it back.
pub async fn a_forgotten_feed_cannot_be_checkpointed(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.other.forget(&stage.feed).await.unwrap();
    let refused = stage.store.checkpoint(&lease, &to(20)).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
}
