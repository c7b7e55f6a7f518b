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
