//! Reads on while the caller still handles what it got last.
//!
//! ```text
//!   read on, again and again ──▶ a few pages that wait ──▶ whoever asks for exactly the next one
//! ```
//!
//! What was read early has to be what would be read late: whoever reads ahead makes sure of that. Little is kept, and only for
//! a moment: the page that is asked for has to be the next one, read not long ago; everything else is thrown away and read anew.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Cursor, Limit, Slice};
use crate::{clock, tasks};

/// Who comes later than this for a page gets a new one. A handler that is so slow is not waiting for pages.
const FRESH: Duration = Duration::from_secs(1);

/// How many readings wait to be asked for; one more is under way.
const WAITING: usize = 1;

/// What a read asks for, whatever the order of its cursors.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Where to read on.
    pub cursors: Vec<Cursor>,
    /// How much at most.
    pub limit: Limit,
}

impl Wanted {
    /// What a read with these cursors asks for.
    pub fn new(cursors: &[Cursor], limit: Limit) -> Self {
        let mut cursors = cursors.to_vec();
        cursors.sort_by_key(|cursor| cursor.partition);
        Wanted { cursors, limit }
    }

    /// What a caller who got these slices will ask for next; `None` when it had better look for itself.
    pub fn after(&self, slices: &[Slice]) -> Option<Self> {
        let all_served = slices.len() == self.cursors.len();
        if !all_served || slices.iter().any(|slice| slice.caught_up) {
            return None;
        }
        let cursor = |slice: &Slice| Cursor { partition: slice.partition, after: slice.upto.clone() };
        Some(Wanted::new(&slices.iter().map(cursor).collect::<Vec<_>>(), self.limit))
    }
}

/// What one reading found: the slices of one page after another, each what a read for itself would return.
pub type Pages = Vec<Vec<Slice>>;

/// A page that nobody has asked for yet.
#[derive(Debug)]
struct Page {
    wanted: Wanted,
    slices: Vec<Slice>,
    read_at: Instant,
}

#[derive(Debug)]
struct Begun {
    at_hand: VecDeque<Page>,
    readings: mpsc::Receiver<VecDeque<Page>>,
}

/// The pages that are read ahead, if any.
#[derive(Debug, Default)]
pub struct Ahead(Mutex<Option<Begun>>);

impl Ahead {
    /// Reads on from there, again and again until a reading finds nothing; forgets what was read before.
    ///
    /// A reading that fails, or sees the end, finds nothing: the caller reads for itself then, and sees whether that still holds.
    pub fn begin<F>(&self, from: Wanted, read: impl Fn(Wanted) -> F + Send + 'static)
    where
        F: Future<Output = Pages> + Send,
    {
        let (sender, readings) = mpsc::channel(WAITING);
        self.keep(Some(Begun { at_hand: VecDeque::new(), readings }));
        tasks::spawn(async move {
            let mut wanted = Some(from);
            while let Some(asked) = wanted {
                let read_at = clock::now();
                let (pages, next) = chained(asked.clone(), read(asked).await, read_at);
                if pages.is_empty() || sender.send(pages).await.is_err() {
                    return;
                }
                wanted = next;
            }
        });
    }

    /// The slices of the next page, when it is the one that is wanted now. Otherwise, or when there is none, nothing is read
    /// ahead any more.
    pub async fn next(&self, wanted: &Wanted) -> Option<Vec<Slice>> {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if begun.at_hand.is_empty() {
            begun.at_hand = begun.readings.recv().await?;
        }
        let is_wanted = |page: &Page| page.wanted == *wanted && page.read_at.elapsed() < FRESH;
        let page = begun.at_hand.pop_front().filter(is_wanted)?;
        self.keep(Some(begun));
        Some(page.slices)
    }

    /// Forgets what was read: somebody wants it read as it is now.
    pub fn forget(&self) {
        self.keep(None);
    }

    fn keep(&self, begun: Option<Begun>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }
}

/// What each page is the answer to, and what comes after the last of them.
fn chained(first: Wanted, pages: Pages, read_at: Instant) -> (VecDeque<Page>, Option<Wanted>) {
    let (mut chained, mut next) = (VecDeque::new(), Some(first));
    for slices in pages {
        let Some(wanted) = next else { break };
        next = wanted.after(&slices);
        chained.push_back(Page { wanted, slices, read_at });
    }
    (chained, next)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::change::Position;
    use crate::name::Partition;

    const LIMIT: Limit = Limit { rows: 1, bytes: 1 };

    fn at(after: u64) -> Wanted {
        Wanted::new(&[Cursor { partition: Partition(0), after: Position::number(after) }], LIMIT)
    }

    fn slice(partition: u32, upto: u64, caught_up: bool) -> Slice {
        let (partition, upto) = (Partition(partition), Position::number(upto));
        Slice { partition, changes: Vec::new().into(), upto, caught_up }
    }

    /// Two pages of one place each for every reading, until this place.
    fn begin(ahead: &Ahead, from: u64, end: u64) -> Arc<AtomicUsize> {
        let readings = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&readings);
        ahead.begin(at(from), move |wanted| {
            counted.fetch_add(1, Ordering::SeqCst);
            let after = wanted.cursors[0].after.as_number().unwrap();
            let pages = if after >= end { 0 } else { 2 };
            async move { (1..=pages).map(|page| vec![slice(0, after + page, false)]).collect() }
        });
        readings
    }

    async fn upto(ahead: &Ahead, after: u64) -> Option<u64> {
        ahead.next(&at(after)).await.and_then(|slices| slices[0].upto.as_number())
    }

    #[test]
    fn only_a_feed_that_is_behind_as_a_whole_is_read_ahead() {
        let cursor =
            |partition, after| Cursor { partition: Partition(partition), after: Position::number(after) };
        let wanted = Wanted::new(&[cursor(1, 5), cursor(0, 5)], LIMIT);
        let next = wanted.after(&[slice(0, 9, false), slice(1, 9, false)]);
        assert_eq!(next, Some(Wanted::new(&[cursor(1, 9), cursor(0, 9)], LIMIT)));
        assert_eq!(wanted.after(&[slice(0, 9, true), slice(1, 9, true)]), None);
        assert_eq!(wanted.after(&[slice(0, 9, false)]), None);
    }

    #[tokio::test]
    async fn one_page_after_another_is_had_until_nothing_is_found() {
        let ahead = Ahead::default();
        begin(&ahead, 3, 7);
        for after in 3..7 {
            assert_eq!(upto(&ahead, after).await, Some(after + 1));
        }
        assert_eq!(upto(&ahead, 7).await, None);
    }

    #[tokio::test]
    async fn who_goes_on_elsewhere_gets_nothing_that_was_read_for_here() {
        let ahead = Ahead::default();
        begin(&ahead, 3, 100);
        assert_eq!(upto(&ahead, 3).await, Some(4));
        assert_eq!(upto(&ahead, 3).await, None, "it was set back");
        assert_eq!(upto(&ahead, 4).await, None, "nothing is left of what was read");
    }

    #[tokio::test]
    async fn what_is_forgotten_is_read_anew() {
        let ahead = Ahead::default();
        begin(&ahead, 3, 100);
        assert_eq!(upto(&ahead, 3).await, Some(4));
        ahead.forget();
        assert_eq!(upto(&ahead, 4).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_waited_for_long_is_read_anew() {
        let ahead = Ahead::default();
        begin(&ahead, 3, 100);
        assert_eq!(upto(&ahead, 3).await, Some(4));
        tokio::time::sleep(FRESH).await;
        assert_eq!(upto(&ahead, 4).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn little_is_read_while_nobody_asks() {
        let ahead = Ahead::default();
        let readings = begin(&ahead, 3, u64::MAX);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(readings.load(Ordering::SeqCst), WAITING + 1);
        drop(ahead);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(readings.load(Ordering::SeqCst), WAITING + 1, "and none when nobody can");
    }
}
