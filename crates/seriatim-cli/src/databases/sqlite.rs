//! SQLite files as stores and as sources.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::backend::Dialect;
use seriatim::handler::Handling;
use seriatim::once::Ledger;
use seriatim::order::GateState;
use seriatim::queue::Queue;
use seriatim::source::{Install, Shape, Watching};
use seriatim_sqlite::{
    Source, SqlEffect, SqlProblem, SqliteError, SqliteGateState, SqliteLedger, SqliteQueue, SqliteStore,
    WindowCapture, in_transaction,
};

use super::backend::BackendStore;
use super::{Address, Backend, Database, Kind, OpenStore, Place, QueueBackend, SourceBackend, Sql, asked};
use crate::commands::once::Form;
use crate::config::{CaptureKind, FeedConfig, QueueConfig, WindowConfig};
use crate::error::{Error, Result};

pub const KIND: Kind = Kind { schemes: &["sqlite"], read };

/// A SQLite file, with its path already taken from the config file's folder.
#[derive(Debug)]
struct Sqlite {
    path: PathBuf,
}

fn read(Address { rest, folder, .. }: &Address<'_>) -> Result<Database, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let wrong = if path.is_empty() {
        "names no file: write \"sqlite:PATH\""
    } else if path.starts_with(":memory:") {
        "must name a file: a database in memory cannot be shared between processes"
    } else if path.contains('?') {
        "has parameters after \"?\", and SQLite URLs take none here: write \"sqlite:PATH\""
    } else if rest.starts_with("//") && path.split('/').next().is_some_and(|host| host.contains('@')) {
        "has a user in it, and SQLite URLs have none: write \"sqlite:PATH\""
    } else if path.contains('\0') {
        "has a zero byte in its path"
    } else {
        return Ok(Arc::new(Sqlite { path: folder.join(path) }));
    };
    Err(wrong.to_owned())
}

impl fmt::Display for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite:{}", self.path.display())
    }
}

#[async_trait]
impl BackendStore for SqliteStore {
    async fn sql_handling(&self, _: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<Handling> {
        Ok(Handling::ExactlyOnce(Arc::new(in_transaction(self, effect(sql, shape).into_fn()))))
    }
}

#[async_trait]
impl Backend for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    /// Links with names count, hard links do not: SQLite keeps its log beside the name it was given, so by two hard links it
    /// would be two databases.
    fn identity(&self) -> String {
        format!("{:?}", resolved(&self.path))
    }

    async fn open_store(&self) -> Result<OpenStore> {
        SqliteStore::open(&self.path).await.map(OpenStore::new).map_err(|error| self.unusable(&error))
    }

    async fn existing_store(&self) -> Result<Option<OpenStore>> {
        let opened = SqliteStore::open_existing(&self.path).await;
        opened.map(|store| store.map(OpenStore::new)).map_err(|error| self.unusable(&error))
    }

    async fn check_store(&self) -> Result<&'static str> {
        let state = match self.existing_store().await? {
            Some(_) => "is there",
            None if self.path.exists() => "will be set up in the file by `run`",
            None => "will be made by `run`",
        };
        self.writable()?;
        Ok(state)
    }

    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>> {
        let opened = SqliteLedger::open(&self.path).await;
        Ok(Arc::new(opened.map_err(|error| self.unusable(&error))?))
    }

    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>> {
        let opened = SqliteLedger::open_existing(&self.path).await;
        let opened = opened.map_err(|error| self.unusable(&error))?;
        Ok(opened.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
    }

    async fn ledger_script(&self, form: Form) -> Result<String> {
        match form {
            Form::Sql => Ok(SqliteLedger::script()),
            _ => Err(Error::usage("a SQLite file is made by SQL: use --print sql")),
        }
    }

    async fn gate(&self, name: &FeedName) -> Result<Arc<dyn GateState>> {
        let opened = SqliteGateState::open(&self.path, name).await;
        Ok(Arc::new(opened.map_err(|error| self.unusable(&error))?))
    }

    async fn check_source(&self) -> Result<()> {
        let path = &self.path;
        if !path.exists() {
            let what =
                if folder_of(path).is_dir() { "there is no such file" } else { "its folder does not exist" };
            return Err(Error::failed(format!("opening {}: {what}", path.display()))
                .help("check the url of the source"));
        }
        // Looking for a store reads the file: that shows whether it is a database, and a readable one.
        self.existing_store().await?;
        self.writable()
    }

    async fn purge(&self, place: Place, _: bool) -> Result<Option<String>> {
        let purged = seriatim_sqlite::purge(&self.path).await.map_err(|error| self.unusable(&error))?;
        if place == Place::Store && purged.is_empty {
            self.remove();
            return Ok(Some("removed: nothing else was in it".to_owned()));
        }
        Ok((purged.objects > 0).then(|| format!("{} tables and triggers taken out", purged.objects)))
    }

    fn source(self: Arc<Self>) -> Option<Arc<dyn SourceBackend>> {
        Some(self)
    }

    fn queues(self: Arc<Self>) -> Option<Arc<dyn QueueBackend>> {
        Some(self)
    }
}

#[async_trait]
impl SourceBackend for Sqlite {
    fn database_name(&self) -> String {
        self.path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn exists(&self, feed: &FeedConfig) -> Result<()> {
        match self.path.exists() {
            true => Ok(()),
            false => {
                Err(Error::failed(format!("feed {}: there is no file {}", feed.name, self.path.display()))
                    .help(format!("check the url of source {}", feed.source)))
            }
        }
    }

    fn capture(&self, feed: &FeedConfig) -> Arc<dyn Install> {
        let source = Source::new(&self.path);
        let capture = match (feed.capture, &feed.window) {
            (_, Some(settings)) => return Arc::new(window(&source, feed, settings)),
            (CaptureKind::Log, _) => source.log(&feed.table),
            _ => source.journal(&feed.table),
        };
        let capture = capture.asked(asked(feed));
        Arc::new(match (feed.capture, feed.deletes) {
            (CaptureKind::Log, true) => capture.with_deletes(),
            _ => capture,
        })
    }

    async fn watchings(&self) -> Result<Vec<Watching>> {
        Ok(Source::new(&self.path).watchings().await?)
    }

    async fn end_watching(&self, watching: &Watching) -> Result<()> {
        Ok(Source::new(&self.path).end(watching).await?)
    }

    async fn check_sql(&self, feed: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<()> {
        let effect = SqlEffect::new(sql.sql, sql.delete);
        let checked = effect.check(&self.path, &shape.columns, &shape.key).await;
        checked.map_err(|problem| match problem {
            SqlProblem::Database(error) => self.unusable(&error),
            problem => {
                Error::failed(problem.to_string()).help(format!("mend feed.{}.handler.sql", feed.name))
            }
        })
    }

    async fn sql_handling(&self, _: &FeedConfig, sql: Sql<'_>, shape: &Shape) -> Result<Handling> {
        Ok(Handling::AtLeastOnce(Arc::new(effect(sql, shape).on(&self.path))))
    }
}

#[async_trait]
impl QueueBackend for Sqlite {
    async fn check_queues(&self) -> Result<&'static str> {
        if self.path.exists() || !folder_of(&self.path).is_dir() {
            return self.check_source().await.map(|()| "is there");
        }
        self.writable()?;
        Ok("will be made by the first push or `run`")
    }

    async fn queue(&self, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
        let opened = SqliteQueue::open(&self.path, &queue.name).await;
        let opened = opened.map_err(|error| self.unusable(&error))?;
        Ok(Arc::new(queue.limit.into_iter().fold(opened, SqliteQueue::limited_to)))
    }

    async fn existing_queue(&self, name: &FeedName) -> Result<Option<Arc<dyn Queue>>> {
        let opened = SqliteQueue::open_existing(&self.path, name).await;
        let opened = opened.map_err(|error| self.unusable(&error))?;
        Ok(opened.map(|opened| Arc::new(opened) as Arc<dyn Queue>))
    }
}

impl Sqlite {
    /// What is wrong with the file, and what to do about it.
    fn unusable(&self, error: &SqliteError) -> Error {
        // SQLite opens a folder for reading, and fails later with words that do not say so.
        if self.path.is_dir() {
            return Error::failed(format!("{}: it is a folder, not a file", self.path.display()))
                .help("name the file in it");
        }
        let failed = Error::failed(error.to_string());
        match error.remedy() {
            Some(remedy) => failed.help(remedy),
            None => failed.passing(),
        }
    }

    /// Removes the file, with what SQLite keeps beside it.
    fn remove(&self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut file = self.path.clone().into_os_string();
            file.push(end);
            // Not all of them are there.
            drop(std::fs::remove_file(file));
        }
    }

    /// Whether this user may write the file, and beside it: SQLite keeps its log there.
    fn writable(&self) -> Result<()> {
        let path = &self.path;
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
}

fn effect(sql: Sql<'_>, shape: &Shape) -> SqlEffect {
    SqlEffect::new(sql.sql, sql.delete).for_columns(shape.columns.len())
}

fn window(source: &Source, feed: &FeedConfig, settings: &WindowConfig) -> WindowCapture {
    let WindowConfig { changed_at, unit, rules, horizon, query } = settings;
    let window = match query {
        Some(query) => source.window_of_query(query, changed_at),
        None => source.window(&feed.table, changed_at),
    };
    let window = window.asked(asked(feed)).rules(*rules).horizon(*horizon);
    unit.iter().copied().fold(window, WindowCapture::unit)
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
        let same_file = |left: &Path, right: &Path| resolved(left) == resolved(right);
        assert!(same_file(&file, &folder.path().join(".").join("a.db")), "also before it exists");
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(same_file(&file, &link));
        assert!(!same_file(&file, &folder.path().join("c.db")));
    }
}
