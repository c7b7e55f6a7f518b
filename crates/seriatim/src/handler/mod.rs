//! **Handle.** What the user wants done with changes.
//!
//! ```text
//!   partition ──▶ lanes ──▶ batch ──▶ handler ──▶ done ──▶ low-water mark ──▶ checkpoint
//!                  ▲ one for each key            └─▶ failed: steps aside, again, then park, skip or stop
//! ```
//!
//! A [`Handler`] may be called at the same time for different keys, never for one key. Its effect and the checkpoint are
//! two steps, so after a crash it may see a change again, with the same id: at least once.
//! With a ledger in between ([`crate::once::OnceHandler`]), what a handler has done is not handed to it again.
//! A [`TransactionalHandler`] makes effect and checkpoint one step: exactly once.

mod checkpointer;
mod failure;
pub(crate) mod parameter;
mod retry;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use checkpointer::Checkpointer;
pub use failure::{CommitError, Failure, FailureKind, IntoFailure};
pub use retry::{Backoff, Retry, Then};

use crate::change::Change;
use crate::lease::Lease;
use crate::store::Checkpoint;

/// What a handler may want to know about the call it is in.
#[derive(Clone, Debug)]
pub struct Context {
    /// The lease under which the changes are handled: feed, partition, epoch.
    pub lease: Arc<Lease>,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// How long one call may take; for a closure, each change.
    pub timeout: Duration,
    /// Where the handler's word goes that its work is done.
    pub checkpointer: Checkpointer,
}

impl Context {
    /// The context of a first try.
    pub fn new(lease: Arc<Lease>, timeout: Duration) -> Self {
        Context { lease, attempt: 1, timeout, checkpointer: Checkpointer::default() }
    }

    /// Says that all is done for good that this handler has been given of this partition so far, the changes of this call
    /// included: they may be checkpointed once the call has returned.
    ///
    /// With [`CheckpointPolicy::Manual`](crate::host::CheckpointPolicy::Manual), nothing is checkpointed without this word. With
    /// other policies it changes nothing.
    pub fn checkpoint(&self) {
        self.checkpointer.say();
    }
}

/// Handles changes, at least once each.
///
/// Any closure `Fn(Change, Context) -> impl Future<Output = Result<(), E>>` is one, called for one change at a time. It may fail with a
/// [`Failure`], or with any error, such as `anyhow::Error` ([`IntoFailure`]).
///
/// # What it can rely on
/// - The changes of one key come one at a time, in the order in which they committed; within `changes` too.
/// - No call starts after the lease is lost or the host is closing.
/// - A call that returns an error, panics or outlives its timeout is repeated with the same changes, or with parts of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle changes",
    note = "a closure does: `|change: Change, context: Context| async move {{ …; Ok::<(), Failure>(()) }}`, with any error as its error"
)]
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles these changes, of one or many keys. `Ok` means that all of them are done.
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure>;

    /// Does the same, and tells the place of each change that is done as soon as that is known. A handler that only knows at the
    /// end tells nothing: what it returns counts either way.
    async fn handle_telling(
        &self,
        changes: &[Change],
        context: &Context,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<(), Failure> {
        let _ = done;
        self.handle(changes, context).await
    }

    /// Whether it tells, by [`Handler::handle_telling`], what is done before the call ends. Then a crash brings only the rest again.
    fn tells(&self) -> bool {
        false
    }

    /// How long a call for so many changes may take, where one call may take `timeout`.
    fn time_for(&self, changes: usize, timeout: Duration) -> Duration {
        let _ = changes;
        timeout
    }
}

#[async_trait]
impl<F, Fut, E> Handler for F
where
    F: Fn(Change, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: IntoFailure,
{
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        self.handle_telling(changes, context, &|_| {}).await
    }

    async fn handle_telling(
        &self,
        changes: &[Change],
        context: &Context,
        tell: &(dyn Fn(usize) + Sync),
    ) -> Result<(), Failure> {
        for (index, change) in changes.iter().enumerate() {
            let context = Context { checkpointer: context.checkpointer.after(index + 1), ..context.clone() };
            let call = tokio::time::timeout(context.timeout, self(change.clone(), context.clone()));
            let done = match call.await {
                Ok(done) => done.map_err(IntoFailure::into_failure),
                Err(_) => Err(Failure::too_slow(context.timeout)),
            };
            done.map_err(|failure| failure.at(index))?;
            tell(index);
        }
        Ok(())
    }

    fn tells(&self) -> bool {
        true
    }

    fn time_for(&self, changes: usize, timeout: Duration) -> Duration {
        // Each change has its own time; this is only the bound of the bounds.
        timeout.saturating_mul(changes as u32 + 1)
    }
}

/// Handles changes and moves the checkpoint in one transaction: exactly once.
///
/// The SQL stores provide implementations that run a closure inside the transaction.
#[async_trait]
pub trait TransactionalHandler: Send + Sync + 'static {
    /// Does the effect of `changes` and `checkpoint`, both or neither, if the lease still counts.
    /// `changes` may be empty when everything in the checkpoint is parked. Where they were parked and are tried again, the
    /// checkpoint takes them out of the store: it is to be carried out whole.
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError>;
}

/// How a feed's changes are handled.
#[derive(Clone)]
pub enum Handling {
    /// Effect, then checkpoint.
    AtLeastOnce(Arc<dyn Handler>),
    /// Effect and checkpoint in one.
    ExactlyOnce(Arc<dyn TransactionalHandler>),
}
