//! Hears that something was pushed.
//!
//! Only a hint: a producer's transaction tells nobody, since NOTIFY in it would make all commits of the server queue up. So who
//! waits also looks for itself, every now and then, and needs no connection to hear by.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::database::{Database, Dedicated};

const LISTEN: &str = "listen seriatim_queue";

/// A connection that listens, made when somebody first waits.
pub(super) struct Ears {
    database: Database,
    connection: Mutex<Option<Dedicated>>,
}

impl Ears {
    pub(super) fn on(database: Database) -> Self {
        Ears { database, connection: Mutex::default() }
    }

    /// Returns when there is news of any queue, or after `at_most`.
    pub(super) async fn hear(&self, at_most: Duration) {
        // One listens for all of this process; who else waits only looks.
        let Ok(mut connection) = self.connection.try_lock() else {
            tokio::time::sleep(at_most).await;
            return;
        };
        let mut just_made = false;
        if connection.is_none() {
            *connection = self.listen().await;
            just_made = connection.is_some();
        }
        if just_made {
            // What was said before was not heard: the caller looks again.
            return;
        }
        let Some(listening) = connection.as_mut() else {
            tokio::time::sleep(at_most).await;
            return;
        };
        // Silence is not the end of the connection.
        if let Ok(None) = tokio::time::timeout(at_most, listening.notified()).await {
            *connection = None;
        }
    }

    async fn listen(&self) -> Option<Dedicated> {
        let connection = self.database.dedicated().await.ok()?;
        connection.client().batch_execute(LISTEN).await.ok()?;
        Some(connection)
    }
}

impl std::fmt::Debug for Ears {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ears").field(&self.database).finish()
    }
}
