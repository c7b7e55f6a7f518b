//! The task that drives the database's sequencer, or listens to the one that does. All on one connection.

use std::sync::Weak;
use std::time::Duration;

use seriatim::clock;
use tokio::time::Instant;
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;

use super::look::Memory;
use super::news::News;
use super::pace::{BEAT, BUSY, Outcome, SILENT, pause};
use super::{MOVED, Shared, TICK, look};
use crate::database::{Database, Dedicated};
use crate::error::PostgresError;

const HOLD: &str = include_str!("../../queries/sequencer_hold.sql");
const LOCK: &str = include_str!("../../queries/sequencer_lock.sql");
const LISTEN: &str = include_str!("../../queries/sequencer_listen.sql");
const TICK_THOSE: &str = include_str!("../../queries/journal_tick_those.sql");
const LOG_TICK: &str = include_str!("../../queries/log_tick.sql");

/// The channel on which ticks are told; what comes on the other one only says that the sequencer lives.
const TICKS: &str = "seriatim_tick";

/// Starts the task. It ends when nobody is left to wake.
pub(super) fn spawn(shared: Weak<Shared>, database: Database) {
    let holder = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    tokio::spawn(async move {
        let mut last = BUSY;
        while shared.strong_count() > 0 {
            match Driver::connect(&shared, &database, &holder).await {
                Ok(driver) => {
                    let lost = driver.run().await;
                    if let Some(error) = lost {
                        tracing::debug!(%error, "the sequencer's connection is lost; making another");
                        last = BUSY;
                    }
                }
                Err(error) => tracing::debug!(%error, "no connection for the sequencer; trying again"),
            }
            let Some(shared) = shared.upgrade() else { return };
            shared.listening(false);
            // Readers look by themselves: they tell their hosts what is wrong.
            shared.news.send_modify(News::of_all);
            drop(shared);
            last = pause(last, Outcome::Failed);
            tokio::time::sleep(last).await;
        }
    });
}

/// The driver, as long as its connection lives.
struct Driver<'a> {
    shared: &'a Weak<Shared>,
    database: &'a Database,
    holder: &'a str,
    connection: Dedicated,
    hold: Statement,
    /// Looks and ticks. `None` in a database that no host of this version has opened yet.
    journals: Option<(Statement, Statement)>,
    logs: Option<Statement>,
    /// This one is the sequencer.
    holds: bool,
    /// It has the lock that only a living sequencer has.
    locked: bool,
    memory: Memory,
    /// When it last asked whether it is the sequencer.
    asked: Option<Instant>,
}

impl<'a> Driver<'a> {
    async fn connect(
        shared: &'a Weak<Shared>,
        database: &'a Database,
        holder: &'a str,
    ) -> Result<Self, PostgresError> {
        let connection = database.dedicated().await?;
        let hold = async {
            connection.client().batch_execute(LISTEN).await?;
            connection.client().prepare(&database.sql(HOLD)).await
        };
        let hold = hold.await.map_err(|cause| database.error("sequencing", cause))?;
        if let Some(shared) = shared.upgrade() {
            shared.listening(true);
            // What was told before it listened was not heard.
            shared.news.send_modify(News::of_all);
        }
        let (journals, logs, memory, asked) = (None, None, Memory::default(), None);
        let (holds, locked) = (false, false);
        Ok(Driver {
            shared,
            database,
            holder,
            connection,
            hold,
            journals,
            logs,
            holds,
            locked,
            memory,
            asked,
        })
    }

    /// Runs until the connection is lost, and says how; or until nobody is left to wake.
    async fn run(mut self) -> Option<PostgresError> {
        let mut last = BUSY;
        while self.shared.strong_count() > 0 {
            let outcome = self.step().await.map_err(|cause| self.database.error("sequencing", cause));
            match &outcome {
                Ok(_) => {}
                Err(error) if self.connection.is_closed() => return outcome.err(),
                Err(error) => {
                    tracing::debug!(%error, "cannot sequence; trying again");
                    self.memory = Memory::default();
                    self.tell(News::of_all);
                }
            }
            last = pause(last, outcome.unwrap_or(Outcome::Failed));
            let rest = if self.holds { last } else { self.silence() };
            if !self.pause(rest).await {
                return Some(PostgresError::busy(self.database.name(), &"the connection was closed"));
            }
        }
        None
    }

    async fn step(&mut self) -> Result<Outcome, tokio_postgres::Error> {
        let due = match (self.holds, self.asked) {
            (_, None) => true,
            (true, Some(asked)) => asked.elapsed() >= BEAT,
            (false, Some(_)) => self.quiet_for() >= SILENT,
        };
        if due {
            self.hold().await?;
        }
        match (self.holds, self.journals.is_some()) {
            (false, _) => Ok(Outcome::Still),
            (true, true) => self.look_and_tick().await,
            (true, false) => {
                let sql = self.database.sql(TICK);
                let ticked: Option<i64> = self.connection.client().query_one(&*sql, &[]).await?.get(0);
                Ok(if ticked > Some(0) { Outcome::Moved } else { Outcome::Still })
            }
        }
    }

    /// Asks whether this one is the sequencer, and tells the others if it is.
    async fn hold(&mut self) -> Result<(), tokio_postgres::Error> {
        let client = self.connection.client();
        if !self.locked {
            self.locked = client.query_one(&*self.database.sql(LOCK), &[]).await?.get(0);
        }
        let function = format!("{}.log_tick()", self.database.schema());
        let row = client.query_one(&self.hold, &[&self.holder, &function, &self.locked]).await?;
        let (holds, has_log): (bool, bool) = (row.get(0), row.get(1));
        if self.journals.is_none() {
            self.journals = self.prepared(MOVED).await?.zip(self.prepared(TICK_THOSE).await?);
        }
        if self.logs.is_none() && has_log {
            self.logs = self.prepared(LOG_TICK).await?;
        }
        self.holds = holds;
        self.asked = Some(clock::now());
        // Either it is this one, or another one is known to live.
        self.tell(|_| {});
        Ok(())
    }

    async fn prepared(&self, sql: &str) -> Result<Option<Statement>, tokio_postgres::Error> {
        match self.connection.client().prepare(&self.database.sql(sql)).await {
            Ok(statement) => Ok(Some(statement)),
            Err(cause) if cause.code() == Some(&SqlState::UNDEFINED_FUNCTION) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Looks whether something was committed, and ticks it. Everybody hears of it by notifications, this process too.
    async fn look_and_tick(&mut self) -> Result<Outcome, tokio_postgres::Error> {
        let Some((moved, tick)) = &self.journals else { return Ok(Outcome::Still) };
        let client = self.connection.client();
        let Ok(look) = look(client, moved, None, &self.memory.known()).await? else {
            return Ok(Outcome::Still);
        };
        let moved = self.memory.note(look);
        let mut ticked = 0;
        if !moved.is_empty() {
            // Nothing when another session is at it.
            ticked = client.query_one(tick, &[&moved]).await?.get::<_, Option<i64>>(0).unwrap_or(0);
        }
        if let Some(logs) = &self.logs {
            ticked += client.query_one(logs, &[]).await?.get::<_, Option<i64>>(0).unwrap_or(0);
        }
        Ok(if ticked > 0 { Outcome::Moved } else { Outcome::Still })
    }

    /// Passes news on, and notes that the sequencer lives.
    fn tell(&self, what: impl FnOnce(&mut News)) {
        if let Some(shared) = self.shared.upgrade() {
            shared.heard();
            shared.news.send_modify(what);
        }
    }

    fn quiet_for(&self) -> Duration {
        self.shared.upgrade().map_or(Duration::ZERO, |shared| shared.state().heard.elapsed())
    }

    /// How long nothing may be heard from now on before it is time to take over. Not all processes try at once.
    fn silence(&self) -> Duration {
        SILENT.saturating_sub(self.quiet_for()) + Duration::from_millis(fastrand::u64(1..100))
    }

    /// Sleeps, unless a reader waits for a tick, and passes on what is told meanwhile. Says whether the connection still lives.
    async fn pause(&mut self, pause: Duration) -> bool {
        let Some(shared) = self.shared.upgrade() else { return true };
        let sleep = tokio::time::sleep(pause);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => return true,
                () = shared.asked.notified(), if self.holds => return true,
                heard = self.connection.heard() => match heard {
                    Some(heard) => {
                        shared.heard();
                        if heard.missed || heard.channel == TICKS {
                            shared.news.send_modify(|news| news.told(&heard.payload));
                        }
                        if !self.holds {
                            return true;
                        }
                    }
                    None => return false,
                },
            }
        }
    }
}
