//! A feed that is paused: nothing of it is read or handled, and its leases are kept.

use super::{History, feed, noting, quick, spawn, until};
use crate::host::*;
use crate::store::MemoryStore;

fn name() -> FeedName {
    FeedName::new("f").unwrap()
}

/// Longer than a host takes to look.
const A_LOOK: Duration = Duration::from_secs(2);

async fn owned(store: &MemoryStore) -> usize {
    let leases = store.view(&[name()]).await.unwrap().leases;
    leases.iter().filter(|lease| lease.owner.is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn a_paused_feed_stands_still_with_its_leases_and_goes_on_when_it_is_resumed() {
    let (store, feed, history) = (MemoryStore::new(), feed(2), History::default());
    let (_stop, _running) = spawn(super::host("a", &store, &feed, noting(&history), quick()));
    (0..10).for_each(|n| _ = feed.push(n, n));
    until("all are handled", || history.total() == 10).await;
    store.pause(&name()).await.unwrap();
    tokio::time::sleep(A_LOOK).await;
    (0..10).for_each(|n| _ = feed.push(n, n));
    tokio::time::sleep(A_LOOK * 30).await;
    assert_eq!((history.total(), owned(&store).await), (10, 2));
    store.resume(&name()).await.unwrap();
    until("the rest is handled", || history.total() == 20).await;
    history.assert_each_key_once_in_order();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_starts_handles_nothing_of_a_paused_feed_and_can_be_stopped() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    store.pause(&name()).await.unwrap();
    feed.push(1, 1);
    let (stop, running) = spawn(super::host("a", &store, &feed, noting(&history), quick()));
    tokio::time::sleep(A_LOOK).await;
    assert_eq!((history.total(), owned(&store).await), (0, 1));
    stop.notify_one();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_to_handle_what_is_there_does_not_wait_for_a_paused_feed() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    store.pause(&name()).await.unwrap();
    feed.push(1, 1);
    let ran = super::host("a", &store, &feed, noting(&history), quick()).run_once().await;
    let why = ran.unwrap_err().to_string();
    assert!(why.contains("f: it is paused since") && why.contains("seriatim resume f"), "{why}");
    assert_eq!(history.total(), 0);
}
