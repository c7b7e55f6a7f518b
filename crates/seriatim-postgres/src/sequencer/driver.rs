//! The loop that calls the database's sequencer.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Shared;
use super::pace::{BUSY, Outcome, pause};
use crate::database::{Database, Dedicated};
use crate::error::PostgresError;

const HOLD: &str = include_str!("../../queries/sequencer_hold.sql");
const LISTEN: &str = include_str!("../../queries/sequencer_listen.sql");
const JOURNAL_TICK: &str = include_str!("../../queries/journal_tick.sql");
const LOG_TICK: &str = include_str!("../../queries/log_tick.sql");

/// A holder that said nothing for a second is replaced (see the query), so this one speaks more often.
const HOLD_EVERY: u32 = 80;

/// Starts the loop. It ends when nobody is left to wake.
pub(super) fn spawn(shared: Weak<Shared>, database: Database) {
    let driver = Driver {
        shared,
        holder: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
        database,
        holds: false,
        has_log: false,
        since_asked: Duration::ZERO,
    };
    tokio::spawn(driver.run());
}

struct Driver {
    shared: Weak<Shared>,
    database: Database,
    holder: String,
    /// This one is the sequencer.
    holds: bool,
    /// There are logs to be sequenced too.
    has_log: bool,
    /// Time slept since it last asked whether it is.
    since_asked: Duration,
}

impl Driver {
    async fn run(mut self) {
        let mut ears = None;
        let mut last = BUSY;
        while let Some(shared) = self.shared.upgrade() {
            if ears.is_none() {
                ears = self.listen().await;
            }
            shared.listening.store(ears.is_some(), Ordering::Relaxed);
            let outcome = self.step().await.unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot tick; trying again");
                self.holds = false;
                Outcome::Failed
            });
            if matches!(outcome, Outcome::Moved | Outcome::Failed) {
                shared.news.send_modify(|news| *news += 1);
            }
            drop(shared);
            last = pause(last, outcome);
            self.since_asked += last.max(BUSY);
            if self.pause(&mut ears, last).await {
                last = BUSY;
            }
        }
    }

    async fn listen(&self) -> Option<Dedicated> {
        let dedicated = self.database.dedicated().await.ok()?;
        dedicated.client().batch_execute(LISTEN).await.ok()?;
        Some(dedicated)
    }

    /// Sleeps, and passes on what others tell meanwhile. Says whether there was anything.
    async fn pause(&self, ears: &mut Option<Dedicated>, pause: Duration) -> bool {
        let Some(dedicated) = ears else {
            tokio::time::sleep(pause).await;
            return false;
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            heard = dedicated.notified() => {
                if heard.is_none() {
                    *ears = None;
                }
                if let Some(shared) = self.shared.upgrade() {
                    shared.news.send_modify(|news| *news += 1);
                }
                if !self.holds {
                    // What others ticked is no reason to hurry: it only has to be passed on.
                    tokio::time::sleep(BUSY).await;
                }
                heard.is_some()
            }
        }
    }

    async fn step(&mut self) -> Result<Outcome, PostgresError> {
        if !self.holds || self.since_asked > BUSY * HOLD_EVERY {
            self.since_asked = Duration::ZERO;
            self.hold().await?;
        }
        if !self.holds {
            return Ok(Outcome::Elsewhere);
        }
        let mut moved = self.tick(JOURNAL_TICK).await?;
        if self.has_log {
            moved = moved.max(self.tick(LOG_TICK).await?);
        }
        Ok(if moved > 0 { Outcome::Moved } else { Outcome::Still })
    }

    async fn hold(&mut self) -> Result<(), PostgresError> {
        let client = self.database.client().await?;
        let function = format!("{}.log_tick()", self.database.schema());
        let row = client.query_one(&*self.database.sql(HOLD), &[&self.holder, &function]).await;
        let row = row.map_err(|cause| self.database.error("sequencing", cause))?;
        (self.holds, self.has_log) = (row.get(0), row.get(1));
        Ok(())
    }

    async fn tick(&self, sql: &str) -> Result<i64, PostgresError> {
        let client = self.database.client().await?;
        let sql = self.database.sql(sql);
        let error = |cause| self.database.error("sequencing", cause);
        let statement = client.prepare_cached(&sql).await.map_err(error)?;
        let moved: Option<i64> = client.query_one(&statement, &[]).await.map_err(error)?.get(0);
        Ok(moved.unwrap_or(0))
    }
}
