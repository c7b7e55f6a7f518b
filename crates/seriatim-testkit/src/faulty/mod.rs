//! A store with faults, for tests of what uses it.
//!
//! ```text
//!   caller ─▶ FaultyStore ─▶ the store
//!               │ fail before: the operation does not happen
//!               │ fail after: it happens, its answer is lost
//!               │ hold: it waits until the test lets it go
//!               └ slow: it waits for a time
//! ```
//!
//! Faults are named one by one ([`FaultyStore::next`], [`FaultyStore::always`], [`FaultyStore::hold`]) or drawn
//! from a seed ([`FaultyStore::at_random`]), so that a failure can be played again.

mod hold;
mod ledger;
mod plan;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::{Change, Position};
use seriatim::lease::{HostView, Lease, LeaseView, Pulse, Reshape, Sighting, View};
use seriatim::name::{FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarded, Discarding, EnsureError, JoinError, NotedAction,
    OnRewind, ParkedObject, ParkedPage, Paused, Release, Renewal, Session, Store, StoreError,
};
use seriatim::value::Key;

pub use hold::Hold;
pub use ledger::{FaultyLedger, LedgerOperation};
use plan::Plan;
pub use plan::{Fault, Odds, Operation};

/// A store that does what another store does, except where it was told to fail.
pub struct FaultyStore {
    store: Arc<dyn Store>,
    plan: Mutex<Plan>,
}

impl FaultyStore {
    /// A store without faults, so far.
    pub fn new(store: Arc<dyn Store>) -> Self {
        FaultyStore { store, plan: Mutex::new(Plan::default()) }
    }

    /// The next call of this operation meets the fault; those after it do not. Several calls add up, in order.
    pub fn next(&self, operation: Operation, fault: Fault) {
        self.plan().next(operation, fault);
    }

    /// Every call of this operation meets the fault, until [`FaultyStore::heal`].
    pub fn always(&self, operation: Operation, fault: Fault) {
        self.plan().always(operation, fault);
    }

    /// Every call of every operation fails before it takes effect: the store is out of reach.
    pub fn cut_off(&self) {
        for operation in Operation::ALL {
            self.always(operation, Fault::Before);
        }
    }

    /// Ends what [`FaultyStore::always`], [`FaultyStore::cut_off`] and [`FaultyStore::at_random`] have begun.
    pub fn heal(&self) {
        self.plan().heal();
    }

    /// The next call of this operation waits, before it takes effect, until the hold is let go.
    pub fn hold(&self, operation: Operation) -> Hold {
        let hold = Hold::default();
        self.next(operation, Fault::Hold(hold.clone()));
        hold
    }

    /// Faults are drawn from the seed, with these odds, for each call that meets no other fault.
    pub fn at_random(&self, seed: u64, odds: Odds) {
        self.plan().at_random(seed, odds);
    }

    /// How often the operation was called, faults included.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.plan().calls(operation)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass<T, E>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E>
    where
        E: From<StoreError>,
    {
        let fault = self.plan().draw(operation);
        match fault {
            None => call.await,
            Some(Fault::Before) => Err(injected(operation, "not done").into()),
            Some(Fault::After) => {
                call.await?;
                Err(injected(operation, "done, and the answer lost").into())
            }
            Some(Fault::Hold(hold)) => {
                hold.wait().await;
                call.await
            }
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
        }
    }
}

fn injected(operation: Operation, what: &str) -> StoreError {
    StoreError::unavailable(format!("{operation:?}"), format!("injected fault: {what}"))
}

#[async_trait]
impl Store for FaultyStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.pass(Operation::Identity, self.store.identity()).await
    }

    async fn adopt(&self, id: &StoreId) -> Result<StoreId, StoreError> {
        self.pass(Operation::Identity, self.store.adopt(id)).await
    }

    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        self.pass(Operation::Join, self.store.older_hosts(silent)).await
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        self.pass(Operation::Join, self.store.join(host, feeds, expire, replacing)).await
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        self.pass(Operation::Leave, self.store.leave(session)).await
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        self.pass(Operation::Ensure, self.store.ensure(feed, partitions, start)).await
    }

    async fn wait(&self, timeout: Duration) {
        self.store.wait(timeout).await;
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        self.pass(Operation::Feeds, self.store.feeds()).await
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        self.pass(Operation::View, self.store.view(feeds)).await
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        self.pass(Operation::View, self.store.pulse()).await
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        self.pass(Operation::Acquire, self.store.acquire_all(session, seen)).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        self.pass(Operation::Renew, self.store.renew(session)).await
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        self.pass(Operation::RequestHandOver, self.store.request_all(seen, to)).await
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        self.pass(Operation::Release, self.store.release_all(releases)).await
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.pass(Operation::Checkpoint, self.store.checkpoint(lease, checkpoint)).await
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        self.pass(Operation::Rewind, self.store.rewind(seen, position, parked)).await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        self.pass(Operation::Parked, self.store.parked(feed, partition)).await
    }

    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        self.pass(Operation::Parked, self.store.parked_page(feed, after, limit)).await
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        self.pass(Operation::ParkedChanges, self.store.parked_changes(feed, key, limit)).await
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        self.pass(Operation::ParkedObject, self.store.parked_object(feed, key)).await
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        self.pass(Operation::RetryParked, self.store.retry_parked(feed, key)).await
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        self.pass(Operation::DiscardParked, self.store.discard_parked(feed, key, what, reason)).await
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        self.pass(Operation::Discarded, self.store.discarded(feed, limit)).await
    }

    fn keeps_chains(&self) -> bool {
        self.store.keeps_chains()
    }

    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        self.pass(Operation::Chained, self.store.chained(feed, keys)).await
    }

    fn reshapes(&self) -> bool {
        self.store.reshapes()
    }

    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        self.pass(Operation::Reshape, self.store.reshape(feed, seen, reshape)).await
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        self.pass(Operation::AdoptParked, self.store.adopt_parked(lease, keys)).await
    }

    fn notes_actions(&self) -> bool {
        self.store.notes_actions()
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        self.store.note_action(text).await
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        self.store.actions(limit).await
    }

    fn pauses(&self) -> bool {
        self.store.pauses()
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.store.pause(feed).await
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.store.resume(feed).await
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        self.store.paused().await
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        self.pass(Operation::Forget, self.store.forget(feed)).await
    }
}
