//! A store that is slow, fails, hangs or panics where a test wants it to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::change::{Change, Position};
use crate::lease::{Lease, LeaseView, Pulse, Sighting, View};
use crate::name::{FeedName, HostName, Partition, SessionId, StoreId};
use crate::store::*;
use crate::value::Key;

#[derive(Clone)]
pub(super) struct Odd {
    pub inner: MemoryStore,
    pub fail_parking: Arc<AtomicUsize>,
    pub slow_checkpoint: Duration,
    /// How long the answer takes to a checkpoint that parks.
    pub slow_answer: Duration,
    pub slow_acquire: Duration,
    /// How long the answer takes to a host that joins.
    pub slow_join: Duration,
    /// Which of renewals and takings there were, in order.
    pub calls: Arc<Mutex<Vec<&'static str>>>,
    /// Renewals need somebody to mend something.
    pub broken_renew: Arc<AtomicBool>,
    pub hang_release: bool,
    pub panic_once: Arc<AtomicBool>,
    pub most: Arc<AtomicUsize>,
}
impl Odd {
    pub fn new() -> Self {
        Odd {
            inner: MemoryStore::new(),
            fail_parking: Arc::default(),
            slow_checkpoint: Duration::ZERO,
            slow_answer: Duration::ZERO,
            slow_acquire: Duration::ZERO,
            slow_join: Duration::ZERO,
            calls: Arc::default(),
            broken_renew: Arc::default(),
            hang_release: false,
            panic_once: Arc::default(),
            most: Arc::default(),
        }
    }
}
#[async_trait]
impl Store for Odd {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.inner.identity().await
    }
    async fn join(
        &self,
        h: &HostName,
        f: &[FeedName],
        e: Duration,
        r: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let joined = self.inner.join(h, f, e, r).await;
        tokio::time::sleep(self.slow_join).await;
        joined
    }
    async fn leave(&self, s: &Session) -> Result<(), StoreError> {
        self.inner.leave(s).await
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
    async fn pulse(&self) -> Result<Pulse, StoreError> {
        self.inner.pulse().await
    }
    async fn acquire_all(&self, s: &Session, l: &[Sighting]) -> Result<Vec<Option<Lease>>, StoreError> {
        self.calls.lock().unwrap().push("acquire");
        tokio::time::sleep(self.slow_acquire).await;
        self.inner.acquire_all(s, l).await
    }
    async fn renew(&self, s: &Session) -> Result<Renewal, StoreError> {
        self.calls.lock().unwrap().push("renew");
        if self.broken_renew.load(Ordering::Relaxed) {
            return Err(StoreError::needs_attention("no right to write", "grant it"));
        }
        self.inner.renew(s).await
    }
    async fn request_all(&self, s: &[LeaseView], t: &HostName) -> Result<Vec<bool>, StoreError> {
        self.inner.request_all(s, t).await
    }
    async fn release_all(&self, r: &[Release]) -> Result<(), StoreError> {
        if self.hang_release {
            std::future::pending::<()>().await;
        }
        self.inner.release_all(r).await
    }
    async fn checkpoint(&self, l: &Lease, c: &Checkpoint) -> Result<(), CheckpointError> {
        self.most.fetch_max(c.parked.len(), Ordering::Relaxed);
        tokio::time::sleep(self.slow_checkpoint).await;
        if !c.parked.is_empty()
            && c.parked.iter().all(|p| p.failure.is_none())
            && self.fail_parking.load(Ordering::Relaxed) > 0
        {
            self.fail_parking.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::unavailable("store", "busy").into());
        }
        let result = self.inner.checkpoint(l, c).await;
        if !c.parked.is_empty() {
            tokio::time::sleep(self.slow_answer).await;
        }
        result
    }
    async fn rewind(&self, s: &LeaseView, p: &Position, o: OnRewind) -> Result<bool, StoreError> {
        self.inner.rewind(s, p, o).await
    }
    async fn parked(&self, f: &FeedName, p: Option<Partition>) -> Result<Vec<ParkedObject>, StoreError> {
        if self.panic_once.swap(false, Ordering::Relaxed) {
            panic!("a fault in a store")
        }
        self.inner.parked(f, p).await
    }
    async fn parked_changes(&self, f: &FeedName, k: &Key, l: usize) -> Result<Vec<Change>, StoreError> {
        self.inner.parked_changes(f, k, l).await
    }
    async fn parked_object(&self, f: &FeedName, k: &Key) -> Result<Option<ParkedObject>, StoreError> {
        self.inner.parked_object(f, k).await
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
