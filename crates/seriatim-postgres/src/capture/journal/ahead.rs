//! Reads the next changes while the caller still handles the last ones.
//!
//! Changes are immutable, so what was read early is what would be read late. A few reads are kept, and only while the feed is
//! behind; those that nobody asks for are thrown away.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use seriatim::source::{Cursor, Limit, Slice};
use tokio::sync::mpsc;

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

/// A read that nobody has asked for yet.
type Read = (Wanted, Vec<Slice>);

/// How many reads wait for somebody to ask for them; one more is under way. Each is bounded by its limit.
const WAITING: usize = 2;

/// The reads that are under way, if any.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Option<mpsc::Receiver<Read>>>);

impl Ahead {
    /// Reads on from there, again and again while the feed is behind; forgets what was read before.
    pub(super) fn begin<F>(&self, from: Wanted, read: impl Fn(Wanted) -> F + Send + 'static)
    where
        F: Future<Output = Option<Vec<Slice>>> + Send,
    {
        let (sender, reads) = mpsc::channel(WAITING);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reads);
        tokio::spawn(async move {
            let mut wanted = Some(from);
            while let Some(asked) = wanted {
                // Errors are not kept, nor that a read saw the end: the caller reads again, and sees whether that still holds.
                let Some(slices) = read(asked.clone()).await else { return };
                if slices.iter().any(|slice| slice.caught_up) {
                    return;
                }
                wanted = asked.after(&slices);
                if sender.send((asked, slices)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// The slices of the next read, when it is the one that is wanted now. Otherwise, or when there is none, nothing is read
    /// ahead any more.
    pub(super) async fn next(&self, wanted: &Wanted) -> Option<Vec<Slice>> {
        let mut reads = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let (_, slices) = reads.recv().await.filter(|(read, _)| read == wanted)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reads);
        Some(slices)
    }
}
