//! Waiting for others without standing in anybody's way.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::error::Fault;
use super::errors::Names;

/// How long writers that waited behind a try have before the next one.
const PAUSE: Duration = Duration::from_millis(500);

/// Tries again to install something on a table that others use. The wait for a lock on it is short, because writers wait behind
/// it: whoever cannot have it makes way for them.
pub(crate) struct Patience {
    tries_left: usize,
}

impl Patience {
    /// As long as an operator would wait.
    pub(crate) fn new() -> Self {
        Patience { tries_left: 9 }
    }

    /// Waits, and says that another try is due. An error that no lock was to blame for comes back, and so does the last one.
    pub(crate) async fn again(&mut self, fault: Fault, names: &Names) -> Result<(), Fault> {
        if self.tries_left == 0 || !in_the_way(&fault) {
            return Err(fault);
        }
        self.tries_left -= 1;
        tracing::info!(feed = %names.feed, table = %names.table,
            "another session holds a lock on the table: trying again");
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// Whether another session's lock was in the way, and nothing else.
pub(crate) fn in_the_way(fault: &Fault) -> bool {
    let Fault::Postgres(cause) = fault else { return false };
    let code = cause.code();
    code == Some(&SqlState::LOCK_NOT_AVAILABLE) || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}
