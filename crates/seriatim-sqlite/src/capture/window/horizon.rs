//! The horizon: a moment before which nothing is written any more.
//!
//! SQLite has one writer at a time. Whoever holds the write lock knows that no other transaction is writing: everything that
//! was written before is committed, and whoever writes later takes the moment of its rows later. So the present, asked while
//! holding the lock, is a horizon, however long transactions take. Only a writer that takes the moment of its rows *before* it
//! gets the lock, in the application for instance, and waits for the lock longer than the buffer, can still come too late.
//!
//! While a transaction is open for long, the horizon stays where it was: what it will commit is waited for.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode};

use super::super::consumers::now;
use super::super::slices::time;
use crate::database::BUSY_TIMEOUT;

/// How long a look waits for writers.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// What came of asking for the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// No write transaction was open at this moment.
    At(Timestamp),
    /// Somebody is writing for longer than was waited.
    Busy,
    /// The file cannot be written to, so its lock cannot be had.
    ReadOnly,
}

/// Asks for a moment at which no write transaction was open. Writes nothing.
pub(super) fn exact(connection: &Connection, wait: Duration) -> rusqlite::Result<Asked> {
    // On such a connection, SQLite begins without the lock, and does not say so.
    if connection.is_readonly("main")? {
        return Ok(Asked::ReadOnly);
    }
    connection.busy_timeout(wait)?;
    let locked = connection.execute_batch("begin immediate");
    connection.busy_timeout(BUSY_TIMEOUT)?;
    match locked {
        Ok(()) => {
            let at = present(connection);
            connection.execute_batch("rollback")?;
            at.map(Asked::At)
        }
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Ok(Asked::Busy),
            Some(ErrorCode::ReadOnly) => Ok(Asked::ReadOnly),
            _ => Err(error),
        },
    }
}

/// The present, by the database's clock.
pub(super) fn present(connection: &Connection) -> rusqlite::Result<Timestamp> {
    now(connection).map(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::OpenFlags;

    #[test]
    fn the_lock_of_the_file_tells_whether_somebody_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("create table orders (id integer primary key)").unwrap();
        let reader = Connection::open(&path).unwrap();
        assert!(matches!(exact(&reader, LOOK).unwrap(), Asked::At(_)));
        writer.execute_batch("begin immediate").unwrap();
        assert_eq!(exact(&reader, LOOK).unwrap(), Asked::Busy);
        writer.execute_batch("commit").unwrap();
        assert!(matches!(exact(&reader, LOOK).unwrap(), Asked::At(_)));
        let looker = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert_eq!(exact(&looker, LOOK).unwrap(), Asked::ReadOnly);
    }
}
