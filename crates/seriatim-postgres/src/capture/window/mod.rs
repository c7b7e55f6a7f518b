//! The capture `window`: for tables that have a column with the moment of the last change. Nothing is installed in the database,
//! nothing is written to it.
//!
//! ```text
//!        passed          │        window          │   buffer    │  open transactions
//!  ──────────────────────┼────────────────────────┼─────────────┼──────────────────────▶ changed_at, key
//!      last row passed ──┘                 finish ┘     horizon ┘
//! ```
//!
//! - **The place** is the last row that was passed, by its moment and its primary key, so any number of rows may share a moment. It
//!   moves with rows alone: as long as nothing is written, a late commit is still seen.
//! - **The horizon** is the start of the oldest transaction that may still write (see [`horizon`]), where this role may see all of
//!   them. The end of a window is the horizon less the buffer, rounded down to a tick of the column.
//! - **The id** of a change is made of all values of the row: the same version of a row has the same id whenever it is delivered,
//!   another version another one, even within one tick. (After a column was added to the table, ids of its rows are new.)
//! - **A row that never rests** is delivered ahead of its time, and noted in the position, so that the same version does not come
//!   twice.
//! - Rows without a moment (NULL, infinity) and deletes are not seen. A key that is changed is a new row.

mod moment;
mod settings;
mod errors;
mod place;
mod columns;
mod relation;
mod horizon;
mod pass;
mod hot_rows;
mod look;
mod lag;
mod feed;
mod installing;

use std::sync::{Arc, Mutex};

use seriatim::backend::Ahead;
use tokio::time::Instant;

pub use moment::Unit;
pub use settings::Horizon;

use super::errors::Names;
use super::settings::EVERY;
use crate::database::Database;
use look::Memory;
use settings::{From, Settings};

/// A window over the rows of a table or query, as a feed. Every change is an [`Op::Upsert`](seriatim::Op::Upsert).
#[derive(Debug)]
pub struct WindowCapture {
    database: Database,
    settings: Settings,
    memory: Arc<tokio::sync::Mutex<Memory>>,
    ahead: Ahead,
    found_nothing: Mutex<Option<Instant>>,
}

impl WindowCapture {
    pub(super) fn of_table(database: Database, table: &str, changed_at: &str) -> Self {
        WindowCapture::new(database, table, From::Table, changed_at)
    }

    pub(super) fn of_query(database: Database, query: &str, changed_at: &str) -> Self {
        WindowCapture::new(database, "query", From::Query(query.to_owned()), changed_at)
    }

    fn new(database: Database, table: &str, from: From, changed_at: &str) -> Self {
        let names = Names::of_table(table, database.name());
        let settings = Settings::new(names, from, changed_at, EVERY);
        let (memory, ahead, found_nothing) = Default::default();
        WindowCapture { database, settings, memory, ahead, found_nothing }
    }
}

seriatim::window_builder!(
    WindowCapture,
    settings,
    unit: "What the whole numbers in the column count. Other columns have no unit: times with and without time zone (in UTC), dates, and texts, `YYYY-MM-DD HH:MM:SS[.fff]` or RFC 3339, in UTC.",
    buffer: "How long before its transaction begins the moment of a row may be taken, by the database's clock; 5 s unless told otherwise.",
    every: "250 ms"
);
