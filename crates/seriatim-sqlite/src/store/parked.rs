//! Parked objects, and the changes that wait for them.

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::change::Change;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::{FeedName, Partition};
use seriatim::store::{
    ParkedCount, ParkedFailure, ParkedObject, ParkedPage, ParkedState, Parking, Unparking,
};
use seriatim::value::{Columns, Key, Row};

use super::rows;

const INSERT: &str = include_str!("../../queries/parked_insert.sql");
const INSERT_MISSING: &str = include_str!("../../queries/parked_insert_missing.sql");
const CHANGE_INSERT: &str = include_str!("../../queries/parked_change_insert.sql");
const RESUME: &str = include_str!("../../queries/parked_resume.sql");
const TAKE_OUT: &str = include_str!("../../queries/parked_change_take_out.sql");
const SETTLE: &str = include_str!("../../queries/parked_settle.sql");
const REMOVE_EMPTY: &str = include_str!("../../queries/parked_remove_empty.sql");
const LIST: &str = include_str!("../../queries/parked_list.sql");
const PAGE: &str = include_str!("../../queries/parked_page.sql");
const COUNT: &str = include_str!("../../queries/parked_count.sql");
const READ: &str = include_str!("../../queries/parked_read.sql");
const CHANGES: &str = include_str!("../../queries/parked_changes.sql");
const RETRY: &str = include_str!("../../queries/parked_retry.sql");
const RETRY_ASK: &str = include_str!("../../queries/parked_retry_ask.sql");
const FORGET: &str = include_str!("../../queries/parked_forget.sql");
const CHANGE_FORGET: &str = include_str!("../../queries/parked_change_forget.sql");

/// What is said of an object whose later change came to be parked before its failed one. No change is lost over it.
const WAITS: &str = "waits behind an earlier change";

/// Keeps a change, and its object as parked.
pub(super) fn park(connection: &Connection, lease: &Lease, parking: &Parking) -> Result<()> {
    let (insert, error, attempts, state) = match &parking.failure {
        Some(failure) => (INSERT, failure.error.as_str(), failure.attempts, failure.state),
        None => (INSERT_MISSING, WAITS, 0, ParkedState::Retrying),
    };
    let next_try = parking.failure.as_ref().and_then(|failure| failure.next_try);
    let next_try = next_try.map(|next| next.as_millisecond());
    let (feed, change) = (lease.id.feed.as_str(), &parking.change);
    let key = change.key.clone().unwrap_or_else(no_key);
    let (object, retrying) = (key.identity(), state == ParkedState::Retrying);
    let parked =
        (feed, lease.id.partition.0, &object, rows::to_json(&key), error, attempts, retrying, next_try);
    connection.prepare_cached(insert)?.execute(parked)?;
    let kept = (feed, &object, change.id.cast_signed(), rows::to_json(change));
    connection.prepare_cached(CHANGE_INSERT)?.execute(kept)?;
    Ok(())
}

/// The owner tries an object again by itself.
pub(super) fn resume(connection: &Connection, feed: &FeedName, key: &Key) -> Result<()> {
    connection.prepare_cached(RESUME)?.execute((feed.as_str(), key.identity()))?;
    Ok(())
}

/// Takes changes of an object out, and the object when nothing is left of it.
pub(super) fn unpark(connection: &Connection, feed: &FeedName, done: &Unparking) -> Result<()> {
    let object = done.key.identity();
    let mut take_out = connection.prepare_cached(TAKE_OUT)?;
    for id in &done.ids {
        take_out.execute((feed.as_str(), &object, id.cast_signed()))?;
    }
    connection.prepare_cached(SETTLE)?.execute((feed.as_str(), &object))?;
    remove_if_empty(connection, feed, &object)
}

pub(super) fn remove_if_empty(connection: &Connection, feed: &FeedName, object: &str) -> Result<()> {
    connection.prepare_cached(REMOVE_EMPTY)?.execute((feed.as_str(), object))?;
    Ok(())
}

fn no_key() -> Key {
    Key::new(Row::new(Columns::new::<&str>([]), []))
}

/// The parked objects of a feed, oldest first.
pub(super) fn list(
    connection: &Connection,
    feed: &FeedName,
    partition: Option<Partition>,
) -> Result<Vec<ParkedObject>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let partition = partition.map(|partition| partition.0);
    statement.query_map((feed.as_str(), partition), |row| parked_object(feed, row))?.collect()
}

/// Some of the parked objects of a feed, in the order of the index by which they are found.
pub(super) fn page(
    connection: &Connection,
    feed: &FeedName,
    after: Option<&str>,
    limit: usize,
) -> Result<ParkedPage> {
    let mut statement = connection.prepare_cached(PAGE)?;
    // One more than a page has tells whether there is another one.
    let limited = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let parameters = (feed.as_str(), after.unwrap_or_default(), limited);
    let listed = statement.query_map(parameters, |row| Ok((row.get(9)?, parked_object(feed, row)?)))?;
    Ok(ParkedPage::cut(listed.collect::<Result<_>>()?, limit))
}

/// How much is parked, if it is not more than so many.
pub(super) fn count(connection: &Connection, feed: &FeedName, most: u64) -> Result<ParkedCount> {
    let mut statement = connection.prepare_cached(COUNT)?;
    let limited = i64::try_from(most).unwrap_or(i64::MAX);
    statement.query_row((feed.as_str(), limited), |row| {
        Ok(ParkedCount { objects: rows::number(row, 0)?, changes: rows::number(row, 1)?, more: row.get(2)? })
    })
}

/// One parked object.
pub(super) fn read(connection: &Connection, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>> {
    let mut statement = connection.prepare_cached(READ)?;
    statement.query_row((feed.as_str(), key.identity()), |row| parked_object(feed, row)).optional()
}

fn parked_object(feed: &FeedName, row: &rusqlite::Row<'_>) -> Result<ParkedObject> {
    let state = if row.get(5)? { ParkedState::Retrying } else { ParkedState::Parked };
    Ok(ParkedObject {
        feed: feed.clone(),
        partition: Partition(row.get(0)?),
        key: rows::json(row, 1)?,
        failure: ParkedFailure {
            error: row.get(2)?,
            attempts: row.get(3)?,
            state,
            next_try: rows::optional_time(row, 8)?,
        },
        since: rows::time(row, 4)?,
        waiting: rows::number(row, 6)?,
        bytes: rows::number(row, 7)?,
    })
}

/// Marks one object or all of them to be tried again, and lets their owners know.
pub(super) fn retry(connection: &Connection, feed: &FeedName, key: Option<&Key>) -> Result<u64> {
    let object = key.map(Key::identity);
    let marked = connection.prepare_cached(RETRY)?.execute((feed.as_str(), &object))?;
    connection.prepare_cached(RETRY_ASK)?.execute((feed.as_str(), &object))?;
    if marked > 0 {
        super::leases::have_moved(connection)?;
    }
    Ok(marked as u64)
}

/// The changes kept for an object, in order.
pub(super) fn changes(
    connection: &Connection,
    feed: &FeedName,
    key: &Key,
    limit: usize,
) -> Result<Vec<Change>> {
    let mut statement = connection.prepare_cached(CHANGES)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    statement.query_map((feed.as_str(), key.identity(), limit), |row| rows::json(row, 0))?.collect()
}

/// Forgets what is parked of a feed.
pub(super) fn forget(connection: &Connection, feed: &FeedName) -> Result<()> {
    connection.execute(FORGET, [feed.as_str()])?;
    connection.execute(CHANGE_FORGET, [feed.as_str()])?;
    Ok(())
}
/// Forgets all that is parked in a partition.
pub(super) fn drop_partition(connection: &Connection, id: &LeaseId) -> Result<()> {
    connection
        .execute(include_str!("../../queries/parked_change_drop.sql"), (id.feed.as_str(), id.partition.0))?;
    connection.execute(include_str!("../../queries/parked_drop.sql"), (id.feed.as_str(), id.partition.0))?;
    Ok(())
}
