//! An effect that is SQL, with named parameters from the change.
//!
//! ```sql
//! insert into totals (id, amount) values (:key_id, :new_amount)
//! on conflict (id) do update set amount = excluded.amount
//! ```
//!
//! [`SqlEffect`] runs inside the checkpoint's transaction (exactly once) or, on another database, as a [`SqlHandler`] with
//! a transaction of its own (at least once).

mod bind;
mod check;
mod failure;
mod handler;
mod lexer;
mod nested;
mod run;
mod types;

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Transaction as Pooled;
use seriatim::change::{Change, Op};
use seriatim::handler::Failure;
use tokio_postgres::Transaction;

pub use check::SqlProblem;
pub(crate) use failure::{failure_of, of_handler};
pub use handler::SqlHandler;
pub use types::ColumnTypes;

use crate::database::Database;
use crate::transaction::Effect;
use run::{On, Pipeline, Prepared};

/// SQL to run for each change, with parameters named after what they mean:
///
/// | parameter | value |
/// |---|---|
/// | `:key_<column>` | a column of the object's key |
/// | `:new_<column>` | a column of the row after the change |
/// | `:old_<column>` | a column of the row before it |
/// | `:op` | `insert`, `update`, `delete`, `upsert`, `truncate` or `event` |
/// | `:id` | the change's number, the same on every redelivery |
/// | `:at` | when it happened, RFC 3339 |
///
/// What a change does not have is null. Several statements may follow each other, divided by semicolons. A
/// parameter has its column's type (see [`SqlEffect::with_types`]), or else the one that PostgreSQL finds from where it stands.
#[derive(Clone, Debug)]
pub struct SqlEffect {
    sql: Arc<[lexer::Statement]>,
    delete_sql: Option<Arc<[lexer::Statement]>>,
    /// How many columns the watched table has.
    columns: usize,
}

/// The parameters that some SQL uses.
pub(crate) fn parameters_of(sql: &str) -> Vec<String> {
    lexer::statements(sql).into_iter().flat_map(|statement| statement.parameters).collect()
}

impl SqlEffect {
    /// Runs `sql` for every change, or `delete_sql`, if there is one, for those that are deletes.
    /// Nothing is checked here: see [`SqlEffect::check`].
    pub fn new(sql: &str, delete_sql: Option<&str>) -> Self {
        let statements = |sql| Arc::from(lexer::statements(sql));
        SqlEffect { sql: statements(sql), delete_sql: delete_sql.map(statements), columns: usize::MAX }
    }

    /// For changes of a table with so many columns: a change that has all of them and still lacks one that the SQL names is
    /// not handled, since the column must have been renamed or dropped. Without this, what is missing is null.
    pub fn for_columns(self, columns: usize) -> Self {
        SqlEffect { columns, ..self }
    }

    /// This effect for [`in_transaction`](crate::in_transaction).
    pub fn into_fn(self) -> impl Effect {
        self
    }

    /// This effect on this database, each batch in a transaction of its own: at least once.
    pub fn on(self, database: &Database) -> SqlHandler {
        SqlHandler::new(self, database.clone())
    }
}

/// Runs the SQL for these changes, in order. It names the change that failed; what others did is to be rolled back with it.
#[async_trait]
impl Effect for SqlEffect {
    async fn apply(&self, changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
        self.run(changes, On { transaction, pooled: None }).await
    }

    async fn apply_pooled(&self, changes: &[Change], pooled: &Pooled<'_>) -> Result<(), Failure> {
        let done = self.run(changes, On { transaction: pooled, pooled: Some(pooled) }).await;
        if done.is_err() {
            // What was prepared for tables of before must not fail for ever.
            self.statements().for_each(|statement| On::forget(pooled, statement));
        }
        done
    }
}

impl SqlEffect {
    fn statements(&self) -> impl Iterator<Item = &lexer::Statement> {
        self.sql.iter().chain(self.delete_sql.iter().flat_map(|sql| sql.iter()))
    }

    async fn run(&self, changes: &[Change], on: On<'_>) -> Result<(), Failure> {
        if self.statements().any(lexer::Statement::is_about_transactions) {
            return Err(Failure::target(SqlProblem::Transaction));
        }
        let mut for_deletes = None;
        let mut for_others = None;
        let mut pipeline = Pipeline::default();
        for (index, change) in changes.iter().enumerate() {
            let (statements, prepared) = match (&self.delete_sql, change.op) {
                (Some(statements), Op::Delete) => (statements, &mut for_deletes),
                _ => (&self.sql, &mut for_others),
            };
            if prepared.is_none() {
                // A statement that failed on the way makes preparing fail, too: its failure is the one that counts.
                let made = Prepared::new(&on, statements).await;
                if made.is_err() {
                    pipeline.finish().await?;
                }
                *prepared = Some(made.map_err(failure::of_the_sql)?);
            }
            if let Some(prepared) = prepared {
                prepared.send((index, change), self.columns, &mut pipeline, on.transaction).await?;
            }
        }
        pipeline.finish().await
    }
}
