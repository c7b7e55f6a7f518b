//! The configuration: a TOML file, each setting of which can also come from the environment.
//!
//! Everything is checked when it is read, so that what the rest of the program gets is right: names exist, numbers are in
//! their ranges, paths are taken from the config file's folder. What is wrong is an error with exit code 2 that names
//! the key, its line or variable, and what was probably meant.

mod checkpoint;
mod connections;
mod duration;
mod environment;
mod handler;
mod parked;
mod once;
mod parse;
mod problems;
mod queue;
mod section;
mod store;
mod suggest;
mod url;
mod window;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seriatim::FeedName;
use seriatim::backend::rows::{Horizon, Unit};
use seriatim::handler::{Backoff, Retry};
use seriatim::host::{CheckpointPolicy, LeaseSettings, ParkLimits};
use seriatim::source::Start;
use seriatim::source::window::Rules;
use seriatim_handlers::{Format, Mode};

pub use duration::duration;
pub use environment::Environment;
pub use once::OnceConfig;
pub use parse::count;
pub use queue::QueueConfig;
pub use section::{Section, Setting};
pub use store::load_store;
pub use suggest::instead_of;
#[cfg(test)]
pub use url::database;
pub use url::{quoted, redacted};

use crate::databases::{self, Database, SourceBackend};
use crate::error::{Error, Result};
use crate::handlers::SinkSettings;

/// The config file's name where none is given.
pub const DEFAULT_FILE: &str = "seriatim.toml";

/// What `seriatim init` writes.
pub const TEMPLATE: &str = include_str!("template.toml");

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file they were read from.
    pub file: PathBuf,
    /// Where Seriatim keeps its own state.
    pub store: Database,
    /// The databases that are watched, by name.
    pub sources: BTreeMap<String, Database>,
    /// The feeds, by name.
    pub feeds: BTreeMap<FeedName, FeedConfig>,
    /// The feeds that are queues, by name.
    pub queues: BTreeMap<FeedName, QueueConfig>,
    /// How fast leases move.
    pub lease: LeaseSettings,
    /// How many leases a host of this config may have.
    pub most_leases: Option<u32>,
    /// How long a host that is told to stop waits for its handlers.
    pub close_within: Duration,
    /// What is odd about the settings, though not wrong.
    pub warnings: Vec<String>,
}

/// One feed.
#[derive(Clone, Debug)]
pub struct FeedConfig {
    /// Its name.
    pub name: FeedName,
    /// The name of its source.
    pub source: String,
    /// Where the source is.
    pub database: Arc<dyn SourceBackend>,
    /// How changes are noticed.
    pub capture: CaptureKind,
    /// The table that is watched, or the words for what stands in its place.
    pub table: String,
    /// What a `window` is over; only those have it.
    pub window: Option<WindowConfig>,
    /// The columns that make up an object's key; the primary key where none are named.
    pub key: Option<Vec<String>>,
    /// Into how many partitions the feed is sliced.
    pub partitions: u32,
    /// The expression that holds for the rows that it is about; all where there is none.
    pub filter: Option<String>,
    /// The columns that changes have beside the key's; all where none are named.
    pub columns: Option<Vec<String>>,
    /// Where a new feed begins.
    pub start: Start,
    /// Whether a `log` has deletes too. A `journal` always has them.
    pub deletes: bool,
    /// What is read of the server's own log, for feeds that read it.
    pub wal: Option<WalConfig>,
    /// Whether each change names the change of the same object before it.
    pub chain: bool,
    /// How often an idle feed looks.
    pub every: Duration,
    /// When checkpoints are written, unless they are in the effect's transaction.
    pub checkpoint: CheckpointPolicy,
    /// What is done with the changes.
    pub handler: HandlerConfig,
    /// What is done when that fails.
    pub retry: Retry,
    /// How much may be parked.
    pub parked: ParkLimits,
    /// After which pauses what is parked is tried again by itself; `None` for never.
    pub heal: Option<Backoff>,
    /// How its changes are remembered, where each is to be handled once.
    pub once: Option<OnceConfig>,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// Every change, before and after.
    Journal,
    /// Each key's latest state.
    Log,
    /// Every change, from the server's own log.
    Wal,
    /// Each row's latest state, by the moment of its last change.
    Window,
}

impl CaptureKind {
    /// The word for it in the configuration and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            CaptureKind::Journal => "journal",
            CaptureKind::Log => "log",
            CaptureKind::Wal => "wal",
            CaptureKind::Window => "window",
        }
    }
}

/// The names of what is read of a server's own log; names of our own where nobody says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalConfig {
    /// The replication slot.
    pub slot: Option<String>,
    /// The publication.
    pub publication: Option<String>,
}

/// The settings that only window feeds have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The column with the moment of the last change.
    pub changed_at: String,
    /// What its whole numbers count; without it, it has texts.
    pub unit: Option<Unit>,
    /// What windows are cut by.
    pub rules: Rules,
    /// Up to where rows are known to be complete.
    pub horizon: Horizon,
    /// The query whose rows they are, instead of a table's.
    pub query: Option<String>,
}

/// What is done with a feed's changes, and how many at a time.
#[derive(Clone, Debug)]
pub struct HandlerConfig {
    /// What is done.
    pub kind: HandlerKind,
    /// At most this many changes in one call.
    pub batch: usize,
    /// At most this many calls at the same time in each partition.
    pub concurrency: usize,
    /// A call that takes longer has failed.
    pub timeout: Duration,
    /// The form in which changes leave through a sink.
    pub format: Format,
    /// Where the attributes of CloudEvents are.
    pub mode: Mode,
}

/// What is done with a feed's changes.
#[derive(Clone, Debug)]
pub enum HandlerKind {
    /// SQL in the source's database.
    Sql {
        /// For every change, or for all but deletes when those have their own.
        sql: String,
        /// For deletes.
        delete: Option<String>,
    },
    /// A sink.
    Sink(Arc<dyn SinkSettings>),
}

impl Config {
    /// Reads a config file with the environment over it.
    pub fn load(file: &Path, environment: &Environment) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|cause| unreadable(file, cause))?;
        Config::parse(file, &text, environment)
    }

    /// Reads the text of a config file with the environment over it. Paths are relative to the file's folder.
    pub fn parse(file: &Path, text: &str, environment: &Environment) -> Result<Self> {
        parse::config(file, text, environment)
    }

    /// The feed of this name, which the user gave on the command line.
    pub fn feed(&self, name: &str) -> Result<&FeedConfig> {
        if self.queues.keys().any(|queue| queue.as_str() == name) {
            return Err(Error::usage(format!(
                "feed {name} is a queue: it has no partitions, positions or leases"
            ))
            .help(format!("`seriatim queue inspect {name}` shows it")));
        }
        let found = self.feeds.values().find(|feed| feed.name.as_str() == name);
        found.ok_or_else(|| self.unknown_feed(name))
    }

    /// Its databases, each once: the sources and the store.
    pub fn databases(&self) -> Vec<&Database> {
        let mut all: Vec<&Database> = Vec::new();
        for database in self.sources.values().chain([&self.store]) {
            if !all.iter().any(|known| databases::same(&***known, &**database)) {
                all.push(database);
            }
        }
        all
    }

    /// The name of a feed or queue, which the user gave on the command line.
    pub fn named(&self, name: &str) -> Result<&FeedName> {
        let found = self.feeds.keys().chain(self.queues.keys()).find(|feed| feed.as_str() == name);
        found.ok_or_else(|| self.unknown_feed(name))
    }

    /// Whether it has a feed or a queue of this name.
    pub fn has(&self, name: &str) -> bool {
        self.feeds.keys().chain(self.queues.keys()).any(|feed| feed.as_str() == name)
    }

    /// The feeds of these names, or all of them when none is named.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&FeedConfig>> {
        if self.feeds.is_empty() && self.queues.is_empty() {
            return Err(self.no_feeds());
        }
        match names {
            [] => Ok(self.feeds.values().collect()),
            names => {
                let is_queue =
                    |name: &&String| self.queues.keys().any(|queue| queue.as_str() == name.as_str());
                names.iter().filter(|name| !is_queue(name)).map(|name| self.feed(name)).collect()
            }
        }
    }

    /// The queues of these names, or all of them when none is named.
    pub fn chosen_queues(&self, names: &[String]) -> Vec<&QueueConfig> {
        let chosen =
            |queue: &&QueueConfig| names.is_empty() || names.iter().any(|name| name == queue.name.as_str());
        self.queues.values().filter(chosen).collect()
    }

    /// The queue of this name, which the user gave on the command line.
    pub fn queue(&self, name: &str) -> Result<&QueueConfig> {
        if let Some(queue) = self.queues.values().find(|queue| queue.name.as_str() == name) {
            return Ok(queue);
        }
        match self.feeds.values().find(|feed| feed.name.as_str() == name) {
            Some(feed) => {
                Err(Error::usage(format!("feed {name} is a {}, not a queue", feed.capture.as_str())))
            }
            None => Err(self.unknown_feed(name)),
        }
    }

    /// The error for a name that no feed has.
    pub fn unknown_feed(&self, name: &str) -> Error {
        if self.feeds.is_empty() && self.queues.is_empty() {
            return self.no_feeds();
        }
        let names: Vec<&str> = self.feeds.keys().chain(self.queues.keys()).map(FeedName::as_str).collect();
        let list = names.join(", ");
        let help = match suggest::closest(name, names) {
            Some(meant) => {
                format!("did you mean {meant:?}? The feeds in {} are: {list}", self.file.display())
            }
            None => format!("the feeds in {} are: {list}", self.file.display()),
        };
        Error::usage(format!("there is no feed {name:?}")).help(help)
    }

    fn no_feeds(&self) -> Error {
        Error::usage(format!("{} has no feeds", self.file.display()))
            .help("add a [feed.NAME] section; `seriatim init` writes an example of one")
    }
}

fn unreadable(file: &Path, cause: std::io::Error) -> Error {
    match cause.kind() {
        ErrorKind::NotFound => {
            Error::usage(format!("there is no config file at {}", absolute(file).display()))
                .help("`seriatim init` writes one, and -c FILE or SERIATIM_CONFIG names another")
        }
        ErrorKind::InvalidData => Error::usage(format!("{} is not valid UTF-8", file.display()))
            .help("a config file is TOML: plain text in UTF-8"),
        ErrorKind::IsADirectory => Error::usage(format!("{} is a folder, not a config file", file.display()))
            .help("name the file in it: -c FILE"),
        _ => Error::usage(format!("the config file {} cannot be read", file.display())).caused_by(cause),
    }
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
