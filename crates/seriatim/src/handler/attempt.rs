//! Trying a batch until each of its changes is done or given up.
//!
//! A failed batch is halved until the culprit is alone, unless the handler named it. The culprit is tried again after
//! growing pauses, and in the end parked, skipped, or stops the feed. Changes of an object that was parked on the way are
//! not tried: they wait behind it.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::retry::Verdict;
use super::{CommitError, Context, Failure, FailureKind, Handler, Retry, Then, TransactionalHandler};
use crate::change::{Change, Position};
use crate::lease::Lease;
use crate::store::{Checkpoint, CheckpointError, ParkedFailure, Parking, Store};

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Ran {
    /// Every change is handled, skipped, or to be parked.
    Finished(Tally),
    /// The feed is to stop at this change.
    Stopped { change: Box<Change>, error: String },
    /// The host is closing, and some change has not succeeded yet.
    Interrupted,
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

/// One try at a piece. What the two kinds of handlers differ in.
#[async_trait]
pub(crate) trait Try: Send + Sync {
    /// Handles the changes; `upto` is how far the partition is then.
    async fn attempt(
        &self,
        changes: &[Change],
        upto: &Position,
        context: &Context,
    ) -> Result<(), CommitError>;
    /// Makes a change parked or skipped durable, where the handler's effects are durable one by one.
    async fn give_up(
        &self,
        parked: &[Parking],
        upto: &Position,
        lease: &Lease,
    ) -> Result<(), CheckpointError>;
}

/// Effects first, checkpoint later.
pub(crate) struct Plain {
    pub handler: Arc<dyn Handler>,
    pub timeout: Duration,
}

#[async_trait]
impl Try for Plain {
    async fn attempt(&self, changes: &[Change], _: &Position, context: &Context) -> Result<(), CommitError> {
        let call = AssertUnwindSafe(self.handler.handle(changes, context)).catch_unwind();
        let result = match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(panicked(&*panic)),
            Err(_) => Err(Failure::change(format!("the handler took longer than {:?}", self.timeout))),
        };
        result.map_err(CommitError::Failed)
    }

    async fn give_up(&self, _: &[Parking], _: &Position, _: &Lease) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// Effect and checkpoint in one.
pub(crate) struct Transactional {
    pub handler: Arc<dyn TransactionalHandler>,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Try for Transactional {
    async fn attempt(
        &self,
        changes: &[Change],
        upto: &Position,
        context: &Context,
    ) -> Result<(), CommitError> {
        let checkpoint = Checkpoint::at(upto.clone());
        let call = AssertUnwindSafe(self.handler.handle_and_checkpoint(changes, &checkpoint, context));
        match call.catch_unwind().await {
            // All of it was rolled back, also what came before the culprit.
            Ok(Err(CommitError::Failed(failure))) => {
                Err(CommitError::Failed(Failure { culprit: None, ..failure }))
            }
            Ok(result) => result,
            Err(panic) => Err(CommitError::Failed(panicked(&*panic))),
        }
    }

    async fn give_up(
        &self,
        parked: &[Parking],
        upto: &Position,
        lease: &Lease,
    ) -> Result<(), CheckpointError> {
        let checkpoint = Checkpoint { position: upto.clone(), parked: parked.to_vec() };
        self.store.checkpoint(lease, &checkpoint).await
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    Failure::change(format!("the handler panicked: {text}"))
}

/// Works a batch off, piece by piece.
pub(crate) struct Attempts<'a> {
    pub tries: &'a dyn Try,
    pub retry: Retry,
    pub lease: Arc<Lease>,
    /// Turns true when the host or the partition is closing: no further attempt begins.
    pub closing: watch::Receiver<bool>,
}

impl Attempts<'_> {
    /// Tries the changes until each is done or given up. `upto` is how far the partition is when all are.
    pub async fn run(mut self, changes: &[Change], upto: &Position) -> Ran {
        let mut tally = Tally::default();
        let mut parked: HashSet<u64> = HashSet::new();
        let context = Context { lease: Arc::clone(&self.lease), attempt: 1 };
        let first = self.tries.attempt(changes, upto, &context).await;
        let whole = || Piece { changes: changes.to_vec(), failed: 0, upto: upto.clone() };
        let mut todo: Vec<Piece> = Vec::new();
        match first {
            Ok(()) => return Ran::Finished(tally),
            Err(error) => {
                if let Err(end) = self.failed(whole(), error, &mut todo, &mut tally, &mut parked).await {
                    return end;
                }
            }
        }
        while let Some(piece) = todo.pop() {
            let step = self.step(piece, &mut todo, &mut tally, &mut parked).await;
            if let Err(end) = step {
                return end;
            }
        }
        Ran::Finished(tally)
    }

    async fn step(
        &mut self,
        piece: Piece,
        todo: &mut Vec<Piece>,
        tally: &mut Tally,
        parked: &mut HashSet<u64>,
    ) -> Result<(), Ran> {
        if *self.closing.borrow() {
            return Err(Ran::Interrupted);
        }
        // With an object parked on the way, its later changes have to be taken out one by one.
        if piece.changes.iter().any(|change| parked.contains(&change.lane())) {
            return match piece.changes.len() {
                1 => self.park(piece, None, tally, parked).await,
                _ => {
                    piece.halve(todo);
                    Ok(())
                }
            };
        }
        let context = Context { lease: Arc::clone(&self.lease), attempt: piece.failed + 1 };
        match self.tries.attempt(&piece.changes, &piece.upto, &context).await {
            Ok(()) => Ok(()),
            Err(error) => self.failed(piece, error, todo, tally, parked).await,
        }
    }

    async fn failed(
        &mut self,
        piece: Piece,
        error: CommitError,
        todo: &mut Vec<Piece>,
        tally: &mut Tally,
        parked: &mut HashSet<u64>,
    ) -> Result<(), Ran> {
        let failure = match error {
            CommitError::Fenced { by } => {
                return Err(Ran::Lost { why: format!("its epoch is {by} now") });
            }
            // Whether it happened is not known: only the store can tell, when the lease is taken anew.
            CommitError::Store(error @ crate::store::StoreError::Unavailable { .. }) => {
                return Err(Ran::Lost { why: error.to_string() });
            }
            CommitError::Store(error) => {
                return Err(Ran::Broken { why: error.to_string() });
            }
            CommitError::Failed(failure) => failure,
        };
        tally.failures += 1;
        if failure.kind != FailureKind::Target && piece.changes.len() > 1 {
            match failure.culprit.filter(|culprit| *culprit < piece.changes.len()) {
                Some(culprit) => {
                    let single = piece.single_out(culprit, todo);
                    return self.failed_alone(single, failure, todo, tally, parked).await;
                }
                None => piece.halve(todo),
            }
            return Ok(());
        }
        self.failed_alone(piece, failure, todo, tally, parked).await
    }

    /// A single change failed, or everything did because the target is not there.
    async fn failed_alone(
        &mut self,
        piece: Piece,
        failure: Failure,
        todo: &mut Vec<Piece>,
        tally: &mut Tally,
        parked: &mut HashSet<u64>,
    ) -> Result<(), Ran> {
        let failed = piece.failed + 1;
        let change = &piece.changes[0];
        match self.retry.after(failure.kind, failed, fastrand::f64()) {
            Verdict::Again(pause) => {
                tracing::warn!(lease = %self.lease.id, id = change.id, attempt = failed, error = %failure, "failed; trying again");
                self.pause(pause.max(failure.retry_after.unwrap_or_default())).await?;
                todo.push(Piece { failed, ..piece });
                Ok(())
            }
            Verdict::GiveUp(Then::Stop) => {
                Err(Ran::Stopped { change: Box::new(change.clone()), error: failure.to_string() })
            }
            Verdict::GiveUp(Then::Skip) => {
                tracing::error!(lease = %self.lease.id, id = change.id, error = %failure, "skipped after {failed} attempts");
                tally.skipped += 1;
                self.give_up(&[], &piece.upto).await
            }
            Verdict::GiveUp(Then::Park) => {
                tracing::error!(lease = %self.lease.id, id = change.id, error = %failure, "parked after {failed} attempts");
                let why = ParkedFailure { error: failure.to_string(), attempts: failed };
                self.park(piece, Some(why), tally, parked).await
            }
        }
    }

    async fn park(
        &mut self,
        piece: Piece,
        failure: Option<ParkedFailure>,
        tally: &mut Tally,
        parked: &mut HashSet<u64>,
    ) -> Result<(), Ran> {
        for change in piece.changes {
            parked.insert(change.lane());
            let parking = Parking { change, failure: failure.clone() };
            self.give_up(std::slice::from_ref(&parking), &piece.upto).await?;
            tally.parked.push(parking);
        }
        Ok(())
    }

    async fn give_up(&mut self, parked: &[Parking], upto: &Position) -> Result<(), Ran> {
        self.tries
            .give_up(parked, upto, &self.lease)
            .await
            .map_err(|error| Ran::Lost { why: error.to_string() })
    }

    async fn pause(&mut self, pause: Duration) -> Result<(), Ran> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            _ = self.closing.wait_for(|closing| *closing) => Err(Ran::Interrupted),
        }
    }
}

impl Piece {
    /// Puts the two halves back, the first one on top.
    fn halve(mut self, todo: &mut Vec<Piece>) {
        let second = self.changes.split_off(self.changes.len() / 2);
        let Some(middle) = self.changes.last().map(|change| change.position.clone()) else {
            return;
        };
        todo.push(Piece { changes: second, failed: 0, upto: self.upto });
        todo.push(Piece { changes: self.changes, failed: 0, upto: middle });
    }

    /// The change at `culprit` alone. What comes after it is put back; what came before it is done.
    fn single_out(mut self, culprit: usize, todo: &mut Vec<Piece>) -> Piece {
        let rest = self.changes.split_off(culprit + 1);
        let single = self.changes.split_off(culprit);
        let upto = if rest.is_empty() { self.upto.clone() } else { single[0].position.clone() };
        if !rest.is_empty() {
            todo.push(Piece { changes: rest, failed: 0, upto: self.upto });
        }
        Piece { changes: single, failed: 0, upto }
    }
}
