//! The databases that the program speaks to. Each kind is one file here; nothing outside tells them apart.

#[cfg(feature = "dynamodb")]
mod dynamodb;
mod ledger;
mod redis;
mod sqlite;
mod postgres;

use std::ops::Deref;
use std::sync::Arc;

use seriatim::Store;
use seriatim::handler::Handling;
use seriatim::queue::Queue;
use seriatim::source::{Blocker, Install};
use seriatim_postgres::PostgresStore;
use seriatim_redis::RedisStore;
use seriatim_sqlite::SqliteStore;

use crate::config::{Database, FeedConfig, QueueConfig};
use crate::error::{Error, Result};
use crate::setup::Guarantee;

pub use ledger::{existing_ledger, make_ledger, open_ledger};
pub use postgres::ledger_script as postgres_ledger_script;

/// A store that is open.
#[derive(Clone)]
pub enum OpenStore {
    /// In a SQLite file.
    Sqlite(Arc<SqliteStore>),
    /// In a PostgreSQL database.
    Postgres(Arc<PostgresStore>),
    /// In Redis.
    Redis(Arc<RedisStore>),
    /// In a DynamoDB table.
    #[cfg(feature = "dynamodb")]
    DynamoDb(Arc<seriatim_dynamodb::DynamoDbStore>),
}

impl OpenStore {
    /// What about the store's server can make it lose what it was told.
    pub async fn risks(&self) -> Vec<Blocker> {
        match self {
            OpenStore::Redis(store) => store.risks().await,
            _ => Vec::new(),
        }
    }

    /// The store, for whoever keeps it.
    pub fn shared(&self) -> Arc<dyn Store> {
        match self {
            OpenStore::Sqlite(store) => store.clone(),
            OpenStore::Postgres(store) => store.clone(),
            OpenStore::Redis(store) => store.clone(),
            #[cfg(feature = "dynamodb")]
            OpenStore::DynamoDb(store) => store.clone(),
        }
    }
}

impl Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        match self {
            OpenStore::Sqlite(store) => &**store,
            OpenStore::Postgres(store) => &**store,
            OpenStore::Redis(store) => &**store,
            #[cfg(feature = "dynamodb")]
            OpenStore::DynamoDb(store) => &**store,
        }
    }
}

/// SQL of a handler, for all changes and, where they have their own, for deletes.
#[derive(Clone, Copy)]
pub struct Sql<'a> {
    /// For every change, or for all but deletes when those have their own.
    pub sql: &'a str,
    /// For deletes.
    pub delete: Option<&'a str>,
}

/// Opens the store, making it if there is none.
pub async fn open_store(database: &Database) -> Result<OpenStore> {
    let opened = match database {
        Database::Sqlite(path) => sqlite::open_store(path).await.map(OpenStore::Sqlite),
        Database::Postgres(database) => postgres::open_store(database).await.map(OpenStore::Postgres),
        Database::Redis(url) => redis::open_store(url).await.map(OpenStore::Redis),
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(address) => dynamodb::open_store(address).await.map(OpenStore::DynamoDb),
    };
    opened.map_err(|error| error.about("store"))
}

/// Opens the store if there is one. Makes nothing.
pub async fn existing_store(database: &Database) -> Result<Option<OpenStore>> {
    let opened = match database {
        Database::Sqlite(path) => {
            sqlite::existing_store(path).await.map(|store| store.map(OpenStore::Sqlite))
        }
        Database::Postgres(database) => {
            postgres::existing_store(database).await.map(|store| store.map(OpenStore::Postgres))
        }
        // There is nothing to make in Redis: an empty store is one that nobody has used.
        Database::Redis(url) => redis::open_store(url).await.map(|store| Some(OpenStore::Redis(store))),
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(address) => {
            dynamodb::existing_store(address).await.map(|store| store.map(OpenStore::DynamoDb))
        }
    };
    opened.map_err(|error| error.about("store"))
}

/// The feed's capture. Nothing is opened before it is used.
pub fn capture(feed: &FeedConfig) -> Arc<dyn Install> {
    match &feed.database {
        Database::Sqlite(path) => sqlite::capture(path, feed),
        Database::Postgres(database) => postgres::capture(database, feed),
        _ => unreachable!("{NO_TABLES}"),
    }
}

/// Why no feed of tables has another source.
const NO_TABLES: &str = "the configuration refuses to watch tables where there are none";

#[cfg(feature = "dynamodb")]
fn no_queues() -> Error {
    Error::usage("DynamoDB has no queues").help("use a source that is sqlite, postgres or redis")
}

/// The queue, for producers and workers. What it needs is made.
pub async fn queue(queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
    let opened = match &queue.database {
        Database::Sqlite(path) => sqlite::queue(path, queue).await,
        Database::Postgres(database) => postgres::queue(database, queue).await,
        Database::Redis(url) => redis::queue(url, queue).await,
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(_) => Err(no_queues()),
    };
    opened.map_err(|error| error.about(&format!("feed {}", queue.name)))
}

/// The queue if there is one. Makes nothing.
pub async fn existing_queue(queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
    let opened = match &queue.database {
        Database::Sqlite(path) => sqlite::existing_queue(path, queue).await,
        Database::Postgres(database) => postgres::existing_queue(database, queue).await,
        // There is nothing to make in Redis: an empty queue is one that nobody has used.
        Database::Redis(url) => redis::queue(url, queue).await.map(Some),
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(_) => Err(no_queues()),
    };
    opened.map_err(|error| error.about(&format!("feed {}", queue.name)))
}

/// Says that the store can be used, or fails with what is wrong. Makes nothing.
pub async fn check_store(database: &Database) -> Result<String> {
    match database {
        Database::Sqlite(path) => sqlite::check_store(path).await,
        Database::Postgres(database) => postgres::check_store(database).await,
        Database::Redis(url) => redis::open_store(url).await.map(|_| "is there"),
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(address) => dynamodb::check_store(address).await,
    }
    .map(|state| format!("{database} {state}"))
}

/// Fails with what is wrong with a source. Makes nothing.
pub async fn check_source(database: &Database) -> Result<()> {
    match database {
        Database::Sqlite(path) => sqlite::check_source(path).await,
        Database::Postgres(database) => postgres::check_source(database).await,
        Database::Redis(url) => redis::open_store(url).await.map(drop),
        #[cfg(feature = "dynamodb")]
        Database::DynamoDb(address) => dynamodb::check_store(address).await.map(drop),
    }
}

/// Fails when there is nothing where the feed's source should be, as far as that can be told without connecting.
pub fn source_exists(feed: &FeedConfig) -> Result<()> {
    match &feed.database {
        Database::Sqlite(path) => match path.exists() {
            true => Ok(()),
            false => Err(Error::failed(format!("feed {}: there is no file {}", feed.name, path.display()))
                .help(format!("check the url of source {}", feed.source))),
        },
        _ => Ok(()),
    }
}

/// Whether two URLs lead to one database.
pub fn same(left: &Database, right: &Database) -> bool {
    match (left, right) {
        (Database::Sqlite(left), Database::Sqlite(right)) => sqlite::same_file(left, right),
        (Database::Postgres(left), Database::Postgres(right)) => left.name() == right.name(),
        (Database::Redis(left), Database::Redis(right)) => left == right,
        #[cfg(feature = "dynamodb")]
        (Database::DynamoDb(left), Database::DynamoDb(right)) => left.to_string() == right.to_string(),
        _ => false,
    }
}

/// Whether the SQL can be run for the feed's changes: it is prepared, and its parameters are columns of the table.
pub async fn check_sql(feed: &FeedConfig, sql: Sql<'_>) -> Result<()> {
    let shape = capture(feed).shape().await?;
    match &feed.database {
        Database::Sqlite(path) => sqlite::check_sql(path, feed, sql, &shape).await,
        Database::Postgres(database) => postgres::check_sql(database, feed, sql, &shape).await,
        _ => unreachable!("{NO_TABLES}"),
    }
}

/// The handling that runs SQL in the feed's source, in the store's own transactions where both are one database.
pub async fn sql_handling(
    feed: &FeedConfig,
    sql: Sql<'_>,
    store: &OpenStore,
    guarantee: Guarantee,
) -> Result<Handling> {
    let shape = capture(feed).shape().await?;
    Ok(match (&feed.database, store, guarantee) {
        (Database::Sqlite(_), OpenStore::Sqlite(store), Guarantee::ExactlyOnce) => {
            sqlite::in_store(store, sql, &shape)
        }
        (Database::Sqlite(path), ..) => sqlite::in_source(path, sql, &shape),
        (Database::Postgres(_), OpenStore::Postgres(store), Guarantee::ExactlyOnce) => {
            postgres::in_store(store, feed, sql, &shape).await?
        }
        (Database::Postgres(database), ..) => postgres::in_source(database, feed, sql, &shape).await?,
        _ => unreachable!("{NO_TABLES}"),
    })
}
