//! Hosts over a store whose answers come late, never, or not at all, while hosts stop and die and somebody retries and
//! discards what is parked: whatever the seed, each key's changes are handled, parked or discarded, once each and in order.

use super::*;
use crate::change::{Change, Position};
use crate::handler::*;
use crate::lease::*;
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

#[derive(Clone)]
struct Chaos {
    inner: MemoryStore,
    permille: Arc<AtomicU64>,
}
impl Chaos {
    async fn maybe(&self) -> Result<(), StoreError> {
        let p = self.permille.load(Ordering::Relaxed);
        if p > 0 && fastrand::u64(0..10) == 0 {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        }
        if p > 0 && fastrand::u64(0..500) == 0 {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..12_000))).await;
        }
        if fastrand::u64(0..1000) < p {
            return Err(StoreError::unavailable("x", "chaos"));
        }
        Ok(())
    }
}
macro_rules! op {
    ($s:ident, $e:expr) => {{
        $s.maybe().await?;
        let r = $e.await?;
        $s.maybe().await?;
        Ok(r)
    }};
}
#[async_trait]
impl Store for Chaos {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.inner.identity().await
    }
    async fn join(&self, h: &HostName, f: &[FeedName], r: Option<&SessionId>) -> Result<Session, JoinError> {
        self.inner.join(h, f, r).await
    }
    async fn leave(&self, s: &Session) -> Result<(), StoreError> {
        op!(self, self.inner.leave(s))
    }
    async fn ensure(&self, f: &FeedName, p: u32, s: &Position) -> Result<(), EnsureError> {
        self.inner.ensure(f, p, s).await
    }
    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        self.inner.feeds().await
    }
    async fn view(&self, f: &[FeedName]) -> Result<View, StoreError> {
        self.inner.view(f).await
    }
    async fn acquire(&self, s: &Session, l: &LeaseView) -> Result<Option<Lease>, StoreError> {
        op!(self, self.inner.acquire(s, l))
    }
    async fn renew(&self, s: &Session, l: &[Lease]) -> Result<Vec<Renewal>, StoreError> {
        op!(self, self.inner.renew(s, l))
    }
    async fn request_hand_over(&self, s: &LeaseView, t: &HostName) -> Result<bool, StoreError> {
        op!(self, self.inner.request_hand_over(s, t))
    }
    async fn release(&self, l: &Lease, k: Option<&HostName>) -> Result<(), StoreError> {
        op!(self, self.inner.release(l, k))
    }
    async fn checkpoint(&self, l: &Lease, c: &Checkpoint) -> Result<(), CheckpointError> {
        op!(self, self.inner.checkpoint(l, c))
    }
    async fn rewind(&self, s: &LeaseView, p: &Position, o: OnRewind) -> Result<bool, StoreError> {
        self.inner.rewind(s, p, o).await
    }
    async fn parked(&self, f: &FeedName, p: Option<Partition>) -> Result<Vec<ParkedObject>, StoreError> {
        op!(self, self.inner.parked(f, p))
    }
    async fn parked_changes(&self, f: &FeedName, k: &Key, l: usize) -> Result<Vec<Change>, StoreError> {
        op!(self, self.inner.parked_changes(f, k, l))
    }
    async fn parked_object(&self, f: &FeedName, k: &Key) -> Result<Option<ParkedObject>, StoreError> {
        op!(self, self.inner.parked_object(f, k))
    }
    async fn retry_parked(&self, f: &FeedName, k: Option<&Key>) -> Result<u64, StoreError> {
        self.inner.retry_parked(f, k).await
    }
    async fn discard_parked(
        &self,
        f: &FeedName,
        k: &Key,
        d: Discard,
        r: &str,
    ) -> Result<Discarding, StoreError> {
        self.inner.discard_parked(f, k, d, r).await
    }
    async fn discarded(&self, f: &FeedName, l: usize) -> Result<Vec<Discarded>, StoreError> {
        self.inner.discarded(f, l).await
    }
    async fn forget(&self, f: &FeedName) -> Result<(), StoreError> {
        self.inner.forget(f).await
    }
}
type Seen = Arc<Mutex<HashMap<String, Vec<u64>>>>;
/// Some changes fail mostly, until they are cured.
#[derive(Clone, Default)]
struct Ills {
    cured: Arc<AtomicBool>,
}
impl Ills {
    fn of(&self, c: &Change) -> Option<Failure> {
        let value = match c.after.as_ref().unwrap().get("value") {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        };
        if self.cured.load(Ordering::Relaxed) {
            None
        } else if value % 67 == 0 {
            Some(Failure::poison("p"))
        } else if value % 29 == 0 && fastrand::u64(0..10) < 7 {
            Some(Failure::change("c"))
        } else {
            None
        }
    }
}
struct Tx {
    store: Chaos,
    seen: Seen,
    ills: Ills,
}
#[async_trait]
impl TransactionalHandler for Tx {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let ill = changes.iter().enumerate().find_map(|(n, c)| self.ills.of(c).map(|failure| (n, failure)));
        if let Some((culprit, failure)) = ill {
            // Some handlers know which change it was, and some do not.
            let failure = if fastrand::bool() { failure.at(culprit) } else { failure };
            return Err(CommitError::Failed(failure));
        }
        self.store.maybe().await?;
        match self.store.inner.checkpoint(&context.lease, checkpoint).await {
            Ok(()) => {
                for c in changes {
                    self.seen
                        .lock()
                        .unwrap()
                        .entry(c.key.as_ref().unwrap().to_string())
                        .or_default()
                        .push(c.id);
                }
            }
            Err(CheckpointError::Fenced { by }) => return Err(CommitError::Fenced { by }),
            Err(CheckpointError::Store(e)) => return Err(e.into()),
        }
        self.store.maybe().await?;
        Ok(())
    }
}
fn handling(tx: bool, store: &Chaos, seen: &Seen, ills: &Ills) -> Handling {
    let (seen, ills) = (seen.clone(), ills.clone());
    if tx {
        return Handling::ExactlyOnce(Arc::new(Tx { store: store.clone(), seen, ills }));
    }
    Handling::AtLeastOnce(Arc::new(move |c: Change, _: Context| {
        let (seen, ills) = (seen.clone(), ills.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            if let Some(failure) = ills.of(&c) {
                return Err(failure);
            }
            seen.lock().unwrap().entry(c.key.as_ref().unwrap().to_string()).or_default().push(c.id);
            Ok(())
        }
    }))
}
/// Somebody who retries and discards now and then, whoever owns what.
async fn meddle(store: MemoryStore, dropped: Seen) {
    let f = FeedName::new("f").unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3000))).await;
        let parked = store.parked(&f, None).await.unwrap();
        let Some(object) = fastrand::choice(&parked) else { continue };
        let kept = store.parked_changes(&f, &object.key, usize::MAX).await.unwrap();
        let first = kept[0].id;
        let what = match fastrand::u64(0..6) {
            0 => Discard::First(first),
            1 => Discard::All(first),
            2 => {
                store.retry_parked(&f, None).await.unwrap();
                continue;
            }
            _ => {
                store.retry_parked(&f, Some(&object.key)).await.unwrap();
                continue;
            }
        };
        if let Discarding::Done(n) = store.discard_parked(&f, &object.key, what, "chaos").await.unwrap() {
            let ids = kept.iter().take(n as usize).map(|c| c.id);
            dropped.lock().unwrap().entry(object.key.to_string()).or_default().extend(ids);
        }
    }
}

type Ids = HashMap<String, Vec<u64>>;
async fn check(
    seed: u64,
    tx: bool,
    store: &MemoryStore,
    all: &Ids,
    seen: &Seen,
    dropped: &Seen,
) -> Result<(), String> {
    let f = FeedName::new("f").unwrap();
    let mut parked = Ids::new();
    for o in store.parked(&f, None).await.unwrap() {
        let kept = store.parked_changes(&f, &o.key, usize::MAX).await.unwrap();
        parked.insert(o.key.to_string(), kept.iter().map(|c| c.id).collect());
    }
    for (k, ids) in all {
        let s = seen.lock().unwrap().get(k).cloned().unwrap_or_default();
        let d = dropped.lock().unwrap().get(k).cloned().unwrap_or_default();
        let p = parked.get(k).cloned().unwrap_or_default();
        // Without transactions, a host that died may have handled what is still parked, or was discarded then.
        let handled: Vec<u64> = s.iter().filter(|i| tx || !d.contains(i)).copied().collect();
        let again = |i: &u64| !tx && handled.contains(i);
        let mut whole: Vec<u64> = Vec::new();
        for i in &handled {
            if tx || !whole.contains(i) {
                whole.push(*i);
            }
        }
        whole.extend(p.iter().filter(|i| !again(i)));
        if !p.is_sorted() {
            return Err(format!("seed {seed} key {k}: parked out of order {p:?}"));
        }
        let expected: Vec<u64> = ids.iter().filter(|i| !d.contains(i)).copied().collect();
        if whole != expected {
            return Err(format!(
                "seed {seed} key {k}: all {ids:?}\n seen {s:?}\n parked {p:?}\n dropped {d:?}"
            ));
        }
    }
    Ok(())
}

async fn life(seed: u64, tx: bool) -> Result<(), String> {
    fastrand::seed(seed);
    let store = Chaos { inner: MemoryStore::new(), permille: Arc::new(AtomicU64::new(60)) };
    let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 5);
    let (seen, dropped, ills) = (Seen::default(), Seen::default(), Ills::default());
    let mut all = Ids::new();
    let backoff = Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
    let retry = Retry { attempts: fastrand::u32(1..4), backoff, ..Retry::default() };
    let settings = FeedSettings { batch: 6, retry, ..FeedSettings::default() };
    let mut push = |n: usize| {
        for _ in 0..n {
            // One key is hot: it meets the live stream while changes of it arrive.
            let k = if fastrand::bool() { 0 } else { fastrand::i64(0..40) };
            let id = feed.push(k, fastrand::i64(1..10_000));
            all.entry(format!("{{\"id\":{k}}}")).or_default().push(id);
        }
    };
    let meddler = tokio::spawn(meddle(store.inner.clone(), dropped.clone()));
    for l in 0..6 {
        let hosts: Vec<_> = (0..3)
            .map(|n| {
                let h = Host::new(&format!("h{l}-{n}"), Arc::new(store.clone())).feed_with(
                    Arc::new(feed.clone()),
                    handling(tx, &store, &seen, &ills),
                    settings.clone(),
                );
                let stop = Arc::new(Notify::new());
                let s = stop.clone();
                (stop, tokio::spawn(async move { h.run_until(async move { s.notified().await }).await }))
            })
            .collect();
        for _ in 0..fastrand::u64(1..40) {
            push(fastrand::usize(1..20));
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..600))).await;
        }
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
    store.permille.store(0, Ordering::Relaxed);
    meddler.abort();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let last = |name: &str| {
        Host::new(name, Arc::new(store.clone())).feed_with(
            Arc::new(feed.clone()),
            handling(tx, &store, &seen, &ills),
            settings.clone(),
        )
    };
    drop(tokio::time::timeout(Duration::from_secs(100), last("a").run_until(std::future::pending())).await);
    check(seed, tx, &store.inner, &all, &seen, &dropped).await?;
    ills.cured.store(true, Ordering::Relaxed);
    let f = FeedName::new("f").unwrap();
    store.inner.retry_parked(&f, None).await.unwrap();
    drop(tokio::time::timeout(Duration::from_secs(100), last("b").run_until(std::future::pending())).await);
    match store.inner.parked(&f, None).await.unwrap().as_slice() {
        [] => check(seed, tx, &store.inner, &all, &seen, &dropped).await,
        left => Err(format!("seed {seed}: all is well and this is still parked: {left:?}")),
    }
}
fn many(tx: bool) {
    let from: u64 = std::env::var("SERIATIM_CHAOS_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut bad = 0;
    for seed in from..from + 60 {
        let rt =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        if let Err(e) = rt.block_on(life(seed, tx)) {
            bad += 1;
            if bad < 4 {
                println!("{e}");
            }
        }
    }
    assert_eq!(bad, 0);
}
#[test]
fn a_transactional_handler_handles_each_change_exactly_once_in_order() {
    many(true)
}
#[test]
fn a_plain_handler_handles_each_change_at_least_once_in_order() {
    many(false)
}
