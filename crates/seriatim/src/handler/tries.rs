//! One try at some changes: what the two kinds of handlers differ in.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;

use super::{CommitError, Context, Failure, Handler, TransactionalHandler};
use crate::change::Change;
use crate::lease::Lease;
use crate::store::{Checkpoint, CheckpointError, Store};

/// One try at some changes.
#[async_trait]
pub(crate) trait Try: Send + Sync {
    /// Handles the changes. The checkpoint is where the partition is then, with what is parked on the way.
    async fn attempt(
        &self,
        changes: &[Change],
        then: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError>;
    /// Makes a change parked or skipped durable, where the handler's effects are durable one by one.
    async fn give_up(&self, then: &Checkpoint, lease: &Lease) -> Result<(), CheckpointError>;
    /// Whether an attempt that failed has undone everything it did.
    fn undoes(&self) -> bool;
}

/// Effects first, checkpoint later.
pub(crate) struct Plain {
    pub handler: Arc<dyn Handler>,
    pub timeout: Duration,
}

#[async_trait]
impl Try for Plain {
    async fn attempt(
        &self,
        changes: &[Change],
        _: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let call = AssertUnwindSafe(self.handler.handle(changes, context)).catch_unwind();
        let budget = self.handler.time_for(changes.len(), self.timeout);
        let result = match tokio::time::timeout(budget, call).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Failure::panicked(&*panic)),
            Err(_) => Err(Failure::too_slow(budget)),
        };
        result.map_err(CommitError::Failed)
    }

    async fn give_up(&self, _: &Checkpoint, _: &Lease) -> Result<(), CheckpointError> {
        Ok(())
    }

    fn undoes(&self) -> bool {
        false
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
        then: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let call = AssertUnwindSafe(self.handler.handle_and_checkpoint(changes, then, context));
        match call.catch_unwind().await {
            Ok(result) => result,
            Err(panic) => Err(CommitError::Failed(Failure::panicked(&*panic))),
        }
    }

    async fn give_up(&self, then: &Checkpoint, lease: &Lease) -> Result<(), CheckpointError> {
        self.store.checkpoint(lease, then).await
    }

    fn undoes(&self) -> bool {
        true
    }
}
