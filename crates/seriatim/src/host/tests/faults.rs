//! A host over a store that fails, hangs or lies in wait: each test is one interleaving that once broke a promise.

use super::odd::Odd;
use crate::change::Change;
use crate::handler::*;
use crate::host::*;
use crate::name::*;
use crate::source::MemoryFeed;
use crate::store::*;
use crate::value::*;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

fn feed(n: u32) -> MemoryFeed {
    MemoryFeed::new(FeedName::new("f").unwrap(), n)
}
fn quick() -> FeedSettings {
    FeedSettings { retry: Retry { attempts: 1, ..Retry::default() }, ..FeedSettings::default() }
}
type Seen = Arc<Mutex<Vec<(i64, u64)>>>;
fn key_of(c: &Change) -> i64 {
    match c.key.as_ref().unwrap().row().values()[0] {
        Value::Integer(i) => i,
        _ => 0,
    }
}

/// Effect and checkpoint in one; key 7 always fails.
struct Ledger {
    store: MemoryStore,
    seen: Seen,
}
#[async_trait]
impl TransactionalHandler for Ledger {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        if changes.iter().any(|c| key_of(c) == 7) {
            return Err(CommitError::Failed(Failure::poison("no")));
        }
        match self.store.checkpoint(&context.lease, checkpoint).await {
            Ok(()) => {
                for c in changes {
                    self.seen.lock().unwrap().push((key_of(c), c.id));
                }
                Ok(())
            }
            Err(CheckpointError::Fenced { by }) => Err(CommitError::Fenced { by }),
            Err(CheckpointError::Store(e)) => Err(e.into()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_tail_is_not_passed_before_it_is_stored() {
    let (mut store, feed, seen) = (Odd::new(), feed(1), Seen::default());
    store.slow_checkpoint = Duration::from_millis(5);
    let ledger = Ledger { store: store.inner.clone(), seen: seen.clone() };
    let h = Host::new("a", Arc::new(store.clone())).feed_with(
        Arc::new(feed.clone()),
        Handling::ExactlyOnce(Arc::new(ledger)),
        quick(),
    );
    let running = tokio::spawn(async move { h.run_until(std::future::pending()).await });
    feed.push(7, 1); // id 1: parked
    tokio::time::sleep(Duration::from_secs(3)).await;
    store.fail_parking.store(1, Ordering::Relaxed); // one busy checkpoint
    feed.push(7, 2); // id 2: to wait behind it
    tokio::time::sleep(Duration::from_millis(20)).await; // its checkpoint fails, sleeps RETRY_CHECKPOINT
    feed.push(8, 3); // id 3: another object
    let f = FeedName::new("f").unwrap();
    // crash at the first moment at which the checkpoint is past change 2
    for _ in 0..100_000 {
        if store.inner.view(std::slice::from_ref(&f)).await.unwrap().leases[0].position.as_number().unwrap()
            >= 2
        {
            break;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    running.abort();
    drop(running.await);
    let lease = &store.inner.view(std::slice::from_ref(&f)).await.unwrap().leases[0];
    let kept = store.inner.parked(&f, None).await.unwrap();
    println!(
        "position {} parked {:?} seen {:?} failures left {}",
        lease.position,
        kept[0].waiting,
        seen.lock().unwrap(),
        store.fail_parking.load(Ordering::Relaxed)
    );
    assert!(lease.position.as_number().unwrap() >= 2);
    assert_eq!(kept[0].waiting, 2, "change 2 is neither handled nor parked, and the checkpoint is past it");
}

#[tokio::test(start_paused = true)]
async fn continuous_load_does_not_starve_what_is_to_be_parked() {
    let (store, feed, seen) = (Odd::new(), feed(1), Seen::default());
    let ledger = Ledger { store: store.inner.clone(), seen: seen.clone() };
    let settings = FeedSettings { batch: 1, ..quick() };
    let h = Host::new("a", Arc::new(store.clone())).feed_with(
        Arc::new(feed.clone()),
        Handling::ExactlyOnce(Arc::new(ledger)),
        settings,
    );
    feed.push(7, 1);
    let running = tokio::spawn(async move { h.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    store.fail_parking.store(1, Ordering::Relaxed);
    feed.push(7, 2);
    for n in 0..5000 {
        feed.push(8 + n % 5, n);
        if n % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    let f = FeedName::new("f").unwrap();
    let waiting = store.inner.parked(&f, None).await.unwrap()[0].waiting;
    running.abort();
    assert_eq!(waiting, 2, "the poison, and what came after it");
    assert!(seen.lock().unwrap().len() > 4_000, "the others went on");
}

#[tokio::test(start_paused = true)]
async fn run_once_ends_while_others_write() {
    let (mut store, feed) = (Odd::new(), feed(4));
    store.slow_checkpoint = Duration::from_millis(5);
    for n in 0..100 {
        feed.push(n, n);
    }
    let writer = {
        let feed = feed.clone();
        tokio::spawn(async move {
            for n in 0.. {
                feed.push(n, n);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    };
    let h =
        Host::new("a", Arc::new(store)).feed(feed, |_: Change, _: Context| async { Ok::<(), Failure>(()) });
    let ended = tokio::time::timeout(Duration::from_secs(60), h.run_once()).await;
    writer.abort();
    assert!(ended.is_ok(), "a minute later it still runs");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_feed_is_not_success() {
    let good = MemoryFeed::new(FeedName::new("good").unwrap(), 1);
    let bad = MemoryFeed::new(FeedName::new("bad").unwrap(), 1);
    good.push(1, 1);
    bad.push(1, 1);
    let settings =
        FeedSettings { retry: Retry { attempts: 1, then: Then::Stop, ..Retry::default() }, ..quick() };
    let no = |_: Change, _: Context| async { Err::<(), _>(Failure::change("no")) };
    let result = Host::new("a", Arc::new(MemoryStore::new()))
        .feed(good, |_: Change, _: Context| async { Ok::<(), Failure>(()) })
        .feed_with(Arc::new(bad), Handling::AtLeastOnce(Arc::new(no)), settings)
        .run_once()
        .await;
    assert!(result.is_err(), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn two_that_wait_for_one_name_do_not_both_get_it() {
    let (store, feed) = (MemoryStore::new(), feed(2));
    let ok = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    let go = |store: &MemoryStore, feed: &MemoryFeed| {
        let h = Host::new("a", Arc::new(store.clone())).feed(feed.clone(), ok);
        tokio::spawn(async move { h.run_until(std::future::pending()).await })
    };
    let first = go(&store, &feed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.abort();
    drop(first.await);
    let one = go(&store, &feed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let two = go(&store, &feed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(one.is_finished() || two.is_finished(), "two hosts of one name run, one of them a ghost");
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_does_not_make_leases_flap() {
    let (mut store, feed) = (Odd::new(), feed(16));
    store.slow_acquire = Duration::from_millis(800);
    let h = Host::new("a", Arc::new(store.clone()))
        .feed(feed, |_: Change, _: Context| async { Ok::<(), Failure>(()) });
    let running = tokio::spawn(async move { h.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(300)).await;
    let epochs: Vec<u64> = store
        .inner
        .view(&[FeedName::new("f").unwrap()])
        .await
        .unwrap()
        .leases
        .iter()
        .map(|l| l.epoch.0)
        .collect();
    running.abort();
    assert!(epochs.iter().all(|e| *e <= 2), "epochs after five minutes alone: {epochs:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_is_bounded_even_if_the_store_hangs() {
    let (mut store, feed) = (Odd::new(), feed(1));
    store.hang_release = true;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let h = Host::new("a", Arc::new(store.clone()))
        .feed(feed, |_: Change, _: Context| async { Ok::<(), Failure>(()) })
        .close_within(Duration::from_secs(5));
    let running = tokio::spawn(async move { h.run_until(async move { stopped.notified().await }).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.notify_one();
    assert!(tokio::time::timeout(Duration::from_secs(600), running).await.is_ok(), "hangs");
}

#[tokio::test(start_paused = true)]
async fn a_slow_closure_is_not_called_twice() {
    let feed = feed(1);
    let calls = Arc::new(AtomicU64::new(0));
    for n in 0..100 {
        feed.push(n, n);
    }
    let c = calls.clone();
    let h = Host::new("a", Arc::new(MemoryStore::new())).feed(feed, move |_: Change, _: Context| {
        c.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok::<(), Failure>(())
        }
    });
    h.run_once().await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 100);
}

#[tokio::test(start_paused = true)]
async fn done_changes_are_not_repeated_while_a_target_is_away() {
    let feed = feed(1);
    let calls = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
    for n in 0..100 {
        feed.push(n, n);
    }
    let c = calls.clone();
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let h = Host::new("a", Arc::new(MemoryStore::new())).feed(feed, move |change: Change, _: Context| {
        *c.lock().unwrap().entry(change.id).or_default() += 1;
        let r = if change.id >= 50 && !is_up.load(Ordering::Relaxed) {
            Err(Failure::target("down"))
        } else {
            Ok(())
        };
        async { r }
    });
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(120)).await;
        up.store(true, Ordering::Relaxed)
    });
    h.run_once().await.unwrap();
    assert_eq!(calls.lock().unwrap()[&1], 1, "change 1 was done the first time");
}
#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused() {
    let feed = feed(1);
    feed.push(1, 1);
    let h = Host::new("a", Arc::new(MemoryStore::new())).feed_with(
        Arc::new(feed),
        Handling::AtLeastOnce(Arc::new(|_: Change, _: Context| async { Ok::<(), Failure>(()) })),
        FeedSettings { batch: 0, ..quick() },
    );
    assert!(tokio::time::timeout(Duration::from_secs(600), h.run_once()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn partitions_of_a_feed_that_stopped_on_one_host_find_another() {
    let (store, f, g) = (MemoryStore::new(), feed(4), MemoryFeed::new(FeedName::new("g").unwrap(), 2));
    let ok = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    let bad = |_: Change, _: Context| async { Err::<(), _>(Failure::poison("only here: a missing file")) };
    let stop = FeedSettings { retry: Retry { attempts: 1, then: Then::Stop, ..Retry::default() }, ..quick() };
    let a = Host::new("a", Arc::new(store.clone()))
        .feed_with(Arc::new(f.clone()), Handling::AtLeastOnce(Arc::new(bad)), stop)
        .feed(g.clone(), ok);
    let b = Host::new("b", Arc::new(store.clone())).feed(f.clone(), ok).feed(g.clone(), ok);
    tokio::spawn(async move { a.run_until(std::future::pending()).await });
    tokio::spawn(async move { b.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    for n in 0..100 {
        f.push(n, n);
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    let owners: Vec<Option<String>> = store
        .view(&[FeedName::new("f").unwrap()])
        .await
        .unwrap()
        .leases
        .iter()
        .map(|l| l.owner.as_ref().map(|o| o.host.to_string()))
        .collect();
    assert!(owners.iter().all(Option::is_some), "ten minutes later: {owners:?}");
}

#[tokio::test(start_paused = true)]
async fn a_planned_stop_doubles_nothing_of_a_batch_that_is_half_done() {
    let (store, feed) = (MemoryStore::new(), feed(1));
    for n in 0..100 {
        feed.push(n, n);
    }
    let calls = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
    let handler = {
        let calls = calls.clone();
        move |fails: bool| {
            let calls = calls.clone();
            move |change: Change, _: Context| {
                let r = if fails && change.id == 50 {
                    Err(Failure::change("not now"))
                } else {
                    *calls.lock().unwrap().entry(change.id).or_default() += 1;
                    Ok(())
                };
                async { r }
            }
        }
    };
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let h = Host::new("a", Arc::new(store.clone())).feed(feed.clone(), handler(true));
    let running = tokio::spawn(async move { h.run_until(async move { stopped.notified().await }).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.notify_one();
    running.await.unwrap().unwrap();
    Host::new("b", Arc::new(store)).feed(feed, handler(false)).run_once().await.unwrap();
    let twice = calls.lock().unwrap().values().filter(|n| **n > 1).count();
    assert_eq!(twice, 0, "{twice} changes were done twice over a planned stop");
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_task_panics_is_not_kept_for_ever() {
    let (store, feed, seen) = (Odd::new(), feed(1), Arc::new(AtomicU64::new(0)));
    store.panic_once.store(true, Ordering::Relaxed);
    let c = seen.clone();
    feed.push(1, 1);
    let h = Host::new("a", Arc::new(store.clone())).feed(feed, move |_: Change, _: Context| {
        c.fetch_add(1, Ordering::Relaxed);
        async { Ok::<(), Failure>(()) }
    });
    let running = tokio::spawn(async move { h.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(
        running.is_finished() || seen.load(Ordering::Relaxed) == 1,
        "an hour later: renewed, and run by nobody"
    );
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_parked_is_bounded() {
    let (mut store, feed) = (Odd::new(), feed(1));
    store.slow_checkpoint = Duration::from_secs(1);
    for n in 0..20_000 {
        feed.push(7, n);
    }
    let h = Host::new("a", Arc::new(store.clone())).feed_with(
        Arc::new(feed),
        Handling::AtLeastOnce(Arc::new(|_: Change, _: Context| async {
            Err::<(), _>(Failure::poison("no"))
        })),
        FeedSettings { batch: 10, concurrency: 1, ..quick() },
    );
    drop(tokio::time::timeout(Duration::from_secs(10), h.run_once()).await);
    let most = store.most.load(Ordering::Relaxed);
    assert!(most <= 5_000, "{most} changes of the backlog were in memory to be parked; enough() is 10");
}

#[tokio::test(start_paused = true)]
async fn parked_changes_stay_in_order_over_a_crash() {
    let (store, feed) = (MemoryStore::new(), feed(1));
    feed.push(1, 1); // id 1: hangs on the first host
    feed.push(2, 2); // id 2: handled
    feed.push(2, 3); // id 3: poison
    let handler = |hang: bool| {
        move |c: Change, _: Context| async move {
            if c.id == 1 && hang {
                std::future::pending::<()>().await;
            }
            if c.id == 3 { Err(Failure::poison("no")) } else { Ok(()) }
        }
    };
    let settings = FeedSettings { batch: 1, concurrency: 2, ..quick() };
    let host = |name: &str, hang| {
        Host::new(name, Arc::new(store.clone())).feed_with(
            Arc::new(feed.clone()),
            Handling::AtLeastOnce(Arc::new(handler(hang))),
            settings.clone(),
        )
    };
    drop(
        tokio::time::timeout(Duration::from_secs(5), host("a", true).run_until(std::future::pending())).await,
    ); // crash
    drop(
        tokio::time::timeout(Duration::from_secs(30), host("b", false).run_until(std::future::pending()))
            .await,
    );
    let f = FeedName::new("f").unwrap();
    let parked = store.parked(&f, None).await.unwrap();
    let ids: Vec<u64> =
        store.parked_changes(&f, &parked[0].key, 10).await.unwrap().iter().map(|c| c.id).collect();
    assert_eq!(ids, [3], "2 was handled before 3 was tried");
}

#[tokio::test(start_paused = true)]
async fn run_once_after_a_crash_does_what_is_there() {
    let (store, feed, seen) = (MemoryStore::new(), feed(1), Arc::new(AtomicU64::new(0)));
    let ok = {
        let seen = seen.clone();
        move |_: Change, _: Context| {
            seen.fetch_add(1, Ordering::Relaxed);
            async { Ok::<(), Failure>(()) }
        }
    };
    let host = |name: &str| Host::new(name, Arc::new(store.clone())).feed(feed.clone(), ok.clone());
    drop(tokio::time::timeout(Duration::from_secs(5), host("a").run_until(std::future::pending())).await); // crash
    feed.push(1, 1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    host("b").run_once().await.unwrap();
    assert_eq!(
        seen.load(Ordering::Relaxed),
        1,
        "run_once said Ok and did nothing; a has been dead for an hour"
    );
}

/// Others count its silence from when it joined, not from when it heard of that: they may be about to take what it takes.
#[tokio::test(start_paused = true)]
async fn a_host_whose_join_was_answered_late_gives_a_sign_of_life_before_it_takes_a_lease() {
    let (mut store, feed) = (Odd::new(), feed(1));
    store.slow_join = Duration::from_millis(9500);
    feed.push(7, 1);
    let handler = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    Host::new("a", Arc::new(store.clone())).feed(feed, handler).run_once().await.unwrap();
    assert_eq!(store.calls.lock().unwrap()[..2], ["renew", "acquire"]);
}

/// An idle host writes no checkpoint that would find out.
#[tokio::test(start_paused = true)]
async fn a_host_whose_renewals_need_somebody_stops_when_its_leases_are_lost_and_not_before() {
    let (store, feed) = (Odd::new(), feed(1));
    let handler = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    let host = Host::new("a", Arc::new(store.clone())).feed(feed, handler);
    let running = tokio::spawn(async move { host.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    store.broken_renew.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    store.broken_renew.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!running.is_finished(), "it was mended in time");
    store.broken_renew.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").unwrap();
    assert!(ended.unwrap_err().to_string().contains("grant it"));
}
