//! A PostgreSQL database: its address, a pool of connections, and connections of one's own.
//!
//! Nothing is connected before it is needed, and a connection that broke is replaced by the next call: a server that was
//! restarted is an error that is worth another try, not the end.
//!
//! All SQL of Seriatim names its schema (`seriatim.lease`), and [`Database::sql`] puts the schema's real name there, so that
//! nothing depends on a search path. Handlers' SQL does: it runs on connections that are as the role's own settings make them.

mod dedicated;
mod pooler;
mod reading;
mod schema;
mod tls;
mod url;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_postgres_rustls::MakeRustlsConnect;

pub use dedicated::Dedicated;
pub use schema::Schema;

use crate::error::PostgresError;
use reading::Reading;
use url::Address;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call waits for a connection that others use.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The most connections for Seriatim's own statements, and for those of each feed's handler. A lease's checkpoint is one short statement, so a few serve many partitions.
const POOL: usize = 12;

/// The most connections that read changes at the same time, for all feeds.
const READING: usize = 4;

/// What Seriatim's own connections have set, whatever the role's defaults are: values then mean the same everywhere.
const SETTINGS: &str = include_str!("../../queries/connection_settings.sql");

/// A pooled connection; it goes back to its pool when it is dropped.
pub type Client = deadpool_postgres::Object;

/// A PostgreSQL database. Clones are cheap and share their connections.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    tls: MakeRustlsConnect,
    /// For Seriatim's own statements.
    own: Pool,
    /// For handlers' statements: as the role's settings say, and never in the way of renewals, nor of other feeds' handlers.
    users: Mutex<HashMap<String, Pool>>,
    /// For reading changes. Its connections live on the reading thread.
    readers: Pool,
    reading: OnceCell<Reading>,
    /// That sessions are ours alone was looked at.
    looked: OnceCell<()>,
}

impl Database {
    /// The database at this URL, `postgres://user:password@host:port/database?sslmode=…`. Connects on first use.
    ///
    /// Beside what PostgreSQL's own clients know, `seriatim_schema=NAME` says in which schema Seriatim keeps its tables.
    pub fn connect(url: &str) -> Result<Self, PostgresError> {
        let address = Address::parse(url)?;
        let tls = tls::connector(&address)?;
        let own = pool(&address, &tls, POOL, Some(own_settings()))?;
        let users = Mutex::default();
        let readers = pool(&address, &tls, READING, Some(own_settings()))?;
        let (reading, looked) = (OnceCell::new(), OnceCell::new());
        Ok(Database { shared: Arc::new(Shared { address, tls, own, users, readers, reading, looked }) })
    }

    /// A connection for Seriatim's own statements.
    pub async fn client(&self) -> Result<Client, PostgresError> {
        self.refuse_shared_sessions().await?;
        self.shared.own.get().await.map_err(|cause| self.no_connection(cause))
    }

    /// A connection for users' statements on behalf of a feed, with the role's own search path and settings. Feeds do not wait for
    /// connections that others use.
    pub async fn users_client(&self, feed: &str) -> Result<Client, PostgresError> {
        self.refuse_shared_sessions().await?;
        let users = self.users(feed)?;
        users.get().await.map_err(|cause| self.no_connection(cause))
    }

    fn users(&self, feed: &str) -> Result<Pool, PostgresError> {
        let Shared { address, tls, users, .. } = &*self.shared;
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = users.get(feed) {
            return Ok(pool.clone());
        }
        let made = pool(address, tls, POOL, None)?;
        users.insert(feed.to_owned(), made.clone());
        Ok(made)
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
        let readers = self.shared.readers.clone();
        let with_client = async move { Ok(work(readers.get().await?).await) };
        let read: Result<T, deadpool_postgres::PoolError> = reading.run(with_client).await.map_err(failed)?;
        read.map_err(|cause| self.no_connection(cause))
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

    /// Before anything else: a pooler that hands sessions around is refused, not tried.
    async fn refuse_shared_sessions(&self) -> Result<(), PostgresError> {
        let look = async || match pooler::shares_sessions(&self.shared.address.config, &self.shared.tls).await
        {
            Ok(false) => Ok(()),
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
            let Shared { own, users, readers, .. } = &*self.shared;
            let users = users.lock().unwrap_or_else(PoisonError::into_inner);
            let pools = users.values().chain([own, readers]);
            pools.for_each(|pool| drop(pool.retain(|_, _| false)));
        }
        error
    }

    fn no_connection(&self, cause: deadpool_postgres::PoolError) -> PostgresError {
        use deadpool_postgres::PoolError;
        match cause {
            PoolError::Backend(cause) | PoolError::PostCreateHook(HookError::Backend(cause)) => {
                self.error("connecting to", cause)
            }
            other => PostgresError::busy(self.name(), &other),
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Database").field(&self.name()).finish()
    }
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
    if let Some(hook) = hook {
        builder = builder.post_create(hook);
    }
    builder.build().map_err(|cause| PostgresError::busy(&address.name, &cause))
}
