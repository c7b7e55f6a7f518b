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
mod errors;
mod place;
mod relation;
mod horizon;
mod pass;
mod hot_rows;
mod look;
mod lag;
mod check;
mod feed;
mod installing;

use std::path::PathBuf;
use std::sync::Mutex;

use seriatim::backend::Ahead;
use seriatim::source::SourceError;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use moment::Unit;
pub use settings::Horizon;

use super::errors::Names;
use super::settings::EVERY;
use crate::database::{Access, Database};
use look::SharedMemory;
use settings::{From, Settings};

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

seriatim::window_builder!(
    WindowCapture,
    settings,
    unit: "What the whole numbers in the column count. Without it, the column has texts: `YYYY-MM-DD HH:MM:SS[.fff]` or RFC 3339, in UTC.",
    buffer: "How long before its writer gets hold of the file the moment of a row may be taken; 5 s unless told otherwise.",
    every: "50 ms"
);
