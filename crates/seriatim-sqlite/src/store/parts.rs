//! Changing which leases a feed has: the number of its partitions.

use rusqlite::{Connection, Result};
use seriatim::lease::{Lease, LeaseView, Part, Reshape};
use seriatim::name::{FeedName, Partition};
use seriatim::value::Key;

use super::checkpoint::{Fence, check_fence};
use super::{leases, rows};

const PARTS: &str = include_str!("../../queries/lease_parts.sql");
const SET: &str = include_str!("../../queries/lease_set_part.sql");
const INSERT: &str = include_str!("../../queries/lease_insert_part.sql");
const REMOVE: &str = include_str!("../../queries/lease_remove.sql");
const RESHAPED: &str = include_str!("../../queries/feed_reshaped.sql");
const ADOPT: &str = include_str!("../../queries/parked_adopt.sql");

/// Whether the leases of a feed are those that were seen, with the same parts, and free where they must be.
fn are_as_seen(
    connection: &Connection,
    feed: &FeedName,
    seen: &[LeaseView],
    free: &[Partition],
) -> Result<bool> {
    let mut statement = connection.prepare_cached(PARTS)?;
    let mut rows = statement.query([feed.as_str()])?;
    let mut seen = seen.iter();
    while let Some(row) = rows.next()? {
        let (partition, is_owned): (u32, bool) = (row.get(0)?, row.get(2)?);
        let part = rows::part(row, 1)?;
        let is_same = |seen: &LeaseView| seen.id.partition.0 == partition && seen.part == part;
        if !seen.next().is_some_and(is_same) || (is_owned && free.contains(&Partition(partition))) {
            return Ok(false);
        }
    }
    Ok(seen.next().is_none())
}

/// Changes which leases a feed has, if they are as they were seen. Belongs into a write transaction.
pub(super) fn reshape(
    connection: &Connection,
    feed: &FeedName,
    seen: &[LeaseView],
    reshape: &Reshape,
) -> Result<bool> {
    if !are_as_seen(connection, feed, seen, &reshape.free)? {
        return Ok(false);
    }
    let name = feed.as_str();
    for (partition, part) in &reshape.marked {
        connection.prepare_cached(SET)?.execute((name, partition.0, to_json(part)))?;
    }
    for partition in &reshape.gone {
        connection.prepare_cached(REMOVE)?.execute((name, partition.0))?;
    }
    for (partition, part, start) in &reshape.born {
        let start = start.to_string();
        connection.prepare_cached(INSERT)?.execute((name, partition.0, start, to_json(part)))?;
    }
    connection.execute(RESHAPED, [name])?;
    leases::have_moved(connection)?;
    Ok(true)
}

/// Makes parked objects those of a lease's partition, if it is still its owner's. Belongs into a write transaction.
pub(super) fn adopt(connection: &Connection, lease: &Lease, keys: &[Key]) -> Result<Fence> {
    let fence = check_fence(connection, lease)?;
    if fence == Fence::Open {
        let mut statement = connection.prepare_cached(ADOPT)?;
        for key in keys {
            statement.execute((lease.id.feed.as_str(), key.identity(), lease.id.partition.0))?;
        }
    }
    Ok(fence)
}

fn to_json(part: &Part) -> String {
    serde_json::to_string(part).expect("numbers and positions always serialize")
}
