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

use std::path::Path;
use std::sync::Arc;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, Transaction};
use seriatim::change::{Change, Op};
use seriatim::handler::Failure;

pub use check::SqlProblem;
pub(crate) use failure::failure_of;
pub use handler::SqlHandler;

use bind::Prepared;

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
/// What a change does not have is null. Several statements may follow each other, divided by semicolons.
#[derive(Clone, Debug)]
pub struct SqlEffect {
    sql: Arc<str>,
    delete_sql: Option<Arc<str>>,
    /// How many columns the watched table has.
    columns: usize,
}

impl SqlEffect {
    /// Runs `sql` for every change, or `delete_sql`, if there is one, for those that are deletes.
    /// Nothing is checked here: see [`SqlEffect::check`].
    pub fn new(sql: &str, delete_sql: Option<&str>) -> Self {
        SqlEffect { sql: Arc::from(sql), delete_sql: delete_sql.map(Arc::from), columns: usize::MAX }
    }

    /// For changes of a table with so many columns: a change that has all of them and still lacks one that the SQL names is
    /// not handled, since the column must have been renamed or dropped. Without this, what is missing is null.
    pub fn for_columns(self, columns: usize) -> Self {
        SqlEffect { columns, ..self }
    }

    /// Runs the SQL for these changes, in order, on a connection that is in a transaction.
    pub fn apply(&self, changes: &[Change], connection: &Connection) -> Result<(), Failure> {
        // Whether those before the culprit are done is for the caller to say, who ends the transaction.
        self.run(changes, connection).map_err(|failure| Failure { culprit: None, ..failure })
    }

    /// As [`SqlEffect::apply`]; a failure names the change, and nothing says that those before it are done.
    fn run(&self, changes: &[Change], connection: &Connection) -> Result<(), Failure> {
        let mut for_deletes = None;
        let mut for_others = None;
        for (index, change) in changes.iter().enumerate() {
            let (sql, prepared) = match (&self.delete_sql, change.op) {
                (Some(sql), Op::Delete) => (sql, &mut for_deletes),
                _ => (&self.sql, &mut for_others),
            };
            let statements = match prepared {
                Some(statements) => statements,
                None => prepared.insert(prepare(connection, sql).map_err(failure::of_the_sql)?),
            };
            for statement in statements {
                statement.run(change, self.columns).map_err(|why| failure::of_change(index, why))?;
            }
        }
        Ok(())
    }

    /// This effect for [`in_transaction`](crate::in_transaction).
    pub fn into_fn(
        self,
    ) -> impl Fn(&[Change], &Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static {
        move |changes: &[Change], transaction: &Transaction<'_>| self.run(changes, transaction)
    }

    /// This effect on the database in this file, each batch in a transaction of its own: at least once.
    pub fn on(self, path: impl AsRef<Path>) -> SqlHandler {
        SqlHandler::new(self, path.as_ref())
    }
}

/// SQLite itself finds where one statement ends and the next begins.
fn prepare<'c>(connection: &'c Connection, sql: &str) -> rusqlite::Result<Vec<Prepared<'c>>> {
    Batch::new(connection, sql).map(Prepared::new).collect()
}
