//! A PostgreSQL database: its address, a pool of connections, and connections of one's own.
//!
//! ```text
//!   hosts' locks, sequencer   one connection each
//!   store    leases, checkpoints                    ┐
//!   chores   installing, pruning, counting          │ a pool each, as `shares` has it:
//!   readers  reading changes                        │ at most so many connections altogether
//!   users    handlers' statements, feeds in turn    ┘
//! ```
//!
//! Nothing is connected before it is needed, and a connection that broke is replaced by the next call: a server that was
//! restarted is an error that is worth another try, not the end.
//!
//! All SQL of Seriatim names its schema (`seriatim.lease`), and [`Database::sql`] puts the schema's real name there, so that
//! nothing depends on a search path. Handlers' SQL does: it runs on connections that are as the role's own settings make them.

mod dedicated;
mod fair;
mod pooler;
mod reading;
mod schema;
mod shares;
mod tls;
mod url;

use std::borrow::Cow;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use seriatim::clock;
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres_rustls::MakeRustlsConnect;

pub use dedicated::Dedicated;
pub use schema::Schema;

use crate::error::PostgresError;
use fair::{Fair, Turn};
use reading::Reading;
use shares::Shares;
use url::Address;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call waits for a connection that others use.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(20);

/// A connection that has prepared more statements than this forgets them all: what the server keeps for them is bounded.
const STATEMENTS: usize = 512;

/// How long to wait before asking again a server that has no connection left: at first, and at most.
const FULL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What Seriatim's own connections have set, whatever the role's defaults are: values then mean the same everywhere.
const SETTINGS: &str = include_str!("../../queries/connection_settings.sql");

/// A pooled connection; it goes back to its pool when it is dropped.
pub type Client = deadpool_postgres::Object;

/// A connection for handlers' statements. It goes back when it is dropped, and with it its feed's turn.
pub struct UsersClient {
    client: Client,
    _turn: Turn,
}

impl Deref for UsersClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for UsersClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// A PostgreSQL database. Clones are cheap and share their connections.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    /// The pool that [`Database::client`] takes from.
    own: Own,
}

#[derive(Clone, Copy)]
enum Own {
    Store,
    Chores,
}

struct Shared {
    address: Address,
    tls: MakeRustlsConnect,
    /// For Seriatim's own statements.
    store: Pool,
    chores: Pool,
    /// For handlers' statements: as the role's settings say, and never in the way of renewals, nor of other feeds' handlers.
    users: Pool,
    turns: Arc<Fair>,
    /// For reading changes. Its connections live on the reading thread.
    readers: Pool,
    reading: OnceCell<Reading>,
    /// That sessions are ours alone was looked at.
    looked: OnceCell<()>,
    /// The server has no connection left, and that was said.
    full: AtomicBool,
}

impl Database {
    /// The database at this URL, `postgres://user:password@host:port/database?sslmode=…`. Connects on first use.
    ///
    /// Beside what PostgreSQL's own clients know, `seriatim_schema=NAME` says in which schema Seriatim keeps its tables, and
    /// `seriatim_connections=N` how many connections this value and its clones may have at most; 10 unless told otherwise, 7 at least.
    pub fn connect(url: &str) -> Result<Self, PostgresError> {
        Database::at(Address::parse(url)?)
    }

    fn at(address: Address) -> Result<Self, PostgresError> {
        let tls = tls::connector(&address)?;
        let shares = Shares::of(address.connections.unwrap_or(shares::DEFAULT));
        let own = |size| pool(&address, &tls, size, Some(own_settings()));
        let (store, chores, readers) = (own(shares.store)?, own(shares.chores)?, own(shares.readers)?);
        let users = pool(&address, &tls, shares.users, None)?;
        let turns = Arc::new(Fair::new(shares.users));
        let (reading, looked, full) = (OnceCell::new(), OnceCell::new(), AtomicBool::new(false));
        let shared = Shared { address, tls, store, chores, users, turns, readers, reading, looked, full };
        Ok(Database { shared: Arc::new(shared), own: Own::Store })
    }

    /// One database in place of both, where both are the same by the same role, so that they share their connections: as many as the
    /// one that may have more of them has. `None` where they are not the same.
    pub fn joined(&self, other: &Database) -> Option<Database> {
        let connections = self.connections().max(other.connections());
        let address = Address { connections, ..self.shared.address.clone() };
        self.is_same(other).then(|| Database::at(address).ok()).flatten()
    }

    /// Whether both are one database by the same role, so that one's connections are as good as the other's.
    pub fn is_same(&self, other: &Database) -> bool {
        self.shared.address.is_same(&other.shared.address)
    }

    /// Whether both have the same connections.
    pub fn shares_with(&self, other: &Database) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The most connections that this value and its clones may have, if that was said.
    pub fn connections(&self) -> Option<usize> {
        self.shared.address.connections
    }

    /// The same database with at most so many connections, 7 at least. Shares none with this value.
    pub fn with_connections(&self, connections: usize) -> Result<Database, PostgresError> {
        Database::at(Address { connections: Some(connections), ..self.shared.address.clone() })
    }

    /// The same, for the chores of captures: they never keep a lease from being renewed.
    pub(crate) fn for_captures(&self) -> Self {
        Database { shared: Arc::clone(&self.shared), own: Own::Chores }
    }

    /// The same, for short statements that may be needed in the middle of chores.
    pub(crate) fn for_store(&self) -> Self {
        Database { shared: Arc::clone(&self.shared), own: Own::Store }
    }

    /// A connection for Seriatim's own statements. One at a time for each task: with two, tasks could wait for each other.
    pub async fn client(&self) -> Result<Client, PostgresError> {
        self.get(match self.own {
            Own::Store => &self.shared.store,
            Own::Chores => &self.shared.chores,
        })
        .await
    }

    /// A connection for users' statements on behalf of a feed, with the role's own search path and settings. A feed never has all of
    /// them, and one that has fewer comes first.
    pub async fn users_client(&self, feed: &str) -> Result<UsersClient, PostgresError> {
        let turn = tokio::time::timeout(WAIT_TIMEOUT, self.shared.turns.turn(feed)).await;
        let busy =
            |_| PostgresError::busy(self.name(), &"handlers of this and other feeds use all connections");
        let _turn = turn.map_err(busy)?;
        Ok(UsersClient { client: self.get(&self.shared.users).await?, _turn })
    }

    /// A connection from this pool. A server that has none left is waited for.
    async fn get(&self, pool: &Pool) -> Result<Client, PostgresError> {
        self.refuse_shared_sessions().await?;
        let (began, mut pause) = (clock::now(), FULL.0);
        loop {
            match pool.get().await {
                Ok(client) => {
                    self.shared.full.store(false, Ordering::Relaxed);
                    return Ok(client);
                }
                Err(cause) if is_full(&cause) && began.elapsed() < WAIT_TIMEOUT => {
                    self.say_full();
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                    pause = (pause * 2).min(FULL.1);
                }
                Err(cause) => return Err(self.no_connection(cause)),
            }
        }
    }

    /// Says once that the server has no connection left, until it has one again.
    fn say_full(&self) {
        if !self.shared.full.swap(true, Ordering::Relaxed) {
            tracing::warn!(database = %self.name(), "the server has no connection left; waiting for one \
                (raise max_connections, or lower seriatim_connections)");
        }
    }

    /// A connection for reading changes, from those that are kept for it.
    pub(crate) async fn reader(&self) -> Result<Client, PostgresError> {
        self.get(&self.shared.readers).await
    }

    /// Does work that takes in many rows, with a connection for Seriatim's own statements, on a thread of its own.
    pub(crate) async fn read<T, F>(
        &self,
        work: impl FnOnce(Client) -> F + Send + 'static,
    ) -> Result<T, PostgresError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        self.refuse_shared_sessions().await?;
        let failed = |cause: std::io::Error| PostgresError::busy(self.name(), &cause);
        let start = async || Reading::start();
        let reading = self.shared.reading.get_or_try_init(start).await.map_err(failed)?;
        let of = self.clone();
        let with_client = async move { Ok(work(of.reader().await?).await) };
        reading.run(with_client).await.map_err(failed)?
    }

    /// Runs one statement of Seriatim's own, prepared once on each connection, and returns its rows.
    pub(crate) async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let client = self.client().await?;
        let rows = async {
            let statement = client.prepare_cached(&self.sql(sql)).await?;
            client.query(&statement, parameters).await
        };
        rows.await.map_err(|cause| self.error(doing, cause))
    }

    /// A connection that is nobody else's: for LISTEN, and for locks that live as long as it does.
    pub async fn dedicated(&self) -> Result<Dedicated, PostgresError> {
        self.refuse_shared_sessions().await?;
        let (config, tls) = (&self.shared.address.config, self.shared.tls.clone());
        let dedicated = async {
            let dedicated = Dedicated::open(config, tls).await?;
            dedicated.client().batch_execute(SETTINGS).await?;
            Ok(dedicated)
        };
        dedicated.await.map_err(|cause| self.error("connecting to", cause))
    }

    /// Where the database is and how to get there, for a connection of another kind than the driver's.
    pub(crate) fn address(&self) -> (&tokio_postgres::Config, &MakeRustlsConnect) {
        (&self.shared.address.config, &self.shared.tls)
    }

    /// Before anything else: a pooler that hands sessions around is refused, not tried.
    async fn refuse_shared_sessions(&self) -> Result<(), PostgresError> {
        let look = async || match pooler::shares_sessions(&self.shared.address.config, &self.shared.tls).await
        {
            Ok(false) => {
                tokio::spawn(close_idle(Arc::downgrade(&self.shared)));
                Ok(())
            }
            Ok(true) => Err(PostgresError::shared_sessions(self.name())),
            Err(cause) => Err(self.error("connecting to", cause)),
        };
        self.shared.looked.get_or_try_init(look).await?;
        Ok(())
    }

    /// The schema that Seriatim's tables are in.
    pub fn schema(&self) -> &Schema {
        &self.shared.address.schema
    }

    /// A statement as this database's schema makes it: the files say `seriatim.` before every table and function.
    pub fn sql<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        self.schema().in_sql(sql)
    }

    /// The database as errors name it: never with a password.
    pub fn name(&self) -> &str {
        &self.shared.address.name
    }

    /// An error of a statement on this database. `doing` is what was being done, such as `"reading the leases of"`.
    pub fn error(&self, doing: &'static str, cause: tokio_postgres::Error) -> PostgresError {
        let error = PostgresError::new(self.name(), doing, cause);
        if error.is_read_only() {
            // After a failover these connections lead to the old primary; new ones may lead to the new one.
            self.shared.pools().for_each(|pool| drop(pool.retain(|_, _| false)));
        }
        error
    }

    fn no_connection(&self, cause: deadpool_postgres::PoolError) -> PostgresError {
        match cause {
            PoolError::Backend(cause) | PoolError::PostCreateHook(HookError::Backend(cause)) => {
                self.error("connecting to", cause)
            }
            other => PostgresError::busy(self.name(), &other),
        }
    }
}

impl Shared {
    fn pools(&self) -> impl Iterator<Item = &Pool> {
        [&self.store, &self.chores, &self.users, &self.readers].into_iter()
    }
}

/// Whether the server has no connection left.
fn is_full(cause: &PoolError) -> bool {
    match cause {
        PoolError::Backend(cause) | PoolError::PostCreateHook(HookError::Backend(cause)) => {
            cause.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
        }
        _ => false,
    }
}

/// Closes connections that nobody has used for a while, for as long as the database is in use.
async fn close_idle(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.pools().for_each(|pool| drop(pool.retain(|_, metrics| metrics.last_used() < IDLE)));
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Database").field(&self.name()).finish()
    }
}

fn forget_statements() -> Hook {
    Hook::sync_fn(|client, _| {
        if client.statement_cache.size() > STATEMENTS {
            client.statement_cache.clear();
        }
        Ok(())
    })
}

fn own_settings() -> Hook {
    Hook::async_fn(|client, _| {
        Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
    })
}

fn pool(
    address: &Address,
    tls: &MakeRustlsConnect,
    size: usize,
    hook: Option<Hook>,
) -> Result<Pool, PostgresError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(address.config.clone(), tls.clone(), recycling);
    let timeouts = Timeouts { wait: Some(WAIT_TIMEOUT), create: Some(CONNECT_TIMEOUT), recycle: None };
    let mut builder = Pool::builder(manager).max_size(size).timeouts(timeouts).runtime(Runtime::Tokio1);
    // The one that was used last comes first: so those that are not needed become idle, and are closed.
    builder = builder.queue_mode(QueueMode::Lifo).post_recycle(forget_statements());
    if let Some(hook) = hook {
        builder = builder.post_create(hook);
    }
    builder.build().map_err(|cause| PostgresError::busy(&address.name, &cause))
}
