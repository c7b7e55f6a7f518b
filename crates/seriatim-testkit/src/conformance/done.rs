//! What is handled beyond the position of a lease.

use seriatim::store::{Checkpoint, CheckpointError, DoneAbove, OnRewind};

use super::stage::{at, change, failed, to};
use super::{Harness, Stage};

/// A checkpoint at a position, with these changes handled beyond it.
fn with(position: u64, ids: impl IntoIterator<Item = u64>) -> Checkpoint {
    Checkpoint { done: DoneAbove::new(at(90), ids), ..to(position) }
}

/// However much it is, and also with a checkpoint that parks.
pub async fn what_is_handled_beyond_the_position_is_told_to_the_next_owner(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    assert!(stage.ada_takes(0).await.done.is_empty());
    let many = with(20, (0..9000).map(|id| id * 16).chain([u64::MAX]));
    for checkpoint in
        [many, Checkpoint { parked: vec![failed(change(22, 1), "no", 1)], ..with(21, [23, 24]) }]
    {
        let lease = stage.ada_takes(0).await;
        stage.store.checkpoint(&lease, &checkpoint).await.unwrap();
        let next = stage.bob_takes(0).await;
        assert_eq!((&next.position, &next.done), (&checkpoint.position, &checkpoint.done));
        stage.other.release(&next, None).await.unwrap();
        let lease = stage.ada_takes(0).await;
        assert_eq!(lease.done, checkpoint.done, "a release keeps it");
        stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    }
    assert!(stage.bob_takes(0).await.done.is_empty(), "the last checkpoint had nothing");
    assert!(stage.bob_takes(1).await.done.is_empty(), "of another partition");
}

/// It would keep changes from the new owner that nobody has handled.
pub async fn a_zombie_cannot_tell_what_is_handled(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.ada_takes(0).await;
    let lease = stage.bob_takes(0).await;
    stage.other.checkpoint(&lease, &with(20, [22])).await.unwrap();
    let refused = stage.store.checkpoint(&zombie, &with(20, [25])).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.ada_takes(0).await.done, DoneAbove::new(at(90), [22]));
}

/// What is rewound comes again, all of it.
pub async fn a_rewind_forgets_what_is_handled_beyond(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &with(20, [22, 23])).await.unwrap();
    assert!(stage.other.rewind(&stage.see(0).await, &at(3), OnRewind::KeepParked).await.unwrap());
    assert!(stage.ada_takes(0).await.done.is_empty());
}

/// A feed of the same name begins anew.
pub async fn a_forgotten_feed_leaves_nothing_handled(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &with(20, [22, 23])).await.unwrap();
    stage.store.forget(&stage.feed).await.unwrap();
    stage.store.ensure(&stage.feed, 4, &at(10)).await.unwrap();
    assert!(stage.ada_takes(0).await.done.is_empty());
}
