//! The contract of a back end: all that the program asks of a kind of database.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::backend::Dialect;
use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::order::GateState;
use seriatim::queue::Queue;
use seriatim::source::{Blocker, Install, Shape, Watching};
use seriatim::{FeedName, Store};

use crate::commands::once::Form;
use crate::config::{FeedConfig, QueueConfig};
use crate::error::{Error, Result};

/// One kind of database, as it stands in the list of all kinds.
pub struct Kind {
    /// What its URLs begin with; the first is the one to show.
    pub schemes: &'static [&'static str],
    /// Reads a URL, or says what is wrong with it without showing a password. Connects to nothing.
    pub read: fn(&Address<'_>) -> Result<Database, String>,
}

/// A URL of the configuration.
pub struct Address<'a> {
    /// All of it.
    pub url: &'a str,
    /// What follows the scheme and its colon.
    pub rest: &'a str,
    /// The folder that paths are relative to.
    pub folder: &'a Path,
}

/// A database that the configuration names. Nothing is connected before it is used.
pub type Database = Arc<dyn Backend>;

/// A database as the place of a store and of ledgers. Shown without passwords.
///
/// # Promises
/// - What only looks (`existing_…`, `check_…`) makes nothing.
/// - Errors say what is wrong and what to do about it.
#[async_trait]
pub trait Backend: Any + Debug + Display + Send + Sync {
    /// Its name in sentences.
    fn name(&self) -> &'static str;

    /// The same text for all URLs that lead to one database of this kind.
    fn identity(&self) -> String;

    /// Opens the store, making it if there is none.
    async fn open_store(&self) -> Result<OpenStore>;

    /// Opens the store if there is one.
    async fn existing_store(&self) -> Result<Option<OpenStore>>;

    /// In which state the store is, or what keeps it from being used.
    async fn check_store(&self) -> Result<&'static str>;

    /// Opens the ledger of signals. One that is not there is made, now or by its first use.
    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>>;

    /// Makes what the ledger needs, where it is not there.
    async fn make_ledger(&self) -> Result<()> {
        self.open_ledger().await.map(drop)
    }

    /// Opens the ledger if there is one.
    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>>;

    /// The text that makes what the ledger needs, in this form.
    async fn ledger_script(&self, form: Form) -> Result<String>;

    /// The state of the gate of this name. What it needs is made.
    async fn gate(&self, _: &FeedName) -> Result<Arc<dyn GateState>> {
        Err(Error::failed(format!("{} keeps no gates", self.name()))
            .help("name a store in SQLite, PostgreSQL or Redis"))
    }

    /// The SQL that makes what gates need.
    async fn gate_script(&self) -> Result<String> {
        Err(Error::usage(format!(
            "{} has no SQL to print: the first use of a gate makes all that it needs",
            self.name()
        )))
    }

    /// Fails with what keeps it from being a source.
    async fn check_source(&self) -> Result<()>;

    /// Takes out all that Seriatim has made here, with everything that is in it, and says what that was; `None` when there was nothing. What
    /// has to go first, `force` does not wait for.
    async fn purge(&self, place: Place, force: bool) -> Result<Option<String>>;

    /// The same database with at most so many connections, where connections can be bounded.
    fn with_connections(&self, _most: usize) -> Option<Result<Database, String>> {
        None
    }

    /// One database in place of both, where both can share their connections.
    fn joined(&self, _other: &dyn Backend) -> Option<Database> {
        None
    }

    /// The same, where changes of its rows can be noticed.
    fn source(self: Arc<Self>) -> Option<Arc<dyn SourceBackend>> {
        None
    }

    /// The same, where it can have queues.
    fn queues(self: Arc<Self>) -> Option<Arc<dyn QueueBackend>> {
        None
    }
}

/// What a database is in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Only the store: it may have been made for that.
    Store,
    /// A source, and possibly the store too.
    Source,
}

/// A database whose rows can be watched.
#[async_trait]
pub trait SourceBackend: Backend {
    /// The SQL that filters are written in.
    fn dialect(&self) -> Dialect;

    /// The name of the database on its server, for envelopes.
    fn database_name(&self) -> String {
        String::new()
    }

    /// The schema of tables that are named without one, where there are schemas.
    fn default_schema(&self) -> Option<&'static str> {
        None
    }

    /// Why a journal cannot chain changes by another key than the primary one, if it cannot.
    fn no_chain_by_key(&self) -> Option<&'static str> {
        None
    }

    /// Whether its own log can be read.
    fn has_log(&self) -> bool {
        false
    }

    /// Fails when there is nothing where the source should be, as far as that can be told without connecting.
    fn exists(&self, _feed: &FeedConfig) -> Result<()> {
        Ok(())
    }

    /// The feed's capture. Nothing is opened before it is used.
    fn capture(&self, feed: &FeedConfig) -> Arc<dyn Install>;

    /// All consumers in the source's books, of all feeds and stores.
    async fn watchings(&self) -> Result<Vec<Watching>>;

    /// Takes a consumer out of the books, with what was installed for it alone.
    async fn end_watching(&self, watching: &Watching) -> Result<()>;

    /// Whether the SQL can be run for the feed's changes: it is prepared, and its parameters are columns of the table.
    async fn check_sql(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<()>;

    /// The handling that runs SQL here, in transactions of its own.
    async fn sql_handling(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<Handling>;
}

/// A database that has queues.
#[async_trait]
pub trait QueueBackend: Backend {
    /// In which state the place of queues is, or what keeps it from being one.
    async fn check_queues(&self) -> Result<&'static str> {
        self.check_source().await.map(|()| "is there")
    }

    /// The queue, for producers and workers. What it needs is made.
    async fn queue(&self, queue: &QueueConfig) -> Result<Arc<dyn Queue>>;

    /// The queue of this name if there is one.
    async fn existing_queue(&self, name: &FeedName) -> Result<Option<Arc<dyn Queue>>>;

    /// The queue if there is one, with all that the configuration says of it.
    async fn existing(&self, queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
        self.existing_queue(&queue.name).await
    }

    /// Takes over what workers of another program left, and says what.
    async fn adopt(&self, queue: &QueueConfig) -> Result<Vec<String>> {
        let what = format!("feed {}: {} has no workers of another program", queue.name, self.name());
        Err(Error::usage(what).help("only queues in Redis can have been worked on by others"))
    }
}

/// A back end's store, with the capabilities that only some stores have.
#[async_trait]
pub trait BackendStore: Store {
    /// What about the store's server can make it lose what it was told.
    async fn risks(&self) -> Vec<Blocker> {
        Vec::new()
    }

    /// The handling that runs SQL in the transactions of the store's checkpoints.
    async fn sql_handling(&self, feed: &FeedConfig, _: Sql<'_>, _: &Shape) -> Result<Handling> {
        Err(Error::failed(format!("feed {}: its store runs no SQL", feed.name)))
    }
}

/// A store that is open.
#[derive(Clone)]
pub struct OpenStore(Arc<dyn BackendStore>);

impl OpenStore {
    /// This store.
    pub fn new(store: impl BackendStore) -> Self {
        OpenStore(Arc::new(store))
    }

    /// What only some stores can do.
    pub fn backend(&self) -> &dyn BackendStore {
        &*self.0
    }

    /// The store, for whoever keeps it.
    pub fn shared(&self) -> Arc<dyn Store> {
        self.0.clone()
    }
}

impl Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
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
