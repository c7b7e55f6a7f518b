//! What the program can do with changes by itself.

mod stdout;

use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use seriatim::handler::Handling;
use seriatim_sqlite::{SqlEffect, SqlProblem, SqliteStore, in_transaction};
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerKind};
use crate::error::{Error, Result};
use crate::setup::{self, Guarantee};

const COLUMNS: &str = include_str!("../../queries/table_columns.sql");

/// Whether the handler can work: its SQL is prepared against the source, and its parameters are columns of the table.
pub async fn check(feed: &FeedConfig) -> Result<()> {
    let HandlerKind::Sql { sql, delete } = &feed.handler.kind else { return Ok(()) };
    let (columns, key) = shape(feed)?;
    let checked = SqlEffect::new(sql, delete.as_deref()).check(feed.database.path(), &columns, &key).await;
    checked.map_err(|problem| bad_sql(feed, problem))
}

/// The names of the table's columns, and of those in its key.
fn shape(feed: &FeedConfig) -> Result<(Vec<String>, Vec<String>)> {
    let read = || {
        let connection = Connection::open_with_flags(feed.database.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut statement = connection.prepare(COLUMNS)?;
        let columns = statement.query_map([&feed.table], |row| Ok((row.get(0)?, row.get(1)?)))?;
        columns.collect::<rusqlite::Result<Vec<(String, i64)>>>()
    };
    let columns =
        read().map_err(|cause| Error::failed("the table's columns cannot be read").caused_by(cause))?;
    let primary = columns.iter().filter(|(_, place)| *place > 0).map(|(name, _)| name.clone());
    let key = feed.key.clone().unwrap_or_else(|| primary.collect());
    Ok((columns.into_iter().map(|(name, _)| name).collect(), key))
}

fn bad_sql(feed: &FeedConfig, problem: SqlProblem) -> Error {
    match problem {
        SqlProblem::Database(error) => setup::unusable(feed.database.path(), &error),
        problem => Error::failed(problem.to_string()).help(format!("mend feed.{}.handler.sql", feed.name)),
    }
}

/// The handling that a feed's configuration asks for. `closed` is told when the standard output is closed.
pub fn of(feed: &FeedConfig, config: &Config, store: &SqliteStore, closed: &Arc<Notify>) -> Result<Handling> {
    Ok(match &feed.handler.kind {
        HandlerKind::Stdout => Handling::AtLeastOnce(Arc::new(stdout::Stdout::new(Arc::clone(closed)))),
        HandlerKind::Sql { sql, delete } => {
            let effect = SqlEffect::new(sql, delete.as_deref()).for_columns(shape(feed)?.0.len());
            match Guarantee::of(feed, config) {
                Guarantee::ExactlyOnce => {
                    Handling::ExactlyOnce(Arc::new(in_transaction(store, effect.into_fn())))
                }
                Guarantee::AtLeastOnce => Handling::AtLeastOnce(Arc::new(effect.on(feed.database.path()))),
            }
        }
    })
}
