//! What a store keeps of objects that could not be handled.
//!
//! ```text
//!                     failed, tries left                  handled to the end
//!   live stream ───────────────────────────▶ Retrying ─────────────────────▶ live stream
//!        │                                    │    ▲
//!        │ failed for good       last try failed    │ retry, discard, or its time has come
//!        └─────────────────────────────▶ Parked ────┘
//! ```
//!
//! Either way the position goes on: the changes are here, in order, and each came here with the very checkpoint that passed
//! it. So a change is always in one of two places, ahead of the position or here, whatever crashes. Only the owner of the
//! partition handles what is here, and only while it is [`ParkedState::Retrying`]; a person discards only what is not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::DoneAbove;
use crate::change::{Change, Position};
use crate::name::{FeedName, Partition};
use crate::value::Key;

/// What is to become of a parked object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParkedState {
    /// The owner of its partition tries it again by itself.
    Retrying,
    /// It waits until somebody asks for a retry or discards the failed change.
    Parked,
}

/// A change that goes into the store because its object is parked.
#[derive(Clone, Debug)]
pub struct Parking {
    /// The change to keep. It has a key.
    pub change: Change,
    /// For the change that failed: why, and what now. `None` for a change that waits behind it.
    pub failure: Option<ParkedFailure>,
}

impl Parking {
    /// Whether it is the change that failed and is tried again.
    pub(crate) fn steps_aside(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.state == ParkedState::Retrying)
    }

    /// Why it is parked, if it is the change that failed for good.
    pub(crate) fn given_up(&self) -> Option<&ParkedFailure> {
        self.failure.as_ref().filter(|failure| failure.state == ParkedState::Parked)
    }
}

/// Why an object is parked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParkedFailure {
    /// What the handler said at the last attempt.
    pub error: String,
    /// How often its first change was tried.
    pub attempts: u32,
    /// What is to become of it.
    pub state: ParkedState,
    /// When it is tried again by itself at the earliest, by the clock of the host that parked it. `None` for one that waits for
    /// somebody to ask, or that never was parked and only stepped aside for a moment.
    pub next_try: Option<Timestamp>,
}

/// Changes of one object that were parked and are done: handled, or dropped as asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unparking {
    /// The object.
    pub key: Key,
    /// Their ids.
    pub ids: Vec<u64>,
}

/// What an owner makes durable in one step.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Everything up to here is handled or parked.
    pub position: Position,
    /// Parked objects that their owner tries again by itself: they are [`ParkedState::Retrying`] from then on, and otherwise as they
    /// were. One that is not there is not missed. This comes before everything else.
    pub resumed: Vec<Key>,
    /// Changes that are parked no more. This comes before parking.
    pub unparked: Vec<Unparking>,
    /// Changes to park, in their order. One that is parked already (same feed, key and id) is not parked twice.
    pub parked: Vec<Parking>,
    /// For a feed with a chain: the last change of each object among those that this checkpoint passes. The id of a row that existed
    /// before ([`EventId::is_existing`](crate::order::EventId::is_existing)) takes nobody's place.
    pub chained: Vec<Chained>,
    /// What is handled beyond the position.
    pub done: DoneAbove,
}

/// The last change of an object that was handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Chained {
    /// The object.
    pub key: Key,
    /// The change's id.
    pub id: u64,
}

impl Checkpoint {
    /// A checkpoint that only moves the position.
    pub fn at(position: Position) -> Self {
        Checkpoint {
            position,
            resumed: Vec::new(),
            unparked: Vec::new(),
            parked: Vec::new(),
            chained: Vec::new(),
            done: DoneAbove::default(),
        }
    }

    /// A checkpoint that moves the position and parks.
    pub fn parking(position: Position, parked: Vec<Parking>) -> Self {
        Checkpoint { parked, ..Checkpoint::at(position) }
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
    /// Roughly how many bytes they occupy.
    pub bytes: u64,
    /// Why it is parked.
    pub failure: ParkedFailure,
    /// Since when, by the store's clock.
    pub since: Timestamp,
}

/// What to drop of a parked object. The id is that of its first change: what the caller has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// The first change alone.
    First(u64),
    /// All that is kept of it.
    All(u64),
}

impl Discard {
    /// The id of the first change.
    pub fn first(self) -> u64 {
        match self {
            Discard::First(id) | Discard::All(id) => id,
        }
    }
}

/// What became of a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarding {
    /// So many changes are dropped.
    Done(u64),
    /// The object is not parked, or begins with another change now.
    Changed,
    /// It is being tried by the owner of its partition.
    Busy,
}

/// A discard that a store remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Discarded {
    /// The feed.
    pub feed: FeedName,
    /// The partition.
    pub partition: Partition,
    /// The object.
    pub key: Key,
    /// The id of the first change that was dropped.
    pub first: u64,
    /// The id of the last one.
    pub last: u64,
    /// How many were dropped.
    pub changes: u64,
    /// Why the object was parked.
    pub error: String,
    /// Why they were dropped.
    pub reason: String,
    /// When, by the store's clock.
    pub at: Timestamp,
}
