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

mod actions;
mod done;
mod error;
mod error_groups;
mod memory;
mod parked;
mod paused;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use actions::{ACTIONS_KEPT, NotedAction};
pub use done::{DoneAbove, NotDoneAbove};
pub use error::{CheckpointError, EnsureError, JoinError, StoreError};
pub use error_groups::group_of;
pub use memory::MemoryStore;
pub use parked::{
    Chained, Checkpoint, Discard, Discarded, Discarding, ParkedCount, ParkedFailure, ParkedObject,
    ParkedPage, ParkedState, Parking, Unparking,
};

pub use paused::Paused;

use crate::change::{Change, Position};
use crate::lease::{HostView, Lease, LeaseView, Pulse, Reshape, Sighting, View};
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
    /// How long it may be silent before others take its leases.
    pub expire: Duration,
    /// How many checkpoints it has written; each renewal tells the store.
    pub progress: u64,
}

impl Session {
    /// A new life of a host, without troubles and without progress.
    pub fn new(host: &HostName, feeds: &[FeedName], expire: Duration) -> Self {
        let (host, feeds) = (host.clone(), feeds.to_vec());
        Session { host, id: SessionId::random(), feeds, troubles: Vec::new(), expire, progress: 0 }
    }
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
    /// Since when, where that is known.
    #[serde(default)]
    pub since: Option<Timestamp>,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The session still holds its name.
    Kept,
    /// The session was replaced, or the store does not know it any more: nothing that it owned is its own.
    Gone,
}

/// A lease that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The lease, as its owner holds it.
    pub lease: Lease,
    /// The host that asked for it: it is reserved for that one.
    pub keep_for: Option<HostName>,
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

    /// Gives a store that has no identity this one, and returns who the store is: for a store that came back empty, under
    /// hosts that remember it.
    async fn adopt(&self, id: &StoreId) -> Result<StoreId, StoreError> {
        let _ = id;
        self.identity().await
    }

    /// Takes out the hosts of an older version that are dead for sure or exactly as in `silent` (session and beat), and
    /// returns those that are left. They would not see the sign of life of newer hosts, so no host joins beside them. Once
    /// none is left, none can join any more.
    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        let _ = silent;
        Ok(Vec::new())
    }

    /// Enters a host under its name with the feeds it runs, and the expiry by which others are to judge it.
    ///
    /// A name whose holder is dead for sure is taken over. Otherwise [`JoinError::NameTaken`] tells who holds it; with
    /// `replacing` set to that holder's session and beat, it is taken over all the same, once the caller has seen it expire; not if
    /// it has beaten since.
    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
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

    /// All hosts, and the mark of the leases: cheap, however many leases there are. While the mark is that of a view, the
    /// owners in the view are those of now; positions and versions may have moved.
    async fn pulse(&self) -> Result<Pulse, StoreError>;

    /// The leases of these feeds, and all hosts.
    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError>;

    /// Takes leases that are exactly as they were `seen` (owner, epoch and version, and the owner's session has not beaten
    /// since), raising their epochs. Each is taken in a step of its own or in one with others; the answers are in order. `None`
    /// when somebody was faster, or the owner has given a sign of life. Repeating it after a lost answer returns the same
    /// leases. The sign of life of the taker itself does not count: it may take its own lease again.
    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError>;

    /// Takes one lease, as [`Store::acquire_all`] does.
    async fn acquire(&self, session: &Session, seen: &Sighting) -> Result<Option<Lease>, StoreError> {
        Ok(self.acquire_all(session, std::slice::from_ref(seen)).await?.into_iter().next().flatten())
    }

    /// Gives the host's sign of life, which counts for all its leases, and tells which feeds it runs now and what keeps it.
    /// What it costs does not depend on how many leases it has.
    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError>;

    /// Asks the owners of leases, as `seen`, to hand them over, and answers for each, in order: `false` when it has changed
    /// hands in the meantime or somebody else has asked first.
    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError>;

    /// Asks for one lease, as [`Store::request_all`] does.
    async fn request_hand_over(&self, seen: &LeaseView, to: &HostName) -> Result<bool, StoreError> {
        Ok(self.request_all(std::slice::from_ref(seen), to).await?.first().copied().unwrap_or(false))
    }

    /// Gives leases up; their positions stay. A lease already lost is left alone: that is success.
    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError>;

    /// Gives one lease up, as [`Store::release_all`] does.
    async fn release(&self, lease: &Lease, keep_for: Option<&HostName>) -> Result<(), StoreError> {
        self.release_all(&[Release { lease: lease.clone(), keep_for: keep_for.cloned() }]).await
    }

    /// Moves the checkpoint with what is done above it, takes out what was parked and is done, and parks, all in one step, if
    /// the lease's epoch is still the current one.
    ///
    /// - An object of which changes are taken out and others are left stays as it is with no attempts counted; one of which
    ///   nothing is left is gone. Changes that are not there are not missed.
    /// - An object that is resumed is [`ParkedState::Retrying`] from then on, with its failure and attempts as they were. One that is
    ///   not there is not missed.
    /// - A parked change with a failure makes it the object's failure, with its state; the object keeps its time.
    /// - A parked change without one leaves its object as it is. If the object is not there, it comes to be in the state
    ///   [`ParkedState::Retrying`] with no attempts: nothing stands in its way.
    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError>;

    /// Sets the position of a lease that is exactly as `seen`, with nothing done above it, raising its epoch so that no owner of before can write over it.
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

    /// Some of the parked objects of a feed: at most `limit`, after the place where another page ended. They come in an order of the
    /// store's own. An object that stays parked comes exactly once in all pages; what is read does not grow with what is parked.
    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        Ok(ParkedPage::of(self.parked(feed, None).await?, after, limit))
    }

    /// How many objects and changes of a feed are parked, for people: see [`ParkedObject::is_for_people`]. At most `most` objects and
    /// as many changes are looked at.
    async fn parked_count(&self, feed: &FeedName, most: u64) -> Result<ParkedCount, StoreError> {
        parked::count_pages(self, feed, most).await
    }

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

    /// Whether the number of a feed's partitions can change: [`Store::reshape`] and [`Store::adopt_parked`] work.
    fn reshapes(&self) -> bool {
        false
    }

    /// Changes which leases a feed has, in one step, if they are exactly those that were `seen`, each with the same
    /// [`part`](LeaseView::part), and those that must be free are. `false` when they are not.
    ///
    /// A lease that gets another part moves its version, so that nobody takes it who has seen it before; its owner keeps it.
    /// New leases never had an owner. The mark moves. A feed that was reshaped is never again one that [`Store::ensure`] adds to.
    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        let _ = (seen, reshape);
        Err(cannot_reshape(feed))
    }

    /// Makes these parked objects those of the lease's partition, with their states and changes as they are, if its epoch is still
    /// the current one. One that is not parked is not missed.
    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        let _ = keys;
        Err(cannot_reshape(&lease.id.feed).into())
    }

    /// Whether it remembers what people do: [`Store::note_action`] works.
    fn notes_actions(&self) -> bool {
        false
    }

    /// Remembers what somebody did. A store that cannot refuses.
    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        let _ = text;
        Err(actions::cannot_note())
    }

    /// What people did last, at most `limit`, latest first. At least [`ACTIONS_KEPT`] are remembered; older ones may be forgotten.
    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        let _ = limit;
        Ok(Vec::new())
    }

    /// Whether it remembers which feeds are paused: [`Store::pause`] and [`Store::resume`] work.
    fn pauses(&self) -> bool {
        false
    }

    /// Has nobody go on with a feed until it is resumed, also after a restart; `false` when it was paused already. The feed need
    /// not be known yet, and may be a queue. It moves the mark ([`Store::pulse`]), so running hosts hear of it with their next look.
    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        Err(paused::cannot_pause(feed))
    }

    /// Lets a feed go on; `false` when it was not paused.
    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        Err(paused::cannot_pause(feed))
    }

    /// The feeds that are paused, by name.
    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        Ok(Vec::new())
    }

    /// Forgets a feed: its leases, what is parked and what was discarded, its chain, and that it is paused.
    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError>;
}

fn cannot_reshape(feed: &FeedName) -> StoreError {
    StoreError::needs_attention(
        format!("this store cannot change the number of partitions of feed {feed}"),
        "set `partitions` as it was, or give the feed a new name to start it afresh",
    )
}
