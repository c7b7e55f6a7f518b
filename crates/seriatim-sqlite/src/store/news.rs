//! Noticing that a lease changed hands, or was asked for, without reading all leases again and again.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

const OWNERSHIP: &str = include_str!("../../queries/lease_ownership.sql");

/// What was there when leases were last looked at.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<Option<Sight>>);

#[derive(Clone, Debug, PartialEq)]
struct Sight {
    /// Moves with every commit of another connection to the file, also those that are not about leases.
    data_version: i64,
    ownership: (i64, Option<String>),
}

impl News {
    /// Notes what is there now. Called in the transaction that reads the leases.
    pub(super) fn note(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sight = Sight { data_version: data_version(connection)?, ownership: ownership(connection)? };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sight);
        Ok(())
    }

    /// Whether ownership is another than when it was noted.
    pub(super) fn any(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sight) = noted.as_mut() else { return Ok(true) };
        let data_version = data_version(connection)?;
        if data_version == sight.data_version {
            return Ok(false);
        }
        sight.data_version = data_version;
        Ok(ownership(connection)? != sight.ownership)
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("pragma data_version")?.query_row([], |row| row.get(0))
}

fn ownership(connection: &Connection) -> rusqlite::Result<(i64, Option<String>)> {
    let mut statement = connection.prepare_cached(OWNERSHIP)?;
    statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
}
