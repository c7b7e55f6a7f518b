//! A feed's changes, each handled once: a ledger between the lanes and a handler.
//!
//! ```text
//!   claim each change ──▶ handler ──▶ complete each ──▶ checkpoint
//!    │          │            │             │                 └ a crash before it: the ledger says that they are done
//!    │          │            │             └ a crash before it: the claims time out, then `on_timeout` decides
//!    │          │            └ a crash in it: the same
//!    │          └ a crash before it: the same, though nothing happened
//!    └ done before: not handed on · somebody is at it: waited for, with nothing else held
//! ```
//!
//! - Claims live by a heartbeat, so a dead host's claims are free after `max_processing_time`, however long a handler may take.
//!   A host that is alive keeps its claims, also when it has lost its lease: no two hosts are at one change.
//! - What a handler answers for one change is recorded at once, not with the whole batch.
//! - A batch of which some are done is handed on without them. If somebody else is at one of them, those before it go first,
//!   then it is waited for while nothing is claimed: two hosts never wait for each other.
//! - A failed change gives its claim back; it is tried again, or parked, as without a ledger. With [`OnTimeout::Unknown`] one
//!   that was begun and never answered becomes unknown instead, and its object is parked until somebody resolves it.
//! - An effect that happened and could not be recorded is done all the same: the checkpoint remembers it.

mod round;
mod signal;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, select_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;

use super::{Attempt, Begun, OnTimeout, Once, OnceError, Recorded};
use crate::change::Change;
use crate::handler::{Context, Failure, Handler};
use round::Round;
pub use signal::signal_id;

/// Nobody waits longer for somebody else's run, whatever time a handler may take.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A handler that sees each change once, as far as its ledger remembers. See the [module](self::OnceHandler#what-it-does).
///
/// # What it does
/// Each change is a signal by [`signal_id`]: what was completed under that id is not handed on. A change that comes again with the
/// same number but other contents, as from a source that was replaced, is another signal.
///
/// What it needs of the handler: nothing. One that says early what is done ([`Handler::handle_telling`]) leaves less undecided
/// by a crash.
pub struct OnceHandler {
    handler: Arc<dyn Handler>,
    once: Once,
}

/// What was done and is being recorded, or is recorded, by the places of claims.
#[derive(Default)]
struct Told(Mutex<HashSet<usize>>);

impl Told {
    /// Whether it was not told before.
    fn add(&self, claim: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(claim)
    }

    fn has(&self, claim: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&claim)
    }
}

impl OnceHandler {
    /// Has this handler see each change once. All hosts of a feed share the processor id of `once`. Its `max_processing_time` says after
    /// how long a host that gives no sign of life is taken for dead.
    pub fn new(handler: Arc<dyn Handler>, once: Once) -> Self {
        OnceHandler { handler, once: once.heartbeat() }
    }

    fn patience(&self, changes: usize, timeout: Duration) -> Duration {
        let dead = self.once.settings.max_processing_time.saturating_mul(2);
        self.handler.time_for(changes, timeout).saturating_add(dead).min(LONGEST_WAIT)
    }

    /// Hands on what was claimed, and records what became of it.
    async fn run(&self, changes: &[Change], round: &Round, context: &Context) -> Result<(), Failure> {
        let claims = &round.claims;
        if claims.is_empty() {
            return Ok(());
        }
        let handed_on: Vec<Change> = claims.iter().map(|(place, _)| changes[*place].clone()).collect();
        let told = Told::default();
        let checkpointer = context.checkpointer.among(claims.iter().map(|(place, _)| *place));
        let context = &Context { checkpointer, ..context.clone() };
        let ended = self.watched(&handed_on, round, context, &told).await;
        match ended {
            Err(Ended::Stopped(why)) => Err(stopped(&why)),
            Ok(()) => {
                self.complete(claims.iter().map(|(_, attempt)| attempt)).await;
                Ok(())
            }
            Err(Ended::Failed(failure)) => {
                self.settle(round, &failure, &told).await;
                Err(round.translated(failure, changes))
            }
        }
    }

    /// Runs the handler, recording what it tells, for as long as the claims hold.
    async fn watched(
        &self,
        changes: &[Change],
        round: &Round,
        context: &Context,
        told: &Told,
    ) -> Result<(), Ended> {
        let (tell, mut heard) = mpsc::unbounded_channel();
        // Who is told after the end hears nothing: what is done is in the result, too.
        let tell = |claim| _ = tell.send(claim);
        let budget = self.handler.time_for(changes.len(), context.timeout);
        let handling = tokio::time::timeout(budget, self.handler.handle_telling(changes, context, &tell));
        let recording = async {
            let mut completing = FuturesUnordered::new();
            loop {
                tokio::select! {
                    biased;
                    Some(claim) = heard.recv() => {
                        if told.add(claim) {
                            completing.extend(round.claims.get(claim).map(|(_, attempt)| self.complete([attempt])));
                        }
                    }
                    Some(()) = completing.next() => {}
                    else => std::future::pending::<()>().await,
                }
            }
        };
        let beating = round.claims.iter().enumerate().map(|(claim, (_, attempt))| {
            Box::pin(async move {
                let why = self.once.watch_over(attempt.clone()).await;
                // A completed claim cannot be extended.
                if told.has(claim) { std::future::pending().await } else { why }
            })
        });
        tokio::select! {
            biased;
            ended = handling => match ended {
                Ok(ended) => ended.map_err(Ended::Failed),
                Err(_) => Err(Ended::Failed(Failure::too_slow(budget).unanswered_at(0..changes.len()))),
            },
            (why, ..) = select_all(beating) => Err(Ended::Stopped(why)),
            () = recording => Ok(()),
        }
    }

    /// Records what is done of a batch that failed, and gives the other claims back.
    async fn settle(&self, round: &Round, failure: &Failure, told: &Told) {
        let is_done = |claim: usize| {
            told.has(claim)
                || failure.culprit.is_some_and(|culprit| claim < culprit)
                || failure.done.contains(&claim)
        };
        let doubtful = |claim: usize| {
            self.once.settings.on_timeout == OnTimeout::Unknown && failure.unanswered.contains(&claim)
        };
        let settling = round.claims.iter().enumerate().map(|(claim, (_, attempt))| async move {
            if is_done(claim) {
                self.complete([attempt]).await;
            } else if doubtful(claim) {
                self.doubt(attempt).await;
            } else {
                self.once.fail(attempt).await;
            }
        });
        join_all(settling).await;
    }

    /// Records that these are done. What cannot be recorded is done all the same: the checkpoint comes next.
    async fn complete(&self, attempts: impl IntoIterator<Item = &Attempt>) {
        let completing = attempts.into_iter().map(|attempt| async move {
            let done = self.once.complete(attempt, Recorded::Kept(b"null".to_vec())).await;
            if let Err(error) = done {
                tracing::warn!("{error}; only the checkpoint says that it is done");
            }
        });
        join_all(completing).await;
    }

    /// Has somebody decide about a run that was begun and never answered.
    async fn doubt(&self, attempt: &Attempt) {
        let ledger = &self.once.ledger;
        let doubted = async {
            match ledger.show(attempt.signal()).await? {
                Some(record) if record.run.attempt == attempt.claim.attempt => {
                    ledger.doubt(attempt.signal(), &record.run).await
                }
                _ => Ok(false),
            }
        };
        if let Err(error) = doubted.await {
            tracing::warn!("{} is left to time out: {error}", attempt.signal());
        }
    }

    async fn wait_for(&self, change: &Change, patience: Duration) -> Result<Begun, OnceError> {
        tracing::info!(feed = %change.feed, id = change.id, "waits: another host is at it, or died over it");
        self.once.clone().max_wait(patience).start(&signal_id(change)).await
    }
}

/// How a call of the handler ended, other than well.
enum Ended {
    Failed(Failure),
    /// Its claims could not be held any longer. How far it had come is not known.
    Stopped(OnceError),
}

#[async_trait]
impl Handler for OnceHandler {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let patience = self.patience(changes.len(), context.timeout);
        let (mut from, mut in_hand) = (0, None);
        while from < changes.len() {
            let round = Round::claim(&self.once, changes, from, in_hand.take()).await;
            self.run(changes, &round, context).await?;
            from = round.upto;
            let Some(obstacle) = round.obstacle else { continue };
            let waited = match obstacle {
                OnceError::StillRunning { .. } => self.wait_for(&changes[from], patience).await,
                error => Err(error),
            };
            match waited {
                Ok(Begun::Run(attempt)) => in_hand = Some(attempt),
                Ok(Begun::Duplicate(_)) => from += 1,
                Err(error) => return Err(refused(error).at(from)),
            }
        }
        Ok(())
    }

    fn time_for(&self, changes: usize, timeout: Duration) -> Duration {
        // Others' runs are waited for, one after the other at the worst.
        let one = self.handler.time_for(1, timeout).saturating_add(self.patience(changes, timeout));
        one.saturating_mul(u32::try_from(changes).unwrap_or(u32::MAX).saturating_add(1))
    }
}

/// Why a change was not handed on.
fn refused(error: OnceError) -> Failure {
    match error {
        OnceError::Unknown { .. } => {
            Failure::poison(format!("{error}; see `seriatim once resolve`, then `seriatim parked retry`"))
        }
        OnceError::BadName(_) => Failure::poison(error),
        // Neither is a change's fault.
        error => Failure::target(error),
    }
}

fn stopped(why: &OnceError) -> Failure {
    Failure::target(format!("the handler was stopped, because its claims could not be kept: {why}"))
}
