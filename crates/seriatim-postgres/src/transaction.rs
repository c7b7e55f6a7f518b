//! Exactly once: a handler whose effect is in the checkpoint's transaction.
//!
//! ```text
//!   BEGIN ─▶ fence: still the owner? ─▶ effect ─▶ checkpoint, if still the owner ─▶ COMMIT
//!               └─ no: rollback           └─ failed: rollback                         └─ no answer: nobody knows
//! ```
//!
//! The fence before the effect only saves work. What counts is the checkpoint: it looks at session and epoch under the lock of
//! the lease's row, and keeps that lock until the commit, so nobody can take the lease in between. Until then the row is not
//! locked: the host's renewals must not wait for a handler.
//!
//! A commit whose answer was lost is the one thing that only the store can tell. The handler says so and refuses to go on
//! under this lease; taking the lease anew waits for that transaction to end, and then reads the truth.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Transaction as Pooled;
use seriatim::change::Change;
use seriatim::handler::{CommitError, Context, Failure, TransactionalHandler};
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::Epoch;
use seriatim::store::{Checkpoint, StoreError};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{IsolationLevel, Transaction};

use crate::database::Database;
use crate::effect::{failure_of, of_handler};
use crate::store::{PostgresStore, Right, carry_out};
use crate::turns::{AGAIN, Turns, collided};

const BEGIN: &str = include_str!("../queries/transaction_begin.sql");
const CHECKPOINT: &str = include_str!("../queries/transaction_checkpoint.sql");
const REFUSED: &str = include_str!("../queries/transaction_refused.sql");
const DOING: &str = "handling changes in";

/// What is done with changes inside a transaction.
///
/// Any `async fn(&[Change], &Transaction<'_>) -> Result<(), Failure>` is one, and so is a
/// [`SqlEffect`](crate::SqlEffect).
#[async_trait]
pub trait Effect: Send + Sync + 'static {
    /// Does what is to be done with the changes, in order.
    async fn apply(&self, changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure>;

    /// The same on a pooled connection, which remembers the statements that were prepared on it.
    #[doc(hidden)]
    async fn apply_pooled(&self, changes: &[Change], transaction: &Pooled<'_>) -> Result<(), Failure> {
        self.apply(changes, transaction).await
    }
}

/// An async function that is an [`Effect`], for one lifetime.
#[doc(hidden)]
pub trait EffectFn<'a>: Fn(&'a [Change], &'a Transaction<'a>) -> Self::Future {
    /// What it returns.
    type Future: Future<Output = Result<(), Failure>> + Send + 'a;
}

impl<'a, F, R> EffectFn<'a> for F
where
    F: Fn(&'a [Change], &'a Transaction<'a>) -> R,
    R: Future<Output = Result<(), Failure>> + Send + 'a,
{
    type Future = R;
}

#[async_trait]
impl<F> Effect for F
where
    F: for<'a> EffectFn<'a> + Send + Sync + 'static,
{
    async fn apply(&self, changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
        self(changes, transaction).await
    }
}

/// A handler whose effect and checkpoint are one transaction in the store's database. Made by [`in_transaction`].
pub struct InTransaction<E> {
    database: Database,
    effect: E,
    /// Leases whose last commit was sent and never answered for, by their epoch then.
    in_doubt: Mutex<HashMap<LeaseId, Epoch>>,
    turns: Turns,
}

/// Runs `effect` inside the transaction that also moves the checkpoint: both happen, or neither.
///
/// The effect gets the changes in order and may do anything in the transaction but end it. What it returns as an error, or
/// a panic, is a failure of these changes; PostgreSQL being down, full or in a deadlock is not, wherever it shows. It may take
/// as long as the feed's timeout allows. An effect that needs more than its arguments is a type of one's own that implements
/// [`Effect`]. The connection is as the role's own settings make it; the isolation is READ COMMITTED.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::{Change, Failure};
/// use seriatim_postgres::tokio_postgres::Transaction;
/// use seriatim_postgres::{PostgresStore, in_transaction};
///
/// async fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
///     for change in changes {
///         transaction.execute("insert into seen (op) values ($1)", &[&change.op.as_str()]).await?;
///     }
///     Ok(())
/// }
///
/// let store = PostgresStore::connect("postgres://ada@db.example/shop").await?;
/// let handler = in_transaction(&store, note);
/// let same = in_transaction(&store, async |changes: &[Change], transaction: &Transaction<'_>| {
///     note(changes, transaction).await
/// });
/// # drop((handler, same));
/// # Ok(())
/// # }
/// ```
pub fn in_transaction<E: Effect>(store: &PostgresStore, effect: E) -> InTransaction<E> {
    InTransaction {
        database: store.database().clone(),
        effect,
        in_doubt: Mutex::default(),
        turns: Turns::default(),
    }
}

#[async_trait]
impl<E: Effect> TransactionalHandler for InTransaction<E> {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let feed = &context.lease.id.feed;
        for _ in 0..AGAIN {
            match self.try_once(changes, checkpoint, context).await {
                Err(error) if collided(&error) => self.turns.take_turns(feed),
                done => return done,
            }
        }
        self.try_once(changes, checkpoint, context).await
    }
}

impl<E: Effect> InTransaction<E> {
    async fn try_once(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let lease = &*context.lease;
        self.refuse_in_doubt(lease)?;
        let mut client = self
            .database
            .users_client(lease.id.feed.as_str())
            .await
            .map_err(StoreError::from)
            .map_err(nothing_done)?;
        let before = |cause| nothing_done(self.database.error(DOING, cause).into());
        let transaction = client
            .build_transaction()
            .isolation_level(IsolationLevel::ReadCommitted)
            .read_only(false)
            .start()
            .await
            .map_err(before)?;
        let mark = format!("{:016x}", fastrand::u64(..));
        self.check_fence(&transaction, lease, &mark, context.timeout).await?;
        self.take_turn(&transaction, lease).await?;
        self.affect(changes, &transaction, context.timeout).await?;
        self.move_checkpoint(&transaction, lease, checkpoint, &mark).await?;
        self.commit(transaction, lease).await
    }

    async fn take_turn(&self, transaction: &Pooled<'_>, lease: &Lease) -> Result<(), CommitError> {
        let feed = &lease.id.feed;
        let turn = async {
            let statement = transaction.prepare_cached(self.turns.lock_sql(feed)).await?;
            transaction.query_one(&statement, &[&feed.as_str()]).await
        };
        turn.await.map(drop).map_err(|cause| nothing_done(self.database.error(DOING, cause).into()))
    }

    fn refuse_in_doubt(&self, lease: &Lease) -> Result<(), CommitError> {
        let mut in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
        match in_doubt.get(&lease.id) {
            Some(epoch) if *epoch == lease.epoch => {
                let doing = format!("{DOING} {}", self.database.name());
                let said = "whether the last transaction was committed is not known";
                Err(CommitError::Store(StoreError::unavailable(doing, said)))
            }
            Some(_) => {
                in_doubt.remove(&lease.id);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn doubt(&self, lease: &Lease) {
        let mut in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
        in_doubt.insert(lease.id.clone(), lease.epoch);
    }

    fn no_doubt(&self, lease: &Lease) {
        self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner).remove(&lease.id);
    }

    /// Marks the transaction, and ends it here if the lease is another's.
    async fn check_fence(
        &self,
        transaction: &Pooled<'_>,
        lease: &Lease,
        mark: &str,
        timeout: Duration,
    ) -> Result<(), CommitError> {
        let Right { feed, partition, session, epoch } = Right::of(lease);
        let timeout = timeout.as_millis().clamp(1, i32::MAX as u128).to_string();
        let row = async {
            let begin = transaction.prepare_cached(&self.database.sql(BEGIN)).await?;
            transaction.query_opt(&begin, &[&feed, &partition, &session, &epoch, &mark, &timeout]).await
        };
        let row = row.await.map_err(|cause| nothing_done(self.database.error(DOING, cause).into()))?;
        match row {
            Some(row) if row.get(1) => Ok(()),
            row => Err(fenced(row.map(|row| row.get(0)), lease)),
        }
    }

    async fn affect(
        &self,
        changes: &[Change],
        transaction: &Pooled<'_>,
        timeout: Duration,
    ) -> Result<(), CommitError> {
        if changes.is_empty() {
            return Ok(());
        }
        let done = tokio::time::timeout(timeout, self.effect.apply_pooled(changes, transaction)).await;
        let too_slow = || Failure::change(format!("the handler took longer than {timeout:?}"));
        let failed = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => too_slow(),
        };
        Err(CommitError::Failed(of_handler(failed)))
    }

    async fn move_checkpoint(
        &self,
        transaction: &Pooled<'_>,
        lease: &Lease,
        checkpoint: &Checkpoint,
        mark: &str,
    ) -> Result<(), CommitError> {
        let Right { feed, partition, session, epoch } = Right::of(lease);
        let position = checkpoint.position.to_string();
        let moved = async {
            let statement = transaction.prepare_cached(&self.database.sql(CHECKPOINT)).await?;
            let moved = transaction
                .execute(&statement, &[&feed, &partition, &session, &epoch, &position, &mark])
                .await?;
            if moved == 1 {
                carry_out(transaction, &self.database, lease, checkpoint).await?;
                return Ok(None);
            }
            let refused = self.database.sql(REFUSED);
            transaction.query_one(&*refused, &[&feed, &partition, &mark]).await.map(Some)
        };
        match moved.await.map_err(|cause| self.no_checkpoint(cause))? {
            None => Ok(()),
            Some(row) if row.get(1) => Err(fenced(row.get(0), lease)),
            Some(_) => Err(CommitError::Store(StoreError::needs_attention(
                "the handler ended the transaction that its effect and the checkpoint are in (a COMMIT or ROLLBACK)",
                "take that out of the handler; part of the effect of the last changes may have happened",
            ))),
        }
    }

    fn no_checkpoint(&self, cause: tokio_postgres::Error) -> CommitError {
        if cause.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) {
            let said = "a statement of the handler failed and the handler ignored it, so the transaction is no good: return \
                        the error, or use a savepoint";
            return CommitError::Failed(Failure::change(said));
        }
        nothing_done(self.database.error(DOING, cause).into())
    }

    async fn commit(&self, transaction: Pooled<'_>, lease: &Lease) -> Result<(), CommitError> {
        // From here on the outcome is unknown until the server says it, also when this future is dropped.
        self.doubt(lease);
        let Err(cause) = transaction.commit().await else {
            self.no_doubt(lease);
            return Ok(());
        };
        if !is_rolled_back(&cause) {
            let doing = format!("{DOING} {}: the commit was not answered", self.database.name());
            return Err(CommitError::Store(StoreError::unavailable(doing, cause)));
        }
        self.no_doubt(lease);
        // Deferred constraints show only here, and are the changes' fault.
        Err(CommitError::Failed(failure_of(cause)))
    }
}

/// Whether the server said that it did not commit, as opposed to not having said anything, or having gone while at it.
fn is_rolled_back(cause: &tokio_postgres::Error) -> bool {
    let Some(db) = cause.as_db_error() else { return false };
    db.parsed_severity() == Some(Severity::Error)
        && *db.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
        && *db.code() != SqlState::TRANSACTION_RESOLUTION_UNKNOWN
}

/// An error before the commit was sent: nothing has happened, so what passes by itself is waited for under the same lease.
fn nothing_done(error: StoreError) -> CommitError {
    match error {
        StoreError::Unavailable { .. } => CommitError::Failed(Failure::target(error)),
        StoreError::NeedsAttention { .. } => CommitError::Store(error),
    }
}

fn fenced(epoch: Option<i64>, lease: &Lease) -> CommitError {
    // A feed that was forgotten has no epoch any more; whatever comes, it is later than this owner's.
    CommitError::Fenced { by: epoch.map_or(lease.epoch.next(), |epoch| Epoch(epoch.cast_unsigned())) }
}
