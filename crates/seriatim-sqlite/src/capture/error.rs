//! Errors on the connection's thread: SQLite's own, and what we found out ourselves.

use rusqlite::Connection;
use seriatim::source::SourceError;

use crate::database::Database;

/// Why work on a connection stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite said no.
    Sqlite(rusqlite::Error),
    /// The source is not as it must be.
    Source(SourceError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

impl From<SourceError> for Fault {
    fn from(error: SourceError) -> Self {
        Fault::Source(error)
    }
}

/// Runs work on the connection's thread and makes one kind of error of its two.
pub(super) async fn run<T, F>(database: &Database, doing: &'static str, work: F) -> Result<T, SourceError>
where
    T: Send + 'static,
    F: FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
{
    let outcome = database.call(doing, |connection| match work(connection) {
        Ok(value) => Ok(Ok(value)),
        Err(Fault::Source(error)) => Ok(Err(error)),
        Err(Fault::Sqlite(error)) => Err(error),
    });
    outcome.await?
}
