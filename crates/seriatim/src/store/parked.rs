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

use super::{DoneAbove, Store, StoreError};
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

impl ParkedObject {
    /// Whether it is parked, also while it is tried again: not one that only stepped aside for a moment.
    pub fn is_for_people(&self) -> bool {
        let failure = &self.failure;
        failure.state == ParkedState::Parked || failure.attempts == 0 || failure.next_try.is_some()
    }
}

/// Some of the parked objects of a feed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParkedPage {
    /// The objects, those that only stepped aside for a moment included.
    pub objects: Vec<ParkedObject>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<String>,
}

impl ParkedPage {
    /// A page of all that is parked, in the order of the objects' names.
    pub fn of(objects: Vec<ParkedObject>, after: Option<&str>, limit: usize) -> Self {
        let mut named: Vec<(String, ParkedObject)> =
            objects.into_iter().map(|object| (object.key.identity(), object)).collect();
        named.retain(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        ParkedPage::cut(named, limit)
    }

    /// Objects with their places, in order: those beyond the limit only tell that there are more.
    pub fn cut(mut placed: Vec<(String, ParkedObject)>, limit: usize) -> Self {
        let more = placed.len() > limit;
        placed.truncate(limit);
        let next = placed.last().filter(|_| more).map(|(place, _)| place.clone());
        ParkedPage { objects: placed.into_iter().map(|(_, object)| object).collect(), next }
    }
}

/// How much is parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkedCount {
    /// Objects.
    pub objects: u64,
    /// Changes, the failed ones included.
    pub changes: u64,
    /// There are more of both than were looked at.
    pub more: bool,
}

/// So many objects are read at a time where a store does not count by itself.
const COUNTED_AT_ONCE: usize = 500;

/// Counts page by page.
pub(super) async fn count_pages<S: Store + ?Sized>(
    store: &S,
    feed: &FeedName,
    most: u64,
) -> Result<ParkedCount, StoreError> {
    let (mut count, mut seen, mut after) = (ParkedCount::default(), 0, None::<String>);
    loop {
        let at_once = usize::try_from(most - seen).unwrap_or(usize::MAX).min(COUNTED_AT_ONCE);
        let page = store.parked_page(feed, after.as_deref(), at_once).await?;
        seen += page.objects.len() as u64;
        for object in page.objects.iter().filter(|object| object.is_for_people()) {
            count.objects += 1;
            count.changes += object.waiting;
        }
        let Some(next) = page.next else { return Ok(count) };
        if seen >= most {
            return Ok(ParkedCount { more: true, ..count });
        }
        after = Some(next);
    }
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
