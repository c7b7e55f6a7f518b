//! Feeds that are paused.

use seriatim::name::FeedName;
use seriatim::store::{Paused, StoreError};

use super::{channel, rows};
use crate::database::Database;
use crate::migrate::{Component, Upgrade};

pub(super) const COMPONENT: Component = Component {
    name: "pause",
    migrations: &[include_str!("../../migrations/pause/0001_pause.sql")],
    upgrade: Upgrade::Rest,
};
pub(super) const REMOVE: &str = include_str!("../../queries/pause_remove.sql");
const END: &str = include_str!("../../queries/pause_end.sql");
const ADD: &str = include_str!("../../queries/pause_add.sql");
const LIST: &str = include_str!("../../queries/pause_list.sql");

/// Says whether it was not paused before.
pub(super) async fn add(database: &Database, feed: &FeedName) -> Result<bool, StoreError> {
    let paused = database.query("pausing a feed in", ADD, &[&feed.as_str(), &channel(database)]).await?;
    Ok(!paused.is_empty())
}

/// Says whether it was paused.
pub(super) async fn remove(database: &Database, feed: &FeedName) -> Result<bool, StoreError> {
    let resumed = database.query("resuming a feed in", END, &[&feed.as_str(), &channel(database)]).await?;
    Ok(!resumed.is_empty())
}

pub(super) async fn list(database: &Database) -> Result<Vec<Paused>, StoreError> {
    let found = database.query("looking for paused feeds in", LIST, &[]).await?;
    let paused =
        found.iter().map(|row| Ok(Paused { feed: rows::feed_name(row, 0)?, since: rows::time(row, 1)? }));
    paused.collect()
}
