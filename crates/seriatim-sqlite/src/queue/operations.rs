//! What each operation of the queue does, inside a transaction.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, Result, Row};
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{Epoch, FeedName, HostName, ObjectName, SessionId};
use seriatim::order::{EventId, Link};
use seriatim::queue::{
    Backlog, Body, DiscardedEvents, Event, Hold, IfEventsWait, Next, ObjectView, ParkedEvents, Removal, Take,
    Taken, WorkerSession,
};
use seriatim::store::{Discard, Discarding, ParkedFailure, ParkedState};

use crate::store::rows;

/// The SQL of one file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../queries/queue_", $name, ".sql"))
    };
}

/// One queue inside a transaction.
pub(super) struct Operations<'a> {
    connection: &'a Connection,
    queue: &'a str,
}

/// Who holds a name.
pub(super) struct Holder {
    pub session: SessionId,
    pub beat: u64,
    pub expire: Duration,
}

/// An expiry; zero where none was published.
fn expire(row: &Row<'_>, column: usize) -> Result<Duration> {
    let published: Option<i64> = row.get(column)?;
    Ok(published.map(|expire| Duration::from_millis(expire.cast_unsigned())).unwrap_or_default())
}

/// The ids of SQLite are signed, and never negative here.
fn signed(id: EventId) -> i64 {
    id.0.cast_signed()
}

fn event_id(row: &Row<'_>, index: usize) -> Result<EventId> {
    rows::number(row, index).map(EventId)
}

fn object_name(row: &Row<'_>) -> Result<ObjectName> {
    Ok(ObjectName::found(&row.get::<_, String>(0)?))
}

impl<'a> Operations<'a> {
    pub(super) fn on(connection: &'a Connection, queue: &'a FeedName) -> Self {
        Operations { connection, queue: queue.as_str() }
    }

    fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.connection.prepare_cached(sql)?.execute(parameters)
    }

    fn one<T, F>(&self, sql: &str, parameters: impl Params, read: F) -> Result<T>
    where
        F: FnOnce(&Row<'_>) -> Result<T>,
    {
        self.connection.prepare_cached(sql)?.query_row(parameters, read)
    }

    fn all<T, F>(&self, sql: &str, parameters: impl Params, read: F) -> Result<Vec<T>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        self.connection.prepare_cached(sql)?.query_map(parameters, read)?.collect()
    }

    /// Adds events; how many wait already, when there is no room.
    pub(super) fn push(
        &self,
        object: &ObjectName,
        events: &[Body],
        limit: Option<u64>,
    ) -> Result<Option<u64>> {
        let at = (self.queue, object.as_str());
        if events.is_empty() {
            return Ok(None);
        }
        if let Some(limit) = limit {
            let waiting = self.one(sql!("waiting"), at, |row| rows::number(row, 0))?;
            if waiting + events.len() as u64 > limit {
                return Ok(Some(waiting));
            }
        }
        // Somebody may have removed it since it was opened.
        self.execute(sql!("insert"), [self.queue])?;
        for event in events {
            self.execute(sql!("event_insert"), (self.queue, object.as_str(), event.as_bytes()))?;
        }
        self.execute(sql!("enqueue"), at)?;
        Ok(None)
    }

    fn holder_of(&self, worker: &HostName) -> Result<Option<Holder>> {
        let read = |row: &Row<'_>| {
            let (session, beat) = (rows::session_id(row, 0)?, rows::number(row, 1)?);
            Ok(Holder { session, beat, expire: expire(row, 2)? })
        };
        self.one(sql!("worker_read"), (self.queue, worker.as_str()), read).optional()
    }

    fn is_joined(&self, session: &WorkerSession) -> Result<bool> {
        Ok(self.holder_of(&session.worker)?.is_some_and(|holder| holder.session == session.id))
    }

    /// Enters a worker; who holds the name, when that is somebody else than `replacing`.
    pub(super) fn join(
        &self,
        session: &WorkerSession,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Option<Holder>> {
        if let Some(holder) = self.holder_of(&session.worker)? {
            if replacing != Some((&holder.session, holder.beat)) {
                return Ok(Some(holder));
            }
            self.leave(&WorkerSession { worker: session.worker.clone(), id: holder.session })?;
        }
        let (name, id, expire) = (session.worker.as_str(), session.id.as_str(), expire.as_millis() as i64);
        self.execute(sql!("worker_insert"), (self.queue, name, id, expire))?;
        Ok(None)
    }

    /// Takes a worker out; what it held is queued again.
    pub(super) fn leave(&self, session: &WorkerSession) -> Result<()> {
        for hold in self.held_by(session)? {
            self.free(&hold.object)?;
        }
        self.execute(sql!("worker_delete"), (self.queue, session.worker.as_str(), session.id.as_str()))?;
        Ok(())
    }

    fn held_by(&self, session: &WorkerSession) -> Result<Vec<Hold>> {
        self.all(sql!("held_by"), (self.queue, session.id.as_str()), |row| {
            Ok(Hold { object: object_name(row)?, session: session.clone(), epoch: rows::epoch(row, 1)? })
        })
    }

    fn free(&self, object: &ObjectName) -> Result<()> {
        self.execute(sql!("free"), (self.queue, object.as_str())).map(drop)
    }

    /// Counts a sign of life; nothing when the session was replaced.
    pub(super) fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>> {
        let at = (self.queue, session.worker.as_str(), session.id.as_str());
        match self.execute(sql!("worker_beat"), at)? {
            0 => Ok(None),
            _ => self.held_by(session).map(Some),
        }
    }

    /// All workers.
    pub(super) fn workers(&self) -> Result<Vec<HostView>> {
        self.all(sql!("worker_list"), [self.queue], |row| {
            Ok(HostView {
                name: rows::host_name(row, 0)?,
                session: rows::session_id(row, 1)?,
                feeds: Vec::new(),
                beat: rows::number(row, 2)?,
                expire: expire(row, 4)?,
                progress: 0,
                seen_at: rows::time(row, 3)?,
                troubles: Vec::new(),
                liveness: Liveness::Unknown,
            })
        })
    }

    /// Takes out a worker that is as it was seen.
    pub(super) fn recover(&self, seen: &HostView) -> Result<bool> {
        let as_seen = |holder: Holder| holder.session == seen.session && holder.beat == seen.beat;
        if !self.holder_of(&seen.name)?.is_some_and(as_seen) {
            return Ok(false);
        }
        self.leave(&WorkerSession { worker: seen.name.clone(), id: seen.session.clone() })?;
        Ok(true)
    }

    /// Whether an object waits for a worker.
    pub(super) fn is_any_queued(&self) -> Result<bool> {
        Ok(self.one(sql!("first"), [self.queue], object_name).optional()?.is_some())
    }

    /// Takes the first object that has events.
    pub(super) fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take> {
        if !self.is_joined(session)? {
            return Ok(Take::SessionLost);
        }
        while let Some(object) = self.one(sql!("first"), [self.queue], object_name).optional()? {
            let at = (self.queue, object.as_str());
            self.execute(sql!("dequeue"), at)?;
            if !self.one(sql!("has_events"), at, |row| row.get::<_, bool>(0))? {
                continue;
            }
            let epoch = self.one(sql!("next_epoch"), [self.queue], |row| rows::epoch(row, 0))?;
            let (worker, id) = (session.worker.as_str(), session.id.as_str());
            self.execute(sql!("hold"), (at.0, at.1, worker, id, epoch.0.cast_signed()))?;
            let events = self.to_send(&object, limit)?;
            return Ok(Take::Taken(Taken { hold: Hold { object, session: session.clone(), epoch }, events }));
        }
        Ok(Take::Nothing)
    }

    /// What is to be sent next: what is stamped already, or else at most `limit` events more.
    fn to_send(&self, object: &ObjectName, limit: usize) -> Result<Vec<Event>> {
        let stamped = self.stamped(object)?;
        if !stamped.is_empty() {
            return Ok(stamped);
        }
        let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
        let at = (self.queue, object.as_str());
        let events: Vec<i64> = self.all(sql!("unstamped"), (at.0, at.1, limit), |row| row.get(0))?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let count = events.len() as i64;
        let last: i64 = self.one(sql!("draw_ids"), (at.0, at.1, count), |row| row.get(0))?;
        let now = seriatim::clock::wall().as_millisecond();
        for (id, event) in (last - count + 1..).zip(events) {
            self.execute(sql!("stamp"), (event, id, now))?;
        }
        self.stamped(object)
    }

    fn stamped(&self, object: &ObjectName) -> Result<Vec<Event>> {
        let mut prev = None;
        self.all(sql!("stamped"), (self.queue, object.as_str()), |row| {
            let id = event_id(row, 0)?;
            let before =
                prev.replace(id).map_or_else(|| rows::optional(row, 3, event_id), |id| Ok(Some(id)))?;
            let link = Link::new(id, before).map_err(|wrong| {
                rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Integer, Box::new(wrong))
            })?;
            let body = Body::bytes(row.get_ref(2)?.as_bytes()?);
            Ok(Event { object: object.clone(), link, at: rows::time(row, 1)?, body })
        })
    }

    fn is_held(&self, hold: &Hold) -> Result<bool> {
        let (session, epoch) = (hold.session.id.as_str(), hold.epoch.0.cast_signed());
        self.one(sql!("is_held"), (self.queue, hold.object.as_str(), session, epoch), |row| row.get(0))
    }

    fn record(&self, hold: &Hold, sent: Option<EventId>) -> Result<()> {
        if let Some(sent) = sent {
            let upto = (self.queue, hold.object.as_str(), signed(sent));
            self.execute(sql!("sent"), upto)?;
            self.execute(sql!("event_delete"), upto)?;
        }
        Ok(())
    }

    /// Records what was sent, and hands out what comes next or releases.
    pub(super) fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next> {
        if !self.is_held(hold)? {
            return Ok(Next::Lost);
        }
        self.record(hold, sent)?;
        let events = self.to_send(&hold.object, limit)?;
        if events.is_empty() {
            self.free(&hold.object)?;
            return Ok(Next::Released);
        }
        Ok(Next::Events(events))
    }

    /// Records what was sent, and gives the object up.
    pub(super) fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<()> {
        if self.is_held(hold)? {
            self.record(hold, sent)?;
            self.free(&hold.object)?;
        }
        Ok(())
    }

    /// Records what was sent, and sets the object aside.
    pub(super) fn park(&self, hold: &Hold, sent: Option<EventId>, failure: &ParkedFailure) -> Result<bool> {
        if !self.is_held(hold)? {
            return Ok(false);
        }
        self.record(hold, sent)?;
        let parked = (self.queue, hold.object.as_str(), &failure.error, failure.attempts);
        self.execute(sql!("park"), parked)?;
        Ok(true)
    }

    /// Queues a parked object again.
    pub(super) fn retry(&self, object: &ObjectName) -> Result<bool> {
        let was_parked = self.execute(sql!("retry"), (self.queue, object.as_str()))? == 1;
        if was_parked {
            self.free(object)?;
        }
        Ok(was_parked)
    }

    /// Drops events of a parked object, and queues what is left.
    pub(super) fn discard(&self, object: &ObjectName, what: Discard, reason: &str) -> Result<Discarding> {
        let at = (self.queue, object.as_str());
        let stamped = self.stamped(object)?;
        let parked = self.inspect(object)?.and_then(|view| view.parked);
        let (Some(parked), Some(first)) = (parked, stamped.first().map(Event::id)) else {
            return Ok(Discarding::Changed);
        };
        if first.0 != what.first() {
            return Ok(Discarding::Changed);
        }
        let last = match what {
            Discard::First(_) => first,
            Discard::All(_) => stamped.last().map_or(first, Event::id),
        };
        self.execute(sql!("sent"), (at.0, at.1, signed(last)))?;
        let mut gone = self.execute(sql!("event_delete"), (at.0, at.1, signed(last)))?;
        if matches!(what, Discard::All(_)) {
            gone += self.execute(sql!("drop"), at)?;
        }
        let (error, count) = (&parked.failure.error, gone as i64);
        let row = (at.0, at.1, signed(first), signed(last), count, error, reason);
        self.execute(sql!("discarded_insert"), row)?;
        self.execute(sql!("discarded_trim"), [self.queue])?;
        self.retry(object)?;
        Ok(Discarding::Done(gone as u64))
    }

    /// What was dropped.
    pub(super) fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.all(sql!("discarded"), (self.queue, limit), |row| {
            Ok(DiscardedEvents {
                object: object_name(row)?,
                first: event_id(row, 1)?,
                last: event_id(row, 2)?,
                events: rows::number(row, 3)?,
                error: row.get(4)?,
                reason: row.get(5)?,
                at: rows::time(row, 6)?,
            })
        })
    }

    /// The parked objects.
    pub(super) fn parked(&self) -> Result<Vec<ObjectName>> {
        self.all(sql!("parked"), [self.queue], object_name)
    }

    /// What waits.
    pub(super) fn backlog(&self) -> Result<Backlog> {
        self.one(sql!("backlog"), [self.queue], |row| {
            let events = rows::number(row, 0)?;
            // An event's row has no time before it is stamped.
            let seconds = (events == 0).then_some(0.0);
            Ok(Backlog { events, objects: rows::number(row, 1)?, seconds })
        })
    }

    /// An object as it is.
    pub(super) fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>> {
        let sending = self.stamped(object)?.iter().map(Event::id).collect();
        let view =
            self.one(sql!("inspect"), (self.queue, object.as_str()), |row| view(row, object)).optional()?;
        Ok(view.map(|view| ObjectView { sending, ..view }))
    }

    /// Forgets the queue, unless events wait in it that are to be kept.
    pub(super) fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal> {
        let waiting = self.backlog()?;
        if waiting.events > 0 && if_events_wait == IfEventsWait::Keep {
            return Ok(Removal::Waiting(waiting));
        }
        let of_queue = [
            sql!("remove_events"),
            sql!("remove_objects"),
            sql!("remove_workers"),
            sql!("remove_discarded"),
            sql!("remove_counters"),
        ];
        for sql in of_queue {
            self.execute(sql, [self.queue])?;
        }
        Ok(match self.execute(sql!("remove"), [self.queue])? {
            0 => Removal::NotThere,
            _ => Removal::Removed,
        })
    }

    /// Objects that are not at rest.
    pub(super) fn objects(&self) -> Result<Vec<ObjectName>> {
        self.all(sql!("objects"), [self.queue], object_name)
    }
}

fn view(row: &Row<'_>, object: &ObjectName) -> Result<ObjectView> {
    let worker = rows::optional(row, 2, rows::host_name)?;
    let session = rows::optional(row, 3, rows::session_id)?;
    let epoch: Option<Epoch> = rows::optional(row, 4, rows::epoch)?;
    let joined = rows::optional(row, 8, rows::session_id)?;
    let holder = worker.zip(session).zip(epoch).map(|((worker, id), epoch)| Hold {
        object: object.clone(),
        session: WorkerSession { worker, id },
        epoch,
    });
    let parked = match row.get::<_, Option<String>>(5)? {
        None => None,
        Some(error) => {
            let failure =
                ParkedFailure { error, attempts: row.get(6)?, state: ParkedState::Parked, next_try: None };
            Some(ParkedEvents { failure, since: rows::time(row, 7)? })
        }
    };
    let is_joined = holder.as_ref().is_some_and(|hold| Some(&hold.session.id) == joined.as_ref());
    Ok(ObjectView {
        object: object.clone(),
        waiting: rows::number(row, 10)?,
        sending: Vec::new(),
        last: rows::optional(row, 1, event_id)?,
        holder,
        holder_is_joined: is_joined,
        // What a worker holds is read from the objects themselves.
        listed_by_holder: is_joined,
        listed_by_others: Vec::new(),
        queued: row.get(0)?,
        parked,
        counter: rows::number(row, 9)?,
    })
}
