//! The sign of life: hosts with different settings, a store that forgets, leases that nobody runs any more.

use super::{History, feed, host, noting, owners, quick, spawn, until};
use crate::change::Change;
use crate::clock;
use crate::handler::{Context, Failure};
use crate::host::*;
use crate::name::SessionId;
use crate::store::MemoryStore;

async fn until_owned(store: &MemoryStore, expected: &[(&str, usize)]) {
    let expected: std::collections::HashMap<String, usize> =
        expected.iter().map(|(host, count)| ((*host).to_owned(), *count)).collect();
    let began = clock::now();
    while owners(store).await != expected {
        let now = owners(store).await;
        assert!(began.elapsed() < Duration::from_secs(60), "{now:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn epochs(store: &MemoryStore) -> u64 {
    let view = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
    view.leases.iter().map(|lease| lease.epoch.0).sum()
}

#[tokio::test(start_paused = true)]
async fn an_impatient_host_takes_nothing_from_a_patient_one_that_lives() {
    let (store, feed, history) = (MemoryStore::new(), feed(8), History::default());
    let seconds = Duration::from_secs;
    let patient = LeaseSettings { acquire: seconds(1), renew: seconds(6), expire: seconds(20) };
    let impatient =
        LeaseSettings { acquire: seconds(1), renew: Duration::from_millis(500), expire: seconds(2) };
    let (_stop, _a) = spawn(host("patient", &store, &feed, noting(&history), quick()).leases(patient));
    let (_stop, _b) = spawn(host("quick", &store, &feed, noting(&history), quick()).leases(impatient));
    until_owned(&store, &[("patient", 4), ("quick", 4)]).await;
    let before = epochs(&store).await;
    tokio::time::sleep(seconds(300)).await;
    assert_eq!(epochs(&store).await, before, "leases changed hands between two renewals");
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_has_its_share_of_a_thousand_partitions_within_five_seconds() {
    let (store, feed, history) = (MemoryStore::new(), feed(1000), History::default());
    let (_stop, _a) = spawn(host("a", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 1000)]).await;
    let (began, (_stop, _b)) = (clock::now(), spawn(host("b", &store, &feed, noting(&history), quick())));
    until_owned(&store, &[("a", 500), ("b", 500)]).await;
    assert!(began.elapsed() <= Duration::from_secs(5), "after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_the_store_has_forgotten_joins_again() {
    let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
    let (stop, running) = spawn(host("a", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 4)]).await;
    let session = store.view(&[]).await.unwrap().hosts.remove(0);
    let gone = crate::store::Session {
        id: session.session,
        ..crate::store::Session::new(&session.name, &[], session.expire)
    };
    store.leave(&gone).await.unwrap();
    feed.push(1, 1);
    until("it goes on", || history.total() == 1).await;
    let now: SessionId = store.view(&[]).await.unwrap().hosts.remove(0).session;
    assert_ne!(now, gone.id, "under a session of its own");
    stop.notify_one();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_feed_whose_checkpoints_the_store_has_lost_stops_and_names_the_remedy() {
    let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
    let (_stop, running) = spawn(host("a", &store, &feed, noting(&history), quick()));
    until_owned(&store, &[("a", 4)]).await;
    let session = store.view(&[]).await.unwrap().hosts.remove(0);
    let gone = crate::store::Session {
        id: session.session,
        ..crate::store::Session::new(&session.name, &[], session.expire)
    };
    store.forget(&FeedName::new("f").unwrap()).await.unwrap();
    store.leave(&gone).await.unwrap();
    let said = running.await.unwrap().unwrap_err().to_string();
    assert!(said.contains("lost its checkpoints") && said.contains("seriatim rewind f --to"), "{said}");
    assert!(store.feeds().await.unwrap().is_empty(), "nothing begins anew by itself");
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_handler_hung_is_given_up_although_its_host_lives() {
    let (store, stuck, other, history) = (MemoryStore::new(), feed(2), feed(2), History::default());
    let other_feed = crate::source::MemoryFeed::new(FeedName::new("g").unwrap(), 1);
    drop(other);
    // The first change stops the feed, while another partition's call never ends.
    let hangs_or_fails = |change: Change, _: Context| async move {
        match change.partition.0 {
            0 => std::future::pending::<Result<(), Failure>>().await,
            _ => Err(Failure::change("no")),
        }
    };
    let stops = FeedSettings {
        retry: crate::handler::Retry {
            attempts: 1,
            then: crate::handler::Then::Stop,
            ..crate::handler::Retry::default()
        },
        ..FeedSettings::default()
    };
    let key = |partition: u32| {
        (0..)
            .find(|key| {
                let key = crate::value::Key::of("id", crate::value::Value::Integer(*key));
                crate::order::partition_of(&key, 2) == Partition(partition)
            })
            .unwrap()
    };
    stuck.push(key(0), 1);
    let lives = host("a", &store, &stuck, hangs_or_fails, stops)
        .feed_with(Arc::new(other_feed.clone()), Handling::AtLeastOnce(Arc::new(noting(&history))), quick())
        .close_within(Duration::from_secs(1));
    let (_stop, _running) = spawn(lives);
    until_owned(&store, &[("a", 2)]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    stuck.push(key(1), 2);
    until_owned(&store, &[("nobody", 2)]).await;
    other_feed.push(1, 1);
    until("the host lives", || history.total() == 1).await;
}
