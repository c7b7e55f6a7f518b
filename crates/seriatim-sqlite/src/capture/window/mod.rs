//! The capture `window`: for tables that have a column with the moment of the last change. Nothing is installed in the file,
//! nothing is written to it.
//!
//! ```text
//!        passed          │        window          │   buffer    │
//!  ──────────────────────┼────────────────────────┼─────────────┼──▶ changed_at, key
//!      last row passed ──┘                 finish ┘     horizon ┘
//! ```
//!
//! - **The place** is the last row that was passed, by its moment and its primary key, so any number of rows may share a moment. It
//!   moves with rows alone: as long as nothing is written, a late commit is still seen.
//! - **The horizon** is exact unless the file cannot be locked (see [`Horizon`]). The end of a window is the horizon less the
//!   buffer, rounded down to a tick of the column: a clock of whole seconds writes all that happens until its next tick with
//!   the same moment.
//! - **The id** of a change is made of all values of the row: the same version of a row has the same id whenever it is delivered,
//!   another version another one, even within one tick. (After a column was added to the table, ids of its rows are new.)
//! - **A row that never rests** is delivered ahead of its time, and noted in the position, so that the same version does not come
//!   twice.
//! - Rows without a moment (NULL) and deletes are not seen. A key that is changed is a new row.

mod moment;
mod settings;
mod sentences;
mod place;
mod relation;
mod horizon;
mod pass;
mod restless;
mod look;
mod lag;
mod check;
mod feed;
mod installing;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use seriatim::backend::Ahead;
use seriatim::name::FeedName;
use seriatim::source::SourceError;
use seriatim::source::window::Age;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use moment::Unit;
pub use settings::Horizon;

use super::sentences::Names;
use crate::database::{Access, Database};
use look::SharedMemory;
use settings::{EVERY, From, Settings};

/// A window over the rows of a table or query, as a feed. Every change is an [`Op::Upsert`](seriatim::Op::Upsert).
///
/// Its connection is opened when it is first needed and kept. The file must exist: it is never made.
#[derive(Debug)]
pub struct WindowCapture {
    path: PathBuf,
    settings: Settings,
    reading: OnceCell<Database>,
    memory: SharedMemory,
    ahead: Ahead,
    found_nothing: Mutex<Option<Instant>>,
}

impl WindowCapture {
    pub(super) fn of_table(path: PathBuf, table: &str, changed_at: &str) -> Self {
        WindowCapture::new(path, table, From::Table, changed_at)
    }

    pub(super) fn of_query(path: PathBuf, query: &str, changed_at: &str) -> Self {
        WindowCapture::new(path, "query", From::Query(query.to_owned()), changed_at)
    }

    fn new(path: PathBuf, table: &str, from: From, changed_at: &str) -> Self {
        let names = Names::of_table(table, &path);
        WindowCapture {
            path,
            settings: Settings::new(names, from, changed_at, EVERY),
            reading: OnceCell::new(),
            memory: SharedMemory::default(),
            ahead: Ahead::default(),
            found_nothing: Mutex::default(),
        }
    }

    /// The feed's name; the table's unless told otherwise.
    pub fn named(mut self, name: FeedName) -> Self {
        self.settings.names.feed = name;
        self
    }

    /// What the whole numbers in the column count. Without it, the column has texts: `YYYY-MM-DD HH:MM:SS[.fff]` or RFC 3339, in UTC.
    pub fn unit(mut self, unit: Unit) -> Self {
        self.settings.unit = Some(unit);
        self
    }

    /// The columns that tell objects apart; the primary key unless told otherwise. A query has to say them.
    pub fn key(mut self, columns: Vec<String>) -> Self {
        self.settings.key = Some(columns);
        self
    }

    /// Into how many partitions the feed is sliced; one unless told otherwise.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.settings.partitions = partitions.max(1);
        self
    }

    /// How long before its writer gets hold of the file the moment of a row may be taken; 5 s unless told otherwise.
    /// With [`Horizon::Buffer`], how long after its moment a row may be committed.
    pub fn buffer(mut self, buffer: Duration) -> Self {
        self.settings.rules.buffer = buffer;
        self
    }

    /// From which age on rows are dropped, and counted; never unless told otherwise.
    pub fn stale_age(mut self, age: Age) -> Self {
        self.settings.rules.stale_age = age;
        self
    }

    /// How many rows one read returns at most; 1,000 unless told otherwise.
    pub fn excessive_count(mut self, count: NonZeroUsize) -> Self {
        self.settings.rules.excessive_count = count;
        self
    }

    /// Up to where rows are known to be complete; exact unless told otherwise.
    pub fn horizon(mut self, horizon: Horizon) -> Self {
        self.settings.horizon = horizon;
        self
    }

    /// Only rows for which this expression on their columns holds. One that matches no more is passed over, as one that is deleted is.
    ///
    /// It is asked when rows are read, so another one can be given at any time. It must be about the row's own columns alone.
    pub fn filter(mut self, expression: &str) -> Self {
        self.settings.filter = Some(expression.to_owned());
        self
    }

    /// Only these columns, and those of the key; all unless told otherwise.
    pub fn columns(mut self, columns: Vec<String>) -> Self {
        self.settings.columns = Some(columns);
        self
    }

    /// How often an idle feed looks for changes; every 50 ms unless told otherwise.
    pub fn every(mut self, interval: Duration) -> Self {
        self.settings.every = interval;
        self
    }

    /// The connection. It could write, or it could not lock the file; it leaves it as it is, in its own journal mode.
    async fn reading(&self) -> Result<&Database, SourceError> {
        let open = || async {
            match Database::open(&self.path, Access::Look).await {
                Err(error) if error.is_read_only() => Database::open(&self.path, Access::Read).await,
                opened => opened,
            }
        };
        Ok(self.reading.get_or_try_init(open).await?)
    }
}
