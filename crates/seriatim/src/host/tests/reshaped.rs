//! The number of a feed's partitions changes while hosts run.

use std::collections::BTreeSet;

use super::*;
use crate::store::ParkedState;
use crate::value::Key;

fn name() -> FeedName {
    FeedName::new("f").unwrap()
}

async fn partitions(store: &MemoryStore) -> Vec<u32> {
    store.view(&[name()]).await.unwrap().leases.iter().map(|lease| lease.id.partition.0).collect()
}

async fn until_partitions(store: &MemoryStore, expected: std::ops::Range<u32>) {
    let began = clock::now();
    loop {
        let view = store.view(&[name()]).await.unwrap();
        let now: Vec<u32> = view.leases.iter().map(|lease| lease.id.partition.0).collect();
        let changing =
            view.leases.iter().any(|lease| lease.part.as_ref().is_some_and(|part| part.is_changing()));
        if now == expected.clone().collect::<Vec<_>>() && !changing {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{:#?}", view.leases);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_number_of_partitions_is_taken_over_by_running_hosts_at_a_barrier() {
    for (from, to) in [(4, 16), (16, 3), (1, 2), (3, 1)] {
        let (store, four, history) = (MemoryStore::new(), feed(from), History::default());
        let (stop_a, a) = spawn(host("a", &store, &four, noting(&history), quick()));
        let (stop_b, b) = spawn(host("b", &store, &four, noting(&history), quick()));
        (0..500).for_each(|n| _ = four.push(n % 31, n));
        until("hosts run", || history.total() > 0).await;
        let (stop_c, c) = spawn(host("c", &store, &four.divided(to), noting(&history), quick()));
        for n in 500..3000 {
            four.push(n % 31, n);
            if n % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        until_partitions(&store, from..from + to).await;
        until("all is handled", || history.total() >= 3000).await;
        history.assert_each_key_once_in_order();
        assert_eq!(history.total(), 3000);
        for (stop, host) in [(stop_a, a), (stop_b, b), (stop_c, c)] {
            stop.notify_one();
            host.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_runs_once_brings_another_number_about() {
    let (store, four, history) = (MemoryStore::new(), feed(4), History::default());
    (0..100).for_each(|n| _ = four.push(n % 7, n));
    host("a", &store, &four, noting(&history), quick()).run_once().await.unwrap();
    (100..200).for_each(|n| _ = four.push(n % 7, n));
    host("a", &store, &four.divided(3), noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 200);
    history.assert_each_key_once_in_order();
    assert!(partitions(&store).await.ends_with(&[4, 5, 6]));
    (200..300).for_each(|n| _ = four.push(n % 7, n));
    host("a", &store, &four.divided(3), noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 300);
    until_partitions(&store, 4..7).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_started_before_follows_and_does_not_change_it_back() {
    let (store, four, history) = (MemoryStore::new(), feed(4), History::default());
    let (_stop, _a) = spawn(host("a", &store, &four, noting(&history), quick()));
    four.push(1, 1);
    until("it runs", || history.total() == 1).await;
    let (stop, b) = spawn(host("b", &store, &four.divided(8), noting(&history), quick()));
    until_partitions(&store, 4..12).await;
    stop.notify_one();
    b.await.unwrap().unwrap();
    (0..100).for_each(|n| _ = four.push(n, n));
    until("a goes on alone", || history.total() == 101).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(partitions(&store).await, (4..12).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn nothing_behind_the_barrier_is_handled_before_every_old_partition_has_come_there() {
    let (store, two, history) = (MemoryStore::new(), feed(2), History::default());
    let open = Arc::new(AtomicBool::new(false));
    let held = {
        let (history, open) = (history.clone(), Arc::clone(&open));
        move |change: Change, _: Context| {
            let (history, open) = (history.clone(), Arc::clone(&open));
            async move {
                // The slow one takes longer than a hand-over waits for it, and is tried again.
                if change.key == Some(Key::of("id", Value::Integer(0))) {
                    while !open.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
                history.note(&change);
                Ok::<(), Failure>(())
            }
        }
    };
    let settings = FeedSettings { timeout: Duration::from_secs(3600), batch: 1, concurrency: 20, ..quick() };
    let (_stop, _a) = spawn(host("a", &store, &two, held, settings));
    (0..10).for_each(|n| _ = two.push(n, n));
    until("the others are done", || history.total() == 9).await;
    let (_stop, _b) = spawn(host("b", &store, &two.divided(5), noting(&history), quick()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    (10..20).for_each(|n| _ = two.push(n, n));
    let began = clock::now();
    while history.total() == 9 && began.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(history.total(), 9, "children begin while a parent has something left");
    open.store(true, Ordering::Relaxed);
    until("all is handled", || history.total() >= 20).await;
    until_partitions(&store, 2..7).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_parked_stays_parked_and_goes_on_in_its_new_partition() {
    for retrying in [false, true] {
        let (store, four, history) = (MemoryStore::new(), feed(4), History::default());
        let ill = Arc::new(AtomicBool::new(true));
        let handler = |history: &History, ill: &Arc<AtomicBool>| {
            let (history, ill) = (history.clone(), Arc::clone(ill));
            move |change: Change, _: Context| {
                let is_ill =
                    ill.load(Ordering::Relaxed) && change.key.as_ref().unwrap().hash().is_multiple_of(3);
                if !is_ill {
                    history.note(&change);
                }
                async move { if is_ill { Err(Failure::change("ill")) } else { Ok(()) } }
            }
        };
        let attempts = if retrying { 1_000_000 } else { 1 };
        let settings =
            FeedSettings { retry: Retry { attempts, ..Retry::default() }, ..FeedSettings::default() };
        let (stop_a, a) = spawn(host("a", &store, &four, handler(&history, &ill), settings.clone()));
        (0..300).for_each(|n| _ = four.push(n % 30, n));
        until("some are handled", || history.total() > 0).await;
        let began = clock::now();
        while store.parked(&name(), None).await.unwrap().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is parked");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (stop_b, b) = spawn(host("b", &store, &four.divided(7), handler(&history, &ill), settings));
        (300..600).for_each(|n| _ = four.push(n % 30, n));
        until_partitions(&store, 4..11).await;
        let parked = store.parked(&name(), None).await.unwrap();
        assert!(parked.iter().all(|object| object.partition.0 >= 4), "{parked:#?}");
        let state = if retrying { ParkedState::Retrying } else { ParkedState::Parked };
        assert!(parked.iter().all(|object| object.failure.state == state), "{parked:#?}");
        ill.store(false, Ordering::Relaxed);
        store.retry_parked(&name(), None).await.unwrap();
        until("all is handled", || history.total() == 600).await;
        history.assert_each_key_once_in_order();
        for (stop, host) in [(stop_a, a), (stop_b, b)] {
            stop.notify_one();
            host.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_that_die_at_any_moment_of_a_change_lose_nothing_and_turn_nothing_round() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (store, memory, history) = (MemoryStore::new(), feed(random.u32(1..6)), History::default());
        let quick_leases = LeaseSettings {
            acquire: Duration::from_millis(200),
            renew: Duration::from_millis(300),
            expire: Duration::from_secs(1),
        };
        let mut hosts = Vec::new();
        let (mut written, mut started) = (0, 0);
        for _ in 0..60 {
            match random.u8(..4) {
                0 if hosts.len() < 3 => {
                    let divided = memory.divided(random.u32(1..9));
                    let host = host(&format!("h{started}"), &store, &divided, noting(&history), quick());
                    started += 1;
                    hosts.push(spawn(host.leases(quick_leases)));
                }
                1 if !hosts.is_empty() => {
                    let (_stop, host) = hosts.swap_remove(random.usize(..hosts.len()));
                    host.abort();
                }
                _ => {
                    for _ in 0..random.u64(..20) {
                        memory.push(random.i64(..11), written);
                        written += 1;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(random.u64(..700))).await;
        }
        hosts.push(spawn(
            host("last", &store, &memory.divided(2), noting(&history), quick()).leases(quick_leases),
        ));
        let distinct = || {
            let seen = history.0.lock().unwrap();
            seen.values().flatten().collect::<BTreeSet<_>>().len() as i64
        };
        until("everything is handled", || distinct() == written).await;
        for (key, ids) in &*history.0.lock().unwrap() {
            let mut first = Vec::new();
            ids.iter().for_each(|id| {
                if !first.contains(id) {
                    first.push(*id)
                }
            });
            assert!(first.is_sorted(), "seed {seed}, {key}: {ids:?}");
        }
        hosts.iter().for_each(|(_, host)| host.abort());
    }
}
