//! The store for a fleet: a schema of Seriatim's own in a PostgreSQL database.
//!
//! Every operation is one statement where that is possible, and one short transaction in READ COMMITTED where it is not. An
//! owner's write names session and epoch in its WHERE: PostgreSQL looks at them again once it has the row's lock, so of two
//! who write at once the second sees what the first did.
//!
//! Rows are locked in one order, so that no two operations can wait for each other: feed, host, leases by feed and partition, then
//! what is parked, and last the mark of the leases (`lease_mark`). A lease's row is also the lock of all that is parked in its partition: whoever changes something there takes it
//! first, in a statement of its own, so that the statements after it see what others did before.
//!
//! ```text
//!   pool ─────────▶ leases, checkpoints, parked
//!   one connection ▶ holds the locks of this process's hosts, and listens (see `presence`)
//! ```

mod chain;
mod checkpoint;
mod discarded;
mod grants;
mod hosts;
mod leases;
mod parked;
mod parts;
mod action;
mod pause;
mod presence;
mod rows;

use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::{Change, Position};
use seriatim::lease::{HostView, Lease, LeaseView, Mark, Pulse, Reshape, Sighting, View};
use seriatim::name::{FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarded, Discarding, EnsureError, JoinError, NotedAction,
    OnRewind, ParkedCount, ParkedObject, ParkedPage, Paused, Release, Renewal, Session, Store, StoreError,
};
use seriatim::value::Key;

pub(crate) use checkpoint::Right;
pub(crate) use parked::carry_out;

use crate::database::Database;
use crate::error::PostgresError;
use crate::migrate::{Component, Upgrade, migrate, version};
use checkpoint::Fence;
use presence::Presence;

pub(crate) const COMPONENT: Component = Component {
    name: "store",
    migrations: &[
        include_str!("../../migrations/store/0001_store.sql"),
        include_str!("../../migrations/store/0002_sessions.sql"),
        include_str!("../../migrations/store/0003_done_above.sql"),
        include_str!("../../migrations/store/0004_parts.sql"),
        include_str!("../../migrations/store/0005_next_try.sql"),
    ],
    upgrade: Upgrade::Rest,
};
const IDENTITY: &str = include_str!("../../queries/store_identity.sql");
/// The partition under which a view has the mark.
const MARK: i32 = -1;
const VIEW: &str = include_str!("../../queries/view.sql");

/// The store in a PostgreSQL database, for any number of hosts on any number of machines.
///
/// A host's process that dies is noticed at once: the server frees a lock that a connection of it held. Dropping the store
/// frees the locks of all hosts that joined through it, as the end of the process would.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::Store;
/// use seriatim_postgres::PostgresStore;
///
/// let store = PostgresStore::connect("postgres://ada@db.example/shop?sslmode=require").await?;
/// println!("{} feeds", store.feeds().await?.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostgresStore {
    database: Database,
    presence: Presence,
}

impl PostgresStore {
    /// Connects to the store at this URL, making the schema and the tables that are missing.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        PostgresStore::on(Database::connect(url)?).await
    }

    /// The store in a database that is known already, making the schema and the tables that are missing.
    pub async fn on(database: Database) -> Result<Self, PostgresError> {
        migrate(&database, &COMPONENT).await?;
        migrate(&database, &chain::COMPONENT).await?;
        migrate(&database, &pause::COMPONENT).await?;
        migrate(&database, &action::COMPONENT).await?;
        let presence = Presence::new(database.clone());
        Ok(PostgresStore { database, presence })
    }

    /// Connects to the store at this URL if there is one; `None` when its tables are missing. Makes nothing.
    pub async fn connect_existing(url: &str) -> Result<Option<Self>, PostgresError> {
        PostgresStore::existing(Database::connect(url)?).await
    }

    /// The store in a database that is known already, if there is one; `None` when its tables are missing. Makes nothing.
    pub async fn existing(database: Database) -> Result<Option<Self>, PostgresError> {
        if version(&database, &COMPONENT).await? == 0 {
            return Ok(None);
        }
        PostgresStore::on(database).await.map(Some)
    }

    /// What this database's role may not do and the store needs, as statements for somebody who may grant it. Changes nothing.
    pub async fn missing_grants(database: &Database) -> Result<Vec<String>, PostgresError> {
        grants::missing(database).await
    }

    /// The database that the store is in.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Where hosts tell each other that leases have changed.
fn channel(database: &Database) -> String {
    format!("{}_store", database.schema().as_str())
}

#[async_trait]
impl Store for PostgresStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        // Nothing comes back when somebody else gives it its identity at this very moment: the next look sees that.
        for _ in 0..3 {
            let fresh = StoreId::random();
            let known = self.database.query("reading the identity of", IDENTITY, &[&fresh.as_str()]).await?;
            if let Some(row) = known.first() {
                return StoreId::new(rows::get(row, 0)?).map_err(rows::bad);
            }
        }
        Err(StoreError::unavailable("reading the store's identity", "it is just being set up"))
    }

    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        hosts::older(&self.database, &self.presence, silent).await
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let session = Session::new(host, feeds, expire);
        hosts::join(&self.database, &self.presence, session, replacing).await
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        hosts::leave(&self.database, &self.presence, session).await
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        leases::ensure(&self.database, feed, partitions, start).await
    }

    async fn wait(&self, timeout: Duration) {
        self.presence.wait(timeout).await;
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        leases::feeds(&self.database).await
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        let View { mark, hosts, .. } = self.view(&[]).await?;
        Ok(Pulse { mark, hosts })
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        self.presence.note_news();
        let feeds: Vec<&str> = feeds.iter().map(FeedName::as_str).collect();
        let rows = self.database.query("reading the leases of", VIEW, &[&feeds]).await?;
        let mut view = View::default();
        for row in &rows {
            match row.get::<_, Option<i32>>(1) {
                None => view.hosts.push(hosts::host_view(row, &self.presence)?),
                Some(MARK) => view.mark = Mark(rows::number(row, 5)?.to_string()),
                Some(_) => view.leases.push(leases::lease_view(row)?),
            }
        }
        view.leases.sort_by(|one, other| one.id.cmp(&other.id));
        view.hosts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(view)
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        leases::acquire_all(&self.database, session, seen).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        hosts::renew(&self.database, session).await
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        leases::request_all(&self.database, seen, to).await
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        leases::release_all(&self.database, releases).await
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        match checkpoint::checkpoint(&self.database, lease, checkpoint).await? {
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
        leases::rewind(&self.database, seen, position, parked).await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        parked::list(&self.database, feed, partition).await
    }

    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        parked::page(&self.database, feed, after, limit).await
    }

    async fn parked_count(&self, feed: &FeedName, most: u64) -> Result<ParkedCount, StoreError> {
        parked::count(&self.database, feed, most).await
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        parked::read(&self.database, feed, key).await
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        parked::changes(&self.database, feed, key, limit).await
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        parked::retry(&self.database, feed, key).await
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        discarded::discard(&self.database, feed, key, what, reason).await
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        discarded::list(&self.database, feed, limit).await
    }

    fn keeps_chains(&self) -> bool {
        true
    }

    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        chain::read(&self.database, feed, keys).await
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
        parts::reshape(&self.database, feed, seen, reshape).await
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        match parts::adopt(&self.database, lease, keys).await? {
            Fence::Open => Ok(()),
            Fence::Closed { by } => Err(CheckpointError::Fenced { by }),
        }
    }

    fn notes_actions(&self) -> bool {
        true
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        action::note(&self.database, text).await
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        action::list(&self.database, limit).await
    }

    fn pauses(&self) -> bool {
        true
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        pause::add(&self.database, feed).await
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        pause::remove(&self.database, feed).await
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        pause::list(&self.database).await
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        leases::forget(&self.database, feed).await
    }
}
