//! From the configuration to the things it names: stores, captures, consumers.

use std::path::{Path, PathBuf};

use seriatim::Store;
use seriatim::name::HostName;
use seriatim::source::{Consumer, Feed};
use seriatim_sqlite::{Capture, Source, SqliteError, SqliteStore};

use crate::config::{CaptureKind, Config, FeedConfig, HandlerKind};
use crate::error::{Error, Result};

/// How often a change can take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Effect and checkpoint are one transaction.
    ExactlyOnce,
    /// After a crash, a change may be handled again, with the same id.
    AtLeastOnce,
}

impl Guarantee {
    /// The words for it on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Guarantee::ExactlyOnce => "exactly-once",
            Guarantee::AtLeastOnce => "at-least-once",
        }
    }

    /// What holds for a feed: exactly once where its SQL runs in the file that also has the checkpoints.
    pub fn of(feed: &FeedConfig, config: &Config) -> Self {
        match feed.handler.kind {
            HandlerKind::Sql { .. } if same_file(feed.database.path(), config.store.path()) => {
                Guarantee::ExactlyOnce
            }
            _ => Guarantee::AtLeastOnce,
        }
    }
}

/// The feed's capture. Nothing is opened before it is used.
pub fn capture(feed: &FeedConfig) -> Capture {
    let source = Source::new(feed.database.path());
    let capture = match feed.capture {
        CaptureKind::Journal => source.journal(&feed.table),
        CaptureKind::Log => source.log(&feed.table),
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

/// Fails when there is no file where the feed's source should be.
pub fn source_exists(feed: &FeedConfig) -> Result<()> {
    let path = feed.database.path();
    match path.exists() {
        true => Ok(()),
        false => Err(Error::failed(format!("feed {}: there is no file {}", feed.name, path.display()))
            .help(format!("check the url of source {}", feed.source))),
    }
}

/// Opens the store, making it if there is none.
pub async fn open_store(config: &Config) -> Result<SqliteStore> {
    let path = config.store.path();
    SqliteStore::open(path).await.map_err(|error| unusable(path, &error).about("store"))
}

/// Opens the store if there is one. Makes nothing.
pub async fn existing_store(config: &Config) -> Result<Option<SqliteStore>> {
    let path = config.store.path();
    SqliteStore::open_existing(path).await.map_err(|error| unusable(path, &error).about("store"))
}

/// What is wrong with a file, and what to do about it.
pub fn unusable(path: &Path, error: &SqliteError) -> Error {
    // SQLite opens a folder for reading, and fails later with words that do not say so.
    if path.is_dir() {
        return Error::failed(format!("{}: it is a folder, not a file", path.display()))
            .help("name the file in it");
    }
    let failed = Error::failed(error.to_string());
    match error.remedy() {
        Some(remedy) => failed.help(remedy),
        None => failed,
    }
}

/// Who the feed's consumer is in the source's books.
pub async fn consumer(feed: &FeedConfig, store: &dyn Store) -> Result<Consumer> {
    Ok(Consumer { feed: feed.name.clone(), store: store.identity().await? })
}

/// Installs what the feed's capture needs in its source, and sets the feed up in the store.
pub async fn watch(feed: &FeedConfig, store: &SqliteStore) -> Result<()> {
    let capture = capture(feed);
    let consumer = consumer(feed, store).await?;
    known_to_source(feed, store).await?;
    let start = capture.install(&consumer, &feed.start).await?;
    store.ensure(&feed.name, feed.partitions, &start).await?;
    Ok(())
}

/// Fails when the store has checkpoints of the feed and its source has never heard of it.
pub async fn known_to_source(feed: &FeedConfig, store: &SqliteStore) -> Result<()> {
    let consumer = consumer(feed, store).await?;
    if !store.feeds().await?.contains(&feed.name) || capture(feed).knows(&consumer).await? {
        return Ok(());
    }
    let what = "the store has checkpoints of it, but the source does not know it: the source was replaced or restored";
    let help = format!("`seriatim rewind {} --to beginning` starts it afresh on this source", feed.name);
    Err(Error::failed(what).help(help))
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

/// The host's name as given, or else the machine's name and the process id, which no other living process here has.
pub fn host_name(given: Option<&str>) -> Result<HostName> {
    let name = given.map_or_else(default_host_name, str::to_owned);
    HostName::new(&name).map_err(|bad| Error::usage(bad.to_string()))
}

fn default_host_name() -> String {
    let machine = rustix::system::uname();
    format!("{}-{}", machine.nodename().to_string_lossy(), std::process::id())
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

    #[test]
    fn the_default_host_name_has_the_process_in_it() {
        assert!(host_name(None).unwrap().as_str().ends_with(&std::process::id().to_string()));
        assert_eq!(host_name(Some("a")).unwrap().as_str(), "a");
        assert_eq!(host_name(Some("")).unwrap_err().exit(), crate::error::Exit::Usage);
    }
}
