//! The databases that the program speaks to.
//!
//! Each kind is one file here and one line in [`KINDS`]. Nothing outside of its file tells the kinds apart: what one of them can
//! do and others cannot is a question that [`Backend`] asks.

mod backend;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod postgres;
mod redis;
mod sqlite;

use std::fmt::Display;
use std::sync::Arc;

use seriatim::FeedName;
use seriatim::backend::Asked;
use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::order::GateState;
use seriatim::queue::Queue;
use seriatim::source::Install;

use crate::config::{FeedConfig, QueueConfig};
use crate::error::{Error, Result};
use crate::setup::Guarantee;

pub use backend::{Address, Backend, Database, Kind, OpenStore, Place, QueueBackend, SourceBackend, Sql};

/// All kinds of databases.
pub const KINDS: [Kind; 4] = [sqlite::KIND, postgres::KIND, redis::KIND, dynamodb::KIND];

#[cfg(not(feature = "dynamodb"))]
mod dynamodb {
    const LEFT_OUT: &str =
        "is DynamoDB, which this build has not: build it with `cargo build --release --features dynamodb`";

    pub const KIND: super::Kind = super::Kind { schemes: &["dynamodb"], read: |_| Err(LEFT_OUT.to_owned()) };
}

/// Opens the store, making it if there is none.
pub async fn open_store(database: &Database) -> Result<OpenStore> {
    database.open_store().await.map_err(about_store)
}

/// Opens the store if there is one. Makes nothing.
pub async fn existing_store(database: &Database) -> Result<Option<OpenStore>> {
    database.existing_store().await.map_err(about_store)
}

/// Opens the ledger in the store. One that is not there is made, now or by its first use, unless that is somebody else's to do.
pub async fn open_ledger(store: &Database) -> Result<Arc<dyn Ledger>> {
    store.open_ledger().await.map_err(about_store)
}

/// Makes what the ledger needs, where it is not there.
pub async fn make_ledger(store: &Database) -> Result<()> {
    store.make_ledger().await.map_err(about_store)
}

/// Opens the ledger if there is one. Makes nothing.
pub async fn existing_ledger(store: &Database) -> Result<Option<Arc<dyn Ledger>>> {
    store.existing_ledger().await.map_err(about_store)
}

/// The state of the gate of this name in the store. What it needs is made.
pub async fn gate(store: &Database, name: &FeedName) -> Result<Arc<dyn GateState>> {
    store.gate(name).await.map_err(about_store)
}

fn about_store(error: Error) -> Error {
    error.about("store")
}

/// Says that the store can be used, or fails with what is wrong. Makes nothing.
pub async fn check_store(database: &Database) -> Result<String> {
    Ok(format!("{database} {}", database.check_store().await?))
}

/// The feed's capture. Nothing is opened before it is used.
pub fn capture(feed: &FeedConfig) -> Arc<dyn Install> {
    feed.database.capture(feed)
}

/// The queue, for producers and workers. What it needs is made.
pub async fn queue(queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
    queue.database.queue(queue).await.map_err(|error| about_queue(queue, error))
}

/// The queue if there is one. Makes nothing.
pub async fn existing_queue(queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
    queue.database.existing(queue).await.map_err(|error| about_queue(queue, error))
}

fn about_queue(queue: &QueueConfig, error: Error) -> Error {
    error.about(&format!("feed {}", queue.name))
}

/// What the configuration of a feed asks of any capture.
fn asked(feed: &FeedConfig) -> Asked {
    Asked {
        feed: feed.name.clone(),
        key: feed.key.clone(),
        partitions: feed.partitions,
        filter: feed.filter.clone(),
        columns: feed.columns.clone(),
        every: feed.every,
    }
}

/// Whether two URLs lead to one database.
pub fn same(left: &dyn Backend, right: &dyn Backend) -> bool {
    left.name() == right.name() && left.identity() == right.identity()
}

/// Whether the SQL can be run for the feed's changes: it is prepared, and its parameters are columns of the table.
pub async fn check_sql(feed: &FeedConfig, sql: Sql<'_>) -> Result<()> {
    feed.database.check_sql(feed, sql, &capture(feed).shape().await?).await
}

/// The handling that runs SQL in the feed's source, in the store's own transactions where both are one database.
pub async fn sql_handling(
    feed: &FeedConfig,
    sql: Sql<'_>,
    store: &OpenStore,
    guarantee: Guarantee,
) -> Result<Handling> {
    let shape = capture(feed).shape().await?;
    match guarantee {
        Guarantee::ExactlyOnce => store.backend().sql_handling(feed, sql, &shape).await,
        Guarantee::AtLeastOnce | Guarantee::Deduplicated => {
            feed.database.sql_handling(feed, sql, &shape).await
        }
    }
}

/// A URL that a database's crate refuses, without its password.
fn refused(address: &Address<'_>, error: impl Display, remedy: Option<impl Display>) -> String {
    let shown = crate::config::quoted(address.url);
    let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
    format!("is {shown} and cannot be used: {error}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_belongs_to_one_kind() {
        let schemes: Vec<&str> = KINDS.iter().flat_map(|kind| kind.schemes).copied().collect();
        let apart: std::collections::BTreeSet<&str> = schemes.iter().copied().collect();
        assert_eq!(schemes.len(), apart.len(), "{schemes:?}");
    }
}
