//! The captures `journal` and `log`: triggers in the user's own file note what changes.
//!
//! ```text
//!   writer ──▶ table ──triggers──▶ seriatim_journal_1 / seriatim_log_1 ──▶ read ──▶ slices
//!                                        ▲                                            │
//!                                        └──────────── prune ◀──── consumed ◀─────────┘
//! ```
//!
//! SQLite has one writer at a time, so the order in which rows get their numbers is the order in which they commit.

mod error;
mod value;
mod sql;
mod errors;
mod chosen;
mod settings;
mod names;
mod users_triggers;
mod generated;
mod defaults;
mod table;
mod position;
mod journal;
mod log;
mod registry;
mod books;
mod key_columns;
mod watched;
mod install;
mod consumers;
mod slices;
mod row_filter;
mod reader;
mod highest_seen;
mod prune;
mod lag;
mod feed;
mod installing;
mod window;
mod clock;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use seriatim::source::{SourceError, Watching};
use tokio::sync::OnceCell;

use crate::database::{Access, Database, look};
use errors::Names;
use highest_seen::HighestSeen;
use reader::SharedReader;
use seriatim::backend::Kind;
use settings::Settings;

pub use clock::SourceClock;
pub use window::{Horizon, Unit, WindowCapture};

/// A SQLite file whose tables are watched.
///
/// ```no_run
/// # use seriatim_sqlite::Source;
/// let shop = Source::new("shop.db");
/// let orders = shop.journal("orders").partitions(4);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
}

impl Source {
    /// The file at this path. Nothing is opened yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Source { path: path.as_ref().to_owned() }
    }

    /// All consumers in the file's books, of all feeds and stores. Makes nothing.
    pub async fn watchings(&self) -> Result<Vec<Watching>, SourceError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let looking = look(&self.path, "looking at the consumers in", books::all);
        looking.await.map_err(SourceError::from)
    }

    /// Forgets a consumer, and takes out what was installed when it was the last one of its capture: as
    /// [`Feed::close`](seriatim::source::Feed::close) does, for a feed of which no more is known.
    pub async fn end(&self, watching: &Watching) -> Result<(), SourceError> {
        use seriatim::source::Feed as _;
        self.journal(&watching.table).close(&watching.consumer).await
    }

    /// Every change of the table, with the row before and after.
    pub fn journal(&self, table: &str) -> Capture {
        Capture::new(self.path.clone(), Kind::Journal, table)
    }

    /// The latest state of each row of a table that has a column with the moment of its last change. Installs nothing.
    pub fn window(&self, table: &str, changed_at: &str) -> WindowCapture {
        WindowCapture::of_table(self.path.clone(), table, changed_at)
    }

    /// The same for the rows of a query, of which one column is the moment and others, named by [`WindowCapture::key`], the key.
    pub fn window_of_query(&self, query: &str, changed_at: &str) -> WindowCapture {
        WindowCapture::of_query(self.path.clone(), query, changed_at)
    }

    /// The clock of this file, for [`Windows`](seriatim::source::window::Windows) over its records.
    pub fn clock(&self) -> SourceClock {
        SourceClock::new(self.path.clone())
    }

    /// The latest state of each row that changed, however often it did.
    pub fn log(&self, table: &str) -> Capture {
        Capture::new(self.path.clone(), Kind::Log, table)
    }
}

/// One capture of one table, as a feed.
///
/// Its connections are opened when they are first needed and kept. The file must exist: it is never made.
#[derive(Debug)]
pub struct Capture {
    settings: Settings,
    reading: OnceCell<Database>,
    writing: OnceCell<Database>,
    reader: SharedReader,
    /// What is noted for the consumer that opened it, when its store is in another file.
    shown: Mutex<Option<HighestSeen>>,
}

impl Capture {
    fn new(path: PathBuf, kind: Kind, table: &str) -> Self {
        let names = Names::of_table(table, &path);
        Capture {
            settings: Settings::new(path, kind, names),
            reading: OnceCell::new(),
            writing: OnceCell::new(),
            reader: SharedReader::default(),
            shown: Mutex::default(),
        }
    }

    /// The same capture, with connections of its own, divided into another number of partitions.
    fn divided(&self, partitions: u32) -> Self {
        let mut settings = self.settings.clone();
        settings.partitions = partitions.max(1);
        Capture {
            settings,
            reading: OnceCell::new(),
            writing: OnceCell::new(),
            reader: SharedReader::default(),
            shown: Mutex::default(),
        }
    }

    /// A connection that cannot write.
    async fn looking(&self) -> Result<Database, SourceError> {
        Ok(Database::open(&self.settings.path, Access::Read).await?)
    }

    /// The connection that reads. It may write, since after a crash the first reader has to recover the file.
    async fn reading(&self) -> Result<&Database, SourceError> {
        let prepare =
            |connection: &rusqlite::Connection| connection.pragma_update(None, "temp_store", "file");
        let open = || Database::open_with(&self.settings.path, Access::Write, prepare);
        Ok(self.reading.get_or_try_init(open).await?)
    }

    /// The connection that installs, notes and prunes.
    async fn writing(&self) -> Result<&Database, SourceError> {
        let open = || Database::open(&self.settings.path, Access::Write);
        Ok(self.writing.get_or_try_init(open).await?)
    }
}

seriatim::table_builder!(
    Capture,
    settings,
    unique: "A log needs columns that name one row: the primary key, or a UNIQUE constraint without NULLs.",
    every: "50 ms"
);
