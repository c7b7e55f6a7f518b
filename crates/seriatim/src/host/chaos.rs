//! Hosts over a store whose answers come late, never, or not at all, while hosts stop and die: whatever the seed, each key's
//! changes are handled or parked, once each and in order.

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
use std::sync::atomic::{AtomicU64, Ordering};
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
fn poison(c: &Change) -> bool {
    matches!(c.after.as_ref().unwrap().get("value"), Some(Value::Integer(v)) if v % 67 == 0)
}
struct Tx {
    store: Chaos,
    seen: Seen,
}
#[async_trait]
impl TransactionalHandler for Tx {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        if changes.iter().any(poison) {
            return Err(CommitError::Failed(Failure::poison("p")));
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
fn handling(tx: bool, store: &Chaos, seen: &Seen) -> Handling {
    if tx {
        return Handling::ExactlyOnce(Arc::new(Tx { store: store.clone(), seen: seen.clone() }));
    }
    let seen = seen.clone();
    Handling::AtLeastOnce(Arc::new(move |c: Change, _: Context| {
        let seen = seen.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            if poison(&c) {
                return Err(Failure::poison("p"));
            }
            seen.lock().unwrap().entry(c.key.as_ref().unwrap().to_string()).or_default().push(c.id);
            Ok(())
        }
    }))
}
async fn life(seed: u64, tx: bool) -> Result<(), String> {
    fastrand::seed(seed);
    let store = Chaos { inner: MemoryStore::new(), permille: Arc::new(AtomicU64::new(60)) };
    let feed = MemoryFeed::new(FeedName::new("f").unwrap(), 5);
    let seen = Seen::default();
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    let settings = FeedSettings {
        batch: 6,
        retry: Retry { attempts: 1, ..Retry::default() },
        ..FeedSettings::default()
    };
    let mut push = |n: usize| {
        for _ in 0..n {
            let k = fastrand::i64(0..40);
            let id = feed.push(k, fastrand::i64(1..10_000));
            all.entry(format!("{{\"id\":{k}}}")).or_default().push(id);
        }
    };
    for l in 0..6 {
        let hosts: Vec<_> = (0..3)
            .map(|n| {
                let h = Host::new(&format!("h{l}-{n}"), Arc::new(store.clone())).feed_with(
                    Arc::new(feed.clone()),
                    handling(tx, &store, &seen),
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
    tokio::time::sleep(Duration::from_secs(30)).await;
    let last = Host::new("last", Arc::new(store.clone())).feed_with(
        Arc::new(feed.clone()),
        handling(tx, &store, &seen),
        settings,
    );
    drop(tokio::time::timeout(Duration::from_secs(200), last.run_until(std::future::pending())).await);
    let f = FeedName::new("f").unwrap();
    let mut parked: HashMap<String, Vec<u64>> = HashMap::new();
    for o in store.inner.parked(&f, None).await.unwrap() {
        parked.insert(
            o.key.to_string(),
            store.inner.parked_changes(&f, &o.key, 100_000).await.unwrap().iter().map(|c| c.id).collect(),
        );
    }
    for (k, ids) in &all {
        let s = seen.lock().unwrap().get(k).cloned().unwrap_or_default();
        let mut firsts: Vec<u64> = Vec::new();
        for i in &s {
            if !firsts.contains(i) {
                firsts.push(*i);
            }
        }
        let p = parked.get(k).cloned().unwrap_or_default();
        let whole: Vec<u64> = firsts.iter().chain(&p).copied().collect();
        if whole != *ids {
            return Err(format!("seed {seed} key {k}: all {ids:?}\n seen {s:?}\n parked {p:?}"));
        }
        if tx && s != firsts {
            return Err(format!("seed {seed} key {k}: doubled {s:?}"));
        }
    }
    Ok(())
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
