//! Trying a batch until each of its changes is done or given up.
//!
//! A failed batch is halved until the culprit is alone, unless the handler named it. The culprit then steps aside so that
//! nobody waits for it: its object is parked, to be tried again after a pause or, after the last attempt, for good. Or it is
//! skipped, or stops the feed. Changes of an object that was parked on the way are not tried: they wait behind it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::retry::Verdict;
use super::target::{Target, Turn};
use super::tries::Try;
use super::{Checkpointer, CommitError, Context, Failure, FailureKind, Retry, Then};
use crate::change::{Change, Position};
use crate::clock;
use crate::lease::Lease;
use crate::order::EventId;
use crate::store::{Chained, Checkpoint, CheckpointError, ParkedFailure, ParkedState, Parking, StoreError};

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Ran {
    /// Every change is handled, skipped, or to be parked.
    Finished(Tally),
    /// The feed is to stop at this change. Those with the ids in `unfinished`, itself included, are not done.
    Stopped { change: Box<Change>, error: String, unfinished: HashSet<u64>, tally: Tally },
    /// The host is closing. The changes with these ids are not done.
    Interrupted { unfinished: HashSet<u64>, tally: Tally },
    /// Nothing of this counts any more: the lease is lost, or whether the commit happened is not known.
    Lost { why: String },
    /// The store needs a person.
    Broken { why: String },
}

/// What happened on the way.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Changes whose objects are parked, in order. With a transactional handler they are in the store already.
    pub parked: Vec<Parking>,
    /// Changes that were dropped, as asked for.
    pub skipped: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// After which pause those objects are tried again that stepped aside, by their lanes.
    pub again: HashMap<u64, Duration>,
    /// Changes that were given to the handler once more.
    pub redelivered: u64,
    /// Where the handler itself says what is done for good.
    pub word: Word,
}

/// What a handler has done, in order, and for how much of it it vouches.
#[derive(Debug, Default)]
pub(crate) struct Word {
    /// The ids of the changes that it has handled.
    pub done: Vec<u64>,
    /// It vouches for so many of them, and for all that came before.
    pub vouched: Option<usize>,
}

impl Word {
    /// A call has handled these changes; then, or on the way, the handler vouched for so many of the call's changes.
    fn note<'a>(&mut self, done: impl Iterator<Item = &'a Change>, said: Option<usize>) {
        let before = self.done.len();
        self.done.extend(done.map(|change| change.id));
        if let Some(said) = said {
            self.vouched = Some(before.saturating_add(said).min(self.done.len()));
        }
    }
}

/// A part of a batch that is still to be done.
struct Piece {
    changes: Vec<Change>,
    /// The place of the first of them in the batch.
    from: usize,
    failed: u32,
    /// Where the partition stands when this piece is done.
    upto: Position,
}

/// How a batch is to be worked off.
pub(crate) struct Rules {
    pub retry: Retry,
    pub timeout: Duration,
    /// Turns true when the host or the partition is closing: no further attempt begins.
    pub closing: watch::Receiver<bool>,
    /// Until when the lease can be trusted: nothing begins after that, also on a host that stood still and goes on.
    pub trusted_until: watch::Receiver<Instant>,
    /// True when it is known that somebody else has the lease.
    pub gone: Arc<AtomicBool>,
    /// What is known about the target.
    pub target: Arc<Target>,
    /// Where the handler vouches for what it has done, if that is its own to say.
    pub word: Option<Checkpointer>,
    /// Whether checkpoints say which change of each object was handed out last.
    pub chain: bool,
}

/// Works a batch off, piece by piece.
pub(crate) struct Attempts<'a> {
    tries: &'a dyn Try,
    rules: Rules,
    lease: Arc<Lease>,
    /// The right to call the handler.
    turn: Option<Turn>,
    /// Later changes of objects that were parked before, by their numbers. Each goes into the first commit that passes it:
    /// into a later one, it would be lost in a crash between them; into an earlier one, it could be handled where it is parked
    /// and once more after a crash.
    aside: BTreeMap<u64, Parking>,
    /// The numbers of the changes among those.
    numbers: &'a [u64],
    /// What is left to do, the next piece last.
    todo: Vec<Piece>,
    /// Objects that were parked on the way.
    parked: HashSet<u64>,
    tally: Tally,
}

impl<'a> Attempts<'a> {
    /// `aside` goes into the store with what passes it, and `numbers` tells for each change which of that lies before it.
    pub fn new(
        tries: &'a dyn Try,
        rules: Rules,
        lease: Arc<Lease>,
        numbers: &'a [u64],
        aside: BTreeMap<u64, Parking>,
    ) -> Self {
        let (todo, parked, tally) = (Vec::new(), HashSet::new(), Tally::default());
        Attempts { tries, rules, lease, turn: None, aside, numbers, todo, parked, tally }
    }

    /// Tries the changes until each is done or given up. `upto` is how far the partition is when all are.
    pub async fn run(mut self, changes: &[Change], upto: &Position) -> Ran {
        // What was taken is tried once, also when it is closing: others have gone on as if it were done.
        self.turn = match self.rules.target.turn_now() {
            None => self.rules.target.turn(&mut self.rules.closing).await,
            now => now,
        };
        let whole = || Piece { changes: changes.to_vec(), from: 0, failed: 0, upto: upto.clone() };
        if self.turn.is_none() {
            return End::Interrupted(whole()).ran(self);
        }
        // The usual case, without a copy of anything.
        if let Err(error) = self.attempt(changes, upto, self.passed_by(0, changes.len()), 1).await {
            let whole = whole();
            if let Err(end) = self.failed(whole, error).await {
                return end.ran(self);
            }
        }
        while let Some(piece) = self.todo.pop() {
            if let Err(end) = self.step(piece).await {
                return end.ran(self);
            }
        }
        Ran::Finished(self.tally)
    }

    async fn attempt(
        &mut self,
        changes: &[Change],
        upto: &Position,
        passed: u64,
        attempt: u32,
    ) -> Result<(), CommitError> {
        self.rules.may_begin()?;
        let context = self.rules.context(&self.lease, attempt);
        let aside = self.aside.range(..passed).map(|(_, parking)| parking.clone()).collect();
        let then = self.rules.chained(changes, Checkpoint::parking(upto.clone(), aside));
        let tried = self.tries.attempt(changes, &then, &context).await;
        if let Some(word) = &self.rules.word {
            let done = match &tried {
                Ok(()) => changes.len(),
                Err(CommitError::Failed(failure)) => failure.culprit.unwrap_or(0).min(changes.len()),
                Err(_) => 0,
            };
            self.tally.word.note(changes[..done].iter(), word.take());
        }
        tried?;
        self.aside = self.aside.split_off(&passed);
        self.rules.target.is_there();
        Ok(())
    }

    /// All that is set aside before this number is passed by a commit of `count` changes from this place in the batch on.
    fn passed_by(&self, from: usize, count: usize) -> u64 {
        let end = from + count;
        if end >= self.numbers.len() { u64::MAX } else { self.numbers[end.saturating_sub(1)] }
    }

    async fn step(&mut self, piece: Piece) -> Result<(), End> {
        if *self.rules.closing.borrow() || self.turn.is_none() {
            return Err(End::Interrupted(piece));
        }
        // With an object parked on the way, its later changes have to be taken out one by one.
        if piece.changes.iter().any(|change| self.parked.contains(&change.lane())) {
            return match piece.changes.len() {
                1 => self.park(piece, None).await,
                _ => {
                    piece.halve(&mut self.todo);
                    Ok(())
                }
            };
        }
        let passed = self.passed_by(piece.from, piece.changes.len());
        self.tally.redelivered += piece.changes.len() as u64;
        match self.attempt(&piece.changes, &piece.upto, passed, piece.failed + 1).await {
            Ok(()) => Ok(()),
            Err(error) => self.failed(piece, error).await,
        }
    }

    async fn failed(&mut self, mut piece: Piece, error: CommitError) -> Result<(), End> {
        let failure = match error {
            CommitError::Fenced { by } => return Err(End::Gone(Gone::fenced(by))),
            CommitError::Store(error) => return Err(End::Gone(Gone::of_store(&error))),
            CommitError::Failed(failure) => failure,
        };
        self.tally.failures += 1;
        #[cfg(feature = "simulation")]
        if piece.changes.len() > 1 && crate::simulation::has(crate::simulation::Mutant::FailedBatchCounts) {
            return Ok(());
        }
        let named = failure.culprit.filter(|culprit| *culprit < piece.changes.len());
        let (named, undone) = if self.tries.undoes() { (None, named) } else { (named, None) };
        if let Some(culprit) = named {
            // What is done shows that the target is there: one poison in every batch is no outage.
            if culprit > 0 || !failure.done.is_empty() {
                self.rules.target.is_there();
            }
            if self.rules.word.is_some() {
                let later = failure.done.iter().filter(|done| **done > culprit);
                let later = later.filter_map(|done| piece.changes.get(*done));
                self.tally.word.note(later, None);
            }
            piece.drop_done(culprit, &failure.done);
        }
        if failure.kind == FailureKind::Target {
            self.rules.target.is_gone(&failure);
            self.todo.push(piece);
            self.turn = None;
            self.turn = self.rules.target.turn(&mut self.rules.closing).await;
            return Ok(());
        }
        if piece.changes.len() == 1 {
            return self.failed_alone(piece, failure).await;
        }
        match named {
            Some(_) => {
                let single = piece.single_out_first(&mut self.todo);
                self.failed_alone(single, failure).await
            }
            None => {
                piece.split(undone, &mut self.todo);
                Ok(())
            }
        }
    }

    /// A single change failed.
    async fn failed_alone(&mut self, piece: Piece, failure: Failure) -> Result<(), End> {
        let failed = piece.failed + 1;
        let (lease, change) = (&self.lease.id, &piece.changes[0]);
        let (id, since) = (change.id, self.rules.target.successes());
        // A change of everything has no object that could step aside.
        let has_object = change.key.is_some();
        if has_object {
            self.rules.target.failed_for(change.lane(), since, &failure);
        }
        match self.rules.verdict(&failure, failed, since) {
            Verdict::Again(pause) if has_object => {
                tracing::warn!(%lease, id, attempt = failed, error = %failure, "failed; trying again in {pause:?}");
                self.tally.again.insert(change.lane(), pause);
                self.park(piece, Some((failure, failed, ParkedState::Retrying))).await
            }
            Verdict::Again(pause) => {
                tracing::warn!(%lease, id, attempt = failed, error = %failure, "failed; trying again in {pause:?}");
                self.todo.push(Piece { failed, ..piece });
                self.pause(pause).await;
                Ok(())
            }
            Verdict::GiveUp(Then::Skip) => {
                tracing::error!(%lease, id, error = %failure, "skipped after {failed} attempts");
                self.tally.skipped += 1;
                self.give_up(None, &piece).await
            }
            Verdict::GiveUp(Then::Park) if has_object => {
                tracing::error!(%lease, id, error = %failure, "parked after {failed} attempts");
                self.park(piece, Some((failure, failed, ParkedState::Parked))).await
            }
            Verdict::GiveUp(Then::Park | Then::Stop) => Err(End::Stopped(piece, failure.to_string())),
        }
    }

    async fn park(&mut self, piece: Piece, failure: Option<(Failure, u32, ParkedState)>) -> Result<(), End> {
        let failure = failure.map(|(failure, attempts, state)| ParkedFailure {
            error: failure.to_string(),
            attempts,
            state,
        });
        // It may be long until a checkpoint passes it; the changes that it came with do not wait in memory for that.
        let change = piece.changes[0].apart();
        self.parked.insert(change.lane());
        let parking = Parking { change, failure };
        self.give_up(Some(parking.clone()), &piece).await?;
        self.tally.parked.push(parking);
        Ok(())
    }

    /// Makes durable that the one change of a piece is not handled, where effects are durable one by one.
    async fn give_up(&mut self, parked: Option<Parking>, piece: &Piece) -> Result<(), End> {
        let passed = self.passed_by(piece.from, 1);
        let aside = self.aside.range(..passed).map(|(_, parking)| parking.clone());
        let then = Checkpoint::parking(piece.upto.clone(), aside.chain(parked).collect());
        let then = self.rules.chained(&piece.changes, then);
        self.tries.give_up(&then, &self.lease).await.map_err(|error| match error {
            CheckpointError::Fenced { by } => End::Gone(Gone::fenced(by)),
            CheckpointError::Store(error) => End::Gone(Gone::of_store(&error)),
        })?;
        self.aside = self.aside.split_off(&passed);
        Ok(())
    }

    async fn pause(&mut self, pause: Duration) {
        // When it is closing, the next step finds that out.
        drop(tokio::time::timeout(pause, self.rules.closing.wait_for(|closing| *closing)).await);
    }
}

impl Rules {
    /// Whether an attempt may begin: others may have the lease already when this host could not renew it in time.
    pub fn may_begin(&self) -> Result<(), CommitError> {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::TrustForever) {
            return Ok(());
        }
        let gone = self.gone.load(Ordering::Relaxed);
        match !gone && clock::now() < *self.trusted_until.borrow() {
            true => Ok(()),
            false => {
                Err(StoreError::unavailable("handling changes", "the lease could not be renewed in time")
                    .into())
            }
        }
    }

    /// What a handler gets to know in a call.
    pub fn context(&self, lease: &Arc<Lease>, attempt: u32) -> Context {
        let checkpointer = self.word.clone().unwrap_or_default();
        Context { attempt, checkpointer, ..Context::new(Arc::clone(lease), self.timeout) }
    }

    /// The checkpoint, with the last change of each object among those it passes: these, and what it parks.
    fn chained(&self, changes: &[Change], mut then: Checkpoint) -> Checkpoint {
        if !self.chain {
            return then;
        }
        let mut last: BTreeMap<String, Chained> = BTreeMap::new();
        let parked = then.parked.iter().map(|parking| &parking.change);
        for change in changes.iter().chain(parked) {
            let Some(key) = &change.key else { continue };
            let chained = Chained { key: key.clone(), id: change.id };
            let known = last.entry(key.identity()).or_insert_with(|| chained.clone());
            // In one pass over a feed, the ids of an object rise.
            if EventId(known.id).in_chain() < EventId(change.id).in_chain() {
                *known = chained;
            }
        }
        then.chained = last.into_values().collect();
        then
    }

    /// What to do after a single change failed so often, for the first time after so many successes. While the target may be to
    /// blame, nothing is given up.
    pub fn verdict(&self, failure: &Failure, failed: u32, since: u64) -> Verdict {
        let verdict = self.retry.after(failure.kind, failed, fastrand::f64());
        let wait = failure.retry_after.unwrap_or_default();
        match verdict {
            Verdict::Again(pause) => Verdict::Again(pause.max(wait)),
            Verdict::GiveUp(_)
                if failure.kind == FailureKind::Change && self.target.may_be_to_blame(since) =>
            {
                Verdict::Again(self.retry.backoff.pause(failed, fastrand::f64()).max(wait))
            }
            given_up => given_up,
        }
    }
}

/// Why the store takes nothing from this owner any more.
pub(super) enum Gone {
    Lost(String),
    Broken(String),
}

impl Gone {
    pub fn fenced(by: crate::name::Epoch) -> Self {
        Gone::Lost(format!("its epoch is {by} now"))
    }

    pub fn of_store(error: &StoreError) -> Self {
        match error {
            // Whether it happened is not known: only the store can tell, when the lease is taken anew.
            StoreError::Unavailable { .. } => Gone::Lost(error.to_string()),
            StoreError::NeedsAttention { .. } => Gone::Broken(error.to_string()),
        }
    }
}

/// Why a batch is not worked off any further.
enum End {
    Interrupted(Piece),
    Stopped(Piece, String),
    Gone(Gone),
}

impl End {
    fn ran(self, attempts: Attempts<'_>) -> Ran {
        let Attempts { todo, tally, .. } = attempts;
        let left = |piece: &Piece| {
            let pieces = todo.iter().chain(std::iter::once(piece));
            pieces.flat_map(|piece| &piece.changes).map(|change| change.id).collect()
        };
        match self {
            End::Interrupted(piece) => Ran::Interrupted { unfinished: left(&piece), tally },
            End::Stopped(piece, error) => {
                let unfinished = left(&piece);
                Ran::Stopped { change: Box::new(piece.changes[0].clone()), error, unfinished, tally }
            }
            End::Gone(Gone::Lost(why)) => Ran::Lost { why },
            End::Gone(Gone::Broken(why)) => Ran::Broken { why },
        }
    }
}

impl Piece {
    /// Leaves the culprit and what is not done after it.
    fn drop_done(&mut self, culprit: usize, done: &[usize]) {
        let mut place = 0..;
        let done: HashSet<usize> = done.iter().copied().filter(|done| *done > culprit).collect();
        self.changes.retain(|_| place.next().is_some_and(|place| place >= culprit && !done.contains(&place)));
        self.from += culprit;
    }

    /// Puts the two halves back, the first one on top.
    fn halve(self, todo: &mut Vec<Piece>) {
        let middle = self.changes.len() / 2;
        self.put_back(&[middle], todo);
    }

    /// Puts its parts back, the first one on top: what comes before the culprit, the culprit and the rest, or else two halves.
    fn split(self, culprit: Option<usize>, todo: &mut Vec<Piece>) {
        match culprit {
            Some(culprit) => self.put_back(&[culprit + 1, culprit], todo),
            None => self.halve(todo),
        }
    }

    /// Puts the parts between these places back, the first one on top. The places are given from the last on.
    fn put_back(mut self, places: &[usize], todo: &mut Vec<Piece>) {
        for place in places {
            let rest = self.changes.split_off(*place);
            if rest.is_empty() {
                continue;
            }
            let from = self.from + self.changes.len();
            let before = self.changes.last().map_or(&self.upto, |change| &change.position).clone();
            let upto = std::mem::replace(&mut self.upto, before);
            todo.push(Piece { changes: rest, from, failed: 0, upto });
        }
        if !self.changes.is_empty() {
            todo.push(Piece { failed: 0, ..self });
        }
    }

    /// The first change alone; the others are put back.
    fn single_out_first(mut self, todo: &mut Vec<Piece>) -> Piece {
        let rest = self.changes.split_off(1);
        let upto = self.changes[0].position.clone();
        todo.push(Piece { changes: rest, from: self.from + 1, failed: 0, upto: self.upto });
        Piece { changes: self.changes, from: self.from, failed: 0, upto }
    }
}
