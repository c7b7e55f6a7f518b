//! What the tests of store and handlers share.

use std::sync::Arc;
use std::time::Duration;

use seriatim::handler::Context;
use seriatim::lease::{Lease, LeaseView, Sighting};
use seriatim::store::{Session, Store};
use seriatim::{Change, Columns, FeedName, HostName, Key, Op, Partition, Position, Row, Value};
use seriatim_postgres::tokio_postgres::{Client, NoTls, connect};
use seriatim_postgres::{PostgresLedger, PostgresStore};
use seriatim_testkit::servers::Postgres;

/// An empty database of its own, on the server that all tests share or on one of the test's own.
pub struct Place {
    url: String,
}

impl Place {
    /// On the shared server.
    pub fn new() -> Self {
        Place::on(Postgres::shared())
    }

    /// On this server.
    pub fn on(server: &Postgres) -> Self {
        Place { url: server.url_of(&server.database().unwrap()) }
    }

    /// The database that this URL leads to.
    pub fn at(url: &str) -> Self {
        Place { url: url.to_owned() }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same database under other connection settings.
    pub fn url_with(&self, query: &str) -> String {
        format!("{}?{query}", self.url)
    }

    pub async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url).await.unwrap()
    }

    pub async fn ledger(&self) -> PostgresLedger {
        PostgresLedger::connect(&self.url).await.unwrap()
    }

    /// A connection of the test's own.
    pub async fn client(&self) -> Client {
        client(&self.url).await
    }

    pub async fn run(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap();
    }

    /// Returns when somebody in this database waits for a lock.
    pub async fn waits_for_a_lock(&self) {
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        until("somebody waits for a lock", async || self.number(waiting).await > 0).await;
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.client().await.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// A connection of the test's own.
pub async fn client(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until the condition holds; fails with what was waited for after half a minute.
pub async fn until<F>(what: &str, mut condition: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    for _ in 0..600 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain: {what}");
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
pub async fn sight(store: &PostgresStore) -> Sighting {
    let view = store.view(&[feed()]).await.unwrap();
    view.sighting(&view.leases[0])
}

pub async fn see(store: &PostgresStore) -> LeaseView {
    store.view(&[feed()]).await.unwrap().leases.remove(0)
}

pub async fn join(store: &PostgresStore, name: &str) -> Session {
    store.join(&host(name), &[feed()], EXPIRE, None).await.unwrap()
}

/// Joins, and takes the only lease of a feed that is made for it.
pub async fn own(store: &PostgresStore, name: &str) -> (Session, Lease) {
    store.ensure(&feed(), 1, &Position::number(0)).await.unwrap();
    let session = join(store, name).await;
    let lease = store.acquire(&session, &sight(store).await).await.unwrap().unwrap();
    (session, lease)
}

pub fn context(lease: &Lease) -> Context {
    Context::new(Arc::new(lease.clone()), Duration::from_secs(30))
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
