//! Exactly once: a handler whose effect is in the checkpoint's transaction.
//!
//! ```text
//!   BEGIN IMMEDIATE ─▶ fence: still the owner? ─▶ effect ─▶ checkpoint ─▶ COMMIT
//!                          └─ no: rollback          └─ failed: rollback
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use seriatim::change::Change;
use seriatim::handler::{CommitError, Context, Failure, TransactionalHandler};
use seriatim::lease::Lease;
use seriatim::store::{Checkpoint, StoreError};
use tokio::sync::OnceCell;

use crate::database::Database;
use crate::effect::failure_of;
use crate::error::is_transient;
use crate::store::{Fence, SqliteStore, check_fence, checkpoint};

/// A handler whose effect and checkpoint are one transaction in the store's file. Made by [`in_transaction`].
///
/// It has a connection and a thread of its own, from its first call on.
pub struct InTransaction<E> {
    path: PathBuf,
    database: OnceCell<Database>,
    effect: Arc<E>,
}

/// Runs `effect` inside the transaction that also moves the checkpoint: both happen, or neither.
///
/// The effect gets the changes in order and may do anything in the transaction but end it. What it returns as an
/// error, or a panic, is a failure of these changes; SQLite being busy, full or broken is not, wherever it shows.
///
/// SQLite has one writer at a time, so everybody else's writes to the file, renewals of leases among them, wait while an
/// effect runs: keep it short.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::{Change, Failure};
/// use seriatim_sqlite::rusqlite::Transaction;
/// use seriatim_sqlite::{SqliteStore, in_transaction};
///
/// let folder = tempfile::tempdir()?;
/// let store = SqliteStore::open(folder.path().join("shop.db")).await?;
/// let handler = in_transaction(&store, |changes: &[Change], transaction: &Transaction<'_>| {
///     for change in changes {
///         transaction.execute("insert into seen (op) values (?1)", [change.op.as_str()])?;
///     }
///     Ok::<(), Failure>(())
/// });
/// # drop(handler);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub fn in_transaction<E>(store: &SqliteStore, effect: E) -> InTransaction<E>
where
    E: Fn(&[Change], &Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    InTransaction { path: store.path().to_owned(), database: OnceCell::new(), effect: Arc::new(effect) }
}

/// Why a transaction was rolled back.
enum Stopped {
    Fenced(seriatim::name::Epoch),
    Failed(Failure),
    /// The effect ended the transaction, and whatever came after that is committed already.
    Ended,
    Abandoned,
}

/// One call, as the connection's thread gets it.
struct Work<E> {
    changes: Vec<Change>,
    checkpoint: Checkpoint,
    lease: Arc<Lease>,
    effect: Arc<E>,
    /// Gone when nobody waits for the answer any more: then nothing must be committed, as the caller will try again.
    caller: Weak<()>,
}

#[async_trait]
impl<E> TransactionalHandler for InTransaction<E>
where
    E: Fn(&[Change], &Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let open = || SqliteStore::connect(self.path.clone());
        let database = self.database.get_or_try_init(open).await.map_err(StoreError::from)?;
        let caller = Arc::new(());
        let work = Work {
            changes: changes.to_vec(),
            checkpoint: checkpoint.clone(),
            lease: context.lease.clone(),
            effect: self.effect.clone(),
            caller: Arc::downgrade(&caller),
        };
        let done = database.call("handling changes in", move |connection| work.run(connection)).await;
        drop(caller);
        match done.map_err(StoreError::from)? {
            Ok(()) => Ok(()),
            Err(Stopped::Fenced(by)) => Err(CommitError::Fenced { by }),
            Err(Stopped::Failed(failure)) => Err(CommitError::Failed(failure)),
            Err(Stopped::Ended) => Err(CommitError::Store(StoreError::needs_attention(
                "the handler ended the transaction that its effect and the checkpoint are in (a COMMIT or ROLLBACK, or a \
                 constraint ON CONFLICT ROLLBACK whose error it ignored)",
                "take that out of the handler; part of the effect of the last changes may have happened",
            ))),
            Err(Stopped::Abandoned) => unreachable!("this caller is still waiting"),
        }
    }
}

impl<E> Work<E>
where
    E: Fn(&[Change], &Transaction<'_>) -> Result<(), Failure>,
{
    /// The outer error is the store's.
    fn run(self, connection: &mut Connection) -> rusqlite::Result<Result<(), Stopped>> {
        if self.is_abandoned() {
            return Ok(Err(Stopped::Abandoned));
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Fence::Closed { by } = check_fence(&transaction, &self.lease)? {
            return Ok(Err(Stopped::Fenced(by)));
        }
        if let Err(failure) = self.affect(&transaction) {
            return the_changes_or_the_store(failure);
        }
        if transaction.is_autocommit() {
            return Ok(Err(Stopped::Ended));
        }
        if let Fence::Closed { by } = checkpoint(&transaction, &self.lease, &self.checkpoint)? {
            return Ok(Err(Stopped::Fenced(by)));
        }
        if self.is_abandoned() {
            return Ok(Err(Stopped::Abandoned));
        }
        // Deferred constraints show only here, and are the changes' fault.
        transaction.commit().map_or_else(|cause| the_changes_or_the_store(failure_of(cause)), |()| Ok(Ok(())))
    }

    fn affect(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.changes.is_empty() {
            return Ok(());
        }
        // A panic must not take the connection's thread with it.
        catch_unwind(AssertUnwindSafe(|| (self.effect)(&self.changes, transaction)))
            .unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
    }

    fn is_abandoned(&self) -> bool {
        self.caller.strong_count() == 0
    }
}

/// The effect is in the store's own database, so a database that is busy or full is the store's failure.
fn the_changes_or_the_store(failure: Failure) -> rusqlite::Result<Result<(), Stopped>> {
    match failure.cause.downcast::<rusqlite::Error>() {
        Ok(cause) if is_transient(&cause) => Err(*cause),
        Ok(cause) => Ok(Err(Stopped::Failed(Failure { cause, ..failure }))),
        Err(cause) => Ok(Err(Stopped::Failed(Failure { cause, ..failure }))),
    }
}
