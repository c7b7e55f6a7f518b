//! A host that cannot reach the store, on simulated time: it stops by itself before anybody can take over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim::host::{FeedSettings, Host};
use seriatim::source::MemoryFeed;
use seriatim::{Change, Context, Failure, FeedName, MemoryStore, Store};
use seriatim_testkit::faulty::FaultyStore;
use tokio::time::Instant;

/// Who handled what, from when to when.
type Calls = Arc<Mutex<Vec<(&'static str, u64, Instant, Instant)>>>;

fn host(name: &'static str, store: Arc<dyn Store>, feed: &MemoryFeed, calls: &Calls) -> Host {
    let calls = Arc::clone(calls);
    let handler = move |change: Change, _: Context| {
        let calls = Arc::clone(&calls);
        async move {
            let began = seriatim::clock::now();
            tokio::time::sleep(Duration::from_millis(300)).await;
            calls.lock().unwrap().push((name, change.id, began, seriatim::clock::now()));
            Ok::<(), Failure>(())
        }
    };
    let settings = FeedSettings { batch: 1, concurrency: 2, ..FeedSettings::default() };
    let handling = seriatim::handler::Handling::AtLeastOnce(Arc::new(handler));
    Host::new(name, store).feed_with(Arc::new(feed.clone()), handling, settings)
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_reach_the_store_stops_before_others_take_over_and_goes_on_after() {
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 4);
    let door = Arc::new(FaultyStore::new(Arc::new(store.clone())));
    let mut hosts = tokio::task::JoinSet::new();
    let cut_off = host("a", Arc::clone(&door) as Arc<dyn Store>, &feed, &calls);
    hosts.spawn(async move { cut_off.run_until(std::future::pending()).await });
    // More than anybody can handle, so that both are busy all the time.
    for n in 0..2000 {
        feed.push(n, n);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let other = host("b", Arc::new(store.clone()), &feed, &calls);
    door.cut_off();
    let cut = seriatim::clock::now();
    hosts.spawn(async move { other.run_until(std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let heard: Vec<_> = calls.lock().unwrap().clone();
    let last_of_a = heard.iter().filter(|(host, ..)| *host == "a").map(|(.., ended)| *ended).max().unwrap();
    let first_of_b =
        heard.iter().filter(|(host, ..)| *host == "b").map(|(_, _, began, _)| *began).min().unwrap();
    assert!(last_of_a <= first_of_b, "both were at it: {:?} too long", last_of_a - first_of_b);
    assert!(
        first_of_b - cut <= Duration::from_secs(12),
        "expiry and one acquire interval: {:?}",
        first_of_b - cut
    );
    door.heal();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let back = calls.lock().unwrap().iter().filter(|(host, ..)| *host == "a").map(|(.., ended)| *ended).max();
    assert!(back.unwrap() > last_of_a, "it goes on when the store is back");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let mut ids: Vec<u64> = calls.lock().unwrap().iter().map(|(_, id, ..)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2000, "nothing is lost");
}

async fn owners(store: &MemoryStore) -> Vec<String> {
    let view = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
    let owner = |lease: &seriatim::lease::LeaseView| lease.owner.as_ref().map(|owner| owner.host.to_string());
    view.leases.iter().map(|lease| owner(lease).unwrap_or_default()).collect()
}

async fn until(what: &str, bound: Duration, condition: impl AsyncFn() -> bool) -> Duration {
    let began = seriatim::clock::now();
    while !condition().await {
        assert!(began.elapsed() <= bound, "not within {bound:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_host_that_joins_in_the_meantime_does_not_delay_the_replacement_of_one_that_is_silent() {
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 4);
    let door = Arc::new(FaultyStore::new(Arc::new(store.clone())));
    let mut hosts = tokio::task::JoinSet::new();
    for (name, store) in [("a", Arc::new(store.clone()) as Arc<dyn Store>), ("b", Arc::clone(&door) as _)] {
        let host = host(name, store, &feed, &calls);
        hosts.spawn(async move { host.run_until(std::future::pending()).await });
    }
    let count = async |name: &str| owners(&store).await.iter().filter(|owner| *owner == name).count();
    until("both share", Duration::from_secs(60), async || count("b").await == 2).await;
    door.cut_off();
    tokio::time::sleep(Duration::from_secs(9)).await;
    let newcomer = host("c", Arc::new(store.clone()), &feed, &calls);
    hosts.spawn(async move { newcomer.run_until(std::future::pending()).await });
    // Expiry, counted from b's last sign of life, and one acquire interval.
    until("b is replaced", Duration::from_millis(2500), async || count("b").await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_planned_hand_over_takes_less_than_a_fifth_of_a_second() {
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 2);
    let mut hosts = tokio::task::JoinSet::new();
    let first = host("a", Arc::new(store.clone()), &feed, &calls);
    hosts.spawn(async move { first.run_until(std::future::pending()).await });
    until("a has both", Duration::from_secs(60), async || owners(&store).await == ["a", "a"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let second = host("b", Arc::new(store.clone()), &feed, &calls);
    hosts.spawn(async move { second.run_until(std::future::pending()).await });
    let took =
        until("b has one", Duration::from_millis(200), async || owners(&store).await == ["a", "b"]).await;
    println!("from its start, b had its share after {took:?}");
}
