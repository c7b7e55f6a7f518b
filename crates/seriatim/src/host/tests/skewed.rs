//! Hosts whose clocks are wrong by an hour. Each runs on a thread of its own, whose time of day is its own too.

use super::{History, feed, host, noting, owners, quick};
use crate::host::*;
use crate::store::MemoryStore;
use jiff::SignedDuration;
use std::sync::mpsc;

/// Leases of half a minute: nobody loses one because the machine is busy, and whoever believed a clock would think them expired.
const LEASES: LeaseSettings = LeaseSettings {
    acquire: Duration::from_millis(50),
    renew: Duration::from_millis(200),
    expire: Duration::from_secs(30),
};

fn run(host: Host, skew: SignedDuration) -> (tokio::sync::oneshot::Sender<()>, std::thread::JoinHandle<()>) {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        crate::clock::skew::set(skew);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(host.run_until(async { drop(stopped.await) })).unwrap();
    });
    (stop, thread)
}

async fn until_shared(store: &MemoryStore) {
    let began = crate::clock::now();
    while owners(store).await != ["a", "b", "c"].map(|name| (name.to_owned(), 4)).into() {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", owners(store).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn clocks_that_are_an_hour_apart_cost_nothing() {
    let (store, feed, history) = (MemoryStore::new(), feed(12), History::default());
    let hour = SignedDuration::from_hours(1);
    let hosts = [("a", -hour), ("b", SignedDuration::ZERO), ("c", hour)]
        .map(|(name, skew)| run(host(name, &store, &feed, noting(&history), quick()).leases(LEASES), skew));
    until_shared(&store).await;
    let epochs = || async {
        let view = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
        view.leases.iter().map(|lease| lease.epoch).collect::<Vec<_>>()
    };
    let before = epochs().await;
    for n in 0..500 {
        feed.push(n % 50, n);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let began = crate::clock::now();
    while history.total() < 500 {
        assert!(began.elapsed() < Duration::from_secs(60), "lost: {} of 500", history.total());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(epochs().await, before, "leases changed hands for no reason");
    let (done, all_done) = mpsc::channel();
    for (stop, thread) in hosts {
        stop.send(()).unwrap();
        let done = done.clone();
        std::thread::spawn(move || done.send(thread.join().is_ok()));
    }
    let ended = (0..3).all(|_| all_done.recv_timeout(Duration::from_secs(60)).unwrap());
    assert!(ended);
    assert_eq!(history.total(), 500, "nothing twice");
    history.assert_each_key_once_in_order();
}
