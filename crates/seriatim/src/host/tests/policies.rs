//! When checkpoints are written, by each policy, and that what is pending is flushed at close.

use super::{History, feed, quick, spawn, until};
use crate::change::{Change, Position};
use crate::handler::{Context, Failure};
use crate::host::*;
use crate::source::MemoryFeed;
use crate::store::MemoryStore;
use std::sync::atomic::{AtomicU64, Ordering};

async fn position(store: &MemoryStore) -> Position {
    store.view(&[FeedName::new("f").unwrap()]).await.unwrap().leases.remove(0).position
}

fn with(policy: CheckpointPolicy) -> FeedSettings {
    FeedSettings { checkpoint: policy, batch: 1, concurrency: 1, ..quick() }
}

fn host(store: &MemoryStore, feed: &MemoryFeed, settings: FeedSettings, handler: impl Handler) -> Host {
    super::host("a", store, feed, handler, settings)
}

fn noting(history: &History) -> impl Handler + use<> {
    super::noting(history)
}

/// Pushes changes one by one and waits until each is handled.
async fn one_by_one(feed: &MemoryFeed, history: &History, count: i64) {
    for n in 0..count {
        let before = history.total();
        feed.push(n, n);
        until("it is handled", || history.total() > before).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_each_batch() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    let host = host(&store, &feed, with(CheckpointPolicy::Batch), noting(&history));
    let stats = Arc::clone(&host.stats()[0].1);
    let (_stop, _running) = spawn(host);
    one_by_one(&feed, &history, 7).await;
    until("there is a checkpoint for each", || stats.checkpoints() == 7).await;
    assert_eq!(position(&store).await, Position::number(7));
}

#[tokio::test(start_paused = true)]
async fn after_so_many_changes_and_at_close() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    let (stop, running) = spawn(host(&store, &feed, with(CheckpointPolicy::Changes(5)), noting(&history)));
    one_by_one(&feed, &history, 4).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(position(&store).await, Position::number(0), "four are not five");
    one_by_one(&feed, &history, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(position(&store).await, Position::number(5));
    stop.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(position(&store).await, Position::number(7), "what is pending is flushed at close");
}

#[tokio::test(start_paused = true)]
async fn after_a_time_and_at_close() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    let hour = CheckpointPolicy::Time(Duration::from_secs(3600));
    let (stop, running) = spawn(host(&store, &feed, with(hour), noting(&history)));
    one_by_one(&feed, &history, 20).await;
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert_eq!(position(&store).await, Position::number(1), "the first after opening comes at once");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(position(&store).await, Position::number(20));
    one_by_one(&feed, &history, 2).await;
    assert_eq!(position(&store).await, Position::number(20));
    stop.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(position(&store).await, Position::number(22), "what is pending is flushed at close");
}

#[tokio::test(start_paused = true)]
async fn partitions_that_only_look_tell_it_later_and_not_with_each_change() {
    let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
    let host = host(&store, &feed, with(CheckpointPolicy::Batch), noting(&history));
    let stats = Arc::clone(&host.stats()[0].1);
    let (_stop, _running) = spawn(host);
    tokio::time::sleep(Duration::from_secs(60)).await;
    for n in 1..=4 {
        let before = history.total();
        feed.push(7, n);
        until("it is handled", || history.total() > before).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stats.checkpoints(), n as u64, "only the partition whose change it was");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(stats.checkpoints(), 4 + 3, "the others once");
}

/// Keeps changes in memory and vouches for them by the dozen.
fn by_the_dozen(history: &History) -> impl Handler + use<> {
    let (history, seen) = (history.clone(), AtomicU64::new(0));
    move |change: Change, context: Context| {
        history.note(&change);
        if seen.fetch_add(1, Ordering::Relaxed) % 12 == 11 {
            context.checkpoint();
        }
        async { Ok::<(), Failure>(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn only_when_the_handler_says_so_and_only_up_to_there() {
    for batch in [1, 5, 100] {
        let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
        let settings = || FeedSettings { batch, concurrency: 8, ..with(CheckpointPolicy::Manual) };
        for n in 0..31 {
            feed.push(n % 3, n);
        }
        let (stop, running) = spawn(host(&store, &feed, settings(), by_the_dozen(&history)));
        until("all is handled", || history.total() == 31).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(position(&store).await, Position::number(24), "in batches of {batch}");
        stop.notify_one();
        running.await.unwrap().unwrap();
        assert_eq!(position(&store).await, Position::number(24), "closing is not the handler's word");
        let again = History::default();
        host(&store, &feed, settings(), by_the_dozen(&again)).run_once().await.unwrap();
        assert_eq!(again.total(), 7, "the rest comes again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_is_parked_when_the_handler_has_vouched_for_what_came_before() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..30 {
        feed.push(n % 10, n);
    }
    let noted = history.clone();
    let seen = AtomicU64::new(0);
    let handler = move |change: Change, context: Context| {
        let poison = change.id == 5;
        if !poison {
            noted.note(&change);
            if seen.fetch_add(1, Ordering::Relaxed) == 19 {
                context.checkpoint();
            }
        }
        async move { if poison { Err(Failure::poison("poison")) } else { Ok(()) } }
    };
    let (_stop, _running) = spawn(host(&store, &feed, with(CheckpointPolicy::Manual), handler));
    until("all others are handled", || history.total() == 27).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(position(&store).await, Position::number(22), "twenty, the poison, and one behind it");
    let parked = store.parked(&FeedName::new("f").unwrap(), None).await.unwrap();
    assert_eq!(parked.iter().map(|object| object.waiting).collect::<Vec<_>>(), [2], "not what comes later");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_says_anything_stalls_in_the_open() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..25_000 {
        feed.push(n, n);
    }
    let settings = FeedSettings { batch: 1000, ..with(CheckpointPolicy::Manual) };
    let (_stop, _running) = spawn(host(&store, &feed, settings, noting(&history)));
    let mut troubles = Vec::new();
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        troubles = store.view(&[]).await.unwrap().hosts.remove(0).troubles;
        if !troubles.is_empty() {
            break;
        }
    }
    assert!(
        troubles.iter().any(|trouble| trouble.what.contains("wait for the handler to say")),
        "{troubles:?}"
    );
    assert!(history.total() < 25_000);
}
