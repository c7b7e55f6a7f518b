//! What a gate knows of the events that it holds: which event each one waits for, and since when.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::EventId;
use crate::name::ObjectName;

/// An event that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The event that it follows.
    pub(super) prev: EventId,
    /// Since when it waits.
    pub(super) since: Instant,
    follows: Follows,
}

/// How the event that it follows stands to the last one applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// It was not applied yet.
    Later,
    /// It is the last one applied: the turn has come.
    Last,
    /// Another one was applied after it. For a state, the turn has come; a chain is forked there.
    Earlier,
}

impl Follows {
    fn of(prev: EventId, last: Option<EventId>) -> Self {
        match last {
            Some(last) if prev == last => Follows::Last,
            Some(last) if prev < last => Follows::Earlier,
            _ => Follows::Later,
        }
    }

    fn is_ready(self, of_states: bool) -> bool {
        self == Follows::Last || (self == Follows::Earlier && of_states)
    }
}

/// All events that wait, by object and id.
#[derive(Debug, Default)]
pub(super) struct Waitlist {
    objects: BTreeMap<ObjectName, BTreeMap<EventId, Waiting>>,
    count: usize,
}

impl Waitlist {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn contains(&self, object: &ObjectName, id: EventId) -> bool {
        self.objects.get(object).is_some_and(|events| events.contains_key(&id))
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectName> {
        self.objects.keys()
    }

    /// Notes an event that follows `prev`, of an object whose last applied event is `last`.
    pub(super) fn add(&mut self, object: &ObjectName, id: EventId, prev: EventId, last: Option<EventId>) {
        let waiting = Waiting { prev, since: crate::clock::now(), follows: Follows::of(prev, last) };
        let events = self.objects.entry(object.clone()).or_default();
        self.count += usize::from(events.insert(id, waiting).is_none());
    }

    /// The object's last applied event is `last` now: what was held up to there is forgotten.
    pub(super) fn applied(&mut self, object: &ObjectName, last: EventId) {
        let Some(events) = self.objects.get_mut(object) else { return };
        let before = events.len();
        events.retain(|id, _| *id > last);
        self.count -= before - events.len();
        for waiting in events.values_mut() {
            waiting.follows = Follows::of(waiting.prev, Some(last));
        }
        if events.is_empty() {
            self.objects.remove(object);
        }
    }

    /// The first event of the object whose turn has come, and the event that it follows.
    pub(super) fn ready(&self, object: &ObjectName, of_states: bool) -> Option<(EventId, EventId)> {
        let mut events = self.objects.get(object)?.iter();
        let first = events.find(|(_, waiting)| waiting.follows.is_ready(of_states));
        first.map(|(id, waiting)| (*id, waiting.prev))
    }

    /// Events that wait for one which is neither applied nor held itself.
    pub(super) fn missing(&self, of_states: bool) -> impl Iterator<Item = (&ObjectName, &Waiting)> {
        self.objects.iter().flat_map(move |(object, events)| {
            let is_missing = move |waiting: &&Waiting| {
                !waiting.follows.is_ready(of_states) && !events.contains_key(&waiting.prev)
            };
            events.values().filter(is_missing).map(move |waiting| (object, waiting))
        })
    }
}
