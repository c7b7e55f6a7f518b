//! A connection to the watched database, for SQL without parameters.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::types::ValueRef;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::trouble::Trouble;

/// How long a statement may wait for others; far longer than anybody is kept waiting on purpose.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a database is.
#[derive(Clone, Debug)]
pub enum Address {
    /// In a file.
    File(PathBuf),
    /// At a server.
    Url(String),
}

/// A connection.
pub enum Database {
    /// To a file.
    Sqlite(rusqlite::Connection),
    /// To a server.
    Postgres(Runtime, Client),
}

impl Database {
    /// Connects.
    pub fn open(address: &Address) -> Result<Self, Trouble> {
        match address {
            Address::File(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(PATIENCE)?;
                Ok(Database::Sqlite(connection))
            }
            Address::Url(url) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let client = runtime.block_on(async {
                    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
                    tokio::spawn(connection);
                    Ok::<_, tokio_postgres::Error>(client)
                })?;
                Ok(Database::Postgres(runtime, client))
            }
        }
    }

    /// Runs statements.
    pub fn execute(&self, sql: &str) -> Result<(), Trouble> {
        match self {
            Database::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Database::Postgres(runtime, client) => Ok(runtime.block_on(client.batch_execute(sql))?),
        }
    }

    /// The rows of a query, as text; nothing is an empty text.
    pub fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>, Trouble> {
        match self {
            Database::Sqlite(connection) => {
                let mut statement = connection.prepare(sql)?;
                let columns = statement.column_count();
                let rows = statement.query_map([], |row| {
                    (0..columns).map(|column| Ok(text(row.get_ref(column)?))).collect::<Result<Vec<_>, _>>()
                })?;
                Ok(rows.collect::<Result<Vec<_>, _>>()?)
            }
            Database::Postgres(runtime, client) => {
                let answer = runtime.block_on(client.simple_query(sql))?;
                let row = |message| match message {
                    SimpleQueryMessage::Row(row) => Some(
                        (0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect(),
                    ),
                    _ => None,
                };
                Ok(answer.into_iter().filter_map(row).collect())
            }
        }
    }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
