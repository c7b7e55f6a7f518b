//! A SQL effect on a database that is not the store's: at least once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior};
use seriatim::change::Change;
use seriatim::handler::{Context, Failure, Handler};
use tokio::sync::OnceCell;

use super::{SqlEffect, failure_of};
use crate::database::{Access, Database};

/// A [`SqlEffect`] on a database that is not the store's. Made by [`SqlEffect::on`].
///
/// Each batch is one transaction: its effect happens wholly or not at all, and again when the host crashes before its
/// checkpoint. It has a connection and a thread of its own, from its first call on.
pub struct SqlHandler {
    effect: SqlEffect,
    path: PathBuf,
    database: OnceCell<Database>,
}

impl SqlHandler {
    pub(super) fn new(effect: SqlEffect, path: &Path) -> Self {
        SqlHandler { effect, path: path.to_owned(), database: OnceCell::new() }
    }
}

#[async_trait]
impl Handler for SqlHandler {
    async fn handle(&self, changes: &[Change], _context: &Context) -> Result<(), Failure> {
        let open = || Database::open(&self.path, Access::Write);
        let database = self.database.get_or_try_init(open).await.map_err(Failure::target)?;
        let (effect, changes, caller) = (self.effect.clone(), changes.to_vec(), Arc::new(()));
        // Gone when nobody waits for the answer any more: the lease may be lost, and the changes somebody else's by now.
        let waiting = Arc::downgrade(&caller);
        let work = move |connection: &mut Connection| Ok(run(connection, &effect, &changes, &waiting));
        let done = database.call("handling changes in", work).await;
        drop(caller);
        done.map_err(Failure::target)?
    }
}

fn run(
    connection: &mut Connection,
    effect: &SqlEffect,
    changes: &[Change],
    caller: &Weak<()>,
) -> Result<(), Failure> {
    let abandoned = || match caller.strong_count() {
        0 => Err(Failure::target("nobody waits for it any more")),
        _ => Ok(()),
    };
    abandoned()?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure_of)?;
    effect.apply(changes, &transaction)?;
    abandoned()?;
    transaction.commit().map_err(failure_of)
}
