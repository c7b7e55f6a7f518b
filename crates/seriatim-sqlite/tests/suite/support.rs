//! What the tests of store and handlers share.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use seriatim::handler::Context;
use seriatim::lease::{Lease, LeaseView, Sighting};
use seriatim::store::{Session, Store};
use seriatim::{Change, Columns, FeedName, HostName, Key, Op, Partition, Position, Row, Value};
use seriatim_sqlite::{SqliteStore, rusqlite};
use tempfile::TempDir;

/// A folder for a database file, gone with this value.
pub struct File {
    folder: TempDir,
}

impl File {
    pub fn new() -> Self {
        File { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    pub async fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.path()).await.unwrap()
    }

    /// A connection of the test's own.
    pub fn sqlite(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        connection
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub fn host_files(&self) -> usize {
        let folder = self.folder.path().join("shop.db-hosts");
        std::fs::read_dir(folder).map_or(0, |files| files.count())
    }
}

pub fn feed() -> FeedName {
    FeedName::new("totals").unwrap()
}

pub fn host(name: &str) -> HostName {
    HostName::new(name).unwrap()
}

/// The expiry that hosts of these tests publish.
pub const EXPIRE: std::time::Duration = std::time::Duration::from_secs(10);

/// The first lease with its owner's sign of life, as whoever takes it has seen it.
pub async fn sight(store: &SqliteStore) -> Sighting {
    let view = store.view(&[feed()]).await.unwrap();
    view.sighting(&view.leases[0])
}

pub async fn see(store: &SqliteStore) -> LeaseView {
    store.view(&[feed()]).await.unwrap().leases.remove(0)
}

pub async fn join(store: &SqliteStore, name: &str) -> Session {
    store.join(&host(name), &[feed()], EXPIRE, None).await.unwrap()
}

/// Joins, and takes the only lease of a feed that is made for it.
pub async fn own(store: &SqliteStore, name: &str) -> (Session, Lease) {
    store.ensure(&feed(), 1, &Position::number(0)).await.unwrap();
    let session = join(store, name).await;
    let lease = store.acquire(&session, &sight(store).await).await.unwrap().unwrap();
    (session, lease)
}

pub fn context(lease: &Lease) -> Context {
    Context::new(Arc::new(lease.clone()), std::time::Duration::from_secs(30))
}

/// A change of a row `(id, amount)`.
pub fn change(id: u64, key: i64, amount: Value) -> Change {
    let columns = Columns::new(["id", "amount"]);
    Change {
        feed: feed(),
        partition: Partition(0),
        position: Position::number(id),
        key: Some(Key::of("id", Value::Integer(key))),
        op: Op::Insert,
        at: "2026-11-15T08:00:00.5Z".parse().unwrap(),
        before: None,
        after: Some(Row::new(columns, [Value::Integer(key), amount])),
        id,
        prev: None,
    }
}
