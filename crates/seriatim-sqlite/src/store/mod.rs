//! The store in one SQLite file, shared by any number of processes on one machine.
//!
//! Every write is one `BEGIN IMMEDIATE` transaction: SQLite has one writer at a time, so what a transaction reads is still
//! so when it writes. All tables begin with `seriatim_`, as the file may be the user's own.
//!
//! ```text
//!   shop.db            the tables
//!   shop.db-hosts/     one file for each host, locked while its process lives (see `liveness`)
//! ```

mod chain;
mod checkpoint;
mod discarded;
mod hosts;
mod leases;
mod liveness;
mod news;
mod parked;
mod action;
mod pause;
mod parts;
pub(crate) mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};
use seriatim::change::{Change, Position};
use seriatim::lease::{HostView, Lease, LeaseView, Pulse, Reshape, Sighting, View};
use seriatim::name::{FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarded, Discarding, EnsureError, JoinError, NotedAction,
    OnRewind, ParkedCount, ParkedObject, ParkedPage, Paused, Release, Renewal, Session, Store, StoreError,
};
use seriatim::value::Key;

pub(crate) use checkpoint::{Fence, check_fence, checkpoint};

use crate::database::{Access, Database, look};
use crate::error::SqliteError;
use crate::migrate::{Component, migrate, version};
use hosts::Joined;
use leases::Ensured;
use liveness::HostLocks;
pub(crate) use liveness::folder_of as hosts_folder;
use news::News;

const COMPONENT: Component = Component {
    name: "store",
    migrations: &[
        include_str!("../../migrations/store/0001_store.sql"),
        include_str!("../../migrations/store/0002_parked.sql"),
        include_str!("../../migrations/store/0003_sessions.sql"),
        include_str!("../../migrations/store/0004_done_above.sql"),
        include_str!("../../migrations/store/0005_parts.sql"),
        include_str!("../../migrations/store/0006_next_try.sql"),
    ],
};
const IDENTITY_INSERT: &str = include_str!("../../queries/store_identity_insert.sql");
const IDENTITY: &str = include_str!("../../queries/store_identity.sql");

/// How often a waiting host looks whether somebody asked for a lease or gave one up.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The store in one SQLite file, shared by any number of processes on one machine.
///
/// A host's process that dies is noticed at once: the system frees a lock that it held on a file beside the database.
/// Dropping the store frees the locks of all hosts that joined through it, as the end of the process would.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::Store;
/// use seriatim_sqlite::SqliteStore;
///
/// let folder = tempfile::tempdir()?;
/// let store = SqliteStore::open(folder.path().join("seriatim.db")).await?;
/// assert_eq!(store.feeds().await?, []);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    database: Database,
    locks: Arc<HostLocks>,
    news: Arc<News>,
}

impl SqliteStore {
    /// Opens the store in this file, making the file and the tables that are missing.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        let path = path.as_ref();
        let database = Database::open(path, Access::Create).await?;
        database.call("setting up the store in", prepare).await?;
        Ok(SqliteStore::on(database))
    }

    /// Opens the store in this file if there is one; `None` when the file or the store's tables in it are missing.
    /// Makes nothing.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>, SqliteError> {
        let path = path.as_ref();
        if !path.exists() || !has_store(path).await? {
            return Ok(None);
        }
        let database = Database::open(path, Access::Write).await?;
        database.call("setting up the store in", prepare).await?;
        Ok(Some(SqliteStore::on(database)))
    }

    fn on(database: Database) -> Self {
        let locks = Arc::new(HostLocks::beside(database.path()));
        SqliteStore { database, locks, news: Arc::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Another connection to the file, on a thread of its own: what runs there does not queue before renewals.
    pub(crate) async fn connect(path: PathBuf) -> Result<Database, SqliteError> {
        Database::open(&path, Access::Write).await
    }

    async fn write<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.transact(doing, TransactionBehavior::Immediate, work).await
    }

    async fn read<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.transact(doing, TransactionBehavior::Deferred, work).await
    }

    async fn transact<T, F>(
        &self,
        doing: &'static str,
        behavior: TransactionBehavior,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let answer = self.database.call(doing, move |connection| {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let answer = work(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        });
        Ok(answer.await?)
    }
}

/// Makes or updates the tables, and draws the identity of a store that has none.
fn prepare(connection: &mut rusqlite::Connection) -> rusqlite::Result<()> {
    migrate(connection, &COMPONENT)?;
    migrate(connection, &chain::COMPONENT)?;
    migrate(connection, &pause::COMPONENT)?;
    migrate(connection, &action::COMPONENT)?;
    if identity(connection)?.is_none() {
        connection.execute(IDENTITY_INSERT, [StoreId::random().as_str()])?;
    }
    Ok(())
}

/// Who the store in this file is, if there is one.
pub(crate) fn identity_in(connection: &rusqlite::Connection) -> rusqlite::Result<Option<StoreId>> {
    if version(connection, COMPONENT.name)? == 0 { Ok(None) } else { identity(connection) }
}

fn identity(connection: &rusqlite::Connection) -> rusqlite::Result<Option<StoreId>> {
    connection.query_row(IDENTITY, [], |row| rows::store_id(row, 0)).optional()
}

async fn has_store(path: &Path) -> Result<bool, SqliteError> {
    let looking = look(path, "looking for a store in", |connection| version(connection, COMPONENT.name));
    Ok(looking.await? > 0)
}

#[async_trait]
impl Store for SqliteStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        let identity = self.read("reading the identity of", |transaction| identity(transaction)).await?;
        identity.ok_or_else(|| {
            StoreError::needs_attention(
                format!("the store {} has lost its identity", self.path().display()),
                "restore the file from a backup",
            )
        })
    }

    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        let (silent, locks) = (silent.to_vec(), self.locks.clone());
        self.write("looking for older hosts in", move |transaction| {
            hosts::older(transaction, &locks, &silent)
        })
        .await
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let session = Session::new(host, feeds, expire);
        let entry = hosts::Entry::new(&session, replacing);
        let locks = self.locks.clone();
        match self.write("joining", move |transaction| hosts::join(transaction, &locks, &entry)).await? {
            // The lock is kept only here: if nobody waits for the answer any more, the session is dead at once.
            Joined::In { lock } => {
                self.locks.keep(&session.id, lock);
                Ok(session)
            }
            Joined::Taken(hosts::Holder { session, beat, expire, liveness }) => {
                Err(JoinError::NameTaken { host: host.clone(), session, beat, expire, liveness })
            }
            Joined::NoLock(cause) => Err(liveness::cannot_lock(self.locks.folder(), &cause).into()),
        }
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        let (leaving, locks) = (session.id.clone(), self.locks.clone());
        self.write("leaving", move |transaction| hosts::leave(transaction, &locks, &leaving)).await
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        let (name, start) = (feed.clone(), start.clone());
        let ensured = self.write("setting up a feed in", move |transaction| {
            leases::ensure(transaction, &name, partitions, &start)
        });
        match ensured.await? {
            Ensured::Done => Ok(()),
            Ensured::OtherCount(existing) => {
                Err(EnsureError::PartitionCount { feed: feed.clone(), existing, wanted: partitions })
            }
        }
    }

    async fn wait(&self, timeout: Duration) {
        let look = async {
            loop {
                tokio::time::sleep(LOOK_EVERY.min(timeout)).await;
                let news = Arc::clone(&self.news);
                let any =
                    self.database.call("looking for news in", move |connection| news.any(connection)).await;
                // What is wrong with the store, the caller's next operation will tell better.
                if any.unwrap_or(true) {
                    return;
                }
            }
        };
        // Either way another look at the leases is due.
        drop(tokio::time::timeout(timeout, look).await);
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        self.read("listing the feeds of", |transaction| leases::feeds(transaction)).await
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        let news = Arc::clone(&self.news);
        let rows = self.read("looking at the hosts of", move |transaction| {
            news.note(transaction)?;
            Ok((leases::mark(transaction)?, hosts::list(transaction)?))
        });
        let (mark, hosts) = rows.await?;
        Ok(Pulse { mark, hosts: hosts.into_iter().map(|host| hosts::judged(host, &self.locks)).collect() })
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        let (feeds, news) = (feeds.to_vec(), Arc::clone(&self.news));
        let rows = self.read("reading the leases of", move |transaction| {
            news.note(transaction)?;
            Ok((leases::mark(transaction)?, leases::list(transaction, &feeds)?, hosts::list(transaction)?))
        });
        let (mark, leases, hosts) = rows.await?;
        let hosts = hosts.into_iter().map(|host| hosts::judged(host, &self.locks)).collect();
        Ok(View { mark, leases, hosts })
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let (session, seen, locks) = (session.clone(), seen.to_vec(), self.locks.clone());
        self.write("acquiring leases in", move |transaction| {
            let leases = leases::acquire_all(transaction, &session, &seen)?;
            let taken = seen.iter().zip(&leases).filter(|(_, lease)| lease.is_some());
            let from: BTreeSet<&SessionId> =
                taken.filter_map(|(seen, _)| seen.lease.owner.as_ref()).map(|owner| &owner.session).collect();
            for owner in from {
                hosts::bury_if_dead(transaction, &locks, owner)?;
            }
            Ok(leases)
        })
        .await
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        let session = session.clone();
        self.write("renewing a host in", move |transaction| hosts::renew(transaction, &session)).await
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        let (seen, to) = (seen.to_vec(), to.clone());
        self.write("asking for leases in", move |transaction| leases::request_all(transaction, &seen, &to))
            .await
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        let releases = releases.to_vec();
        self.write("releasing leases in", move |transaction| leases::release_all(transaction, &releases))
            .await
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let (lease, to) = (lease.clone(), checkpoint.clone());
        match self
            .write("checkpointing in", move |transaction| self::checkpoint(transaction, &lease, &to))
            .await?
        {
            Fence::Open => Ok(()),
            Fence::Closed { by } => Err(CheckpointError::Fenced { by }),
        }
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        let (seen, position) = (seen.clone(), position.clone());
        self.write("rewinding a lease in", move |transaction| {
            leases::rewind(transaction, &seen, &position, parked)
        })
        .await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        let feed = feed.clone();
        self.read("listing what is parked in", move |transaction| parked::list(transaction, &feed, partition))
            .await
    }

    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        let (feed, after) = (feed.clone(), after.map(str::to_owned));
        self.read("listing what is parked in", move |transaction| {
            parked::page(transaction, &feed, after.as_deref(), limit)
        })
        .await
    }

    async fn parked_count(&self, feed: &FeedName, most: u64) -> Result<ParkedCount, StoreError> {
        let feed = feed.clone();
        self.read("counting what is parked in", move |transaction| parked::count(transaction, &feed, most))
            .await
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        let (feed, key) = (feed.clone(), key.clone());
        self.read("looking for a parked object in", move |transaction| parked::read(transaction, &feed, &key))
            .await
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        let (feed, key) = (feed.clone(), key.clone());
        self.read("reading parked changes in", move |transaction| {
            parked::changes(transaction, &feed, &key, limit)
        })
        .await
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        let (feed, key) = (feed.clone(), key.cloned());
        self.write("marking parked objects in", move |transaction| {
            parked::retry(transaction, &feed, key.as_ref())
        })
        .await
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let (feed, key, reason) = (feed.clone(), key.clone(), reason.to_owned());
        self.write("discarding parked changes in", move |transaction| {
            discarded::discard(transaction, &feed, &key, what, &reason)
        })
        .await
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        let feed = feed.clone();
        self.read("listing what was discarded in", move |transaction| {
            discarded::list(transaction, &feed, limit)
        })
        .await
    }

    fn keeps_chains(&self) -> bool {
        true
    }

    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        let (feed, keys) = (feed.clone(), keys.to_vec());
        self.read("reading a chain in", move |transaction| chain::read(transaction, &feed, &keys)).await
    }

    fn reshapes(&self) -> bool {
        true
    }

    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        let (feed, seen, reshape) = (feed.clone(), seen.to_vec(), reshape.clone());
        self.write("changing the partitions of a feed in", move |transaction| {
            parts::reshape(transaction, &feed, &seen, &reshape)
        })
        .await
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        let (lease, keys) = (lease.clone(), keys.to_vec());
        let adopt = self
            .write("adopting parked objects in", move |transaction| parts::adopt(transaction, &lease, &keys));
        match adopt.await? {
            Fence::Open => Ok(()),
            Fence::Closed { by } => Err(CheckpointError::Fenced { by }),
        }
    }

    fn notes_actions(&self) -> bool {
        true
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        let text = text.to_owned();
        self.write("noting an action in", move |transaction| action::note(transaction, &text)).await
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        self.read("looking for actions in", move |transaction| action::list(transaction, limit)).await
    }

    fn pauses(&self) -> bool {
        true
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let feed = feed.clone();
        self.write("pausing a feed in", move |transaction| pause::add(transaction, &feed)).await
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let feed = feed.clone();
        self.write("resuming a feed in", move |transaction| pause::remove(transaction, &feed)).await
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        self.read("looking for paused feeds in", |transaction| pause::list(transaction)).await
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        let feed = feed.clone();
        self.write("forgetting a feed in", move |transaction| {
            leases::forget(transaction, &feed)?;
            leases::have_moved(transaction)?;
            discarded::forget(transaction, &feed)?;
            chain::forget(transaction, &feed)?;
            pause::remove(transaction, &feed)?;
            parked::forget(transaction, &feed)
        })
        .await
    }
}
