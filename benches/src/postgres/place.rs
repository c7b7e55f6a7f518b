//! A database of a measurement's own, dropped when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim::{FeedName, Host};
use seriatim_postgres::tokio_postgres::Client as Session;
use seriatim_postgres::{Capture, Database, PostgresStore, Source, UsersClient};

use crate::Nothing;

pub(super) const INSERT: &str = include_str!("../../sql/postgres/insert.sql");
pub(super) const UPDATE: &str = include_str!("../../sql/postgres/update.sql");

/// How many connections the applications of a measurement may have together.
const SESSIONS: usize = 100;

/// How the changes of `orders` are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noticed {
    Journal,
    Wal,
}

impl Noticed {
    /// The measurement of how long changes take to the handler.
    pub(super) fn latency(self) -> &'static str {
        match self {
            Noticed::Journal => "latency-journal-postgres",
            Noticed::Wal => "latency-wal-postgres",
        }
    }
}

/// An empty database with the table `orders`.
pub(super) struct Place {
    server: Database,
    name: String,
    url: String,
    database: Database,
}

impl Place {
    /// A new one on the server that this URL leads to.
    pub(super) async fn new(server: &str) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("seriatim_bench_{}_{count}", std::process::id());
        let mut url = url::Url::parse(server).context("the URL of the server")?;
        url.set_path(&name);
        let server = Database::connect(server)?;
        server.users_client("").await?.batch_execute(&format!("create database {name}")).await?;
        // As many sessions as an application has.
        let database = Database::connect(url.as_str())?.with_connections(SESSIONS)?;
        let place = Place { server, name, database, url: url.into() };
        let session = place.session().await?;
        session.batch_execute(include_str!("../../sql/postgres/orders.sql")).await?;
        Ok(place)
    }

    /// A connection as an application has it.
    pub(super) async fn session(&self) -> anyhow::Result<UsersClient> {
        Ok(self.database.users_client("").await?)
    }

    /// Its URL with one more parameter.
    pub(super) fn url_with(&self, parameter: &str) -> String {
        format!("{}{}{parameter}", self.url, if self.url.contains('?') { '&' } else { '?' })
    }

    pub(super) fn source(&self) -> anyhow::Result<Source> {
        Ok(Source::connect(&self.url)?)
    }

    /// The changes of `orders`.
    pub(super) fn orders(&self, noticed: Noticed) -> anyhow::Result<Capture> {
        let source = self.source()?;
        Ok(match noticed {
            Noticed::Journal => source.journal("orders"),
            Noticed::Wal => source.wal("orders"),
        })
    }

    /// Its URL.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn store(&self) -> anyhow::Result<PostgresStore> {
        Ok(PostgresStore::connect(&self.url).await?)
    }

    /// Has a feed of this name follow the journal from now on, in so many partitions.
    pub(super) async fn follow(&self, feed: &str, partitions: u32) -> anyhow::Result<()> {
        let handling = Handling::AtLeastOnce(Arc::new(Nothing));
        self.drain(feed, partitions, self.store().await?, handling, FeedSettings::default()).await.map(drop)
    }

    /// Has a feed of the journal handle everything that there is. Returns how many changes that was.
    pub(super) async fn drain(
        &self,
        feed: &str,
        partitions: u32,
        store: PostgresStore,
        handling: Handling,
        settings: FeedSettings,
    ) -> anyhow::Result<u64> {
        let feed = self.source()?.journal("orders").named(FeedName::new(feed)?).partitions(partitions);
        let settings = FeedSettings { start: Start::Now, ..settings };
        let host = Host::new("bench", Arc::new(store)).feed_with(Arc::new(feed), handling, settings);
        let stats = host.stats();
        host.run_once().await?;
        Ok(stats.iter().map(|(_, stats)| stats.handled()).sum())
    }

    /// Drops the database, whoever is connected to it.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let drop = format!("drop database {} with (force)", self.name);
        Ok(self.server.users_client("").await?.batch_execute(&drop).await?)
    }
}

/// A quarter of so many changes are inserts, and all of those orders are updated three times.
pub(super) async fn write(session: &Session, changes: u64) -> anyhow::Result<()> {
    let orders = (changes / 4).cast_signed();
    session.execute(INSERT, &[&1_i64, &orders]).await?;
    for _ in 0..3 {
        session.execute(UPDATE, &[&1_i64, &orders]).await?;
    }
    Ok(())
}
