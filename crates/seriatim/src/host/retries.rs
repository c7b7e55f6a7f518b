//! Objects that fail: nobody waits for them, they come back in order, and nothing of it is hidden.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::change::Change;
use crate::clock;
use crate::handler::{Backoff, CommitError, Context, Failure, Handling, Retry, Then};
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

fn number(change: &Change) -> i64 {
    match change.key.as_ref().unwrap().row().values()[0] {
        Value::Integer(key) => key,
        _ => -1,
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
        let host = Host::new(name, Arc::new(self.store.clone()));
        host.feed_with(Arc::new(self.feed.clone()), handling, self.settings.clone())
    }

    fn run(&self, name: &str) -> Running {
        let (host, stop) = (self.host(name), Arc::new(Notify::new()));
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

#[tokio::test(start_paused = true)]
async fn a_key_that_is_tried_again_and_again_delays_no_other() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.attempts = u32::MAX;
        scene.settings.retry.backoff.first = Duration::from_secs(1);
        scene.work.falls_ill(7, || Failure::change("not yet"));
        for n in 0..2_000 {
            scene.feed.push(if n % 2 == 0 { 7 } else { 100 + n % 50 }, n);
        }
        let (host, began) = (scene.run("a"), clock::now());
        scene.until("all others are handled", async |scene: &Scene| scene.work.total() == 1_000).await;
        let took = clock::now() - began;
        assert!(took < Duration::from_secs(3), "{kind:?}: {took:?}; the key's own pauses are seconds each");
        scene
            .until("the key waits in the store", async |scene: &Scene| {
                scene.parked().await.first().is_some_and(|object| object.waiting == 1_000)
            })
            .await;
        let object = scene.parked().await.remove(0);
        assert_eq!(object.failure.state, ParkedState::Retrying, "{kind:?}: it is not given up");
        let position =
            scene.store.view(&[scene.feed.name().clone()]).await.unwrap().leases[0].position.clone();
        assert_eq!(position.as_number(), Some(2_000), "{kind:?}: the checkpoint does not wait for it");
        scene.work.recovers();
        scene.until("it comes back by itself", async |scene: &Scene| scene.parked().await.is_empty()).await;
        host.stop().await;
        let ids = scene.work.ids(7);
        assert!(ids.is_sorted_by(|a, b| a < b) && ids.len() == 1_000, "{kind:?}: in order, once each");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_object_meets_the_live_stream_while_its_changes_arrive() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        let host = scene.run("a");
        scene.feed.push(7, 0);
        scene.until_parked(7).await;
        assert_eq!(scene.parked().await[0].failure.attempts, 3, "{kind:?}: attempts count all tries");
        for n in 0..500 {
            scene.feed.push(7, n);
        }
        scene.work.recovers();
        scene.retry_all().await;
        let mut pushed = 501;
        for n in 0..2_000 {
            scene.feed.push(if n % 3 == 0 { 8 } else { 7 }, n);
            pushed += usize::from(n % 3 != 0);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        scene.until("all is handled", async |scene: &Scene| scene.work.ids(7).len() >= pushed).await;
        scene.until("nothing is parked", async |scene: &Scene| scene.parked().await.is_empty()).await;
        let ids = scene.work.ids(7);
        assert!(ids.is_sorted_by(|a, b| a < b), "{kind:?}: no gap, no overtaking, no double");
        assert_eq!((ids.len(), scene.work.ids(8).len()), (pushed, 667));
        let calls = scene.work.calls.load(Ordering::Relaxed);
        scene.feed.push(7, 1);
        scene.until("it is live again", async |scene: &Scene| scene.work.ids(7).len() == pushed + 1).await;
        assert_eq!(scene.work.calls.load(Ordering::Relaxed), calls + 1, "{kind:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_survives_the_crash_of_its_host() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        let first = scene.run("a");
        (0..50).for_each(|n| scene.push(7, n));
        scene.until("it was tried", async |scene: &Scene| !scene.parked().await.is_empty()).await;
        first.crash().await;
        let second = scene.run("b");
        scene.until_parked(7).await;
        assert_eq!(scene.parked().await[0].failure.attempts, 3, "{kind:?}: attempts before the crash count");
        second.crash().await;
        scene.work.recovers();
        scene.retry_all().await;
        let third = scene.run("c");
        scene.until("all is handled", async |scene: &Scene| scene.parked().await.is_empty()).await;
        third.stop().await;
        assert_eq!(scene.work.ids(7), (1..=50).collect::<Vec<u64>>(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_once_ends_when_what_stepped_aside_is_handled_or_parked() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..30).for_each(|n| scene.push(7 + n % 3, n));
        scene.host("a").run_once().await.unwrap();
        assert_eq!(scene.work.total(), 20);
        let object = scene.parked().await.remove(0);
        assert_eq!((object.waiting, object.failure.attempts), (10, 3), "{kind:?}");
        assert_eq!(object.failure.state, ParkedState::Parked);
        scene.work.recovers();
        scene.retry_all().await;
        scene.host("a").run_once().await.unwrap();
        assert_eq!((scene.work.ids(7).len(), scene.parked().await.len()), (10, 0), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_discarded_change_is_not_handled_and_its_tail_goes_on() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("never"));
        (0..5).for_each(|n| scene.push(7, n));
        let host = scene.run("a");
        scene.until_parked(7).await;
        scene.until("its tail is parked", async |scene: &Scene| scene.parked().await[0].waiting == 5).await;
        scene.work.recovers();
        let key = scene.parked().await[0].key.clone();
        let dropped = scene.store.discard_parked(scene.feed.name(), &key, Discard::First(1), "a test").await;
        assert_eq!(dropped.unwrap(), Discarding::Done(1));
        scene.until("the tail is handled", async |scene: &Scene| scene.work.ids(7).len() == 4).await;
        scene.feed.push(7, 9);
        scene.until("and what comes", async |scene: &Scene| scene.work.ids(7) == [2, 3, 4, 5, 6]).await;
        assert_eq!(scene.parked().await, []);
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_discarded_to_the_end_is_live_again() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("never"));
        (0..5).for_each(|n| scene.push(7, n));
        let host = scene.run("a");
        scene.until_parked(7).await;
        scene.until("its tail is parked", async |scene: &Scene| scene.parked().await[0].waiting == 5).await;
        scene.work.recovers();
        let key = scene.parked().await[0].key.clone();
        let dropped = scene.store.discard_parked(scene.feed.name(), &key, Discard::All(1), "a test").await;
        assert_eq!(dropped.unwrap(), Discarding::Done(5));
        for n in 0..20 {
            scene.feed.push(7, n);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        scene.until("what comes is handled", async |scene: &Scene| scene.work.ids(7).len() == 20).await;
        assert_eq!(scene.work.ids(7), (6..=25).collect::<Vec<u64>>(), "{kind:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_skipped_lets_its_tail_go_on_and_is_counted() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.then = Then::Skip;
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..4).for_each(|n| scene.push(7 + n % 2, n));
        let host = scene.host("a");
        let stats = Arc::clone(&host.stats()[0].1);
        host.run_once().await.unwrap();
        assert_eq!((stats.skipped(), stats.handled()), (2, 2), "{kind:?}");
        assert_eq!((scene.parked().await, scene.work.ids(8)), (vec![], vec![2, 4]));
    }
}

#[tokio::test(start_paused = true)]
async fn stop_comes_after_the_last_attempt_and_loses_nothing() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.then = Then::Stop;
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..4).for_each(|n| scene.push(7, n));
        let stopped = scene.host("a").run_once().await.unwrap_err();
        assert_eq!(stopped.to_string(), "stopped: f: change 1 at position 1 failed: no", "{kind:?}");
        scene.work.recovers();
        scene.host("a").run_once().await.unwrap();
        assert_eq!(scene.work.ids(7), [1, 2, 3, 4], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_is_waited_for_and_everybody_can_see_it() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.backoff.longest = Duration::from_secs(30);
        (0..500).for_each(|key| scene.work.falls_ill(key, || Failure::target("connection refused")));
        (0..500).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((scene.work.total(), scene.parked().await), (0, vec![]), "{kind:?}: nothing is parked");
        let calls = scene.work.calls.load(Ordering::Relaxed);
        assert!(calls < 20, "{kind:?}: {calls} calls in a minute; one at a time finds out");
        let troubles = scene.troubles().await;
        assert!(troubles.len() == 1 && troubles[0].ends_with("connection refused"), "{troubles:?}");
        scene.work.recovers();
        scene.until("it goes on by itself", async |scene: &Scene| scene.work.total() == 500).await;
        scene.until("and says so", async |scene: &Scene| scene.troubles().await.is_empty()).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_everything_fails_it_is_not_the_objects() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..5_000).for_each(|key| scene.work.falls_ill(key, || Failure::change("internal server error")));
        (0..5_000).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let parked = scene.parked().await;
        let given_up = parked.iter().filter(|object| object.failure.state == ParkedState::Parked).count();
        assert_eq!(given_up, 0, "{kind:?}: nobody is parked");
        assert!(parked.len() < 1_500, "{kind:?}: {} had to step aside", parked.len());
        assert!(scene.troubles().await[0].ends_with("internal server error"));
        scene.work.recovers();
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 5_000).await;
        scene.until("nothing is left", async |scene: &Scene| scene.parked().await.is_empty()).await;
        assert_eq!(scene.work.seen.lock().unwrap().iter().collect::<HashSet<_>>().len(), 5_000);
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_bad_objects_in_a_row_are_parked_once_good_ones_come() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..300).for_each(|key| scene.work.falls_ill(key, || Failure::change("bad")));
        (0..600).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        scene.until("the good ones are handled", async |scene: &Scene| scene.work.total() == 300).await;
        scene
            .until("the bad ones are parked", async |scene: &Scene| {
                let parked = scene.parked().await;
                parked.len() == 300 && parked.iter().all(|object| object.failure.state == ParkedState::Parked)
            })
            .await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_be_parked_is_bounded_and_the_partition_waits_with_a_reason() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.parked.object_changes = 200;
        scene.settings.retry.attempts = 1;
        scene.work.falls_ill(7, || Failure::change("no"));
        for n in 0..20_000 {
            scene.feed.push(if n % 2 == 0 { 7 } else { 8 }, n);
        }
        let host = scene.run("a");
        scene.until("it waits", async |scene: &Scene| !scene.troubles().await.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let waiting = scene.parked().await[0].waiting;
        assert!((200..5_000).contains(&waiting), "{kind:?}: {waiting}; what was in memory comes on top");
        let why = scene.troubles().await.remove(0);
        assert!(why.contains(r#"are kept of the parked object {"id":7}"#), "{why}");
        scene.work.recovers();
        scene.retry_all().await;
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 20_000).await;
        scene.until("it says so", async |scene: &Scene| scene.troubles().await.is_empty()).await;
        for key in [7, 8] {
            assert!(scene.work.ids(key).is_sorted_by(|a, b| a < b), "{kind:?}: {key}");
        }
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn run_once_that_can_park_no_more_fails_with_the_reason() {
    let mut scene = Scene::new(Kind::Transactional);
    scene.settings.parked.objects = 3;
    scene.settings.retry.attempts = 1;
    (0..9).for_each(|key| scene.work.falls_ill(key, || Failure::poison("no")));
    (0..20_000).for_each(|n| scene.push(n, n));
    let stopped = scene.host("a").run_once().await.unwrap_err().to_string();
    assert!(stopped.contains("cannot go on: 9 objects are parked, which is the most"), "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn without_a_host_what_is_marked_is_tried_and_nothing_else() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("no"));
        (0..3).for_each(|n| scene.push(7, n));
        scene.host("a").run_once().await.unwrap();
        scene.work.recovers();
        scene.feed.push(8, 1);
        scene.retry_all().await;
        let (stop, host) = (Arc::new(Notify::new()), scene.host("b"));
        let stopped = Arc::clone(&stop);
        let running =
            tokio::spawn(async move { host.run_parked_until(async move { stopped.notified().await }).await });
        scene.until("the tail is handled", async |scene: &Scene| scene.parked().await.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        stop.notify_one();
        running.await.unwrap().unwrap();
        assert_eq!((scene.work.ids(7), scene.work.ids(8)), (vec![1, 2, 3], vec![]), "{kind:?}");
        scene.host("c").run_once().await.unwrap();
        assert_eq!(scene.work.ids(8), [4], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_does_not_come_back_while_a_change_of_it_is_on_its_way_to_the_store() {
    let mut scene = Scene::new(Kind::Plain);
    scene.settings.batch = 1;
    scene.work.falls_ill(7, || Failure::poison("no"));
    scene.push(7, 0);
    let host = scene.run("a");
    scene.until_parked(7).await;
    scene.work.recovers();
    // The checkpoint cannot pass the slow change, nor what is set aside behind it.
    let a_moment = || tokio::time::sleep(Duration::from_millis(300));
    scene.push(SLOW, 0);
    a_moment().await;
    scene.push(7, 0);
    a_moment().await;
    scene.retry_all().await;
    scene.until("what is stored is handled", async |scene: &Scene| scene.work.ids(7) == [1]).await;
    a_moment().await;
    scene.push(7, 0);
    a_moment().await;
    assert_eq!(scene.work.ids(7), [1], "4 has not overtaken 3");
    scene.until("all is handled", async |scene: &Scene| scene.work.ids(7).len() == 3).await;
    assert_eq!(scene.work.ids(7), [1, 3, 4]);
    host.stop().await;
}

/// Draws a line after each commit: what is in the store then is all that a crash leaves.
#[tokio::test(start_paused = true)]
async fn what_is_set_aside_goes_with_the_first_commit_that_passes_it() {
    let mut scene = Scene::new(Kind::Transactional);
    scene.settings.retry.attempts = 1;
    scene.settings.batch = 8;
    scene.work.falls_ill(7, || Failure::poison("no"));
    scene.feed.push(7, 0);
    scene.host("a").run_once().await.unwrap();
    // In one batch: two poisons of their own that split it, and changes of 7 between all others.
    scene.work.falls_ill(1, || Failure::poison("no"));
    scene.work.falls_ill(2, || Failure::poison("no"));
    for key in [7, 3, 7, 1, 7, 4, 7, 2, 7, 5, 7, 6, 7] {
        scene.feed.push(key, 0);
    }
    let host = scene.run("b");
    let (mut states, key) = (BTreeSet::new(), Key::of("id", Value::Integer(7)));
    let began = clock::now();
    while clock::now() - began < Duration::from_secs(2) {
        let view = scene.store.view(&[scene.feed.name().clone()]).await.unwrap();
        let kept = scene.store.parked_changes(scene.feed.name(), &key, 99).await.unwrap();
        let ids: Vec<u64> = kept.iter().map(|change| change.id).collect();
        states.insert((view.leases[0].position.as_number().unwrap(), ids));
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    assert!(scene.work.total() == 4 && states.len() > 3, "{states:?}");
    host.stop().await;
    let all = [1, 2, 4, 6, 8, 10, 12, 14];
    for (position, kept) in states {
        let passed: Vec<u64> = all.into_iter().filter(|id| *id <= position).collect();
        assert_eq!(kept, passed, "at position {position}");
    }
}
