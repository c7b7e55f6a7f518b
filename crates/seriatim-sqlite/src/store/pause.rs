//! Feeds that are paused.

use rusqlite::{Connection, Result};
use seriatim::name::FeedName;
use seriatim::store::Paused;

use super::{leases, rows};
use crate::migrate::Component;

pub(super) const COMPONENT: Component =
    Component { name: "pause", migrations: &[include_str!("../../migrations/pause/0001_pause.sql")] };
const ADD: &str = include_str!("../../queries/pause_add.sql");
const REMOVE: &str = include_str!("../../queries/pause_remove.sql");
const LIST: &str = include_str!("../../queries/pause_list.sql");

/// Says whether it was not paused before.
pub(super) fn add(connection: &Connection, feed: &FeedName) -> Result<bool> {
    tell(connection, connection.execute(ADD, [feed.as_str()])? > 0)
}

/// Says whether it was paused.
pub(super) fn remove(connection: &Connection, feed: &FeedName) -> Result<bool> {
    tell(connection, connection.execute(REMOVE, [feed.as_str()])? > 0)
}

/// Hosts look for pauses only when the mark of the leases has moved.
fn tell(connection: &Connection, is_news: bool) -> Result<bool> {
    if is_news {
        leases::have_moved(connection)?;
    }
    Ok(is_news)
}

pub(super) fn list(connection: &Connection) -> Result<Vec<Paused>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let paused = statement
        .query_map([], |row| Ok(Paused { feed: rows::feed_name(row, 0)?, since: rows::time(row, 1)? }))?;
    paused.collect()
}
