//! **Notice.** The captures `journal` and `log`: triggers in the user's own database note what changes.
//!
//! ```text
//!   writer ──▶ table ──triggers──▶ seriatim.journal_1 ──▶ ticks ──▶ read ──▶ slices
//!                                        ▲                  ▲                   │
//!                                        │              sequencer               │
//!                                        └────── prune ◀──── consumed ◀─────────┘
//! ```
//!
//! Transactions commit in another order than the one in which they write, so nothing is read by its number alone: a sequencer,
//! one at a time, notes what is committed at one moment after the other ([`crate::sequencer`]).
//!
//! Journals can also be filled from the server's own log ([`wal`]).
//!
//! The capture `window` ([`window`]) needs none of this, where rows have the moment of their last change.

mod error;
mod names;
mod errors;
mod settings;
mod table;
mod json;
mod value;
mod image;
mod registry;
mod shapes;
mod slices;
mod row_filter;
mod kind;
mod books;
mod looks;
mod patience;
mod journal;
mod wal;
mod log;
mod feed;
mod installing;
mod window;
mod clock;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::database::Database;
use crate::error::PostgresError;
use crate::sequencer::Sequencer;
use errors::Names;
use kind::{Base, Capturing, Writer};
use seriatim::backend::Kind;
use seriatim::source::{SourceError, Watching};
use settings::{EVERY, Settings};
use wal::{Relay, SlotNames};

pub use clock::SourceClock;
pub use log::log_sql;
pub use window::{Horizon, Unit, WindowCapture};

/// A PostgreSQL database whose tables are watched. Clones share their connections and their sequencer.
///
/// ```no_run
/// # use seriatim_postgres::Source;
/// let shop = Source::connect("postgres://seriatim@db.example/shop")?;
/// let orders = shop.journal("public.orders").partitions(4);
/// # Ok::<(), seriatim_postgres::PostgresError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    database: Database,
    sequencer: Arc<Sequencer>,
    relay: Arc<Relay>,
}

impl Source {
    /// The database at this URL (see [`Database::connect`]). Connects on first use.
    pub fn connect(url: &str) -> Result<Self, PostgresError> {
        Ok(Source::new(Database::connect(url)?))
    }

    /// This database.
    pub fn new(database: Database) -> Self {
        let database = database.for_captures();
        let sequencer = Arc::new(Sequencer::new(database.clone()));
        let relay = Relay::new(database.clone());
        Source { database, sequencer, relay }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// All consumers in the database's books, of all feeds and stores. Makes nothing.
    pub async fn watchings(&self) -> Result<Vec<Watching>, SourceError> {
        let all = books::all(&self.database).await;
        all.map_err(|fault| fault.while_doing(&self.database, "looking at the consumers of"))
    }

    /// Forgets a consumer, and takes out what was installed when it was the last one of its capture: as
    /// [`Feed::close`](seriatim::source::Feed::close) does, for a feed of which no more is known.
    pub async fn end(&self, watching: &Watching) -> Result<(), SourceError> {
        use seriatim::source::Feed as _;
        let Watching { consumer, capture, table, .. } = watching;
        match capture.as_str() {
            "journal" => self.journal(table).close(consumer).await,
            "log" => self.log(table).close(consumer).await,
            other => Err(SourceError::needs_attention(
                format!(
                    "feed {} has the capture {other}, which cannot be taken out by its name",
                    consumer.feed
                ),
                "put the feed back into the config, and unwatch it then",
            )),
        }
    }

    /// Every change of the table, with the row before and after.
    pub fn journal(&self, table: &str) -> Capture {
        Capture::new(self, Kind::Journal, table)
    }

    /// Every change of the table, from the server's own log: no triggers, and no cost in the writers' transactions. The row as it was is
    /// there where the table's replica identity has it.
    pub fn wal(&self, table: &str) -> Capture {
        let mut capture = Capture::new(self, Kind::Journal, table);
        capture.base.writer = Writer::Relay;
        capture
    }

    /// The latest state of each row of a table that has a column with the moment of its last change. Installs nothing.
    pub fn window(&self, table: &str, changed_at: &str) -> WindowCapture {
        WindowCapture::of_table(self.database.clone(), table, changed_at)
    }

    /// The same for the rows of a query, of which one column is the moment and others, named by [`WindowCapture::key`], the key.
    pub fn window_of_query(&self, query: &str, changed_at: &str) -> WindowCapture {
        WindowCapture::of_query(self.database.clone(), query, changed_at)
    }

    /// The clock of this database, for [`Windows`](seriatim::source::window::Windows) over its records.
    pub fn clock(&self) -> SourceClock {
        SourceClock::new(self.database.clone())
    }

    /// The latest state of each row that changed, however often it did.
    pub fn log(&self, table: &str) -> Capture {
        Capture::new(self, Kind::Log, table)
    }
}

/// One capture of one table, as a feed.
pub struct Capture {
    base: Base,
    kind: Box<dyn Capturing>,
    /// The news that the last read knew of.
    known: AtomicU64,
}

impl Capture {
    fn new(source: &Source, kind: Kind, table: &str) -> Self {
        let names = Names::of_table(table, source.database.name());
        let base = Base {
            database: source.database.clone(),
            sequencer: source.sequencer.clone(),
            settings: Settings::new(kind, names, EVERY),
            writer: Writer::Triggers,
            relay: source.relay.clone(),
            slot: SlotNames::default(),
        };
        Capture::over(base, kind)
    }

    fn over(base: Base, kind: Kind) -> Self {
        let kind: Box<dyn Capturing> = match kind {
            Kind::Journal => Box::new(journal::Journal::default()),
            Kind::Log => Box::new(log::Log::default()),
        };
        Capture { base, kind, known: AtomicU64::new(0) }
    }

    /// The same capture, divided into another number of partitions.
    fn divided(&self, partitions: u32) -> Self {
        let (mut base, kind) = (self.base.clone(), self.base.settings.kind);
        base.settings.partitions = partitions.max(1);
        Capture::over(base, kind)
    }

    /// By the server's log: what its replication slot and its publication are called; names of our own where nobody says. One relay serves
    /// all captures of a database, so they are the first one's.
    pub fn slot_names(mut self, slot: Option<String>, publication: Option<String>) -> Self {
        self.base.slot = SlotNames { slot, publication };
        self
    }

    /// It is meant to begin with the rows that exist: [`Install::check`](seriatim::source::Install::check) then also says
    /// whether they can be read.
    pub fn with_existing_rows(mut self) -> Self {
        self.base.settings.with_existing = true;
        self
    }
}

seriatim::table_builder!(
    Capture,
    base.settings,
    unique: "A log needs columns that name one row: the primary key, or a unique index without NULLs.",
    every: "250 ms"
);

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Capture").field(&self.base.settings).finish()
    }
}
