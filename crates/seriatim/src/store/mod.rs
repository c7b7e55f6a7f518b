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
mod parked;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use error::{CheckpointError, EnsureError, JoinError, StoreError};
pub use memory::MemoryStore;
pub use parked::{
    Chained, Checkpoint, Discard, Discarded, Discarding, ParkedFailure, ParkedObject, ParkedState, Parking,
    Unparking,
};

use crate::change::{Change, Position};
use crate::lease::{Lease, LeaseView, View};
use crate::name::{FeedName, HostName, Partition, SessionId, StoreId};
use crate::value::Key;

/// How many of a feed's discards a store remembers at least, the latest of them.
pub const DISCARDS_KEPT: usize = 1000;

/// A host that has joined: proof that its name is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The host's name.
    pub host: HostName,
    /// This life of the host.
    pub id: SessionId,
    /// The feeds it runs; each renewal tells the store.
    pub feeds: Vec<FeedName>,
    /// What keeps it from going on with some of them; each renewal tells the store.
    pub troubles: Vec<Trouble>,
}

/// Something that keeps a running host from going on with a feed, for everybody to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The feed that waits.
    pub feed: FeedName,
    /// What is wrong, and since when.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
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
    /// `replacing` set to that holder's session and beat, it is taken over all the same, once the caller has seen it expire; not if
    /// it has beaten since.
    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        replacing: Option<(&SessionId, u64)>,
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

    /// Takes a lease that is exactly as it was `seen` (owner, epoch and version), raising its epoch: an owner that has given a sign
    /// of life since keeps it. `None` when somebody was faster. Repeating it after a lost answer returns the same lease.
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

    /// Moves the checkpoint, takes out what was parked and is done, and parks, all in one step, if the lease's epoch is still
    /// the current one.
    ///
    /// - An object of which changes are taken out and others are left stays as it is with no attempts counted; one of which
    ///   nothing is left is gone. Changes that are not there are not missed.
    /// - A parked change with a failure makes it the object's failure, with its state; the object keeps its time.
    /// - A parked change without one leaves its object as it is. If the object is not there, it comes to be in the state
    ///   [`ParkedState::Retrying`] with no attempts: nothing stands in its way.
    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError>;

    /// Sets the position of a lease that is exactly as `seen`, raising its epoch so that no owner of before can write over it.
    /// The lease is free afterwards. `false` when anything was written to it in the meantime: with a checkpoint of its owner's in
    /// between, a place that was right when it was seen would let changes happen again that are done.
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

    /// One parked object; `None` when it is not parked.
    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError>;

    /// The changes kept for a parked object, in order, at most `limit`.
    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError>;

    /// Marks a parked object of a feed, or all of them, to be tried again: it is [`ParkedState::Retrying`] with no attempts
    /// from then on, with the same error and time. Moves [`LeaseView::asked`] of the partitions concerned, so that their
    /// owners hear of it. Returns how many objects are to be tried now, those that were already included.
    ///
    /// Marking one that is being tried just now changes nothing but its count of attempts.
    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError>;

    /// Drops the first change kept for a parked object, or all of them, and remembers that with the reason.
    ///
    /// - The first change is named by its id: if the object is not parked, or begins with another change now, it is
    ///   [`Discarding::Changed`] and nothing happens. So repeating it drops nothing more.
    /// - An object that is [`ParkedState::Retrying`] while its lease has an owner is [`Discarding::Busy`], and nothing happens:
    ///   the owner may be about to handle the very change.
    /// - What is left of the object is [`ParkedState::Retrying`] with no attempts: it goes on. One of which nothing is left is
    ///   gone. [`LeaseView::asked`] moves.
    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError>;

    /// The latest discards of a feed, at most `limit`, latest first. At least [`DISCARDS_KEPT`] are remembered; older ones may
    /// be forgotten.
    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError>;

    /// Whether it keeps [`Checkpoint::chained`], so that feeds can have chains.
    fn keeps_chains(&self) -> bool {
        false
    }

    /// The last change of each of these objects that a checkpoint has passed, in order; `None` for one without any.
    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        let _ = keys;
        Err(StoreError::needs_attention(
            format!("this store keeps no chains, so feed {feed} cannot have one"),
            "leave `chain` out, or keep the store in SQLite or PostgreSQL",
        ))
    }

    /// Forgets a feed: its leases, what is parked and what was discarded, and its chain.
    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError>;
}
