//! From the columns of the queue's functions to the library's types.

use std::time::Duration;

use seriatim::lease::{HostView, Liveness};
use seriatim::name::{BadName, Epoch, HostName, ObjectName, SessionId};
use seriatim::order::{EventId, Link};
use seriatim::queue::{
    Backlog, Body, DiscardedEvents, Event, Hold, ObjectView, ParkedEvents, Removal, WorkerSession,
};
use seriatim::store::{ParkedFailure, ParkedState, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// A column whose content makes no sense: somebody else has written to the table.
fn bad(cause: impl std::fmt::Display) -> StoreError {
    StoreError::needs_attention(
        format!("a row in one of the queue's tables cannot be read: {cause}"),
        "somebody has changed it by hand: restore it from a backup",
    )
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(bad)
}

pub(super) fn number(row: &Row, column: usize) -> Result<u64, StoreError> {
    get(row, column).map(i64::cast_unsigned)
}

fn optional<T>(
    row: &Row,
    column: usize,
    make: fn(&str) -> Result<T, BadName>,
) -> Result<Option<T>, StoreError> {
    get::<Option<&str>>(row, column)?.map(make).transpose().map_err(bad)
}

fn maybe_number(row: &Row, column: usize) -> Result<Option<u64>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(i64::cast_unsigned))
}

pub(super) fn session_id(row: &Row, column: usize) -> Result<SessionId, StoreError> {
    SessionId::new(get(row, column)?).map_err(bad)
}

pub(super) fn object(row: &Row, column: usize) -> Result<ObjectName, StoreError> {
    get(row, column).map(ObjectName::found)
}

/// PostgreSQL's text has no zero byte in it.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// An expiry; zero where none was published.
pub(super) fn expire(row: &Row, column: usize) -> Result<Duration, StoreError> {
    let published: Option<i64> = get(row, column)?;
    Ok(published.map(|expire| Duration::from_millis(expire.cast_unsigned())).unwrap_or_default())
}

/// A row of `queue_workers.sql`.
pub(super) fn worker(row: &Row) -> Result<HostView, StoreError> {
    Ok(HostView {
        name: HostName::new(get(row, 0)?).map_err(bad)?,
        session: session_id(row, 1)?,
        feeds: Vec::new(),
        beat: number(row, 2)?,
        expire: expire(row, 4)?,
        progress: 0,
        seen_at: get(row, 3)?,
        troubles: Vec::new(),
        liveness: Liveness::Unknown,
    })
}

/// Events in order, each with the id of the one before it; the columns are that of the last one that was sent, id, time and body.
pub(super) fn events(rows: &[Row], of: &ObjectName, from: usize) -> Result<Vec<Event>, StoreError> {
    let mut prev = rows.first().map(|row| maybe_number(row, from)).transpose()?.flatten().map(EventId);
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let id = EventId(number(row, from + 1)?);
        let link = Link::new(id, prev.replace(id)).map_err(bad)?;
        let body = Body::bytes(get(row, from + 3)?);
        events.push(Event { object: of.clone(), link, at: get(row, from + 2)?, body });
    }
    Ok(events)
}

/// A row of `queue_discarded.sql`.
pub(super) fn discarded(row: &Row) -> Result<DiscardedEvents, StoreError> {
    Ok(DiscardedEvents {
        object: object(row, 0)?,
        first: EventId(number(row, 1)?),
        last: EventId(number(row, 2)?),
        events: number(row, 3)?,
        error: get(row, 4)?,
        reason: get(row, 5)?,
        at: get(row, 6)?,
    })
}

/// The row of `queue_backlog.sql`.
pub(super) fn backlog(row: &Row) -> Result<Backlog, StoreError> {
    let seconds: Option<f64> = get(row, 2)?;
    let seconds = seconds.unwrap_or(0.0).max(0.0);
    Ok(Backlog { events: number(row, 0)?, objects: number(row, 1)?, seconds: Some(seconds) })
}

/// The row of `queue_drop.sql`.
pub(super) fn removal(row: &Row) -> Result<Removal, StoreError> {
    let waiting = backlog(row)?;
    Ok(match (waiting.events, get(row, 3)?) {
        (0, true) => Removal::Removed,
        (0, false) => Removal::NotThere,
        _ => Removal::Waiting(waiting),
    })
}

/// The row of `queue_inspect.sql`.
pub(super) fn view(row: &Row, of: &ObjectName) -> Result<ObjectView, StoreError> {
    let worker = optional(row, 1, HostName::new)?;
    let session = optional(row, 2, SessionId::new)?;
    let epoch = maybe_number(row, 3)?.map(Epoch);
    let holder = worker.zip(session).zip(epoch).map(|((worker, id), epoch)| Hold {
        object: of.clone(),
        session: WorkerSession { worker, id },
        epoch,
    });
    let joined = optional(row, 7, SessionId::new)?;
    let is_joined = holder.as_ref().is_some_and(|hold| Some(&hold.session.id) == joined.as_ref());
    let sending: Vec<i64> = get(row, 10)?;
    Ok(ObjectView {
        object: of.clone(),
        waiting: number(row, 9)?,
        sending: sending.into_iter().map(|id| EventId(id.cast_unsigned())).collect(),
        last: maybe_number(row, 0)?.map(EventId),
        holder,
        holder_is_joined: is_joined,
        // What a worker holds is read from the objects themselves.
        listed_by_holder: is_joined,
        listed_by_others: Vec::new(),
        queued: get(row, 8)?,
        parked: parked(row)?,
        counter: number(row, 11)?,
    })
}

fn parked(row: &Row) -> Result<Option<ParkedEvents>, StoreError> {
    let Some(error) = get::<Option<String>>(row, 4)? else { return Ok(None) };
    let attempts = get::<i32>(row, 5)?.cast_unsigned();
    let failure = ParkedFailure { error, attempts, state: ParkedState::Parked, next_try: None };
    Ok(Some(ParkedEvents { failure, since: get(row, 6)? }))
}
