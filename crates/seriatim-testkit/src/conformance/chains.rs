//! The chains of feeds: what was handed out last of each object. A store that keeps none says so.

use seriatim::store::{Chained, Checkpoint, CheckpointError};
use seriatim::value::{Key, Value};

use super::stage::{feed, to};
use super::{Harness, Stage};

fn key(id: i64) -> Key {
    Key::of("id", Value::Integer(id))
}

fn passing(position: u64, chained: &[(i64, u64)]) -> Checkpoint {
    let chained = chained.iter().map(|(of, id)| Chained { key: key(*of), id: *id }).collect();
    Checkpoint { chained, ..to(position) }
}

/// The stage, if the store keeps chains; one that does not refuses to be asked for one.
async fn set(harness: &impl Harness) -> Option<Stage> {
    let stage = Stage::set(harness).await;
    if stage.store.keeps_chains() {
        return Some(stage);
    }
    let refused = stage.store.chained(&stage.feed, &[key(1)]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("keeps no chains")));
    None
}

/// Everybody sees it, in the order in which it was asked for.
pub async fn a_checkpoint_keeps_the_last_change_of_each_object(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &passing(20, &[(1, 17), (2, u64::MAX >> 1)])).await.unwrap();
    let keys = [key(2), key(3), key(1)];
    let known = stage.other.chained(&stage.feed, &keys).await.unwrap();
    assert_eq!(known, [Some(u64::MAX >> 1), None, Some(17)]);
    assert_eq!(stage.other.chained(&stage.feed, &[]).await.unwrap(), []);
    assert_eq!(stage.other.chained(&feed("other"), &keys).await.unwrap(), [None; 3]);
}

/// Also to a smaller id: somebody has rewound the feed.
pub async fn a_later_checkpoint_moves_the_chain(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &passing(20, &[(1, 17), (2, 18)])).await.unwrap();
    stage.store.checkpoint(&lease, &passing(21, &[(1, 19)])).await.unwrap();
    stage.store.checkpoint(&lease, &passing(22, &[(2, 5)])).await.unwrap();
    let known = stage.store.chained(&stage.feed, &[key(1), key(2)]).await.unwrap();
    assert_eq!(known, [Some(19), Some(5)]);
}

/// Its id is greater than all others and means less.
pub async fn a_row_that_existed_takes_nobodys_place(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let lease = stage.ada_takes(0).await;
    let existed = 1 << 62;
    stage.store.checkpoint(&lease, &passing(20, &[(1, 17), (2, existed + 1)])).await.unwrap();
    stage.store.checkpoint(&lease, &passing(21, &[(1, existed), (2, 18)])).await.unwrap();
    let known = stage.store.chained(&stage.feed, &[key(1), key(2)]).await.unwrap();
    assert_eq!(known, [Some(17), Some(18)]);
}

/// Who lost the lease cannot extend a chain.
pub async fn a_zombie_cannot_extend_a_chain(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let zombie = stage.ada_takes(0).await;
    let owner = stage.bob_takes(0).await;
    let refused = stage.store.checkpoint(&zombie, &passing(20, &[(1, 17)])).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    assert_eq!(stage.store.chained(&stage.feed, &[key(1)]).await.unwrap(), [None]);
    stage.other.checkpoint(&owner, &passing(20, &[(1, 18)])).await.unwrap();
    assert_eq!(stage.store.chained(&stage.feed, &[key(1)]).await.unwrap(), [Some(18)]);
}

/// A feed of the same name begins anew.
pub async fn a_forgotten_feed_leaves_no_chain(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let lease = stage.ada_takes(0).await;
    stage.store.checkpoint(&lease, &passing(20, &[(1, 17)])).await.unwrap();
    stage.store.forget(&stage.feed).await.unwrap();
    assert_eq!(stage.store.chained(&stage.feed, &[key(1)]).await.unwrap(), [None]);
}
