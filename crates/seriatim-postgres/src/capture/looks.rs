//! How often a table is looked at while it is read: whether its triggers are there, and new partitions have theirs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seriatim::clock;
use tokio::time::Instant;

/// A feed that is behind reads on for long without coming to its end: it looks as often as this.
const EVERY: Duration = Duration::from_secs(1);

/// How long writers of a table have, behind whom a look could not put triggers on it, before the next one.
const AFTER_BUSY: Duration = Duration::from_secs(10);

/// When the table is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    next: Mutex<Next>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Next {
    /// Before the next read.
    #[default]
    Now,
    /// A feed that came to its end looked there. What it reads next is the first of what it may fall behind with.
    FromNextRead,
    At(Instant),
}

impl Looks {
    /// Whether a look is due.
    pub(crate) fn due(&self) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        match *next {
            Next::Now => true,
            Next::FromNextRead => {
                *next = Next::At(clock::now() + EVERY);
                false
            }
            Next::At(moment) => clock::now() >= moment,
        }
    }

    /// All was well.
    pub(crate) fn done(&self) {
        self.set(Next::At(clock::now() + EVERY));
    }

    /// All was well at the end of what there is to read.
    pub(crate) fn done_at_end(&self) {
        self.set(Next::FromNextRead);
    }

    /// The table was busy.
    pub(crate) fn put_off(&self) {
        self.set(Next::At(clock::now() + AFTER_BUSY));
    }

    /// The next read looks.
    pub(crate) fn forget(&self) {
        self.set(Next::Now);
    }

    fn set(&self, to: Next) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}
