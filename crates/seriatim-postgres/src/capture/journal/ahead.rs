//! Reads the next changes while the caller still handles the last ones.
//!
//! Changes are immutable, so what was read early is what would be read late. At most one read is kept, and only while the
//! feed is behind; one that nobody asks for is thrown away.

use std::sync::{Mutex, PoisonError};

use seriatim::source::{Cursor, Limit, Slice};
use tokio::task::JoinHandle;

use super::super::fault::Fault;

/// What a read asks for, whatever the order of its cursors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub cursors: Vec<Cursor>,
    pub limit: Limit,
}

impl Wanted {
    pub(super) fn new(cursors: &[Cursor], limit: Limit) -> Self {
        let mut cursors = cursors.to_vec();
        cursors.sort_by_key(|cursor| cursor.partition);
        Wanted { cursors, limit }
    }

    /// What a caller who got these slices will ask for next; `None` when it had better look for itself.
    pub(super) fn after(&self, slices: &[Slice]) -> Option<Self> {
        let all_served = slices.len() == self.cursors.len();
        // A batch that is nearly empty is the end of the backlog, or close to it.
        let behind = slices.iter().map(|slice| slice.changes.len()).sum::<usize>() >= self.limit.rows / 4;
        if !all_served || !behind || slices.iter().any(|slice| slice.caught_up) {
            return None;
        }
        let cursor = |slice: &Slice| Cursor { partition: slice.partition, after: slice.upto.clone() };
        Some(Wanted::new(&slices.iter().map(cursor).collect::<Vec<_>>(), self.limit))
    }
}

type Task = JoinHandle<Result<Vec<Slice>, Fault>>;

/// The read that is under way, if any.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Option<(Wanted, Task)>>);

impl Ahead {
    /// Keeps a read that was begun; forgets the one before.
    pub(super) fn begin(&self, wanted: Wanted, task: Task) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((wanted, task));
    }

    /// The slices of the read that was begun, when it is the one that is wanted now. Its errors are not kept, nor that it saw
    /// the end: the caller reads again, and sees whether that still holds.
    pub(super) async fn finish(&self, wanted: &Wanted) -> Option<Vec<Slice>> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (_, task) = begun.filter(|(begun, _)| begun == wanted)?;
        let slices = task.await.ok()?.ok()?;
        slices.iter().all(|slice| !slice.caught_up).then_some(slices)
    }
}
