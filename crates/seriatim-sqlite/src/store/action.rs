//! What people have done.

use rusqlite::{Connection, Result};
use seriatim::store::{ACTIONS_KEPT, NotedAction};

use super::rows;
use crate::migrate::Component;

pub(super) const COMPONENT: Component =
    Component { name: "action", migrations: &[include_str!("../../migrations/action/0001_action.sql")] };
const ADD: &str = include_str!("../../queries/action_add.sql");
const TRIM: &str = include_str!("../../queries/action_trim.sql");
const LIST: &str = include_str!("../../queries/action_list.sql");

pub(super) fn note(connection: &Connection, text: &str) -> Result<()> {
    connection.execute(ADD, [text])?;
    connection.execute(TRIM, [ACTIONS_KEPT as i64])?;
    Ok(())
}

pub(super) fn list(connection: &Connection, limit: usize) -> Result<Vec<NotedAction>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let noted = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        Ok(NotedAction { at: rows::time(row, 0)?, text: row.get(1)? })
    })?;
    noted.collect()
}
