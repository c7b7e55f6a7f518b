//! Feeds and their number of partitions.

use seriatim::name::{Epoch, Partition};
use seriatim::store::EnsureError;

use super::stage::{at, change, failed, feed, to};
use super::{Harness, Stage};

/// New leases have no owner, epoch zero, and the position asked for.
pub async fn a_new_feed_starts_where_it_is_told(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    for partition in 0..4 {
        let lease = stage.see(partition).await;
        assert_eq!((lease.owner, lease.epoch, lease.hand_over_to), (None, Epoch(0), None));
        assert_eq!(lease.position, at(10));
    }
}

/// Every host ensures its feeds when it starts.
pub async fn ensuring_again_keeps_positions(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(1).await;
    stage.store.checkpoint(&lease, &to(20)).await.unwrap();
    stage.other.ensure(&stage.feed, 4, &at(99)).await.unwrap();
    assert_eq!(stage.see(1).await.position, at(20));
    assert_eq!(stage.see(0).await.position, at(10));
}

/// Keys would change places.
pub async fn another_number_of_partitions_is_refused(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    for wanted in [3, 5] {
        let refused = stage.other.ensure(&stage.feed, wanted, &at(10)).await.unwrap_err();
        assert!(matches!(refused, EnsureError::PartitionCount { existing: 4, .. }), "{refused}");
    }
    assert_eq!(stage.store.view(std::slice::from_ref(&stage.feed)).await.unwrap().leases.len(), 4);
}

/// All hosts of a fleet start at once.
pub async fn many_who_ensure_at_once_make_one_feed(harness: &impl Harness) {
    let mut ensuring = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = harness.open().await;
        ensuring.spawn(async move { store.ensure(&feed("totals"), 8, &at(10)).await });
    }
    for ensured in ensuring.join_all().await {
        ensured.unwrap();
    }
    let leases = harness.open().await.view(&[feed("totals")]).await.unwrap().leases;
    assert_eq!(leases.len(), 8);
}

/// `status` asks for them.
pub async fn feeds_are_listed_by_name(harness: &impl Harness) {
    let store = harness.open().await;
    assert_eq!(store.feeds().await.unwrap(), []);
    for name in ["b", "ä", "a"] {
        store.ensure(&feed(name), 1, &at(0)).await.unwrap();
    }
    assert_eq!(store.feeds().await.unwrap(), [feed("a"), feed("b"), feed("ä")]);
}

/// By feed and partition, without the others.
pub async fn a_view_has_the_leases_asked_for_in_order(harness: &impl Harness) {
    let store = harness.open().await;
    for name in ["c", "a", "b"] {
        store.ensure(&feed(name), 11, &at(0)).await.unwrap();
    }
    let view = store.view(&[feed("c"), feed("a"), feed("none")]).await.unwrap();
    let seen: Vec<_> = view.leases.into_iter().map(|lease| (lease.id.feed, lease.id.partition)).collect();
    let of = |name| (0..11).map(move |partition| (feed(name), Partition(partition)));
    assert_eq!(seen, of("a").chain(of("c")).collect::<Vec<_>>());
}

/// Leases and parked changes go with it, and doing so twice is harmless.
pub async fn a_forgotten_feed_leaves_nothing(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    let mut parking = to(20);
    parking.parked.push(failed(change(20, 1), "no", 5));
    stage.store.checkpoint(&lease, &parking).await.unwrap();
    stage.other.forget(&stage.feed).await.unwrap();
    stage.other.forget(&stage.feed).await.unwrap();
    assert_eq!(stage.store.feeds().await.unwrap(), []);
    assert_eq!(stage.store.view(std::slice::from_ref(&stage.feed)).await.unwrap().leases, []);
    assert_eq!(stage.store.parked(&stage.feed, None).await.unwrap(), []);
    let key = change(20, 1).key.unwrap();
    assert_eq!(stage.store.parked_changes(&stage.feed, &key, 10).await.unwrap(), []);
}

/// Forgetting is about one feed.
pub async fn forgetting_one_feed_leaves_the_others(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.store.ensure(&feed("mails"), 2, &at(0)).await.unwrap();
    stage.store.forget(&feed("mails")).await.unwrap();
    assert_eq!(stage.store.feeds().await.unwrap(), std::slice::from_ref(&stage.feed));
    assert_eq!(stage.see(3).await.position, at(10));
}

/// That is how a feed is started afresh.
pub async fn a_forgotten_feed_may_come_back_with_other_partitions(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.store.forget(&stage.feed).await.unwrap();
    stage.store.ensure(&stage.feed, 7, &at(0)).await.unwrap();
    assert_eq!(stage.see(6).await.position, at(0));
}
