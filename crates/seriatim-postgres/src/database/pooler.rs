//! Finds out whether a pooler is in between that gives each transaction another session.
//!
//! Seriatim's sessions have settings, prepared statements and locks. Through such a pooler these would end up in sessions
//! of others, so nothing is set before this is known.

use std::time::Duration;

use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Dedicated;

const SESSION: &str = include_str!("../../queries/session.sql");
const HOLD: &str = include_str!("../../queries/session_hold.sql");

/// How often one connection is asked for its session.
const ASKED: usize = 3;

/// How long a session may take to answer before it is given up: a pool may be too small for two.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a pooler says that does not even know transactions.
const NO_TRANSACTIONS: &str = "pooling mode";

/// Whether sessions are shared. Where that cannot be told, it will not be: nobody is refused by mistake, since a session of one's
/// own never changes and is nobody else's.
pub(super) async fn shares_sessions(config: &Config, tls: &MakeRustlsConnect) -> Result<bool, Error> {
    let one = Dedicated::open(config, tls.clone()).await?;
    // There may be no room for a second one: the calls that need it will say so.
    let Ok(other) = Dedicated::open(config, tls.clone()).await else { return Ok(false) };
    let asked = tokio::time::timeout(PATIENCE, is_shared(one.client(), other.client())).await;
    match asked {
        Ok(Err(cause)) => Ok(said(&cause).contains(NO_TRANSACTIONS)),
        Ok(Ok(shared)) => Ok(shared),
        Err(_) => Ok(false),
    }
}

async fn is_shared(one: &Client, other: &Client) -> Result<bool, Error> {
    let first = session(one, SESSION).await?;
    for _ in 1..ASKED {
        if session(one, SESSION).await? != first {
            return Ok(true);
        }
    }
    // While the other one is in a transaction it has its session to itself: that of the first, or the first must take another.
    Ok(session(other, HOLD).await? == first || session(one, SESSION).await? != first)
}

/// The number of the server's process that answers.
async fn session(client: &Client, sql: &str) -> Result<Option<String>, Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

fn said(cause: &Error) -> &str {
    cause.as_db_error().map_or("", |db| db.message())
}
