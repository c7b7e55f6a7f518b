//! Hosts that take less than their share: one that is closing, and one that may not have more.

use super::{History, feed, host, noting, owners, quick, spawn};
use crate::change::Change;
use crate::handler::{Context, Failure};
use crate::host::*;
use crate::store::MemoryStore;

async fn until_owned(store: &MemoryStore, expected: &[(&str, usize)]) {
    let expected = expected.iter().map(|(host, count)| ((*host).to_owned(), *count)).collect();
    let began = crate::clock::now();
    while owners(store).await != expected {
        let now = owners(store).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{now:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_closing_host_gives_back_does_not_wait_for_its_slowest_handler() {
    let (store, feed, history) = (MemoryStore::new(), feed(12), History::default());
    let hangs = |_: Change, _: Context| std::future::pending::<Result<(), Failure>>();
    let (stop, _a) = spawn(host("a", &store, &feed, hangs, quick()).close_within(Duration::from_secs(3600)));
    let (_stop_b, _b) = spawn(host("b", &store, &feed, noting(&history), quick()));
    let (_stop_c, _c) = spawn(host("c", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 4), ("b", 4), ("c", 4)]).await;
    // One of a's partitions gets a change, and never done with it.
    let of_a = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
    let of_a = of_a.leases.iter().find(|lease| lease.owner.as_ref().unwrap().host.as_str() == "a").unwrap();
    let key = (0..).find(|key| {
        let key = crate::value::Key::of("id", crate::value::Value::Integer(*key));
        crate::order::partition_of(&key, 12) == of_a.id.partition
    });
    feed.push(key.unwrap(), 1);
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop.notify_one();
    let began = crate::clock::now();
    until_owned(&store, &[("a", 1), ("b", 6), ("c", 5)]).await;
    assert!(began.elapsed() <= Duration::from_secs(5), "after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_host_takes_no_more_than_it_may_and_the_others_share_the_rest() {
    let (store, feed, history) = (MemoryStore::new(), feed(12), History::default());
    let (_stop, _a) = spawn(host("a", &store, &feed, noting(&history), quick()).at_most(2));
    until_owned(&store, &[("a", 2), ("nobody", 10)]).await;
    let (_stop_b, _b) = spawn(host("b", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 2), ("b", 10)]).await;
    let (_stop_c, _c) = spawn(host("c", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 2), ("b", 5), ("c", 5)]).await;
    let epochs = || async {
        let view = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
        view.leases.iter().map(|lease| lease.epoch.0).sum::<u64>()
    };
    let before = epochs().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(epochs().await, before, "it flaps");
}
