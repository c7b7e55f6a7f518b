//! One reader for each feed: serves all partitions of the feed that this host owns, together where they stand together.
//!
//! Partitions ask when they have room, so the reader never holds anything itself and memory stays bounded whatever the
//! backlog. Partitions at the same position are served by one pass over the source; one that fell behind is read for
//! separately, until it meets the others.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::change::Position;
use crate::clock;
use crate::handler::Backoff;
use crate::name::Partition;
use crate::source::{Cursor, Feed, Limit, Slice, SourceError};
use crate::tasks;

/// What one pass may return.
const LIMIT: Limit = Limit { rows: 4096, bytes: 4 << 20 };

/// How long the first to ask waits for the others, so that one pass serves them all.
const GATHER: Duration = Duration::from_millis(2);

/// How long it waits at most for those whom the last pass served, if that pass took as long: a pass for each of them alone would
/// take longer than the wait.
const GATHER_AGAIN: Duration = Duration::from_millis(50);

/// One pass of so many is for whoever has waited longest.
const TURNS: u32 = 4;

/// A slice, or why there will be none.
pub(super) type Answer = Result<Slice, Arc<SourceError>>;

struct Want {
    cursor: Cursor,
    reply: oneshot::Sender<Answer>,
}

/// A partition's end of the reader.
#[derive(Clone)]
pub(super) struct ReaderHandle {
    wants: mpsc::UnboundedSender<Want>,
    open: Arc<AtomicUsize>,
}

impl ReaderHandle {
    /// Asks for what comes after a position. Each partition has at most one such question open.
    pub fn want(&self, partition: Partition, after: Position) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        // A reader that is gone drops the question, and the asker sees that.
        drop(self.wants.send(Want { cursor: Cursor { partition, after }, reply }));
        answer
    }

    /// Counts a partition as open for as long as the guard lives.
    pub fn enter(&self) -> OpenGuard {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenGuard(Arc::clone(&self.open))
    }
}

pub(super) struct OpenGuard(Arc<AtomicUsize>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts the reader of a feed. It ends when all its handles are gone.
pub(super) fn spawn(feed: Arc<dyn Feed>, idle: Duration) -> ReaderHandle {
    let (wants, questions) = mpsc::unbounded_channel();
    let open = Arc::new(AtomicUsize::new(0));
    let handle = ReaderHandle { wants, open: Arc::clone(&open) };
    let reader = Reader {
        feed,
        idle,
        questions,
        open,
        waiting: VecDeque::new(),
        turn: 0,
        end: None,
        last: Pass::default(),
    };
    tasks::spawn(reader.run());
    handle
}

struct Reader {
    feed: Arc<dyn Feed>,
    idle: Duration,
    questions: mpsc::UnboundedReceiver<Want>,
    open: Arc<AtomicUsize>,
    /// Longest waiting first.
    waiting: VecDeque<Want>,
    turn: u32,
    /// Where the last pass ended if it found nothing, and whom it told so.
    end: Option<End>,
    last: Pass,
}

/// A pass over the source.
#[derive(Default)]
struct Pass {
    served: HashSet<Partition>,
    took: Duration,
}

struct End {
    position: Position,
    told: HashSet<Partition>,
}

impl End {
    fn is_known_to(&self, want: &Want) -> bool {
        want.cursor.after == self.position && self.told.contains(&want.cursor.partition)
    }
}

impl Reader {
    async fn run(mut self) {
        let mut failed = 0;
        while self.gather().await {
            self.wait_at_the_end().await;
            let cursors = self.next_cursors();
            let began = clock::now();
            match self.feed.read(&cursors, LIMIT).await {
                Ok(slices) => {
                    failed = 0;
                    let served = slices.iter().map(|slice| slice.partition).collect();
                    self.last = Pass { served, took: began.elapsed() };
                    self.deliver(slices);
                }
                Err(error @ SourceError::Unavailable { .. }) => {
                    failed += 1;
                    tracing::warn!(feed = %self.feed.name(), %error, "cannot read; trying again");
                    tokio::time::sleep(Backoff::default().pause(failed, fastrand::f64())).await;
                }
                Err(error) => self.give_up(error),
            }
        }
    }

    /// Waits until somebody asks, and a moment for those who stand at the same place. `false` when nobody will.
    async fn gather(&mut self) -> bool {
        self.waiting.retain(|want| !want.reply.is_closed());
        if self.waiting.is_empty() {
            match self.questions.recv().await {
                Some(want) => self.waiting.push_back(want),
                None => return false,
            }
        }
        self.gather_more(None, GATHER).await;
        if self.last.took > GATHER {
            let here: HashSet<_> = self.waiting.iter().map(|want| want.cursor.partition).collect();
            let missing = &self.last.served - &here;
            self.gather_more(Some(missing), (self.last.took - GATHER).min(GATHER_AGAIN)).await;
        }
        true
    }

    /// Until everybody has asked, or those who are missing have.
    async fn gather_more(&mut self, mut missing: Option<HashSet<Partition>>, at_most: Duration) {
        let others = async {
            while self.waiting.len() < self.open.load(Ordering::Relaxed)
                && missing.as_ref().is_none_or(|missing| !missing.is_empty())
            {
                let Some(want) = self.questions.recv().await else { break };
                if let Some(missing) = &mut missing {
                    missing.remove(&want.cursor.partition);
                }
                self.waiting.push_back(want);
            }
        };
        drop(tokio::time::timeout(at_most, others).await);
    }

    /// When all who wait know that there was nothing, waits for the source, or for somebody who does not know.
    async fn wait_at_the_end(&mut self) {
        let Some(end) = self.end.take() else { return };
        if !self.waiting.iter().all(|want| end.is_known_to(want)) {
            return;
        }
        let somebody = async {
            while let Some(want) = self.questions.recv().await {
                let news = !end.is_known_to(&want);
                self.waiting.push_back(want);
                if news {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = self.feed.wait(self.idle) => {}
            () = somebody => {}
        }
    }

    /// Those furthest behind go first, so that they catch up and one pass serves all again. But every so often it is the
    /// turn of whoever has waited longest: one partition far behind does not hold up the rest.
    fn next_cursors(&mut self) -> Vec<Cursor> {
        self.turn = (self.turn + 1) % TURNS;
        let longest = self.waiting.front().map(|want| want.cursor.after.clone());
        let offered = self.waiting.iter().map(|want| &want.cursor);
        offered.filter(|cursor| self.turn != 0 || Some(&cursor.after) == longest.as_ref()).cloned().collect()
    }

    fn deliver(&mut self, slices: Vec<Slice>) {
        let nothing = slices.iter().all(|slice| slice.changes.is_empty() && slice.caught_up);
        let told = || slices.iter().map(|slice| slice.partition).collect();
        self.end = slices
            .first()
            .filter(|_| nothing)
            .map(|slice| End { position: slice.upto.clone(), told: told() });
        for slice in slices {
            let asked = self.waiting.iter().position(|want| want.cursor.partition == slice.partition);
            if let Some(want) = asked.and_then(|index| self.waiting.remove(index)) {
                drop(want.reply.send(Ok(slice)));
            }
        }
    }

    fn give_up(&mut self, error: SourceError) {
        let error = Arc::new(error);
        for want in self.waiting.drain(..) {
            drop(want.reply.send(Err(Arc::clone(&error))));
        }
    }
}
