//! The consumer's half of a chain: what may be applied now, what was applied already, and what has to wait.
//!
//! ```text
//!              ┌─ Apply ──────▶ the consumer applies it ──▶ applied() ──▶ the next one that was held, if any
//!   event ──▶ admit
//!              ├─ Duplicate ──▶ nothing to do
//!              └─ Wait ───────▶ held in the state until its predecessor is applied
//! ```
//!
//! The decision is [`admit`], a pure function of the last applied id and the event's link. A [`Gate`] keeps those ids and
//! the events that came too early in a [`GateState`], so a restart forgets nothing: what it has said *Wait* to, it has.
//! It holds a bounded number of events and refuses more ([`GateError::Full`]), and it reports what has been missing for
//! longer than a bound ([`Gate::gaps`]). A consumer that can ask the producer closes such gaps with [`Gate::fetch_missing`].

mod lines;
mod memory;
mod waiting;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

pub use lines::{JsonLines, LineError};
pub use memory::MemoryGateState;
use waiting::Waitlist;

use super::chain::{EventId, Link};
use crate::name::ObjectName;
use crate::store::StoreError;

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Apply it now, then say so with [`Gate::applied`].
    Apply,
    /// It was applied already.
    Duplicate,
    /// Its predecessor is not applied yet. The gate holds it.
    Wait {
        /// The event that must come first; the object's first event never waits.
        prev: EventId,
    },
}

/// An event that cannot be part of the chain that was applied: it follows an event after which another one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("event {} follows {}, but {last} was applied after that: the chain has been forked", link.id(), shown(link.prev()))]
pub struct Forked {
    /// The event.
    pub link: Link,
    /// The last event that was applied.
    pub last: EventId,
}

fn shown(prev: Option<EventId>) -> String {
    prev.map_or_else(|| "nothing".to_owned(), |prev| prev.to_string())
}

/// Decides about an event of an object whose last applied event is `last`.
pub fn admit(last: Option<EventId>, link: Link) -> Result<Admit, Forked> {
    match (last, link.prev()) {
        (Some(last), _) if link.id() <= last => Ok(Admit::Duplicate),
        (last, prev) if prev == last => Ok(Admit::Apply),
        (last, Some(prev)) if last.is_none_or(|last| prev > last) => Ok(Admit::Wait { prev }),
        (Some(last), _) => Err(Forked { link, last }),
        // Nothing applied and nothing before it is the second case already.
        (None, _) => Ok(Admit::Apply),
    }
}

/// Decides about a *state* of an object, such as a log feed tells: one that is newer than the last applied takes its place, whatever
/// states there were in between. After a crash a log may tell a later state in the place of one that it told before.
pub fn admit_state(last: Option<EventId>, link: Link) -> Admit {
    match admit(last, link) {
        Ok(answer) => answer,
        // It follows a state before the last one, and is newer than that.
        Err(Forked { .. }) => Admit::Apply,
    }
}

/// An event as it arrives at a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The object it is about.
    pub object: ObjectName,
    /// Its place in the object's chain.
    pub link: Link,
    /// The event itself, as it came.
    pub body: String,
}

/// Where a gate keeps what it must not forget. Each operation is atomic in itself and harmless when repeated.
#[async_trait]
pub trait GateState: Send + Sync + 'static {
    /// The last event of the object that was applied.
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError>;

    /// Moves an object from `from` on to `to` and forgets what was held of it up to there. `false` when it stands somewhere
    /// else, unless that is `to` already.
    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError>;

    /// Keeps an event that came too early. One that is kept already is kept once.
    async fn hold(&self, event: &Arrived) -> Result<(), StoreError>;

    /// The held event of the object that follows `prev`.
    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError>;

    /// Everything that is held. A gate bounds how much that is.
    async fn held(&self) -> Result<Vec<Arrived>, StoreError>;
}

#[async_trait]
impl<S: GateState + ?Sized> GateState for Arc<S> {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        (**self).last(object).await
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        (**self).advance(object, from, to).await
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        (**self).hold(event).await
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        (**self).held_after(object, prev).await
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        (**self).held().await
    }
}

/// How much a gate holds, and how long it waits before it reports a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most this many events are held, of all objects together.
    pub held: usize,
    /// An event that has been missing for this long is a gap.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { held: 10_000, wait: Duration::from_secs(30) }
    }
}

/// An event that is missing, and that others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The object.
    pub object: ObjectName,
    /// The event that is missing.
    pub missing: EventId,
    /// How long it has been waited for.
    pub waited: Duration,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {} of {} has been missing for {:?}", self.missing, self.object, self.waited)
    }
}

/// Why a gate has no answer.
#[derive(Debug, Error)]
pub enum GateError {
    /// There is no room for another early event.
    #[error(
        "{limit} events wait for a predecessor already, so event {id} of {object} was not taken; \
         deliver it again once the gaps are closed, or raise the limit"
    )]
    Full {
        /// The object.
        object: ObjectName,
        /// The event.
        id: EventId,
        /// The bound.
        limit: usize,
    },
    /// The producer's chain and what was applied here exclude each other.
    #[error(
        "object {object}: {forked}; the producer has lost its state or has two: find out which before going on"
    )]
    Forked {
        /// The object.
        object: ObjectName,
        /// How.
        #[source]
        forked: Forked,
    },
    /// Somebody else applies events of the same object through the same state.
    #[error(
        "object {object} has moved on while event {id} was being applied: two consumers share one gate's state"
    )]
    Overtaken {
        /// The object.
        object: ObjectName,
        /// The event.
        id: EventId,
    },
    /// The state failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Asks a producer for an event that never came.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The event of this id; `None` when the producer does not have it (any more).
    async fn fetch(&self, object: &ObjectName, id: EventId) -> Result<Option<Arrived>, StoreError>;
}

/// Lets the events of each object through in order, each once.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use seriatim::name::ObjectName;
/// use seriatim::order::{Admit, Arrived, EventId, Gate, Limits, Link, MemoryGateState};
///
/// let mut gate = Gate::open(MemoryGateState::default(), Limits::default()).await?;
/// let event = |id, prev: Option<u64>, body: &str| Arrived {
///     object: ObjectName::found("work:1"),
///     link: Link::new(EventId(id), prev.map(EventId)).unwrap(),
///     body: body.to_owned(),
/// };
/// let (first, second) = (event(1, None, "created"), event(2, Some(1), "named"));
/// assert_eq!(gate.admit(&second).await?, Admit::Wait { prev: EventId(1) });
/// assert_eq!(gate.admit(&first).await?, Admit::Apply);
/// // … apply it, then say so: what was held comes back when its turn has come.
/// assert_eq!(gate.applied(&first).await?, Some(second.clone()));
/// assert_eq!(gate.applied(&second).await?, None);
/// assert_eq!(gate.admit(&first).await?, Admit::Duplicate);
/// # Ok::<(), seriatim::order::GateError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Gate<S> {
    state: S,
    limits: Limits,
    /// Each event is a whole state of its object.
    of_states: bool,
    waiting: Waitlist,
}

/// What came of [`Gate::fetch_missing`].
#[derive(Debug, Default)]
pub struct Fetched {
    /// Events that can be applied now, one for each object at most.
    pub ready: Vec<Arrived>,
    /// Objects whose events could not be taken, and why: a fork, or no room. The others are not affected.
    pub refused: Vec<GateError>,
}

impl<S: GateState> Gate<S> {
    /// A gate on this state. What was held before is held still, and is waited for anew.
    pub async fn open(state: S, limits: Limits) -> Result<Self, GateError> {
        let mut gate = Gate { state, limits, of_states: false, waiting: Waitlist::default() };
        for event in gate.state.held().await? {
            let last = gate.state.last(&event.object).await?;
            gate.note(&event, last);
        }
        Ok(gate)
    }

    /// The gate for the states of a log feed: see [`admit_state`]. What an event follows is then no matter of forks.
    pub fn of_states(self) -> Self {
        Gate { of_states: true, ..self }
    }

    /// What to do with an event. An event that must wait is held when this returns, and need not be delivered again.
    pub async fn admit(&mut self, event: &Arrived) -> Result<Admit, GateError> {
        let last = self.state.last(&event.object).await?;
        let answer = match self.of_states {
            true => admit_state(last, event.link),
            false => admit(last, event.link)
                .map_err(|forked| GateError::Forked { object: event.object.clone(), forked })?,
        };
        if matches!(answer, Admit::Wait { .. }) {
            self.hold(event, last).await?;
        }
        Ok(answer)
    }

    async fn hold(&mut self, event: &Arrived, last: Option<EventId>) -> Result<(), GateError> {
        let (object, id) = (event.object.clone(), event.link.id());
        if self.waiting.contains(&object, id) {
            return Ok(());
        }
        let limit = self.limits.held;
        if self.waiting.len() >= limit {
            return Err(GateError::Full { object, id, limit });
        }
        self.state.hold(event).await?;
        self.note(event, last);
        Ok(())
    }

    fn note(&mut self, event: &Arrived, last: Option<EventId>) {
        if let Some(prev) = event.link.prev() {
            self.waiting.add(&event.object, event.link.id(), prev, last);
        }
    }

    /// Records that an event was applied, and returns the one that was held for it, to be applied next.
    pub async fn applied(&mut self, event: &Arrived) -> Result<Option<Arrived>, GateError> {
        let (object, id) = (&event.object, event.link.id());
        let from = match self.of_states {
            true => self.state.last(object).await?,
            false => event.link.prev(),
        };
        if !self.state.advance(object, from, id).await? {
            return Err(GateError::Overtaken { object: object.clone(), id });
        }
        self.waiting.applied(object, id);
        self.next(object, Some(id)).await
    }

    /// The held event of the object whose turn has come.
    async fn next(&self, object: &ObjectName, last: Option<EventId>) -> Result<Option<Arrived>, GateError> {
        if !self.of_states {
            return Ok(self.state.held_after(object, last).await?);
        }
        let Some((id, prev)) = self.waiting.ready(object, true) else { return Ok(None) };
        match self.state.held_after(object, Some(prev)).await? {
            Some(event) if event.link.id() == id => Ok(Some(event)),
            // Two states may follow one, and only one of them is found by it.
            _ => {
                let held = self.state.held().await?;
                Ok(held.into_iter().find(|event| event.object == *object && event.link.id() == id))
            }
        }
    }

    /// The held event of this object that can be applied now: what a crash between two applications left.
    pub async fn ready(&self, object: &ObjectName) -> Result<Option<Arrived>, GateError> {
        let last = self.state.last(object).await?;
        self.next(object, last).await
    }

    /// The objects of which something is held.
    pub fn waiting(&self) -> Vec<ObjectName> {
        self.waiting.objects().cloned().collect()
    }

    /// How many events are held.
    pub fn held(&self) -> usize {
        self.waiting.len()
    }

    /// What has been missing for longer than the bound, at `now`.
    pub fn gaps(&self, now: Instant) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = self
            .waiting
            .missing(self.of_states)
            .map(|(object, waiting)| (object, waiting, now.duration_since(waiting.since)))
            .filter(|(_, _, waited)| *waited >= self.limits.wait)
            .map(|(object, waiting, waited)| Gap { object: object.clone(), missing: waiting.prev, waited })
            .collect();
        gaps.sort_by(|a, b| (&a.object, a.missing).cmp(&(&b.object, b.missing)));
        gaps
    }

    /// Asks the producer for everything that is missing, and returns what can be applied now. What it does not have stays a gap.
    pub async fn fetch_missing(&mut self, producer: &dyn Fetch) -> Result<Fetched, GateError> {
        let mut fetched = Fetched::default();
        let has_ready = |object: &ObjectName| self.waiting.ready(object, self.of_states).is_some();
        for object in self.waiting().into_iter().filter(has_ready) {
            fetched.ready.extend(self.ready(&object).await?);
        }
        let missing = self.waiting.missing(self.of_states);
        let mut missing: Vec<_> = missing.map(|(object, waiting)| (object.clone(), waiting.prev)).collect();
        missing.sort();
        missing.dedup();
        while let Some((object, id)) = missing.pop() {
            let Some(event) = producer.fetch(&object, id).await? else { continue };
            match self.admit(&event).await {
                Ok(Admit::Apply) => fetched.ready.push(event),
                Ok(Admit::Wait { prev }) => missing.push((object, prev)),
                Ok(Admit::Duplicate) => {}
                // The state cannot be read: nothing can be said about the others either.
                Err(error @ GateError::Store(_)) => return Err(error),
                Err(error) => fetched.refused.push(error),
            }
        }
        Ok(fetched)
    }

    /// Lets an object's chain begin after `id`: for a consumer that starts with a copy of the object's state, or that has
    /// settled a gap by hand.
    pub async fn begin_after(&mut self, object: &ObjectName, id: EventId) -> Result<(), GateError> {
        let from = self.state.last(object).await?;
        if from.is_some_and(|from| from >= id) {
            return Ok(());
        }
        if !self.state.advance(object, from, id).await? {
            return Err(GateError::Overtaken { object: object.clone(), id });
        }
        self.waiting.applied(object, id);
        Ok(())
    }
}
