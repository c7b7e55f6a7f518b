//! **Events of your own.** The capture `queue`: producers push events with their own writes, and workers send them on, object by object, in order.
//!
//! ```text
//!   push ──▶ events of the object ──▶ sending ──▶ sent: the object's last id
//!              │                        ▲ stamped with id and prev, once
//!              └─▶ objects with events ─┴─ take: one worker holds the object, under an epoch
//! ```
//!
//! A [`Queue`] is a small set of operations, each atomic in itself, fit for Redis scripts and SQL. What holds at every moment,
//! whatever crashes: **an object with events is queued, held by a worker that has joined, or parked**. Events are stamped
//! when they leave the queue, and what was stamped stays with the object until it is recorded as sent: whoever takes the
//! object over sends the very same bytes again. A worker that was replaced holds nothing any more: its epoch is refused, so it can
//! neither record nor extend the chain.
//!
//! What a worker does next is decided by a [`Lane`], a pure state machine; [`Worker`] is the loop around it. The model
//! checker of `seriatim-testkit` runs lanes against [`Books`], the plainest implementation of the contract, through every
//! interleaving of workers and crashes.

pub(crate) mod books;
mod event;
mod invariants;
pub(crate) mod lane;
mod memory;
mod worker;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use thiserror::Error;

use books::{Books, WorkerEntry};
pub use event::{Body, Event};
pub use invariants::{Broken, ObjectView};
use lane::{Action, Answer, Lane};
pub use memory::MemoryQueue;
pub use worker::{Ended, Sender, Worker, WorkerError, WorkerSettings};

use crate::lease::HostView;
use crate::name::{BadName, Epoch, HostName, ObjectName, SessionId};
use crate::order::EventId;
use crate::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};

/// A worker that has joined: proof that its name is its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerSession {
    /// The worker's name.
    pub worker: HostName,
    /// This life of the worker.
    pub id: SessionId,
}

/// The right to send the events of an object. Everything a worker records carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The object.
    pub object: ObjectName,
    /// Who holds it.
    pub session: WorkerSession,
    /// Its fencing number, greater than that of any earlier hold of the object.
    pub epoch: Epoch,
}

/// An object that a worker has taken, with the events to send first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The right to send them.
    pub hold: Hold,
    /// Events to send, oldest first; never empty. An earlier holder may have sent them already: they are the same then.
    pub events: Vec<Event>,
}

/// The answer to a take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// An object with events.
    Taken(Taken),
    /// No object waits for a worker.
    Nothing,
    /// The session was replaced: this worker holds nothing any more.
    SessionLost,
}

/// The answer to [`Queue::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send these, oldest first; never empty.
    Events(Vec<Event>),
    /// There are none left, and the object was released in the same step: whoever pushes now queues it anew.
    Released,
    /// Somebody else holds the object, or nobody.
    Lost,
}

/// An object that is out of the way because its event could not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedEvents {
    /// Why.
    pub failure: ParkedFailure,
    /// Since when, by the store's clock.
    pub since: Timestamp,
}

/// Events of a parked object that somebody dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardedEvents {
    /// The object.
    pub object: ObjectName,
    /// The id of the first of them.
    pub first: EventId,
    /// The id of the last of them that had one.
    pub last: EventId,
    /// How many.
    pub events: u64,
    /// Why the object was parked.
    pub error: String,
    /// Why they were dropped.
    pub reason: String,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// Events that are not recorded as sent.
    pub events: u64,
    /// Of so many objects.
    pub objects: u64,
    /// How long the oldest of them has waited; `None` when the store does not know.
    pub seconds: Option<f64>,
}

/// What becomes of events that wait in a queue that is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfEventsWait {
    /// The queue stays, with its events.
    Keep,
    /// They are lost.
    Drop,
}

/// The answer to [`Queue::remove`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Removal {
    /// Nothing is left of it.
    Removed,
    /// There was nothing of it.
    NotThere,
    /// These wait in it, and it stays.
    Waiting(Backlog),
}

/// Events could not be pushed.
#[derive(Debug, Error)]
pub enum PushError {
    /// The object has as many events as it may have.
    #[error(
        "object {object} has {queued} events waiting and may have {limit}, so {pushed} more were refused, and nothing of this push \
         was written; try again when its consumer has caught up, or see why it has not"
    )]
    Full {
        /// The object.
        object: ObjectName,
        /// How many it has.
        queued: u64,
        /// How many were to come.
        pushed: u64,
        /// How many it may have.
        limit: u64,
    },
    /// The object's name cannot be used.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The queue failed. It may also have happened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where producers leave events and workers fetch them.
///
/// # Promises
/// - Each operation happens wholly or not at all, and what it did is there when it returns.
/// - An error [`StoreError::Unavailable`] may mean that the operation happened and only its answer was lost. Repeating any of
///   them but [`Queue::push`] with the same arguments is harmless.
/// - The events of one object leave in the order in which they were pushed, those of one push together.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Adds events to an object, in order, and queues the object. An empty push does nothing.
    ///
    /// The stores also let producers do this inside their own transaction; this is for those that have none.
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError>;

    /// Enters a worker under its name. [`JoinError::NameTaken`] tells who holds it; with `replacing` set to that holder's
    /// session and beat, it is replaced unless it has beaten since, and what it held is queued again. `expire` is published: by it
    /// all others judge this worker ([`HostView::expire`], which is zero for one of an older version, that publishes none).
    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError>;

    /// Takes the worker out. What it still holds is queued again.
    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError>;

    /// A sign of life. Returns what the worker holds; `None` when the session was replaced.
    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError>;

    /// All workers that have joined, by name.
    async fn workers(&self) -> Result<Vec<HostView>, StoreError>;

    /// Takes out a worker that is as it was `seen` (session and beat): it has been silent for too long. What it held is queued
    /// again, before everything else. `false` when it has given a sign of life since, or is gone already.
    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError>;

    /// Takes the object that has been queued for longest and that nobody holds, with at most `limit` of its events.
    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError>;

    /// Returns when an object may have been queued, or after `timeout`.
    async fn wait(&self, timeout: Duration);

    /// Records that the events up to and including `sent` were sent, and hands out what is to be sent next: the rest of what was
    /// stamped or, when that is empty, at most `limit` events more. Releases the object when there are none.
    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError>;

    /// Records what was sent and gives the object up; with events left, it is queued again. A hold already lost is success.
    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError>;

    /// Records what was sent and sets the object aside: nobody takes it until it is retried, and what is pushed waits.
    /// `false` when the hold is lost.
    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError>;

    /// Queues a parked object again. `false` when it is not parked.
    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError>;

    /// Drops the first event of a parked object, or all that it has, and queues what is left. The first event is named by its id: what the
    /// caller has seen. It counts as sent, so that a consumer's gate reports the gap. [`Discarding::Changed`] when the object is
    /// not parked or begins with another event. Stores remember the last thousand discards.
    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError>;

    /// What was discarded, the last first.
    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError>;

    /// The parked objects, by name.
    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError>;

    /// What waits.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// An object as it is at one moment; `None` when nothing is known of it.
    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError>;

    /// All objects with events, held, parked, or listed somewhere, by name. Objects whose events are all sent are left out.
    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError>;

    /// Removes the queue: its events, what is known of its objects, its workers, its discards and its counters. No event is lost
    /// unless `if_events_wait` says so, also none that is pushed meanwhile. A queue of the same name that comes to be later is
    /// another one: its chains begin anew.
    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError>;

    /// Reads the whole state and names everything that should not be; each object is judged at one moment.
    async fn invariants(&self) -> Result<Vec<Broken>, StoreError> {
        let mut broken = Vec::new();
        for object in self.objects().await? {
            broken.extend(self.inspect(&object).await?.map(|view| view.broken()).unwrap_or_default());
        }
        Ok(broken)
    }
}
