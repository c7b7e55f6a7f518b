//! What a window was asked to be.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use seriatim::source::window::{Age, Rules};

use super::super::sentences::Names;
use super::moment::{Unit, resolution};
use super::place::Spelling;

/// How far a window's end stays behind the present, unless told otherwise.
const BUFFER: Duration = Duration::from_secs(5);

/// How many rows one window has at most, unless told otherwise.
const EXCESSIVE_COUNT: usize = 1000;

/// How often an idle feed looks, unless told otherwise.
const EVERY: Duration = Duration::from_millis(50);

/// Up to where rows are known to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// A moment at which no write transaction was open, less the buffer. However long a transaction takes, its rows are not
    /// missed, as long as their moments were taken inside it, or at most the buffer before it could begin to write.
    Exact,
    /// The present, less the buffer. What is committed later than the buffer after its own moment is missed.
    Buffer,
}

/// Where the rows come from.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// The table, or view, that the feed's names have.
    Table,
    /// Any query that yields the key, the moment, and columns.
    Query(String),
}

/// What a window was asked to be.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub path: PathBuf,
    pub names: Names,
    pub from: From,
    /// The column with the moment of the last change.
    pub changed_at: String,
    /// What its numbers count; it has texts when not given.
    pub unit: Option<Unit>,
    /// The key's columns; the primary key when not given.
    pub key: Option<Vec<String>>,
    pub partitions: u32,
    pub rules: Rules,
    pub horizon: Horizon,
    /// Which rows; all when not given.
    pub filter: Option<String>,
    /// Which columns beside the key's; all when not given.
    pub columns: Option<Vec<String>>,
    /// How often an idle feed looks.
    pub every: Duration,
}

impl Settings {
    pub(super) fn new(path: PathBuf, names: Names, from: From, changed_at: &str) -> Self {
        let excessive_count = NonZeroUsize::new(EXCESSIVE_COUNT).unwrap_or(NonZeroUsize::MIN);
        Settings {
            path,
            names,
            from,
            changed_at: changed_at.to_owned(),
            unit: None,
            key: None,
            partitions: 1,
            rules: Rules { buffer: BUFFER, stale_age: Age::Infinite, excessive_count },
            horizon: Horizon::Exact,
            filter: None,
            columns: None,
            every: EVERY,
        }
    }

    /// How positions write what orders the rows.
    pub(super) fn spelling(&self) -> Spelling {
        Spelling(self.unit)
    }

    /// How long rows are given to rest before they are looked for among those that do not.
    pub(super) fn patience(&self) -> Duration {
        self.rules.buffer.saturating_mul(2).max(resolution(self.unit))
    }
}
