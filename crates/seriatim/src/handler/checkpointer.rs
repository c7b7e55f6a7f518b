//! How a handler says that what it was given is done, where that is its own to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A handler's word that what it was given is done.
///
/// For each call, remembers up to which of the call's changes the handler has said so.
#[derive(Clone, Debug, Default)]
pub struct Checkpointer {
    said: Arc<AtomicUsize>,
    /// What a word covers that is said now: so many of the call's changes; `None`: all of them.
    covers: Option<usize>,
}

impl Checkpointer {
    /// The same, where the handler has been given only so many of the call's changes.
    pub(crate) fn after(&self, changes: usize) -> Self {
        Checkpointer { said: Arc::clone(&self.said), covers: Some(changes) }
    }

    pub(crate) fn say(&self) {
        self.said.fetch_max(self.covers.unwrap_or(usize::MAX), Ordering::AcqRel);
    }

    /// How many of the last call's changes the handler has vouched for, and all that came before them. `None`: it said nothing.
    pub(crate) fn take(&self) -> Option<usize> {
        Some(self.said.swap(0, Ordering::AcqRel)).filter(|said| *said > 0)
    }
}
