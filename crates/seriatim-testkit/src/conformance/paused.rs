//! Feeds that an operator has paused. A store that cannot remember that says so.

use seriatim::FeedName;
use seriatim::store::Store;

use super::stage::feed;
use super::{Harness, Stage};

/// The stage, if the store remembers pauses; one that does not refuses to be told.
async fn set(harness: &impl Harness) -> Option<Stage> {
    let stage = Stage::set(harness).await;
    if stage.store.pauses() {
        return Some(stage);
    }
    assert!(stage.store.pause(&stage.feed).await.is_err() && stage.store.resume(&stage.feed).await.is_err());
    assert_eq!(stage.store.paused().await.unwrap(), []);
    None
}

async fn paused(store: &dyn Store) -> Vec<FeedName> {
    store.paused().await.unwrap().into_iter().map(|paused| paused.feed).collect()
}

/// Everybody sees it, also of a feed that nobody has run yet, and pausing twice keeps the first moment.
pub async fn a_pause_is_kept_until_it_is_ended(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    assert!(stage.store.pause(&stage.feed).await.unwrap());
    assert!(stage.store.pause(&feed("another")).await.unwrap());
    let first = stage.other.paused().await.unwrap();
    assert!(!stage.other.pause(&stage.feed).await.unwrap());
    assert_eq!(stage.store.paused().await.unwrap(), first);
    let mut both = [feed("another"), stage.feed.clone()];
    both.sort();
    assert_eq!(paused(&*stage.other).await, both);
    assert!(stage.other.resume(&stage.feed).await.unwrap());
    assert!(!stage.store.resume(&stage.feed).await.unwrap());
    assert_eq!(paused(&*stage.store).await, [feed("another")]);
}

/// One of its name that comes later begins as any other does.
pub async fn a_forgotten_feed_is_not_paused(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    stage.store.pause(&stage.feed).await.unwrap();
    stage.other.forget(&stage.feed).await.unwrap();
    assert_eq!(paused(&*stage.store).await, []);
}

/// Hosts look for pauses only when the mark has moved, so it moves with each of them.
pub async fn a_pause_and_its_end_move_the_mark(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let before = stage.other.pulse().await.unwrap().mark;
    stage.store.pause(&stage.feed).await.unwrap();
    let during = stage.other.pulse().await.unwrap().mark;
    stage.store.resume(&stage.feed).await.unwrap();
    let after = stage.other.pulse().await.unwrap().mark;
    assert!(before != during && during != after, "{before:?}, {during:?}, {after:?}");
}
