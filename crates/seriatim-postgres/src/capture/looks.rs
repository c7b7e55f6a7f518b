//! How often a table is looked at while it is read: whether its triggers are there, and new partitions have theirs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A feed that is behind reads on for long without coming to its end: it looks as often as this.
const EVERY: Duration = Duration::from_secs(1);

/// How long writers of a table have, behind whom a look could not put triggers on it, before the next one.
const AFTER_BUSY: Duration = Duration::from_secs(10);

/// When the table is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    next: Mutex<Option<Instant>>,
}

impl Looks {
    /// Whether a look is due.
    pub(crate) fn due(&self) -> bool {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.is_none_or(|next| seriatim::clock::now() >= next)
    }

    /// All was well.
    pub(crate) fn done(&self) {
        self.set(Some(EVERY));
    }

    /// The table was busy.
    pub(crate) fn put_off(&self) {
        self.set(Some(AFTER_BUSY));
    }

    /// The next read looks.
    pub(crate) fn forget(&self) {
        self.set(None);
    }

    fn set(&self, after: Option<Duration>) {
        let next = after.map(|after| seriatim::clock::now() + after);
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }
}
