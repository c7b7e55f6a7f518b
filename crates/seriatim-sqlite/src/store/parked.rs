//! Parked objects, and the changes that wait for them.

use rusqlite::{Connection, Result};
use seriatim::change::Change;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::{FeedName, Partition};
use seriatim::store::{ParkedFailure, ParkedObject, Parking};
use seriatim::value::{Columns, Key, Row};

use super::rows;

const INSERT: &str = include_str!("../../queries/parked_insert.sql");
const INSERT_MISSING: &str = include_str!("../../queries/parked_insert_missing.sql");
const CHANGE_INSERT: &str = include_str!("../../queries/parked_change_insert.sql");
const LIST: &str = include_str!("../../queries/parked_list.sql");
const CHANGES: &str = include_str!("../../queries/parked_changes.sql");
const FORGET: &str = include_str!("../../queries/parked_forget.sql");
const CHANGE_FORGET: &str = include_str!("../../queries/parked_change_forget.sql");

/// What is said of an object whose later change came to be parked before its failed one. No change is lost over it.
const WAITS: &str = "waits behind an earlier change";

/// Keeps a change, and its object as parked.
pub(super) fn park(connection: &Connection, lease: &Lease, parking: &Parking) -> Result<()> {
    let (insert, error, attempts) = match &parking.failure {
        Some(failure) => (INSERT, failure.error.as_str(), failure.attempts),
        None => (INSERT_MISSING, WAITS, 0),
    };
    let (feed, change) = (lease.id.feed.as_str(), &parking.change);
    let key = change.key.clone().unwrap_or_else(no_key);
    let object = object(&key);
    let parked = (feed, lease.id.partition.0, &object, rows::to_json(&key), error, attempts);
    connection.prepare_cached(insert)?.execute(parked)?;
    let kept = (feed, &object, change.id.cast_signed(), rows::to_json(change));
    connection.prepare_cached(CHANGE_INSERT)?.execute(kept)?;
    Ok(())
}

/// A key is found by its values: what its columns are called may change.
fn object(key: &Key) -> String {
    rows::to_json(&key.row().values())
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
    let objects = statement.query_map((feed.as_str(), partition.map(|p| p.0)), |row| {
        Ok(ParkedObject {
            feed: feed.clone(),
            partition: Partition(row.get(0)?),
            key: rows::json(row, 1)?,
            failure: ParkedFailure { error: row.get(2)?, attempts: row.get(3)? },
            since: rows::time(row, 4)?,
            waiting: rows::number(row, 5)?,
        })
    })?;
    objects.collect()
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
    statement.query_map((feed.as_str(), object(key), limit), |row| rows::json(row, 0))?.collect()
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
