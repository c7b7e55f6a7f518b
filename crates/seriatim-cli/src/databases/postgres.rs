//! PostgreSQL databases as stores and as sources.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::source::Shape;
use seriatim_postgres::{
    Capture, Database, PostgresError, PostgresLedger, PostgresStore, Source, SqlEffect, SqlProblem,
    in_transaction,
};

use super::Sql;
use crate::config::{CaptureKind, FeedConfig};
use crate::error::{Error, Result};

pub async fn open_store(database: &Database) -> Result<Arc<PostgresStore>> {
    PostgresStore::on(database.clone()).await.map(Arc::new).map_err(unusable)
}

pub async fn existing_store(database: &Database) -> Result<Option<Arc<PostgresStore>>> {
    let opened = PostgresStore::existing(database.clone()).await;
    opened.map(|store| store.map(Arc::new)).map_err(unusable)
}

pub async fn open_ledger(database: &Database) -> Result<Arc<dyn Ledger>> {
    match PostgresLedger::on(database.clone()).await {
        Ok(ledger) => Ok(Arc::new(ledger)),
        Err(error) => Err(unusable(error)),
    }
}

/// The SQL that makes what the ledger still lacks.
pub async fn ledger_script(database: &Database) -> Result<String> {
    PostgresLedger::script(database).await.map_err(unusable)
}

pub async fn existing_ledger(database: &Database) -> Result<Option<Arc<dyn Ledger>>> {
    let opened = PostgresLedger::existing(database.clone()).await.map_err(unusable)?;
    Ok(opened.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
}

pub fn capture(database: &Database, feed: &FeedConfig) -> Capture {
    let source = source(database);
    let capture = match feed.capture {
        CaptureKind::Journal => source.journal(&feed.table),
        CaptureKind::Log => source.log(&feed.table),
        CaptureKind::Window => unreachable!("the configuration refuses it"),
    };
    let capture = capture.named(feed.name.clone()).partitions(feed.partitions).every(feed.every);
    let capture = match &feed.key {
        Some(columns) => capture.key(columns.clone()),
        None => capture,
    };
    match (feed.capture, feed.deletes) {
        (CaptureKind::Log, true) => capture.with_deletes(),
        _ => capture,
    }
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
    let types = capture(database, feed).column_types().await?;
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
