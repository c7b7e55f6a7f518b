//! Objects that fail: nobody waits for them, they come back in order, and nothing of it is hidden.

mod bounds;
mod ending;
mod giving_up;
mod healing;
mod rejoining;
mod targets;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::change::Change;
use crate::clock;
use crate::handler::{Backoff, CommitError, Context, Failure, Handling, Retry, Then};
use crate::host::*;
use crate::source::MemoryFeed;
use crate::store::*;
use crate::value::{Key, Value};

/// A key whose changes take five seconds each.
const SLOW: i64 = 1_000_000;

type Illness = fn() -> Failure;

/// What a handler does, for both kinds: fails for the keys that are ill, and notes the rest.
#[derive(Clone, Default)]
struct Work {
    ill: Arc<Mutex<HashMap<i64, Illness>>>,
    /// What was handled, in order: key and id.
    seen: Arc<Mutex<Vec<(i64, u64)>>>,
    calls: Arc<AtomicU64>,
}

/// The key of a change of all objects.
const EVERYTHING: i64 = -1;

fn number(change: &Change) -> i64 {
    match change.key.as_ref().map(|key| &key.row().values()[0]) {
        Some(Value::Integer(key)) => *key,
        _ => EVERYTHING,
    }
}

impl Work {
    fn falls_ill(&self, key: i64, how: Illness) {
        self.ill.lock().unwrap().insert(key, how);
    }

    fn recovers(&self) {
        self.ill.lock().unwrap().clear();
    }

    fn fails(&self, changes: &[Change]) -> Option<Failure> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let ill = self.ill.lock().unwrap();
        let culprit = changes.iter().position(|change| ill.contains_key(&number(change)))?;
        let failure = ill[&number(&changes[culprit])]();
        // Some handlers know which change it was, and some do not.
        Some(if call.is_multiple_of(2) { failure.at(culprit) } else { failure })
    }

    fn note(&self, changes: &[Change]) {
        self.seen.lock().unwrap().extend(changes.iter().map(|change| (number(change), change.id)));
    }

    fn ids(&self, key: i64) -> Vec<u64> {
        self.seen.lock().unwrap().iter().filter(|(of, _)| *of == key).map(|(_, id)| *id).collect()
    }

    fn total(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

struct Transactional(Work, MemoryStore);

#[async_trait]
impl TransactionalHandler for Transactional {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let Some(failure) = self.0.fails(changes) {
            return Err(CommitError::Failed(failure));
        }
        match self.1.checkpoint(&context.lease, checkpoint).await {
            Ok(()) => self.0.note(changes),
            Err(CheckpointError::Fenced { by }) => return Err(CommitError::Fenced { by }),
            Err(CheckpointError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Transactional,
}

const BOTH: [Kind; 2] = [Kind::Plain, Kind::Transactional];

struct Scene {
    store: MemoryStore,
    feed: MemoryFeed,
    work: Work,
    settings: FeedSettings,
    kind: Kind,
}

impl Scene {
    fn new(kind: Kind) -> Self {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let settings = FeedSettings {
            retry: Retry { attempts: 3, backoff, then: Then::Park },
            batch: 10,
            concurrency: 4,
            ..FeedSettings::default()
        };
        let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 1);
        Scene { store: MemoryStore::new(), feed, work: Work::default(), settings, kind }
    }

    fn host(&self, name: &str) -> Host {
        self.host_on(name, Arc::new(self.store.clone()))
    }

    /// The same, on a store of its own over this one.
    fn host_on(&self, name: &str, store: Arc<dyn Store>) -> Host {
        let handling = match self.kind {
            Kind::Transactional => {
                Handling::ExactlyOnce(Arc::new(Transactional(self.work.clone(), self.store.clone())))
            }
            Kind::Plain => {
                let work = self.work.clone();
                Handling::AtLeastOnce(Arc::new(move |change: Change, _: Context| {
                    let work = work.clone();
                    async move {
                        let takes = if number(&change) == SLOW { 5_000 } else { 1 };
                        tokio::time::sleep(Duration::from_millis(takes)).await;
                        match work.fails(std::slice::from_ref(&change)) {
                            Some(failure) => Err(failure),
                            None => {
                                work.note(std::slice::from_ref(&change));
                                Ok(())
                            }
                        }
                    }
                }))
            }
        };
        Host::new(name, store).feed_with(Arc::new(self.feed.clone()), handling, self.settings.clone())
    }

    fn run(&self, name: &str) -> Running {
        self.run_on(name, Arc::new(self.store.clone()))
    }

    fn run_on(&self, name: &str, store: Arc<dyn Store>) -> Running {
        let (host, stop) = (self.host_on(name, store), Arc::new(Notify::new()));
        let stopped = Arc::clone(&stop);
        Running(
            stop,
            tokio::spawn(async move { host.run_until(async move { stopped.notified().await }).await }),
        )
    }

    fn push(&self, key: i64, value: i64) {
        self.feed.push(key, value);
    }

    async fn parked(&self) -> Vec<ParkedObject> {
        self.store.parked(self.feed.name(), None).await.unwrap()
    }

    /// How many objects are parked for good.
    async fn given_up(&self) -> usize {
        let parked = self.parked().await;
        parked.iter().filter(|object| object.failure.state == ParkedState::Parked).count()
    }

    async fn until(&self, what: &str, condition: impl AsyncFn(&Scene) -> bool) {
        let waited = tokio::time::timeout(Duration::from_secs(600), async {
            while !condition(self).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "{:?}: never happened: {what}", self.kind);
    }

    async fn until_parked(&self, key: i64) {
        self.until("it is parked", async |scene: &Scene| {
            let object =
                scene.store.parked_object(scene.feed.name(), &Key::of("id", Value::Integer(key))).await;
            object.unwrap().is_some_and(|object| object.failure.state == ParkedState::Parked)
        })
        .await;
    }

    async fn troubles(&self) -> Vec<String> {
        let hosts = self.store.view(&[]).await.unwrap().hosts;
        hosts.into_iter().flat_map(|host| host.troubles).map(|trouble| trouble.what).collect()
    }

    async fn retry_all(&self) {
        self.store.retry_parked(self.feed.name(), None).await.unwrap();
    }
}

struct Running(Arc<Notify>, JoinHandle<Result<(), HostError>>);

impl Running {
    async fn stop(self) {
        self.0.notify_one();
        self.1.await.unwrap().unwrap();
    }

    async fn crash(self) {
        self.1.abort();
        drop(self.1.await);
    }
}
