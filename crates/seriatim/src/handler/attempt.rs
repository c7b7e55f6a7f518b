//! Trying a batch until each of its changes is done or given up.
//!
//! A failed batch is halved until the culprit is alone, unless the handler named it. The culprit is tried again after
//! growing pauses, and in the end parked, skipped, or stops the feed. Changes of an object that was parked on the way are
//! not tried: they wait behind it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::retry::Verdict;
use super::tries::Try;
use super::{CommitError, Context, Failure, FailureKind, Retry, Then};
use crate::change::{Change, Position};
use crate::lease::Lease;
use crate::store::{Checkpoint, CheckpointError, ParkedFailure, Parking, StoreError};

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
}

/// A part of a batch that is still to be done.
struct Piece {
    changes: Vec<Change>,
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
}

/// Works a batch off, piece by piece.
pub(crate) struct Attempts<'a> {
    tries: &'a dyn Try,
    rules: Rules,
    lease: Arc<Lease>,
    /// Changes parked already, to go into the first commit: it may move the checkpoint past them.
    aside: Vec<Parking>,
    /// What is left to do, the next piece last.
    todo: Vec<Piece>,
    /// Objects that were parked on the way.
    parked: HashSet<u64>,
    tally: Tally,
}

impl<'a> Attempts<'a> {
    pub fn new(tries: &'a dyn Try, rules: Rules, lease: Arc<Lease>, aside: Vec<Parking>) -> Self {
        let (todo, parked, tally) = (Vec::new(), HashSet::new(), Tally::default());
        Attempts { tries, rules, lease, aside, todo, parked, tally }
    }

    /// Tries the changes until each is done or given up. `upto` is how far the partition is when all are.
    pub async fn run(mut self, changes: &[Change], upto: &Position) -> Ran {
        // The usual case, without a copy of anything.
        if let Err(error) = self.attempt(changes, upto, 1).await {
            let whole = Piece { changes: changes.to_vec(), failed: 0, upto: upto.clone() };
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
        attempt: u32,
    ) -> Result<(), CommitError> {
        let context = Context { lease: Arc::clone(&self.lease), attempt, timeout: self.rules.timeout };
        let then = Checkpoint { position: upto.clone(), parked: self.aside.clone() };
        self.tries.attempt(changes, &then, &context).await?;
        self.aside.clear();
        Ok(())
    }

    async fn step(&mut self, piece: Piece) -> Result<(), End> {
        if *self.rules.closing.borrow() {
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
        match self.attempt(&piece.changes, &piece.upto, piece.failed + 1).await {
            Ok(()) => Ok(()),
            Err(error) => self.failed(piece, error).await,
        }
    }

    async fn failed(&mut self, mut piece: Piece, error: CommitError) -> Result<(), End> {
        let failure = match error {
            CommitError::Fenced { by } => return Err(End::fenced(by)),
            CommitError::Store(error) => return Err(End::of_store(&error)),
            CommitError::Failed(failure) => failure,
        };
        self.tally.failures += 1;
        let named = failure.culprit.filter(|culprit| *culprit < piece.changes.len() && !self.tries.undoes());
        if let Some(culprit) = named {
            piece.drop_done(culprit, &failure.done);
        }
        if failure.kind == FailureKind::Target || piece.changes.len() == 1 {
            return self.failed_alone(piece, failure).await;
        }
        match named {
            Some(_) => {
                let single = piece.single_out_first(&mut self.todo);
                self.failed_alone(single, failure).await
            }
            None => {
                piece.halve(&mut self.todo);
                Ok(())
            }
        }
    }

    /// A single change failed, or everything did because the target is not there.
    async fn failed_alone(&mut self, piece: Piece, failure: Failure) -> Result<(), End> {
        let failed = piece.failed + 1;
        let (lease, id) = (&self.lease.id, piece.changes[0].id);
        match self.rules.retry.after(failure.kind, failed, fastrand::f64()) {
            Verdict::Again(pause) => {
                tracing::warn!(%lease, id, attempt = failed, error = %failure, "failed; trying again");
                self.todo.push(Piece { failed, ..piece });
                self.pause(pause.max(failure.retry_after.unwrap_or_default())).await;
                Ok(())
            }
            // A change of everything has no object that could be parked.
            Verdict::GiveUp(then) if then == Then::Stop || piece.changes[0].key.is_none() => {
                Err(End::Stopped(piece, failure.to_string()))
            }
            Verdict::GiveUp(Then::Skip) => {
                tracing::error!(%lease, id, error = %failure, "skipped after {failed} attempts");
                self.tally.skipped += 1;
                self.give_up(Vec::new(), &piece.upto).await
            }
            Verdict::GiveUp(_) => {
                tracing::error!(%lease, id, error = %failure, "parked after {failed} attempts");
                self.park(piece, Some(ParkedFailure { error: failure.to_string(), attempts: failed })).await
            }
        }
    }

    async fn park(&mut self, piece: Piece, failure: Option<ParkedFailure>) -> Result<(), End> {
        for change in piece.changes {
            self.parked.insert(change.lane());
            let parking = Parking { change, failure: failure.clone() };
            self.give_up(vec![parking.clone()], &piece.upto).await?;
            self.tally.parked.push(parking);
        }
        Ok(())
    }

    async fn give_up(&mut self, parked: Vec<Parking>, upto: &Position) -> Result<(), End> {
        let parked = self.aside.iter().cloned().chain(parked).collect();
        let then = Checkpoint { position: upto.clone(), parked };
        self.tries.give_up(&then, &self.lease).await.map_err(|error| match error {
            CheckpointError::Fenced { by } => End::fenced(by),
            CheckpointError::Store(error) => End::of_store(&error),
        })?;
        self.aside.clear();
        Ok(())
    }

    async fn pause(&mut self, pause: Duration) {
        // When it is closing, the next step finds that out.
        drop(tokio::time::timeout(pause, self.rules.closing.wait_for(|closing| *closing)).await);
    }
}

/// Why a batch is not worked off any further.
enum End {
    Interrupted(Piece),
    Stopped(Piece, String),
    Lost(String),
    Broken(String),
}

impl End {
    fn fenced(by: crate::name::Epoch) -> Self {
        End::Lost(format!("its epoch is {by} now"))
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            // Whether it happened is not known: only the store can tell, when the lease is taken anew.
            StoreError::Unavailable { .. } => End::Lost(error.to_string()),
            StoreError::NeedsAttention { .. } => End::Broken(error.to_string()),
        }
    }

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
            End::Lost(why) => Ran::Lost { why },
            End::Broken(why) => Ran::Broken { why },
        }
    }
}

impl Piece {
    /// Leaves the culprit and what is not done after it.
    fn drop_done(&mut self, culprit: usize, done: &[usize]) {
        let mut place = 0..;
        let done: HashSet<usize> = done.iter().copied().filter(|done| *done > culprit).collect();
        self.changes.retain(|_| place.next().is_some_and(|place| place >= culprit && !done.contains(&place)));
    }

    /// Puts the two halves back, the first one on top.
    fn halve(mut self, todo: &mut Vec<Piece>) {
        let second = self.changes.split_off(self.changes.len() / 2);
        let Some(middle) = self.changes.last().map(|change| change.position.clone()) else { return };
        todo.push(Piece { changes: second, failed: 0, upto: self.upto });
        todo.push(Piece { changes: self.changes, failed: 0, upto: middle });
    }

    /// The first change alone; the others are put back.
    fn single_out_first(mut self, todo: &mut Vec<Piece>) -> Piece {
        let rest = self.changes.split_off(1);
        let upto = self.changes[0].position.clone();
        todo.push(Piece { changes: rest, failed: 0, upto: self.upto });
        Piece { changes: self.changes, failed: 0, upto }
    }
}
