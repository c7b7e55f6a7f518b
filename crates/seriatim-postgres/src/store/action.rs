//! What people have done.

use seriatim::store::{ACTIONS_KEPT, NotedAction, StoreError};

use super::rows;
use crate::database::Database;
use crate::migrate::{Component, Upgrade};

pub(super) const COMPONENT: Component = Component {
    name: "action",
    migrations: &[include_str!("../../migrations/action/0001_action.sql")],
    upgrade: Upgrade::Rest,
};
const ADD: &str = include_str!("../../queries/action_add.sql");
const LIST: &str = include_str!("../../queries/action_list.sql");

pub(super) async fn note(database: &Database, text: &str) -> Result<(), StoreError> {
    // Ids have gaps where two note at once and one gives up: some more are kept than are promised.
    let kept = ACTIONS_KEPT as i64 * 2;
    database.query("noting an action in", ADD, &[&text, &kept]).await?;
    Ok(())
}

pub(super) async fn list(database: &Database, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = database.query("looking for actions in", LIST, &[&limit]).await?;
    let noted = found.iter().map(|row| Ok(NotedAction { at: rows::time(row, 0)?, text: row.get(1) }));
    noted.collect()
}
