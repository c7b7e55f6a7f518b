//! A SQL effect on a database that is not the store's: at least once.

use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::Change;
use seriatim::handler::{Context, Failure, Handler};
use tokio_postgres::IsolationLevel;

use super::{SqlEffect, failure_of};
use crate::database::Database;
use crate::transaction::Effect;

const TIMEOUTS: &str = include_str!("../../queries/transaction_timeouts.sql");

/// A [`SqlEffect`] on a database that is not the store's. Made by [`SqlEffect::on`].
///
/// Each batch is one transaction: its effect happens wholly or not at all, and again when the host crashes before its
/// checkpoint.
pub struct SqlHandler {
    effect: SqlEffect,
    database: Database,
}

impl SqlHandler {
    pub(super) fn new(effect: SqlEffect, database: Database) -> Self {
        SqlHandler { effect, database }
    }
}

#[async_trait]
impl Handler for SqlHandler {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let feed = context.lease.id.feed.as_str();
        // To wait for a connection is not the changes' fault.
        let client = tokio::time::timeout(context.timeout, self.database.users_client(feed)).await;
        let busy = |_| Failure::target("handlers of this and other feeds use all connections");
        let mut client = client.map_err(busy)?.map_err(Failure::target)?;
        let transaction = client
            .build_transaction()
            .isolation_level(IsolationLevel::ReadCommitted)
            .read_only(false)
            .start()
            .await
            .map_err(failure_of)?;
        let timeout = context.timeout.as_millis().clamp(1, i32::MAX as u128).to_string();
        transaction.query_one(TIMEOUTS, &[&timeout]).await.map_err(failure_of)?;
        // Dropped before the commit, the transaction is rolled back.
        let done = self.effect.apply_pooled(changes, &transaction).await;
        // What came before the culprit is undone with it.
        done.map_err(|failure| Failure { culprit: None, ..failure })?;
        transaction.commit().await.map_err(failure_of)
    }

    /// As long again as it may take: it may have to wait for its connection.
    fn time_for(&self, _: usize, timeout: Duration) -> Duration {
        timeout * 2
    }
}
