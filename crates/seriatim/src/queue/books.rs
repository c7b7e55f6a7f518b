//! The queue's state and what each operation does to it: pure, and the plainest reading of the contract.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::{
    Backlog, Body, DiscardedEvents, Event, Hold, IfEventsWait, Next, ObjectView, ParkedEvents, Removal, Take,
    Taken, WorkerSession,
};
use crate::lease::{HostView, Liveness};
use crate::name::{Epoch, HostName, ObjectName, SessionId};
use crate::order::{EventId, links};
use crate::store::{Discard, Discarding, ParkedFailure};

/// One object's events and who sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Pushed and not stamped yet, oldest first.
    pub events: VecDeque<Body>,
    /// Stamped and not recorded as sent, oldest first.
    pub sending: VecDeque<Body>,
    /// The id of the first of them, and when they were stamped.
    pub first: Option<(EventId, Timestamp)>,
    /// The id of the last event that was recorded as sent.
    pub last: Option<EventId>,
    /// Who holds it.
    pub hold: Option<Hold>,
    /// Set aside.
    pub parked: Option<(ParkedFailure, Timestamp)>,
}

/// A worker that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerEntry {
    /// This life of it.
    pub session: SessionId,
    /// Moves with every sign of life.
    pub beat: u64,
    /// How long it may be silent before others take its objects.
    pub expire: Duration,
    /// When the last one came.
    pub seen_at: Timestamp,
}

/// Everything a queue knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Books {
    /// Every object that ever had an event.
    pub objects: BTreeMap<ObjectName, Object>,
    /// The objects with (potentially) pending events, the next one first. One may stand here more than once.
    pub queued: VecDeque<ObjectName>,
    /// The workers.
    pub workers: BTreeMap<HostName, WorkerEntry>,
    /// The id that was given out last.
    pub counter: u64,
    /// The epoch that was given out last.
    pub epoch: u64,
}

impl Object {
    fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.sending.is_empty()
    }

    /// Forgets what was sent up to `sent`.
    fn record(&mut self, sent: Option<EventId>) {
        while let (Some(sent), Some((first, at))) = (sent, self.first) {
            if first > sent || self.sending.pop_front().is_none() {
                return;
            }
            self.last = Some(first);
            self.first = (!self.sending.is_empty()).then_some((EventId(first.0 + 1), at));
        }
    }

    fn sending(&self, object: &ObjectName) -> Vec<Event> {
        let Some((first, at)) = self.first else { return Vec::new() };
        let links = links(first, self.last, self.sending.len());
        let event = |(link, body): (_, &Body)| Event { object: object.clone(), link, at, body: body.clone() };
        links.zip(&self.sending).map(event).collect()
    }
}

impl Books {
    /// Adds events to an object and queues it; the number of events it has already when that would be more than `limit`.
    pub fn push(&mut self, object: &ObjectName, events: &[Body], limit: u64) -> Result<(), u64> {
        if events.is_empty() {
            return Ok(());
        }
        let entry = self.objects.entry(object.clone()).or_default();
        let waiting = entry.events.len() as u64;
        if waiting + events.len() as u64 > limit {
            return Err(waiting);
        }
        entry.events.extend(events.iter().cloned());
        self.queued.push_back(object.clone());
        Ok(())
    }

    /// Enters a worker; the holder of the name when that is somebody else than `replacing`.
    pub fn join(
        &mut self,
        worker: &HostName,
        session: SessionId,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
        now: Timestamp,
    ) -> Result<WorkerSession, WorkerEntry> {
        if let Some(holder) = self.workers.get(worker).cloned() {
            if replacing != Some((&holder.session, holder.beat)) {
                return Err(holder);
            }
            self.leave(&WorkerSession { worker: worker.clone(), id: holder.session });
        }
        let entry = WorkerEntry { session: session.clone(), beat: 0, expire, seen_at: now };
        self.workers.insert(worker.clone(), entry);
        Ok(WorkerSession { worker: worker.clone(), id: session })
    }

    fn is_joined(&self, session: &WorkerSession) -> bool {
        self.workers.get(&session.worker).is_some_and(|entry| entry.session == session.id)
    }

    /// Takes a worker out; what it held is queued again, in front.
    pub fn leave(&mut self, session: &WorkerSession) {
        if !self.is_joined(session) {
            return;
        }
        self.workers.remove(&session.worker);
        for hold in self.holds(session) {
            self.give_up(&hold.object);
        }
    }

    /// Sets an object free, and queues it in front when it has events.
    fn give_up(&mut self, name: &ObjectName) {
        let Some(object) = self.objects.get_mut(name) else { return };
        object.hold = None;
        if object.has_events() {
            self.queued.push_front(name.clone());
        }
    }

    /// What a session holds.
    pub fn holds(&self, session: &WorkerSession) -> Vec<Hold> {
        let holds = self.objects.values().filter_map(|object| object.hold.as_ref());
        holds.filter(|hold| hold.session == *session).cloned().collect()
    }

    /// Counts a sign of life.
    pub fn beat(&mut self, session: &WorkerSession, now: Timestamp) -> Option<Vec<Hold>> {
        let entry = self.workers.get_mut(&session.worker).filter(|entry| entry.session == session.id)?;
        entry.beat += 1;
        entry.seen_at = now;
        Some(self.holds(session))
    }

    /// All workers, by name.
    pub fn workers(&self) -> Vec<HostView> {
        let view = |(name, entry): (&HostName, &WorkerEntry)| HostView {
            name: name.clone(),
            session: entry.session.clone(),
            feeds: Vec::new(),
            beat: entry.beat,
            expire: entry.expire,
            progress: 0,
            seen_at: entry.seen_at,
            troubles: Vec::new(),
            liveness: Liveness::Unknown,
        };
        self.workers.iter().map(view).collect()
    }

    /// Takes a silent worker out.
    pub fn recover(&mut self, worker: &HostName, session: &SessionId, beat: u64) -> bool {
        let as_seen = |entry: &WorkerEntry| entry.session == *session && entry.beat == beat;
        if !self.workers.get(worker).is_some_and(as_seen) {
            return false;
        }
        self.leave(&WorkerSession { worker: worker.clone(), id: session.clone() });
        true
    }

    /// Takes the next object that has events and that nobody holds. Entries that mean nothing any more are dropped on the way.
    pub fn take(&mut self, session: &WorkerSession, limit: usize, now: Timestamp) -> Take {
        if !self.is_joined(session) {
            return Take::SessionLost;
        }
        while let Some(name) = self.queued.pop_front() {
            let Some(object) = self.objects.get_mut(&name) else { continue };
            // Its holder, or whoever retries it, sees the events.
            if object.hold.is_some() || object.parked.is_some() || !object.has_events() {
                continue;
            }
            self.epoch += 1;
            let hold = Hold { object: name, session: session.clone(), epoch: Epoch(self.epoch) };
            object.hold = Some(hold.clone());
            let events = self.stamp(&hold.object, limit, now);
            return Take::Taken(Taken { hold, events });
        }
        Take::Nothing
    }

    /// What is to be sent next: what is stamped already, or else at most `limit` events more.
    fn stamp(&mut self, name: &ObjectName, limit: usize, now: Timestamp) -> Vec<Event> {
        let Some(object) = self.objects.get_mut(name) else { return Vec::new() };
        if object.sending.is_empty() && !object.events.is_empty() {
            let count = object.events.len().min(limit.max(1));
            // A counter that was lost may stand below what this object has seen.
            let before = self.counter.max(object.last.map_or(0, |last| last.0));
            self.counter = before + count as u64;
            object.sending = object.events.drain(..count).collect();
            object.first = Some((EventId(before + 1), now));
        }
        object.sending(name)
    }

    /// The object of a hold, if that still counts.
    pub fn held(&mut self, hold: &Hold) -> Option<&mut Object> {
        self.objects.get_mut(&hold.object).filter(|object| object.hold.as_ref() == Some(hold))
    }

    /// Records what was sent, and hands out what comes next or releases.
    pub fn next(&mut self, hold: &Hold, sent: Option<EventId>, limit: usize, now: Timestamp) -> Next {
        let Some(object) = self.held(hold) else { return Next::Lost };
        object.record(sent);
        let events = self.stamp(&hold.object, limit, now);
        if events.is_empty() {
            self.give_up(&hold.object);
            return Next::Released;
        }
        Next::Events(events)
    }

    /// Records what was sent, and gives the object up.
    pub fn release(&mut self, hold: &Hold, sent: Option<EventId>) {
        if let Some(object) = self.held(hold) {
            object.record(sent);
            #[cfg(feature = "simulation")]
            if crate::simulation::has(crate::simulation::Mutant::ReleaseInTwoSteps) {
                object.hold = None;
                return;
            }
            self.give_up(&hold.object);
        }
    }

    /// Records what was sent, and sets the object aside.
    pub fn park(
        &mut self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
        now: Timestamp,
    ) -> bool {
        let Some(object) = self.held(hold) else { return false };
        object.record(sent);
        object.parked = Some((failure.clone(), now));
        object.hold = None;
        true
    }

    /// Queues a parked object again.
    pub fn retry(&mut self, name: &ObjectName) -> bool {
        let Some(object) = self.objects.get_mut(name).filter(|object| object.parked.is_some()) else {
            return false;
        };
        object.parked = None;
        self.give_up(name);
        true
    }

    /// Drops events of a parked object, and queues what is left.
    pub fn discard(
        &mut self,
        name: &ObjectName,
        what: Discard,
        reason: &str,
        now: Timestamp,
    ) -> (Discarding, Option<DiscardedEvents>) {
        let parked = self.objects.get_mut(name).filter(|object| object.parked.is_some());
        let Some(object) = parked.filter(|object| object.first.is_some_and(|(id, _)| id.0 == what.first()))
        else {
            return (Discarding::Changed, None);
        };
        let first = EventId(what.first());
        let (last, unstamped) = match what {
            Discard::First(_) => (first, 0),
            Discard::All(_) => (EventId(first.0 + object.sending.len() as u64 - 1), object.events.len()),
        };
        object.record(Some(last));
        object.events.drain(..unstamped);
        let error = object.parked.take().map_or_else(String::new, |(failure, _)| failure.error);
        let events = last.0 - first.0 + 1 + unstamped as u64;
        self.give_up(name);
        let (object, reason) = (name.clone(), reason.to_owned());
        let gone = DiscardedEvents { object, first, last, events, error, reason, at: now };
        (Discarding::Done(events), Some(gone))
    }

    /// The parked objects.
    pub fn parked(&self) -> Vec<ObjectName> {
        let parked = self.objects.iter().filter(|(_, object)| object.parked.is_some());
        parked.map(|(name, _)| name.clone()).collect()
    }

    /// What waits.
    pub fn backlog(&self) -> Backlog {
        let events = |object: &Object| (object.events.len() + object.sending.len()) as u64;
        let with_events = || self.objects.values().filter(|object| object.has_events());
        let total = with_events().map(events).sum();
        let seconds = (total == 0).then_some(0.0);
        Backlog { events: total, objects: with_events().count() as u64, seconds }
    }

    /// Forgets everything, unless events wait that are to be kept.
    pub fn remove(&mut self, if_events_wait: IfEventsWait) -> Removal {
        let backlog = self.backlog();
        if *self == Books::default() {
            return Removal::NotThere;
        }
        if backlog.events > 0 && if_events_wait == IfEventsWait::Keep {
            return Removal::Waiting(backlog);
        }
        *self = Books::default();
        Removal::Removed
    }

    /// An object as everybody can see it.
    pub fn inspect(&self, name: &ObjectName) -> Option<ObjectView> {
        let object = self.objects.get(name)?;
        let parked = object.parked.clone().map(|(failure, since)| ParkedEvents { failure, since });
        let joined = object.hold.as_ref().is_some_and(|hold| self.is_joined(&hold.session));
        Some(ObjectView {
            object: name.clone(),
            waiting: object.events.len() as u64,
            sending: object.sending(name).iter().map(Event::id).collect(),
            last: object.last,
            holder: object.hold.clone(),
            holder_is_joined: joined,
            listed_by_holder: joined,
            listed_by_others: Vec::new(),
            queued: self.queued.contains(name),
            parked,
            counter: self.counter,
        })
    }

    /// Objects that are not at rest.
    pub fn objects(&self) -> Vec<ObjectName> {
        let at_work =
            |object: &Object| object.has_events() || object.hold.is_some() || object.parked.is_some();
        self.objects.iter().filter(|(_, object)| at_work(object)).map(|(name, _)| name.clone()).collect()
    }
}
