//! PostgreSQL databases as stores and as sources.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::backend::Dialect;
use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::order::GateState;
use seriatim::queue::Queue;
use seriatim::source::{Install, Shape, Start, Watching};
use seriatim_postgres::{
    Capture, Database, LogsByHand, PostgresError, PostgresGateState, PostgresLedger, PostgresQueue,
    PostgresStore, Purged, Source, SqlEffect, SqlProblem, WindowCapture, in_transaction,
};

use super::backend::BackendStore;
use super::{Address, Backend, Kind, OpenStore, Place, QueueBackend, SourceBackend, Sql, asked};
use crate::commands::once::Form;
use crate::config::{CaptureKind, FeedConfig, QueueConfig, WalConfig, WindowConfig};
use crate::error::{Error, Result};

pub const KIND: Kind = Kind { schemes: &["postgres", "postgresql"], read };

/// A PostgreSQL database.
#[derive(Debug)]
struct Postgres(Database);

fn read(address: &Address<'_>) -> Result<super::Database, String> {
    match Database::connect(address.url) {
        Ok(database) => Ok(Arc::new(Postgres(database))),
        Err(error) => Err(super::refused(address, &error, error.remedy())),
    }
}

impl fmt::Display for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[async_trait]
impl BackendStore for PostgresStore {
    async fn sql_handling(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<Handling> {
        let effect = effect(self.database(), feed, sql, shape).await?;
        Ok(Handling::ExactlyOnce(Arc::new(in_transaction(self, effect))))
    }
}

#[async_trait]
impl Backend for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn identity(&self) -> String {
        self.0.name().to_owned()
    }

    async fn open_store(&self) -> Result<OpenStore> {
        let store = PostgresStore::on(self.0.clone()).await.map_err(unusable)?;
        // The functions for other languages come with the store, where its role may make them.
        let made = async {
            PostgresLedger::on(self.0.clone()).await?;
            PostgresGateState::make(&self.0).await
        };
        if let Err(error) = made.await {
            tracing::debug!("the SQL functions of `once` and of gates are not installed: {error}");
        }
        Ok(OpenStore::new(store))
    }

    async fn existing_store(&self) -> Result<Option<OpenStore>> {
        let opened = PostgresStore::existing(self.0.clone()).await;
        opened.map(|store| store.map(OpenStore::new)).map_err(unusable)
    }

    async fn check_store(&self) -> Result<&'static str> {
        let missing = PostgresStore::missing_grants(&self.0).await.map_err(unusable)?;
        if !missing.is_empty() {
            return Err(Error::failed(format!("this role may not keep a store in {self}"))
                .help(format!("run there: {}", missing.join("; "))));
        }
        Ok(match self.existing_store().await? {
            Some(_) => "is there",
            None => "will be set up by `run`",
        })
    }

    /// Connected and made by its first use, with the patience of whoever protects something: a server that has no connection
    /// left just now is waited for.
    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>> {
        Ok(Arc::new(PostgresLedger::when_needed(self.0.clone())))
    }

    async fn make_ledger(&self) -> Result<()> {
        PostgresLedger::on(self.0.clone()).await.map(drop).map_err(unusable)
    }

    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>> {
        let opened = PostgresLedger::existing(self.0.clone()).await.map_err(unusable)?;
        Ok(opened.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
    }

    async fn ledger_script(&self, form: Form) -> Result<String> {
        match form {
            Form::Sql => PostgresLedger::script(&self.0).await.map_err(unusable),
            _ => Err(Error::usage("PostgreSQL's tables are made by SQL: use --print sql")),
        }
    }

    async fn gate(&self, name: &FeedName) -> Result<Arc<dyn GateState>> {
        Ok(Arc::new(PostgresGateState::open(self.0.clone(), name).await.map_err(unusable)?))
    }

    async fn gate_script(&self) -> Result<String> {
        PostgresGateState::script(&self.0).await.map_err(unusable)
    }

    async fn check_source(&self) -> Result<()> {
        self.0.client().await.map(drop).map_err(unusable)
    }

    async fn purge(&self, _: Place, force: bool) -> Result<Option<String>> {
        let by_hand = if force { LogsByHand::Drop } else { LogsByHand::Keep };
        let schema = self.0.schema();
        match seriatim_postgres::purge(&self.0, by_hand).await.map_err(unusable)? {
            Purged::NotThere => Ok(None),
            Purged::Gone => Ok(Some(format!("schema {schema} dropped, with its triggers"))),
            Purged::SharedSchema => Err(Error::failed(format!(
                "{self}: Seriatim's tables are in the schema {schema}, which has others in it, too"
            ))
            .help("drop them by hand: `seriatim watch --print` and `once init --print sql` name them")),
            Purged::ByHand(tables) => Err(Error::failed(format!(
                "{self}: logs that were made by SQL may have readers that nobody knows here: {}",
                tables.join(", ")
            ))
            .help(format!("drop them first with `select {schema}.log_drop('TABLE')`, or use --force"))),
        }
    }

    fn with_connections(&self, most: usize) -> Option<Result<super::Database, String>> {
        Some(match self.0.with_connections(most) {
            Ok(bounded) => Ok(Arc::new(Postgres(bounded))),
            Err(error) => Err(error.to_string()),
        })
    }

    fn joined(&self, other: &dyn Backend) -> Option<super::Database> {
        let Postgres(other) = (other as &dyn Any).downcast_ref()?;
        Some(Arc::new(Postgres(self.0.joined(other)?)))
    }

    fn source(self: Arc<Self>) -> Option<Arc<dyn SourceBackend>> {
        Some(self)
    }

    fn queues(self: Arc<Self>) -> Option<Arc<dyn QueueBackend>> {
        Some(self)
    }
}

#[async_trait]
impl SourceBackend for Postgres {
    fn database_name(&self) -> String {
        let named = self.0.name().strip_prefix("database ").and_then(|name| name.split_once(" on "));
        named.map_or(String::new(), |(database, _)| database.to_owned())
    }

    fn default_schema(&self) -> Option<&'static str> {
        Some("public")
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    // Numbers of a journal rise with the commits of one row; those of several rows that share a key need not.
    fn no_chain_by_key(&self) -> Option<&'static str> {
        Some(
            "cannot go with `key` for a journal in PostgreSQL: only the changes of one row have ids that rise",
        )
    }

    fn has_log(&self) -> bool {
        true
    }

    fn capture(&self, feed: &FeedConfig) -> Arc<dyn Install> {
        match &feed.window {
            Some(settings) => Arc::new(window(&self.0, feed, settings)),
            None => Arc::new(of_table(&self.0, feed)),
        }
    }

    async fn watchings(&self) -> Result<Vec<Watching>> {
        Ok(source(&self.0).watchings().await?)
    }

    async fn end_watching(&self, watching: &Watching) -> Result<()> {
        Ok(source(&self.0).end(watching).await?)
    }

    async fn check_sql(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<()> {
        let effect = effect(&self.0, feed, sql, shape).await?;
        let checked = effect.check(&self.0, &shape.columns, &shape.key).await;
        checked.map_err(|problem| match problem {
            SqlProblem::Database(error) => unusable(error),
            problem => {
                Error::failed(problem.to_string()).help(format!("mend feed.{}.handler.sql", feed.name))
            }
        })
    }

    async fn sql_handling(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<Handling> {
        let effect = effect(&self.0, feed, sql, shape).await?;
        Ok(Handling::AtLeastOnce(Arc::new(effect.on(&self.0))))
    }
}

#[async_trait]
impl QueueBackend for Postgres {
    async fn queue(&self, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
        let opened = PostgresQueue::open(self.0.clone(), &queue.name).await.map_err(unusable)?;
        Ok(Arc::new(queue.limit.into_iter().fold(opened, PostgresQueue::limited_to)))
    }

    async fn existing_queue(&self, name: &FeedName) -> Result<Option<Arc<dyn Queue>>> {
        let opened = PostgresQueue::existing(self.0.clone(), name).await.map_err(unusable)?;
        Ok(opened.map(|opened| Arc::new(opened) as Arc<dyn Queue>))
    }
}

fn of_table(database: &Database, feed: &FeedConfig) -> Capture {
    let source = source(database);
    let capture = match feed.capture {
        CaptureKind::Log => source.log(&feed.table),
        CaptureKind::Wal => {
            let WalConfig { slot, publication } = feed.wal.clone().unwrap_or_default();
            source.wal(&feed.table).slot_names(slot, publication)
        }
        _ => source.journal(&feed.table),
    };
    let capture = capture.asked(asked(feed));
    let capture = if feed.start == Start::Beginning { capture.with_existing_rows() } else { capture };
    match (feed.capture, feed.deletes) {
        (CaptureKind::Log, true) => capture.with_deletes(),
        _ => capture,
    }
}

fn window(database: &Database, feed: &FeedConfig, settings: &WindowConfig) -> WindowCapture {
    let WindowConfig { changed_at, unit, rules, horizon, query } = settings;
    let source = source(database);
    let window = match query {
        Some(query) => source.window_of_query(query, changed_at),
        None => source.window(&feed.table, changed_at),
    };
    let window = window.asked(asked(feed)).rules(*rules).horizon(*horizon);
    unit.iter().copied().fold(window, WindowCapture::unit)
}

/// One source for each database: all its feeds in this process share its sequencer.
fn source(database: &Database) -> Source {
    static SOURCES: LazyLock<Mutex<HashMap<String, Source>>> = LazyLock::new(Mutex::default);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{} {}", database.name(), database.schema());
    sources.entry(key).or_insert_with(|| Source::new(database.clone())).clone()
}

async fn effect(database: &Database, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<SqlEffect> {
    let types = match &feed.window {
        Some(settings) => window(database, feed, settings).column_types().await?,
        None => {
            let capture = of_table(database, feed);
            capture.refuse_unlogged(sql.sql, sql.delete).await?;
            capture.column_types().await?
        }
    };
    let effect = SqlEffect::new(sql.sql, sql.delete).for_columns(shape.columns.len());
    effect.with_types(database, &types).await.map_err(unusable)
}

fn unusable(error: PostgresError) -> Error {
    let failed = Error::failed(error.to_string());
    match error.remedy() {
        Some(remedy) => failed.help(remedy),
        None => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(database: &super::super::Database) -> Option<usize> {
        (&**database as &dyn Any).downcast_ref::<Postgres>()?.0.connections()
    }

    #[test]
    fn databases_that_share_their_connections_have_as_many_as_the_one_with_most() {
        let at = |url| crate::config::database(url, std::path::Path::new("")).unwrap();
        let (few, many) =
            (at("postgres://ada@db/shop"), at("postgres://ada@db:5432/shop?seriatim_connections=20"));
        assert_eq!(few.joined(&*many).as_ref().and_then(bound), Some(20));
        assert_eq!(many.joined(&*few).as_ref().and_then(bound), Some(20));
        assert!(many.joined(&*at("postgres://bob@db/shop")).is_none());
        assert!(many.joined(&*at("sqlite:shop.db")).is_none());
    }
}
