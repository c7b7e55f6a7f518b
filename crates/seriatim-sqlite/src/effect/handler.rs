//! A SQL effect on a database that is not the store's: at least once.

use std::path::{Path, PathBuf};

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
        let (effect, changes) = (self.effect.clone(), changes.to_vec());
        let done =
            database.call("handling changes in", move |connection| Ok(run(connection, &effect, &changes)));
        done.await.map_err(Failure::target)?
    }
}

fn run(connection: &mut Connection, effect: &SqlEffect, changes: &[Change]) -> Result<(), Failure> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure_of)?;
    effect.apply(changes, &transaction)?;
    transaction.commit().map_err(failure_of)
}
