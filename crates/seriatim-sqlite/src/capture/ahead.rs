//! Reads the next rows while the caller still handles the last ones.
//!
//! Only a journal is read ahead: its changes are immutable, and so is the snapshot before them, so what was read early is what
//! would be read late. At most one read is kept, and only while the feed is behind; one that nobody asks for is thrown away.

use std::sync::{Mutex, PoisonError};

use seriatim::source::{Cursor, Limit, Slice, SourceError};
use tokio::task::JoinHandle;

use super::reader::Outcome;

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
        if !all_served || slices.iter().any(|slice| slice.caught_up) {
            return None;
        }
        let cursor = |slice: &Slice| Cursor { partition: slice.partition, after: slice.upto.clone() };
        Some(Wanted::new(&slices.iter().map(cursor).collect::<Vec<_>>(), self.limit))
    }
}

type Task = JoinHandle<Result<Outcome, SourceError>>;

/// The read that is under way, if any.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Option<(Wanted, Task)>>);

impl Ahead {
    /// Keeps a read that was begun; forgets the one before.
    pub(super) fn begin(&self, wanted: Wanted, task: Task) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((wanted, task));
    }

    /// The slices of the read that was begun, when it is the one that is wanted now. Its errors are not kept: the caller reads
    /// again, and sees whether they still hold.
    pub(super) async fn finish(&self, wanted: &Wanted) -> Option<Vec<Slice>> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (_, task) = begun.filter(|(begun, _)| begun == wanted)?;
        match task.await {
            Ok(Ok(Outcome::Slices(slices))) => Some(slices),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seriatim::change::Position;
    use seriatim::name::Partition;

    const LIMIT: Limit = Limit { rows: 1, bytes: 1 };

    fn cursor(partition: u32, after: u64) -> Cursor {
        Cursor { partition: Partition(partition), after: Position::number(after) }
    }

    fn slice(partition: u32, upto: u64, caught_up: bool) -> Slice {
        let (partition, upto) = (Partition(partition), Position::number(upto));
        Slice { partition, changes: Vec::new().into(), upto, caught_up }
    }

    #[test]
    fn only_a_feed_that_is_behind_as_a_whole_is_read_ahead() {
        let wanted = Wanted::new(&[cursor(1, 5), cursor(0, 5)], LIMIT);
        let next = wanted.after(&[slice(0, 9, false), slice(1, 9, false)]);
        assert_eq!(next, Some(Wanted::new(&[cursor(1, 9), cursor(0, 9)], LIMIT)));
        assert_eq!(wanted.after(&[slice(0, 9, true), slice(1, 9, true)]), None);
        assert_eq!(wanted.after(&[slice(0, 9, false)]), None);
    }
}
