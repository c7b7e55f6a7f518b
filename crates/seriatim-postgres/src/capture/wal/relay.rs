//! The relay: reads the slot while this process has the turn, and appends what it says.

mod run;
mod writing;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

use super::lease::{EVERY, Watch};
use super::message::Malformed;
use super::slot::State;
use super::wire::WireError;
use crate::database::Database;
use crate::error::PostgresError;

const FAULT: &str = include_str!("../../../queries/relay_fault.sql");

/// How long a relay that failed waits before it tries again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A relay that cannot append something, however often it tries, stops after so many tries.
const TRIES: u32 = 8;

/// Fills journals from the server's log, while this process has the turn. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    database: Database,
    running: OnceLock<()>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What ends a run of the relay.
#[derive(Debug, Error)]
enum Ended {
    /// What the server said on the connection that appends.
    #[error("{0}")]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Database(#[from] PostgresError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Another one relays by now, or nobody is to.
    #[error("another host relays by now")]
    Replaced,
    /// Nobody may go on.
    #[error("{fault}")]
    Fault { epoch: i64, fault: String },
}

impl Ended {
    /// What the server said about something that is not going to be otherwise.
    fn refused(&self) -> Option<String> {
        let Ended::Postgres(cause) = self else { return None };
        let said = cause.as_db_error()?;
        // Data that cannot be, and names that are not there; not what locks, resources and connections are to blame for.
        let lasting =
            ["22", "42"].contains(&said.code().code().get(..2)?) && *said.code() != SqlState::UNDEFINED_TABLE;
        lasting.then(|| said.message().to_owned())
    }
}

impl Relay {
    pub(crate) fn new(database: Database) -> Arc<Self> {
        Arc::new(Relay { database, running: OnceLock::new(), task: Mutex::new(None) })
    }

    /// Starts, if it does not run yet.
    pub(crate) fn start(&self) {
        self.running.get_or_init(|| {
            let task = tokio::spawn(drive(self.database.clone()));
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Its connections are closed with it, and with them the server frees the slot and the turn.
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Takes the turn whenever it is to be had, and relays.
async fn drive(database: Database) {
    let holder = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    let (mut watch, mut failures, mut refused) = (Watch::default(), 0u32, 0u32);
    loop {
        let rest = match turn(&database, &holder, &mut watch, &mut failures).await {
            Ok(()) => EVERY.mul_f64(0.4 + fastrand::f64() / 5.0),
            Err(Ended::Replaced) => EVERY,
            Err(Ended::Fault { epoch, fault }) => {
                tracing::error!(database = %database.name(), "{fault}; feeds with capture = \"wal\" stop");
                note(&database, epoch, &fault).await;
                EVERY
            }
            Err(ended) => {
                refused = if ended.refused().is_some() { refused + 1 } else { 0 };
                match ended.refused().filter(|_| refused >= TRIES) {
                    Some(said) => {
                        refused = 0;
                        stop(&database, &said).await;
                    }
                    None => {
                        tracing::warn!(database = %database.name(), error = %ended, "cannot relay the log; trying again")
                    }
                }
                failures += 1;
                (PAUSE.0 * 2u32.saturating_pow(failures.min(10)))
                    .min(PAUSE.1)
                    .mul_f64(0.75 + fastrand::f64() / 2.0)
            }
        };
        tokio::time::sleep(rest).await;
    }
}

/// Relays if it is this one's turn, for as long as that goes well.
async fn turn(database: &Database, holder: &str, watch: &mut Watch, failures: &mut u32) -> Result<(), Ended> {
    let client = database.for_store().client().await?;
    let state = State::of_session(&client, database).await?;
    drop(client);
    match state {
        Some(state) if state.fault.is_none() => {}
        _ => return Ok(()),
    }
    let Some(chance) = watch.look(database).await? else { return Ok(()) };
    let connection = database.dedicated().await?;
    let Some(epoch) = chance.take(&connection, database, holder).await? else { return Ok(()) };
    *watch = Watch::default();
    tokio::select! {
        ended = run::run(database, connection, epoch, failures) => ended,
        lost = super::lease::beat(database.clone(), epoch) => Err(lost.into()),
    }
}

/// Something cannot be appended, however often it is tried.
async fn stop(database: &Database, said: &str) {
    let Ok(client) = database.for_store().client().await else { return };
    if let Ok(Some(state)) = State::read(&client, database).await {
        let fault = format!("the relay cannot append what comes after {} of the log: {said}", state.passed);
        tracing::error!(database = %database.name(), "{fault}; feeds with capture = \"wal\" stop");
        drop(client);
        note(database, state.epoch, &fault).await;
    }
}

/// Notes why nobody may go on, so that all hosts stop.
async fn note(database: &Database, epoch: i64, fault: &str) {
    if let Err(error) = database.for_store().query("stopping the relay of", FAULT, &[&epoch, &fault]).await {
        tracing::warn!(%error, "cannot note why the relay stops; trying again");
    }
}
