//! What a window over rows was asked to be.

use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{Age, Rules};
use super::{Place, PositionCodec, Unit};

/// How far a window's end stays behind the horizon, unless told otherwise.
const BUFFER: Duration = Duration::from_secs(5);

/// How many rows one window has at most, unless told otherwise.
const EXCESSIVE_COUNT: usize = 1000;

/// Up to where rows are known to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// A moment before which no open transaction can write any more, less the buffer. However long a transaction takes, its rows
    /// are not missed, as long as their moments were taken inside it, or at most the buffer before it could begin to write. For
    /// other clocks than the database's there is the buffer.
    Exact,
    /// The present, less the buffer. What is committed later than the buffer after its own moment is missed.
    Buffer,
}

/// Where the rows come from.
#[derive(Clone, Debug)]
pub enum From {
    /// The table, or view, that the feed's names have.
    Table,
    /// Any query that yields the key, the moment, and columns.
    Query(String),
}

/// What a window was asked to be. `N` is what its feed, table and database are called.
#[derive(Clone, Debug)]
pub struct Settings<N> {
    /// What its feed, table and database are called.
    pub names: N,
    /// Where the rows come from.
    pub from: From,
    /// The column with the moment of the last change.
    pub changed_at: String,
    /// What its whole numbers count.
    pub unit: Option<Unit>,
    /// The key's columns; the primary key when not given.
    pub key: Option<Vec<String>>,
    /// Into how many partitions the feed is sliced.
    pub partitions: u32,
    /// The arithmetic's own.
    pub rules: Rules,
    /// Up to where rows are known to be complete.
    pub horizon: Horizon,
    /// Which rows; all when not given.
    pub filter: Option<String>,
    /// Which columns beside the key's; all when not given.
    pub columns: Option<Vec<String>>,
    /// How often an idle feed looks.
    pub every: Duration,
}

impl<N> Settings<N> {
    /// As a window is unless told otherwise; an idle one looks this often.
    pub fn new(names: N, from: From, changed_at: &str, every: Duration) -> Self {
        let excessive_count = NonZeroUsize::new(EXCESSIVE_COUNT).unwrap_or(NonZeroUsize::MIN);
        Settings {
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
            every,
        }
    }

    /// Where a feed begins that has no tracker, and how to say that.
    pub fn beginning<S: PositionCodec>(&self, now: Timestamp) -> (Place<S>, String) {
        match self.rules.stale_age {
            Age::Infinite => (Place::Beginning, "the first row".to_owned()),
            Age::Of(_) => {
                let since = self.rules.stale_before(now);
                (Place::Since(since), format!("{since}, the stale age before now"))
            }
        }
    }
}
