//! One call of a handler: what the two kinds of handlers differ in, and what has to hold before a call begins.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Closed;
use super::machine::Answer;
use super::target::{Permit, SharedTarget};
use super::told::Told;
use crate::change::Change;
use crate::clock;
use crate::handler::{Checkpointer, CommitError, Context, Failure, Handler, Handling};
use crate::lease::Lease;
use crate::store::Checkpoint;

/// Calls a partition's handler.
#[derive(Clone)]
pub(super) struct Executor {
    pub handling: Handling,
    pub lease: Arc<Lease>,
    pub timeout: Duration,
    /// Until when the lease can be trusted: nothing begins after that, also on a host that stood still and goes on.
    pub trusted_until: watch::Receiver<Instant>,
    /// True when it is known that somebody else has the lease.
    pub gone: Arc<AtomicBool>,
    /// What is known about the target.
    pub target: Arc<SharedTarget>,
    /// Turns true when no call may wait for the target any longer.
    pub closing: watch::Receiver<bool>,
    /// With manual acknowledgement: where the handler's word goes.
    pub checkpointer: Option<Checkpointer>,
}

impl Executor {
    /// Gives the changes to the handler once it is their turn. The checkpoint is where the partition is then. The permit is
    /// to be kept until the answer is known to the target.
    pub async fn call(
        mut self,
        changes: &[Change],
        then: &Checkpoint,
        attempt: u32,
        told: Option<&Told>,
    ) -> (Answer, Option<usize>, Option<Permit>) {
        let Some(permit) = self.target.turn(&mut self.closing).await else {
            return (Answer::NotBegun, None, None);
        };
        if !self.may_begin() {
            let late = Closed::Lost("the lease could not be renewed in time".to_owned());
            return (Answer::Closed(late), None, Some(permit));
        }
        let checkpointer = self.checkpointer.clone().unwrap_or_default();
        let context =
            Context { attempt, checkpointer, ..Context::new(Arc::clone(&self.lease), self.timeout) };
        let answer = match &self.handling {
            Handling::AtLeastOnce(handler) => plain(&**handler, changes, &context, told).await,
            Handling::ExactlyOnce(handler) => {
                let call = AssertUnwindSafe(handler.handle_and_checkpoint(changes, then, &context));
                match call.catch_unwind().await {
                    Ok(Ok(())) => Answer::Done,
                    Ok(Err(error)) => Answer::of_commit(error),
                    Err(panic) => Answer::Failed(Failure::panicked(&*panic)),
                }
            }
        };
        (answer, self.checkpointer.and_then(|checkpointer| checkpointer.take()), Some(permit))
    }

    /// Whether a call may begin: others may have the lease already when this host could not renew it in time.
    fn may_begin(&self) -> bool {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::TrustForever) {
            return true;
        }
        !self.gone.load(Ordering::Relaxed) && clock::now() < *self.trusted_until.borrow()
    }
}

async fn plain(handler: &dyn Handler, changes: &[Change], context: &Context, told: Option<&Told>) -> Answer {
    let tell = |place| told.iter().for_each(|told| told.tell(place));
    let call = match told {
        Some(_) => handler.handle_telling(changes, context, &tell),
        None => handler.handle(changes, context),
    };
    let call = AssertUnwindSafe(call).catch_unwind();
    let budget = handler.time_for(changes.len(), context.timeout);
    match tokio::time::timeout(budget, call).await {
        Ok(Ok(Ok(()))) => Answer::Done,
        Ok(Ok(Err(failure))) => Answer::Failed(failure),
        Ok(Err(panic)) => Answer::Failed(Failure::panicked(&*panic)),
        Err(_) => Answer::Failed(Failure::too_slow(budget)),
    }
}

impl Answer {
    fn of_commit(error: CommitError) -> Self {
        match error {
            CommitError::Failed(failure) => Answer::Failed(failure),
            CommitError::Fenced { by } => Answer::Closed(Closed::fenced(by)),
            CommitError::Store(error) => Answer::Closed(Closed::of_store(error)),
        }
    }
}
