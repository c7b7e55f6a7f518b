//! The host as a whole, in memory and on simulated time: what it promises, sentence by sentence.

mod faults;
mod living;
mod observed;
mod paused;
mod odd;
mod policies;
mod reshaped;
mod retries;
mod shares;
mod skewed;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::reader::tests::Counting;
use super::*;
use crate::change::Change;
use crate::clock;
use crate::handler::{CommitError, Context, Failure, Retry, Then};
use crate::source::MemoryFeed;
use crate::store::{Checkpoint, CheckpointError, MemoryStore};
use crate::value::Value;

/// What handlers saw: for each key, the ids in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct History(Arc<Mutex<HashMap<String, Vec<u64>>>>);

impl History {
    pub fn note(&self, change: &Change) {
        let key = change.key.as_ref().unwrap().to_string();
        self.0.lock().unwrap().entry(key).or_default().push(change.id);
    }

    pub fn total(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }

    pub fn assert_each_key_once_in_order(&self) {
        for (key, ids) in &*self.0.lock().unwrap() {
            assert!(ids.is_sorted_by(|a, b| a < b), "{key}: {ids:?}");
        }
    }
}

pub(super) fn feed(partitions: u32) -> MemoryFeed {
    MemoryFeed::new(FeedName::new("f").unwrap(), partitions)
}

pub(super) fn noting(history: &History) -> impl Handler + use<> {
    let history = history.clone();
    move |change: Change, _: Context| {
        history.note(&change);
        async { Ok::<(), Failure>(()) }
    }
}

pub(super) fn quick() -> FeedSettings {
    FeedSettings { retry: Retry { attempts: 2, ..Retry::default() }, ..FeedSettings::default() }
}

pub(super) fn host(
    name: &str,
    store: &MemoryStore,
    feed: &MemoryFeed,
    handler: impl Handler,
    settings: FeedSettings,
) -> Host {
    let handling = Handling::AtLeastOnce(Arc::new(handler));
    Host::new(name, Arc::new(store.clone())).feed_with(Arc::new(feed.clone()), handling, settings)
}

pub(super) fn spawn(host: Host) -> (Arc<Notify>, JoinHandle<Result<(), HostError>>) {
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    (stop, tokio::spawn(async move { host.run_until(async move { stopped.notified().await }).await }))
}

pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(300), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "never happened: {what}");
}

pub(super) async fn owners(store: &MemoryStore) -> HashMap<String, usize> {
    let mut owners = HashMap::new();
    for lease in store.view(&[FeedName::new("f").unwrap()]).await.unwrap().leases {
        let owner = lease.owner.map_or("nobody".to_owned(), |owner| owner.host.to_string());
        *owners.entry(owner).or_default() += 1;
    }
    owners
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_handled_once_and_in_order() {
    let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
    for n in 0..10_000 {
        feed.push(n % 97, n);
    }
    host("a", &store, &feed, noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 10_000);
    history.assert_each_key_once_in_order();
    host("a", &store, &feed, noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 10_000, "a second run finds nothing left");
}

#[tokio::test(start_paused = true)]
async fn as_long_as_there_is_more_to_read_a_handler_gets_full_batches() {
    struct Counting(Arc<AtomicU64>);
    #[async_trait]
    impl Handler for Counting {
        async fn handle(&self, _: &[Change], _: &Context) -> Result<(), Failure> {
            let call = self.0.fetch_add(1, Ordering::Relaxed);
            // They come back one by one.
            tokio::time::sleep(Duration::from_millis(10 + call % 7)).await;
            Ok(())
        }
    }
    let (store, feed, calls) = (MemoryStore::new(), feed(1), Arc::new(AtomicU64::new(0)));
    for n in 0..10_000 {
        feed.push(n, n);
    }
    host("a", &store, &feed, Counting(Arc::clone(&calls)), quick()).run_once().await.unwrap();
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 105, "{calls} calls for 10,000 changes, of which 100 fit into each");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_waits_neither_for_a_source_nor_for_a_handler_that_hangs() {
    let (store, memory, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..1_000 {
        memory.push(n, n);
    }
    let mut feed = Counting::new(memory, true);
    feed.hangs_after = 1;
    let noted = history.clone();
    // The first batch never ends; what is left of the first pass is less than a batch.
    let handler = move |change: Change, _: Context| {
        let hangs = change.id == 1;
        if !hangs {
            noted.note(&change);
        }
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok::<(), Failure>(())
        }
    };
    let settings = FeedSettings { batch: 100, ..quick() };
    let handling = Handling::AtLeastOnce(Arc::new(handler));
    let host = Host::new("a", Arc::new(store)).feed_with(Arc::new(feed), handling, settings);
    let (_stop, _running) = spawn(host);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(history.total(), 28, "of the 128 that were read, those that do not wait for the first");
}

#[tokio::test(start_paused = true)]
async fn three_hosts_share_the_work_and_a_planned_stop_doubles_nothing() {
    let (store, feed, history) = (MemoryStore::new(), feed(12), History::default());
    let hosts: Vec<_> =
        ["a", "b", "c"].map(|n| spawn(host(n, &store, &feed, noting(&history), quick()))).into();
    for n in 0..3_000 {
        feed.push(n % 50, n);
        if n % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    until("everything is handled", || history.total() >= 3_000).await;
    while owners(&store).await != [("a", 4), ("b", 4), ("c", 4)].map(|(n, c)| (n.to_owned(), c)).into() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (stop, running) in hosts {
        stop.notify_one();
        running.await.unwrap().unwrap();
        for n in 0..100 {
            feed.push(n, n);
        }
    }
    assert_eq!(owners(&store).await, HashMap::from([("nobody".to_owned(), 12)]));
    host("d", &store, &feed, noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 3_300);
    history.assert_each_key_once_in_order();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_vanishes_is_replaced_after_the_expiry() {
    let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
    let (_stop, running) = spawn(host("a", &store, &feed, noting(&history), quick()));
    feed.push(1, 1);
    until("a works", || history.total() == 1).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    feed.push(1, 2);
    let died = clock::now();
    let (stop, successor) = spawn(host("b", &store, &feed, noting(&history), quick()));
    until("b took over", || history.total() == 2).await;
    assert!(clock::now() - died >= Duration::from_secs(9), "not before a could have been alive");
    assert!(clock::now() - died <= Duration::from_secs(12), "expiry and one acquire interval");
    stop.notify_one();
    successor.await.unwrap().unwrap();
    history.assert_each_key_once_in_order();
}

#[tokio::test(start_paused = true)]
async fn one_poison_key_is_parked_with_its_tail_and_the_rest_goes_on() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..100 {
        feed.push(n % 10, n);
    }
    let (noted, tries) = (history.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&tries);
    let handler = move |change: Change, _: Context| {
        let poison = change.after.as_ref().unwrap().get("value") == Some(&Value::Integer(33));
        let result = if poison { Err(Failure::change("cannot")) } else { Ok(()) };
        result.iter().for_each(|()| noted.note(&change));
        counted.fetch_add(u64::from(poison), Ordering::Relaxed);
        async { result }
    };
    host("a", &store, &feed, handler, quick()).run_once().await.unwrap_err();
    assert_eq!(tries.load(Ordering::Relaxed), 2, "attempts counts the first try");
    assert_eq!(history.total(), 93, "nine keys whole, and the poisoned one up to the poison");
    let parked = store.parked(&FeedName::new("f").unwrap(), None).await.unwrap();
    assert_eq!((parked.len(), parked[0].waiting, parked[0].failure.error.as_str()), (1, 7, "cannot"));
    let tail = store.parked_changes(&parked[0].feed, &parked[0].key, 10).await.unwrap();
    assert_eq!(tail.iter().map(|change| change.id).collect::<Vec<_>>(), [34, 44, 54, 64, 74, 84, 94]);
    feed.push(3, 1000);
    host("a", &store, &feed, noting(&history), quick()).run_once().await.unwrap_err();
    assert_eq!(
        store.parked(&FeedName::new("f").unwrap(), None).await.unwrap()[0].waiting,
        8,
        "it waits behind"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_a_failed_attempt() {
    let (store, feed) = (MemoryStore::new(), feed(1));
    feed.push(1, 1);
    let handler = |_: Change, _: Context| async { panic!("oh no") as Result<(), Failure> };
    host("a", &store, &feed, handler, quick()).run_once().await.unwrap_err();
    let parked = store.parked(&FeedName::new("f").unwrap(), None).await.unwrap();
    assert_eq!(parked[0].failure.error, "the handler panicked: oh no");
}

#[tokio::test(start_paused = true)]
async fn what_is_done_beside_a_failed_change_is_not_handled_again() {
    struct OneByOne(History);
    #[async_trait]
    impl Handler for OneByOne {
        async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
            let (bad, good): (Vec<usize>, Vec<usize>) =
                (0..changes.len()).partition(|place| [42, 77].contains(&changes[*place].id));
            good.iter().for_each(|place| self.0.note(&changes[*place]));
            let failure = |first: &usize| Failure::change("no").at(*first).with_done(good.clone());
            bad.first().map_or(Ok(()), |first| Err(failure(first)))
        }
    }
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..100 {
        feed.push(n, n);
    }
    host("a", &store, &feed, OneByOne(history.clone()), quick()).run_once().await.unwrap_err();
    assert_eq!(history.total(), 98);
    history.assert_each_key_once_in_order();
    assert_eq!(store.parked(&FeedName::new("f").unwrap(), None).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_as_a_whole_is_halved_until_the_poison_is_alone() {
    struct Whole(History);
    #[async_trait]
    impl Handler for Whole {
        async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
            if changes.iter().any(|change| change.id == 42) {
                return Err(Failure::change("something in there is bad"));
            }
            changes.iter().for_each(|change| self.0.note(change));
            Ok(())
        }
    }
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    for n in 0..100 {
        feed.push(n, n);
    }
    host("a", &store, &feed, Whole(history.clone()), quick()).run_once().await.unwrap_err();
    assert_eq!(history.total(), 99);
    history.assert_each_key_once_in_order();
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_feed_and_names_the_change() {
    let (store, feed) = (MemoryStore::new(), feed(1));
    feed.push(1, 1);
    let settings =
        FeedSettings { retry: Retry { attempts: 1, then: Then::Stop, ..Retry::default() }, ..quick() };
    let handler = |_: Change, _: Context| async { Err::<(), _>(Failure::change("no")) };
    let error = host("a", &store, &feed, handler, settings).run_once().await.unwrap_err();
    assert_eq!(error.to_string(), "stopped: f: change 1 at position 1 failed: no");
}

#[tokio::test(start_paused = true)]
async fn a_missing_target_parks_nothing_and_is_waited_for() {
    let (store, feed, history) = (MemoryStore::new(), feed(2), History::default());
    for n in 0..50 {
        feed.push(n, n);
    }
    let (up, noted) = (Arc::new(AtomicBool::new(false)), history.clone());
    let is_up = Arc::clone(&up);
    let handler = move |change: Change, _: Context| {
        let result = if is_up.load(Ordering::Relaxed) { Ok(()) } else { Err(Failure::target("down")) };
        result.iter().for_each(|()| noted.note(&change));
        async { result }
    };
    let (stop, running) = spawn(host("a", &store, &feed, handler, quick()));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(history.total(), 0);
    up.store(true, Ordering::Relaxed);
    until("it resumes by itself", || history.total() == 50).await;
    stop.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(store.parked(&FeedName::new("f").unwrap(), None).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn closing_is_bounded_even_if_a_handler_hangs() {
    let (store, feed) = (MemoryStore::new(), feed(1));
    feed.push(1, 1);
    let settings = FeedSettings { timeout: Duration::from_secs(3600), ..quick() };
    let entered = Arc::new(Notify::new());
    let entering = Arc::clone(&entered);
    let handler = move |_: Change, _: Context| {
        entering.notify_one();
        std::future::pending::<Result<(), Failure>>()
    };
    let (stop, running) =
        spawn(host("a", &store, &feed, handler, settings).close_within(Duration::from_secs(5)));
    entered.notified().await;
    let asked = clock::now();
    stop.notify_one();
    running.await.unwrap().unwrap();
    assert!(clock::now() - asked < Duration::from_secs(6));
    assert_eq!(
        owners(&store).await["a"],
        1,
        "the lease is left to expire: who knows what the handler still does"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_alive_is_refused_and_a_silent_one_is_replaced() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    let (_stop, running) = spawn(host("a", &store, &feed, noting(&history), quick()));
    feed.push(1, 1);
    until("a works", || history.total() == 1).await;
    let refused = host("a", &store, &feed, noting(&history), quick()).run_once().await.unwrap_err();
    assert!(matches!(refused, HostError::NameTaken(_)), "{refused}");
    running.abort();
    feed.push(1, 2);
    host("a", &store, &feed, noting(&history), quick()).run_once().await.unwrap();
    assert_eq!(history.total(), 2);
}

/// A transaction that is already on its way to the database when its host dies, and gets there late.
struct Late(Arc<Ledger>);

#[async_trait]
impl TransactionalHandler for Late {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let (ledger, changes, checkpoint, context) =
            (Arc::clone(&self.0), changes.to_vec(), checkpoint.clone(), context.clone());
        let on_its_way = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            ledger.handle_and_checkpoint(&changes, &checkpoint, &context).await
        });
        on_its_way.await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_zombies_transaction_that_arrives_late_is_refused() {
    let (store, feed, history) = (MemoryStore::new(), feed(1), History::default());
    let ledger =
        || Ledger { store: store.clone(), history: history.clone(), turn: tokio::sync::Mutex::default() };
    feed.push(1, 1);
    let zombie = Host::new("zombie", Arc::new(store.clone()));
    let (_stop, running) = spawn(zombie.feed_in_transaction(feed.clone(), Late(Arc::new(ledger()))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.abort();
    drop(running.await);
    let (stop, successor) =
        spawn(Host::new("b", Arc::new(store.clone())).feed_in_transaction(feed.clone(), ledger()));
    tokio::time::sleep(Duration::from_secs(120)).await;
    stop.notify_one();
    successor.await.unwrap().unwrap();
    assert_eq!(history.total(), 1, "once, by the successor");
}

/// Effects and checkpoints in one step, as a SQL store does it; its effects survive any crash of a host.
struct Ledger {
    store: MemoryStore,
    history: History,
    turn: tokio::sync::Mutex<()>,
}

#[async_trait]
impl TransactionalHandler for Ledger {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let _turn = self.turn.lock().await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..20))).await;
        match self.store.checkpoint(&context.lease, checkpoint).await {
            Ok(()) => changes.iter().for_each(|change| self.history.note(change)),
            Err(CheckpointError::Fenced { by }) => return Err(CommitError::Fenced { by }),
            Err(CheckpointError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_transactional_handler_sees_each_change_exactly_once_whatever_dies() {
    let (store, feed, history) = (MemoryStore::new(), feed(6), History::default());
    let seed = fastrand::get_seed();
    println!("seed {seed}");
    let mut pushed = 0;
    for life in 0..30 {
        for _ in 0..fastrand::u64(50..300) {
            feed.push(fastrand::i64(0..40), pushed);
            pushed += 1;
        }
        let hosts: Vec<_> = (0..3)
            .map(|n| {
                let ledger =
                    Ledger { store: store.clone(), history: history.clone(), turn: Default::default() };
                let handling = Handling::ExactlyOnce(Arc::new(ledger));
                let settings = FeedSettings { batch: 7, ..quick() };
                let host = Host::new(&format!("h{life}-{n}"), Arc::new(store.clone()));
                spawn(host.feed_with(Arc::new(feed.clone()), handling, settings))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..13_000))).await;
        for (stop, running) in hosts {
            if fastrand::bool() {
                stop.notify_one();
                running.await.unwrap().unwrap();
            } else {
                running.abort();
                drop(running.await);
            }
        }
    }
    let ledger = Ledger { store: store.clone(), history: history.clone(), turn: Default::default() };
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (stop, running) =
        spawn(Host::new("last", Arc::new(store.clone())).feed_in_transaction(feed.clone(), ledger));
    until("all is handled", || history.total() as i64 >= pushed).await;
    stop.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(history.total() as i64, pushed, "seed {seed}");
    history.assert_each_key_once_in_order();
}
