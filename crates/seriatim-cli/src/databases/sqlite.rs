//! SQLite files as stores and as sources.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::queue::Queue;
use seriatim::source::{Install, Shape};
use seriatim_sqlite::{
    Capture, Horizon, Source, SqlEffect, SqlProblem, SqliteError, SqliteLedger, SqliteQueue, SqliteStore,
    Unit, WindowCapture, in_transaction,
};

use super::Sql;
use crate::config::{CaptureKind, FeedConfig, HorizonKind, QueueConfig, TimeUnit, WindowConfig};
use crate::error::{Error, Result};

pub async fn open_store(path: &Path) -> Result<Arc<SqliteStore>> {
    let opened = SqliteStore::open(path).await;
    opened.map(Arc::new).map_err(|error| unusable(path, &error))
}

pub async fn existing_store(path: &Path) -> Result<Option<Arc<SqliteStore>>> {
    let opened = SqliteStore::open_existing(path).await;
    opened.map(|store| store.map(Arc::new)).map_err(|error| unusable(path, &error))
}

pub async fn open_ledger(path: &Path) -> Result<Arc<dyn Ledger>> {
    match SqliteLedger::open(path).await {
        Ok(ledger) => Ok(Arc::new(ledger)),
        Err(error) => Err(unusable(path, &error)),
    }
}

pub async fn existing_ledger(path: &Path) -> Result<Option<Arc<dyn Ledger>>> {
    let opened = SqliteLedger::open_existing(path).await.map_err(|error| unusable(path, &error))?;
    Ok(opened.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
}

pub fn capture(path: &Path, feed: &FeedConfig) -> Arc<dyn Install> {
    let source = Source::new(path);
    let capture = match (feed.capture, &feed.window) {
        (_, Some(settings)) => return Arc::new(window(&source, feed, settings)),
        (CaptureKind::Log, _) => source.log(&feed.table),
        _ => source.journal(&feed.table),
    };
    let capture = capture.named(feed.name.clone()).partitions(feed.partitions).every(feed.every);
    let capture = feed.filter.iter().fold(capture, |capture, filter| capture.filter(filter));
    let capture = feed.columns.iter().cloned().fold(capture, Capture::columns);
    let capture = match &feed.key {
        Some(columns) => capture.key(columns.clone()),
        None => capture,
    };
    Arc::new(match (feed.capture, feed.deletes) {
        (CaptureKind::Log, true) => capture.with_deletes(),
        _ => capture,
    })
}

fn window(source: &Source, feed: &FeedConfig, settings: &WindowConfig) -> WindowCapture {
    let WindowConfig { changed_at, unit, rules, horizon, query } = settings;
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

pub async fn queue(path: &Path, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
    let opened = SqliteQueue::open(path, &queue.name).await.map_err(|error| unusable(path, &error))?;
    Ok(bounded(opened, queue))
}

pub async fn existing_queue(path: &Path, queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
    let opened = SqliteQueue::open_existing(path, &queue.name).await;
    let opened = opened.map_err(|error| unusable(path, &error))?;
    Ok(opened.map(|opened| bounded(opened, queue)))
}

fn bounded(opened: SqliteQueue, queue: &QueueConfig) -> Arc<dyn Queue> {
    Arc::new(match queue.limit {
        Some(limit) => opened.limited_to(limit),
        None => opened,
    })
}

pub async fn check_store(path: &Path) -> Result<&'static str> {
    let state = match existing_store(path).await? {
        Some(_) => "is there",
        None if path.exists() => "will be set up in the file by `run`",
        None => "will be made by `run`",
    };
    writable(path)?;
    Ok(state)
}

pub async fn check_source(path: &Path) -> Result<()> {
    if !path.exists() {
        let what =
            if folder_of(path).is_dir() { "there is no such file" } else { "its folder does not exist" };
        return Err(
            Error::failed(format!("opening {}: {what}", path.display())).help("check the url of the source")
        );
    }
    // Looking for a store reads the file: that shows whether it is a database, and a readable one.
    existing_store(path).await?;
    writable(path)
}

pub async fn check_sql(path: &Path, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<()> {
    let checked = SqlEffect::new(sql.sql, sql.delete).check(path, &shape.columns, &shape.key).await;
    checked.map_err(|problem| match problem {
        SqlProblem::Database(error) => unusable(path, &error),
        problem => Error::failed(problem.to_string()).help(format!("mend feed.{}.handler.sql", feed.name)),
    })
}

/// Exactly once: in the transaction that the checkpoint is in.
pub fn in_store(store: &SqliteStore, sql: Sql<'_>, shape: &Shape) -> Handling {
    Handling::ExactlyOnce(Arc::new(in_transaction(store, effect(sql, shape).into_fn())))
}

/// At least once: in transactions of its own.
pub fn in_source(path: &Path, sql: Sql<'_>, shape: &Shape) -> Handling {
    Handling::AtLeastOnce(Arc::new(effect(sql, shape).on(path)))
}

fn effect(sql: Sql<'_>, shape: &Shape) -> SqlEffect {
    SqlEffect::new(sql.sql, sql.delete).for_columns(shape.columns.len())
}

/// Whether two paths lead to one SQLite database.
///
/// Links with names count, hard links do not: SQLite keeps its log beside the name it was given, so by two hard links it
/// would be two databases.
pub fn same_file(left: &Path, right: &Path) -> bool {
    resolved(left) == resolved(right)
}

/// The path without links; of a file that does not exist yet, its folder's path without links, and the file's name.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// What is wrong with a file, and what to do about it.
fn unusable(path: &Path, error: &SqliteError) -> Error {
    // SQLite opens a folder for reading, and fails later with words that do not say so.
    if path.is_dir() {
        return Error::failed(format!("{}: it is a folder, not a file", path.display()))
            .help("name the file in it");
    }
    let failed = Error::failed(error.to_string());
    match error.remedy() {
        Some(remedy) => failed.help(remedy),
        None => failed.passing(),
    }
}

/// Whether this user may write the file, and beside it: SQLite keeps its log there.
fn writable(path: &Path) -> Result<()> {
    let refused = |what: &Path, cause| {
        Error::failed(format!("{} cannot be written", what.display()))
            .caused_by(cause)
            .help("make the file and its folder writable for this user")
    };
    if path.exists() {
        OpenOptions::new().append(true).open(path).map_err(|cause| refused(path, cause))?;
    }
    let folder = folder_of(path);
    tempfile::tempfile_in(folder).map_err(|cause| refused(folder, cause))?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_two_paths_is_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.db"), folder.path().join("b.db"));
        assert!(same_file(&file, &folder.path().join(".").join("a.db")), "also before it exists");
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(same_file(&file, &link));
        assert!(!same_file(&file, &folder.path().join("c.db")));
    }
}
