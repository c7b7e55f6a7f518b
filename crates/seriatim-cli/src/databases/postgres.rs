//! PostgreSQL databases as stores and as sources.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::queue::Queue;
use seriatim::source::{Install, Shape, Start};
use seriatim_postgres::{
    Capture, Database, Horizon, PostgresError, PostgresLedger, PostgresQueue, PostgresStore, Source,
    SqlEffect, SqlProblem, Unit, WindowCapture, in_transaction,
};

use super::Sql;
use crate::config::{CaptureKind, FeedConfig, HorizonKind, QueueConfig, TimeUnit, WindowConfig};
use crate::error::{Error, Result};

pub async fn open_store(database: &Database) -> Result<Arc<PostgresStore>> {
    PostgresStore::on(database.clone()).await.map(Arc::new).map_err(unusable)
}

pub async fn existing_store(database: &Database) -> Result<Option<Arc<PostgresStore>>> {
    let opened = PostgresStore::existing(database.clone()).await;
    opened.map(|store| store.map(Arc::new)).map_err(unusable)
}

/// Connected and made by its first use, with the patience of whoever protects something: a server that has no connection left
/// just now is waited for.
pub fn ledger(database: &Database) -> Arc<dyn Ledger> {
    Arc::new(PostgresLedger::when_needed(database.clone()))
}

pub async fn existing_ledger(database: &Database) -> Result<Option<Arc<dyn Ledger>>> {
    let opened = PostgresLedger::existing(database.clone()).await.map_err(unusable)?;
    Ok(opened.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
}

/// Makes the ledger now.
pub async fn make_ledger(database: &Database) -> Result<()> {
    PostgresLedger::on(database.clone()).await.map(drop).map_err(unusable)
}

/// The SQL that makes what the ledger lacks.
pub async fn ledger_script(database: &Database) -> Result<String> {
    PostgresLedger::script(database).await.map_err(unusable)
}

pub async fn queue(database: &Database, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
    PostgresQueue::open(database.clone(), &queue.name)
        .await
        .map(|opened| bounded(opened, queue))
        .map_err(unusable)
}

pub async fn existing_queue(database: &Database, queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
    let opened = PostgresQueue::existing(database.clone(), &queue.name).await.map_err(unusable)?;
    Ok(opened.map(|opened| bounded(opened, queue)))
}

fn bounded(opened: PostgresQueue, queue: &QueueConfig) -> Arc<dyn Queue> {
    Arc::new(match queue.limit {
        Some(limit) => opened.limited_to(limit),
        None => opened,
    })
}

pub fn capture(database: &Database, feed: &FeedConfig) -> Arc<dyn Install> {
    match &feed.window {
        Some(settings) => Arc::new(window(database, feed, settings)),
        None => Arc::new(by_triggers(database, feed)),
    }
}

fn by_triggers(database: &Database, feed: &FeedConfig) -> Capture {
    let source = source(database);
    let capture = match feed.capture {
        CaptureKind::Log => source.log(&feed.table),
        _ => source.journal(&feed.table),
    };
    let capture = capture.named(feed.name.clone()).partitions(feed.partitions).every(feed.every);
    let capture = feed.filter.iter().fold(capture, |capture, filter| capture.filter(filter));
    let capture = feed.columns.iter().cloned().fold(capture, Capture::columns);
    let capture = match &feed.key {
        Some(columns) => capture.key(columns.clone()),
        None => capture,
    };
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
    let unit = unit.map(|unit| match unit {
        TimeUnit::Seconds => Unit::Seconds,
        TimeUnit::Milliseconds => Unit::Milliseconds,
        TimeUnit::Microseconds => Unit::Microseconds,
    });
    let horizon = match horizon {
        HorizonKind::Exact => Horizon::Exact,
        HorizonKind::Buffer => Horizon::Buffer,
    };
    let window =
        window.named(feed.name.clone()).partitions(feed.partitions).every(feed.every).horizon(horizon);
    let window =
        window.buffer(rules.buffer).stale_age(rules.stale_age).excessive_count(rules.excessive_count);
    let window = feed.filter.iter().fold(window, |window, filter| window.filter(filter));
    let window = feed.columns.iter().cloned().fold(window, WindowCapture::columns);
    let window = unit.into_iter().fold(window, WindowCapture::unit);
    feed.key.iter().cloned().fold(window, WindowCapture::key)
}

/// One source for each database: all its feeds in this process share its sequencer.
fn source(database: &Database) -> Source {
    static SOURCES: LazyLock<Mutex<HashMap<String, Source>>> = LazyLock::new(Mutex::default);
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{} {}", database.name(), database.schema());
    sources.entry(key).or_insert_with(|| Source::new(database.clone())).clone()
}

pub async fn check_store(database: &Database) -> Result<&'static str> {
    let missing = PostgresStore::missing_grants(database).await.map_err(unusable)?;
    if let [first, ..] = missing.as_slice() {
        return Err(Error::failed(format!("this role may not keep a store in {}", database.name())).help(
            format!("run there: {}", if missing.len() == 1 { first.clone() } else { missing.join("; ") }),
        ));
    }
    Ok(match existing_store(database).await? {
        Some(_) => "is there",
        None => "will be set up by `run`",
    })
}

pub async fn check_source(database: &Database) -> Result<()> {
    database.client().await.map(drop).map_err(unusable)
}

pub async fn check_sql(database: &Database, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<()> {
    let effect = effect(database, feed, sql, shape).await?;
    let checked = effect.check(database, &shape.columns, &shape.key).await;
    checked.map_err(|problem| match problem {
        SqlProblem::Database(error) => unusable(error),
        problem => Error::failed(problem.to_string()).help(format!("mend feed.{}.handler.sql", feed.name)),
    })
}

/// Exactly once: in the transaction that the checkpoint is in.
pub async fn in_store(
    store: &PostgresStore,
    feed: &FeedConfig,
    sql: Sql<'_>,
    shape: &Shape,
) -> Result<Handling> {
    let effect = effect(store.database(), feed, sql, shape).await?;
    Ok(Handling::ExactlyOnce(Arc::new(in_transaction(store, effect))))
}

/// At least once: in transactions of its own.
pub async fn in_source(
    database: &Database,
    feed: &FeedConfig,
    sql: Sql<'_>,
    shape: &Shape,
) -> Result<Handling> {
    Ok(Handling::AtLeastOnce(Arc::new(effect(database, feed, sql, shape).await?.on(database))))
}

async fn effect(database: &Database, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<SqlEffect> {
    let types = match &feed.window {
        Some(settings) => window(database, feed, settings).column_types().await?,
        None => by_triggers(database, feed).column_types().await?,
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
