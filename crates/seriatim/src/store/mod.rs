//! **Remember.** Where Seriatim keeps its own state.
//!
//! A [`Store`] is a small set of operations, each atomic in itself: that is what SQL, Redis scripts and DynamoDB's
//! conditional writes can all give. None of them needs a transaction object, a lock or a clock that others share.
//! Writes of an owner carry the [`Lease`] and fail with [`CheckpointError::Fenced`] once its epoch is old.
//!
//! A SQL store can give more: a handler whose effect lives in the store's own database gets the transaction that the
//! checkpoint is in (see [`crate::handler::TransactionalHandler`]).
//!
//! The conformance suite of `seriatim-testkit` says all this as tests; a new store is one crate, this trait, and one
//! line in that suite.

mod error;
mod memory;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use error::{CheckpointError, EnsureError, JoinError, StoreError};
pub use memory::MemoryStore;

use crate::change::{Change, Position};
use crate::lease::{Lease, LeaseView, View};
use crate::name::{FeedName, HostName, Partition, SessionId, StoreId};
use crate::value::Key;

/// A host that has joined: proof that its name is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The host's name.
    pub host: HostName,
    /// This life of the host.
    pub id: SessionId,
    /// The feeds it runs; each renewal tells the store.
    pub feeds: Vec<FeedName>,
}

/// The answer to one renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Still held. Somebody may have asked for it.
    Kept {
        /// The host that wants it, if any.
        hand_over_to: Option<HostName>,
    },
    /// The lease has another owner or epoch now.
    Lost,
}

/// A change that goes into the store because its object is parked.
#[derive(Clone, Debug)]
pub struct Parking {
    /// The change to keep. It has a key.
    pub change: Change,
    /// For the change that failed: why, and after how many attempts. `None` for a change that waits behind it.
    pub failure: Option<ParkedFailure>,
}

/// Why an object is parked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParkedFailure {
    /// What the handler said at the last attempt.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
}

/// What an owner makes durable in one step.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Everything up to here is handled or parked.
    pub position: Position,
    /// Changes to park, in their order. One that is parked already (same feed, key and id) is not parked twice.
    pub parked: Vec<Parking>,
}

impl Checkpoint {
    /// A checkpoint that only moves the position.
    pub fn at(position: Position) -> Self {
        Checkpoint { position, parked: Vec::new() }
    }
}

/// An object that could not be handled, with what waits behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedObject {
    /// The feed.
    pub feed: FeedName,
    /// The partition.
    pub partition: Partition,
    /// The object.
    pub key: Key,
    /// How many changes are kept for it, the failed one included.
    pub waiting: u64,
    /// Why it is parked.
    pub failure: ParkedFailure,
    /// Since when, by the store's clock.
    pub since: Timestamp,
}

/// What a rewind does to the objects that are parked in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRewind {
    /// They stay parked.
    KeepParked,
    /// They are forgotten with all that waits behind them: for a rewind after which every object is read again.
    DropParked,
}

/// Where Seriatim keeps its own state.
///
/// # Promises
/// - Each operation happens wholly or not at all, and what it did is there when it returns.
/// - An error [`StoreError::Unavailable`] may mean that the operation happened and only its answer was lost. Repeating any
///   operation with the same arguments is harmless.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Who this store is. The same for all processes that share it, and for as long as it exists.
    async fn identity(&self) -> Result<StoreId, StoreError>;

    /// Enters a host under its name with the feeds it runs.
    ///
    /// A name whose holder is dead for sure is taken over. Otherwise [`JoinError::NameTaken`] tells who holds it; with
    /// `replacing` set to that holder's session, it is taken over all the same, once the caller has seen it expire.
    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        replacing: Option<&SessionId>,
    ) -> Result<Session, JoinError>;

    /// Takes the host out again. Leases it still holds are free from then on.
    async fn leave(&self, session: &Session) -> Result<(), StoreError>;

    /// Makes sure that the feed has this many leases, new ones at `start`. An existing feed keeps its positions.
    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError>;

    /// Returns when leases or hosts may have changed since the last view began, or after `timeout`.
    /// A store that cannot tell waits the timeout out.
    async fn wait(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
    }

    /// The feeds that the store knows, by name.
    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError>;

    /// The leases of these feeds, and all hosts.
    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError>;

    /// Takes a lease that is exactly as it was `seen` (owner and epoch), raising its epoch.
    /// `None` when somebody was faster. Repeating it after a lost answer returns the same lease.
    async fn acquire(&self, session: &Session, seen: &LeaseView) -> Result<Option<Lease>, StoreError>;

    /// Renews the host, with the feeds it runs now, and these leases of it, and answers for each, in order. A session that was
    /// replaced finds all its leases [`Renewal::Lost`].
    async fn renew(&self, session: &Session, leases: &[Lease]) -> Result<Vec<Renewal>, StoreError>;

    /// Asks the owner of a lease, as `seen`, to hand it over. `false` when it has changed hands in the meantime
    /// or somebody else has asked first.
    async fn request_hand_over(&self, seen: &LeaseView, to: &HostName) -> Result<bool, StoreError>;

    /// Gives a lease up; its position stays. A lease already lost is left alone: that is success.
    /// `keep_for` reserves it for the host that asked.
    async fn release(&self, lease: &Lease, keep_for: Option<&HostName>) -> Result<(), StoreError>;

    /// Moves the checkpoint and parks, in one step, if the lease's epoch is still the current one.
    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError>;

    /// Sets the position of a lease as `seen`, raising its epoch so that no owner of before can write over it.
    /// The lease is free afterwards. `false` when it changed in the meantime.
    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError>;

    /// The parked objects of a feed, of all partitions or of one, oldest first.
    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError>;

    /// The changes kept for a parked object, in order, at most `limit`.
    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError>;

    /// Forgets a feed: its leases and what is parked.
    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError>;
}
