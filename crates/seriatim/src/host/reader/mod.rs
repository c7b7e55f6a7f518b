//! One reader for each feed: serves all partitions of the feed that this host owns, together where they stand together.
//!
//! ```text
//!   partitions ──ask when they have room──▶ what was read already, at once
//!                                       └─▶ else a pass over the source, for them and for whoever stands where they do
//! ```
//!
//! Partitions at the same position are served by one pass over the source; one that fell behind is read for separately, until
//! it meets the others. Where what was read stays true, a pass also serves those who have not asked yet and reads ahead of all
//! of them, so that nothing is read twice because one handler is slower than another. What waits to be asked for is bounded,
//! whatever the backlog.

mod gathering;
mod shelf;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::change::Position;
use crate::clock;
use crate::handler::Backoff;
use crate::name::Partition;
use crate::source::{Cursor, Feed, Limit, Slice, SourceError};
use crate::tasks::{self, JoinSet};
use gathering::Gathering;
use shelf::Shelf;

/// What one pass may return.
const LIMIT: Limit = Limit { rows: 4096 / SCALE, bytes: (4 << 20) / SCALE };

/// Tests need fewer rows to come to the bounds.
const SCALE: usize = if cfg!(test) { 32 } else { 1 };

/// With less than this at hand, the next pass begins before anybody asks.
const AHEAD: usize = (4 << 20) / SCALE;

/// Whoever is so far behind the others that more than this would have to wait for it is read for separately.
const MOST: usize = (16 << 20) / SCALE;

/// One pass of so many is for the place where most wait.
const TURNS: u32 = 4;

/// A slice, or why there will be none.
pub(super) type Answer = Result<Slice, Arc<SourceError>>;

struct Want {
    cursor: Cursor,
    reply: oneshot::Sender<Answer>,
}

/// The partitions that are open, and how many times: one may be opened again before it is quite closed.
type Open = Arc<Mutex<HashMap<Partition, usize>>>;

fn locked(open: &Open) -> MutexGuard<'_, HashMap<Partition, usize>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A partition's end of the reader.
#[derive(Clone)]
pub(super) struct ReaderHandle {
    wants: mpsc::UnboundedSender<Want>,
    open: Open,
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
    pub fn enter(&self, partition: Partition) -> OpenGuard {
        *locked(&self.open).entry(partition).or_default() += 1;
        OpenGuard { partition, open: Arc::clone(&self.open) }
    }
}

pub(super) struct OpenGuard {
    partition: Partition,
    open: Open,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut open = locked(&self.open);
        if let Some(times) = open.get_mut(&self.partition) {
            *times -= 1;
            if *times == 0 {
                open.remove(&self.partition);
            }
        }
    }
}

/// Starts the reader of a feed. It ends when all its handles are gone.
pub(super) fn spawn(
    feed: Arc<dyn Feed>,
    idle: Duration,
    paused: watch::Receiver<Option<Timestamp>>,
) -> ReaderHandle {
    let (wants, questions) = mpsc::unbounded_channel();
    let open = Open::default();
    let handle = ReaderHandle { wants, open: Arc::clone(&open) };
    let reader = Reader {
        reads_ahead: feed.may_be_read_ahead(),
        feed,
        idle,
        paused,
        questions,
        open,
        waiting: Vec::new(),
        shelf: Shelf::default(),
        passing: JoinSet::new(),
        more: false,
        turn: 0,
        end: None,
        gathering: Gathering::default(),
        silent: HashSet::new(),
        failed: 0,
        rests_until: None,
    };
    tasks::spawn(reader.run());
    handle
}

struct Reader {
    feed: Arc<dyn Feed>,
    reads_ahead: bool,
    idle: Duration,
    /// Since when nothing is to be read.
    paused: watch::Receiver<Option<Timestamp>>,
    questions: mpsc::UnboundedReceiver<Want>,
    open: Open,
    waiting: Vec<Want>,
    shelf: Shelf,
    /// The pass that is under way, if any.
    passing: JoinSet<Passed>,
    /// The last pass left much to be read.
    more: bool,
    turn: u32,
    /// Where the last pass ended if it found nothing, and whom it told so.
    end: Option<End>,
    gathering: Gathering,
    /// Partitions that were waited for in vain, until they ask.
    silent: HashSet<Partition>,
    /// How many passes have failed in a row, and until when there is none.
    failed: u32,
    rests_until: Option<Instant>,
}

/// A pass over the source: where it went on for each partition, when it began, what it found.
struct Passed {
    from: HashMap<Partition, Position>,
    began: Instant,
    found: Result<Vec<Slice>, SourceError>,
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

/// What the reader does next, while no pass is under way.
enum Next {
    Pass(Vec<Cursor>),
    /// All who wait know that there was nothing.
    WaitForNews,
    WaitUntil(Instant),
    WaitForQuestions,
}

impl Reader {
    async fn run(mut self) {
        loop {
            self.waiting.retain(|want| !want.reply.is_closed());
            let may_read = self.passing.is_empty() && self.paused.borrow_and_update().is_none();
            let next = if may_read { self.next() } else { Next::WaitForQuestions };
            let (mut news, mut until) = (None, None);
            match next {
                Next::Pass(cursors) => self.begin(cursors),
                Next::WaitForNews => news = Some(self.asking().into_iter().collect::<Vec<_>>()),
                Next::WaitUntil(moment) => until = Some(moment),
                Next::WaitForQuestions => {}
            }
            tokio::select! {
                biased;
                question = self.questions.recv() => match question {
                    Some(want) => self.asked(want),
                    None => return,
                },
                Some(passed) = self.passing.join_next() => match passed {
                    Ok(passed) => self.passed(passed),
                    Err(error) => self.give_up(SourceError::needs_attention(
                        format!("the task that reads feed {} ended badly: {error}", self.feed.name()),
                        "this is a fault in Seriatim: please report it",
                    )),
                },
                // Nobody is left who could pause it: it stays as it is.
                Ok(()) = self.paused.changed() => {}
                () = self.feed.wait_for(news.as_deref().unwrap_or(&[]), self.idle), if news.is_some() => self.end = None,
                () = sleep_until(until) => {}
            }
        }
    }

    /// Answers at once if it can.
    fn asked(&mut self, want: Want) {
        match self.shelf.take(&want.cursor) {
            Some(slice) => drop(want.reply.send(Ok(slice))),
            None => {
                if self.waiting.is_empty() {
                    self.gathering.begin(clock::now());
                }
                self.waiting.push(want);
            }
        }
    }

    fn next(&mut self) -> Next {
        if self.waiting.is_empty() {
            let cursors = if self.reads_ahead { self.standing_at(HashSet::new()) } else { Vec::new() };
            return if cursors.is_empty() { Next::WaitForQuestions } else { Next::Pass(cursors) };
        }
        if let Some(end) = &self.end
            && self.waiting.iter().all(|want| end.is_known_to(want))
        {
            return Next::WaitForNews;
        }
        let until = self.rests_until.max(self.gathers_until());
        match until.filter(|until| *until > clock::now()) {
            Some(until) => Next::WaitUntil(until),
            None => Next::Pass(self.next_cursors()),
        }
    }

    /// Until when the others are waited for, so that one pass serves them all.
    fn gathers_until(&self) -> Option<Instant> {
        let open = locked(&self.open);
        match self.reads_ahead {
            // A pass serves those whom it knows whether they ask or not.
            true => {
                let known =
                    |partition: &Partition| self.shelf.knows(*partition) || self.silent.contains(partition);
                self.gathering.first(open.keys().all(known))
            }
            false => self.gathering.again(open.len(), &self.asking()),
        }
    }

    /// Those furthest behind go first, so that they catch up and one pass serves all again. But every so often it is the turn of
    /// the place where most wait: one partition far behind does not hold up the rest. Whoever is ahead waits until they come.
    fn next_cursors(&mut self) -> Vec<Cursor> {
        self.turn = (self.turn + 1) % TURNS;
        let mut places: HashMap<&Position, usize> = HashMap::new();
        self.waiting.iter().for_each(|want| *places.entry(&want.cursor.after).or_default() += 1);
        if self.turn == 0 {
            let most = places.values().copied().max();
            places.retain(|_, wait| Some(*wait) == most);
        }
        let places: HashSet<Position> = places.into_keys().cloned().collect();
        match self.reads_ahead {
            true => self.standing_at(places),
            false => {
                let wanted = self.waiting.iter().map(|want| &want.cursor);
                wanted.filter(|cursor| places.contains(&cursor.after)).cloned().collect()
            }
        }
    }

    fn asking(&self) -> HashSet<Partition> {
        self.waiting.iter().map(|want| want.cursor.partition).collect()
    }

    /// All who stand at these places, whether they ask or not; and while there is little at hand, those where most stand.
    fn standing_at(&mut self, mut places: HashSet<Position>) -> Vec<Cursor> {
        let (open, asking) = (locked(&self.open), self.asking());
        self.shelf.retain(|partition| open.contains_key(&partition) || asking.contains(&partition));
        drop(open);
        while self.shelf.weight() >= MOST {
            self.shelf.make_room();
        }
        if self.shelf.weight() < AHEAD && self.more {
            places.extend(self.shelf.where_most_stand().cloned());
        }
        self.shelf.standing_at(&places)
    }

    fn begin(&mut self, cursors: Vec<Cursor>) {
        self.end = None;
        let open = locked(&self.open);
        self.silent = open.keys().copied().filter(|partition| !self.shelf.knows(*partition)).collect();
        drop(open);
        let (feed, began) = (Arc::clone(&self.feed), clock::now());
        self.passing.spawn(async move {
            let found = feed.read(&cursors, LIMIT).await;
            let from = cursors.into_iter().map(|cursor| (cursor.partition, cursor.after)).collect();
            Passed { from, began, found }
        });
    }

    fn passed(&mut self, Passed { from, began, found }: Passed) {
        self.rests_until = None;
        self.more = false;
        match found {
            Ok(slices) => {
                self.failed = 0;
                let served = slices.iter().map(|slice| slice.partition).collect();
                self.gathering.passed(served, began.elapsed(), clock::now());
                self.deliver(&from, slices);
            }
            // Nobody waits for it: whoever asks will see whether it still holds.
            Err(_) if self.waiting.is_empty() => {}
            Err(error @ SourceError::Unavailable { .. }) => {
                self.failed += 1;
                tracing::warn!(feed = %self.feed.name(), %error, "cannot read; trying again");
                let pause = Backoff::default().pause(self.failed, fastrand::f64());
                self.rests_until = Some(clock::now() + pause);
            }
            Err(error) => self.give_up(error),
        }
    }

    fn deliver(&mut self, from: &HashMap<Partition, Position>, slices: Vec<Slice>) {
        let caught_up = slices.iter().any(|slice| slice.caught_up);
        let count: usize = slices.iter().map(|slice| slice.changes.len()).sum();
        // A pass that found little has come close to the end.
        self.more = !caught_up && count >= LIMIT.rows / 4;
        let nothing = slices.iter().all(|slice| slice.changes.is_empty() && slice.caught_up);
        let end = slices.first().filter(|_| nothing).map(|slice| slice.upto.clone());
        let asking = self.asking();
        for mut slice in slices {
            // Whoever asks for it later has not seen the end as it is then.
            slice.caught_up &= asking.contains(&slice.partition);
            if let Some(after) = from.get(&slice.partition) {
                self.shelf.keep(after, slice);
            }
        }
        let mut told = HashSet::new();
        for want in std::mem::take(&mut self.waiting) {
            match self.shelf.take(&want.cursor) {
                Some(slice) => {
                    told.insert(slice.partition);
                    drop(want.reply.send(Ok(slice)));
                }
                None => self.waiting.push(want),
            }
        }
        self.end = end.map(|position| End { position, told });
        if !self.reads_ahead {
            let asking = self.asking();
            self.shelf.retain(|partition| asking.contains(&partition));
        }
    }

    fn give_up(&mut self, error: SourceError) {
        let error = Arc::new(error);
        for want in self.waiting.drain(..) {
            drop(want.reply.send(Err(Arc::clone(&error))));
        }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
