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
    /// Where the handler is given only some of the call's changes: the places of those.
    places: Option<Arc<[usize]>>,
}

impl Checkpointer {
    /// The same, where the handler has been given only so many of the call's changes.
    pub(crate) fn after(&self, changes: usize) -> Self {
        let place = |places: &Arc<[usize]>| places.get(changes.wrapping_sub(1)).map_or(0, |place| place + 1);
        let covers = Some(self.places.as_ref().map_or(changes, place));
        Checkpointer { covers, ..self.clone() }
    }

    /// The same, where the handler is given only the call's changes at these places, and the others are done.
    pub(crate) fn among(&self, places: impl IntoIterator<Item = usize>) -> Self {
        Checkpointer { places: Some(places.into_iter().collect()), ..self.clone() }
    }

    pub(crate) fn say(&self) {
        self.said.fetch_max(self.covers.unwrap_or(usize::MAX), Ordering::AcqRel);
    }

    /// How many of the last call's changes the handler has vouched for, and all that came before them. `None`: it said nothing.
    pub(crate) fn take(&self) -> Option<usize> {
        Some(self.said.swap(0, Ordering::AcqRel)).filter(|said| *said > 0)
    }
}
