//! The chains of feeds: the last change of each object that a checkpoint has passed.

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::name::FeedName;
use seriatim::store::Chained;
use seriatim::value::Key;

use super::rows;
use crate::migrate::Component;

pub(super) const COMPONENT: Component =
    Component { name: "chain", migrations: &[include_str!("../../migrations/chain/0001_chain.sql")] };
const NOTE: &str = include_str!("../../queries/chain_note.sql");
const READ: &str = include_str!("../../queries/chain_read.sql");
const FORGET: &str = include_str!("../../queries/chain_forget.sql");

/// Notes what a checkpoint passes. Belongs into its transaction.
pub(super) fn note(connection: &Connection, feed: &FeedName, chained: &[Chained]) -> Result<()> {
    if chained.is_empty() {
        return Ok(());
    }
    let mut note = connection.prepare_cached(NOTE)?;
    for Chained { key, id } in chained {
        note.execute((feed.as_str(), key.identity(), id.cast_signed()))?;
    }
    Ok(())
}

/// The last change of each of these objects.
pub(super) fn read(connection: &Connection, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>> {
    let mut statement = connection.prepare_cached(READ)?;
    let mut last = Vec::with_capacity(keys.len());
    for key in keys {
        let id = statement.query_row((feed.as_str(), key.identity()), |row| rows::number(row, 0));
        last.push(id.optional()?);
    }
    Ok(last)
}

/// Forgets a feed's chain.
pub(super) fn forget(connection: &Connection, feed: &FeedName) -> Result<()> {
    connection.execute(FORGET, [feed.as_str()]).map(drop)
}
