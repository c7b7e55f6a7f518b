//! Discarding what is parked, and remembering that.

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::name::{FeedName, Partition};
use seriatim::store::{DISCARDS_KEPT, Discard, Discarded, Discarding};
use seriatim::value::Key;

use super::{parked, rows};

const HEAD: &str = include_str!("../../queries/parked_head.sql");
const EXTENT: &str = include_str!("../../queries/parked_extent.sql");
const TAKE_OUT: &str = include_str!("../../queries/parked_change_take_out.sql");
const TAKE_OUT_ALL: &str = include_str!("../../queries/parked_change_take_out_all.sql");
const INSERT: &str = include_str!("../../queries/discarded_insert.sql");
const TRIM: &str = include_str!("../../queries/discarded_trim.sql");
const LIST: &str = include_str!("../../queries/discarded_list.sql");
const FORGET: &str = include_str!("../../queries/discarded_forget.sql");

/// A parked object as far as a discard depends on it.
struct Head {
    partition: u32,
    key: String,
    error: String,
    first: u64,
    /// Its owner may be trying it.
    busy: bool,
}

/// Drops what is to be dropped, if the object is as the caller has seen it.
pub(super) fn discard(
    connection: &Connection,
    feed: &FeedName,
    key: &Key,
    what: Discard,
    reason: &str,
) -> Result<Discarding> {
    let object = key.identity();
    let Some(head) = head(connection, feed, &object)?.filter(|head| head.first == what.first()) else {
        return Ok(Discarding::Changed);
    };
    if head.busy {
        return Ok(Discarding::Busy);
    }
    let (last, dropped) = take_out(connection, feed, &object, what)?;
    let Head { partition, key: shown, error, first, .. } = head;
    let (first, last, changes) = (first.cast_signed(), last.cast_signed(), dropped.cast_signed());
    connection.execute(INSERT, (feed.as_str(), partition, shown, first, last, changes, error, reason))?;
    connection.execute(TRIM, (feed.as_str(), DISCARDS_KEPT as i64))?;
    parked::retry(connection, feed, Some(key))?;
    parked::remove_if_empty(connection, feed, &object)?;
    Ok(Discarding::Done(dropped))
}

fn head(connection: &Connection, feed: &FeedName, object: &str) -> Result<Option<Head>> {
    let head = connection.query_row(HEAD, (feed.as_str(), object), |row| {
        Ok(Head {
            partition: row.get(0)?,
            key: row.get(1)?,
            error: row.get(2)?,
            first: rows::number(row, 3)?,
            busy: row.get(4)?,
        })
    });
    head.optional()
}

/// Takes the changes out, and says which was the last and how many there were.
fn take_out(connection: &Connection, feed: &FeedName, object: &str, what: Discard) -> Result<(u64, u64)> {
    match what {
        Discard::First(id) => {
            connection.execute(TAKE_OUT, (feed.as_str(), object, id.cast_signed()))?;
            Ok((id, 1))
        }
        Discard::All(_) => {
            let extent = |row: &rusqlite::Row<'_>| Ok((rows::number(row, 0)?, rows::number(row, 1)?));
            let extent = connection.query_row(EXTENT, (feed.as_str(), object), extent)?;
            connection.execute(TAKE_OUT_ALL, (feed.as_str(), object))?;
            Ok(extent)
        }
    }
}

/// The latest discards of a feed.
pub(super) fn list(connection: &Connection, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let discards = statement.query_map((feed.as_str(), limit), |row| {
        Ok(Discarded {
            feed: feed.clone(),
            partition: Partition(row.get(0)?),
            key: rows::json(row, 1)?,
            first: rows::number(row, 2)?,
            last: rows::number(row, 3)?,
            changes: rows::number(row, 4)?,
            error: row.get(5)?,
            reason: row.get(6)?,
            at: rows::time(row, 7)?,
        })
    })?;
    discards.collect()
}

/// Forgets the discards of a feed.
pub(super) fn forget(connection: &Connection, feed: &FeedName) -> Result<()> {
    connection.execute(FORGET, [feed.as_str()])?;
    Ok(())
}
