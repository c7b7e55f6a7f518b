//! Whose turn it is to relay: one process of all that use the database, whichever store they have.
//!
//! The one that relays holds a lock of its session and gives a sign of life each second. A process that died loses the lock at once;
//! one that stands still is replaced after [`SILENT`]. A wrong guess does no harm: each append names its epoch.

use std::time::Duration;

use seriatim::clock;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::slot::State;
use crate::database::{Database, Dedicated};
use crate::error::PostgresError;

const READ: &str = include_str!("../../../queries/relay_lease_read.sql");
const TAKE: &str = include_str!("../../../queries/relay_lease_take.sql");
const BEAT: &str = include_str!("../../../queries/relay_lease_beat.sql");
const LOCK: &str = include_str!("../../../queries/relay_lock_session.sql");
const EPOCH: &str = include_str!("../../../queries/relay_epoch.sql");
const TERMINATE: &str = include_str!("../../../queries/relay_terminate.sql");

/// How often the relay gives a sign of life, and others look for it.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// A relay that gives none for so long is replaced.
const SILENT: Duration = Duration::from_secs(10);

/// How often, and how many times, the lock of a session that was just ended is asked for.
const LOCK_AGAIN: (Duration, usize) = (Duration::from_millis(50), 40);

/// The last sign of life of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sign {
    epoch: i64,
    beat: i64,
    /// The session that appends.
    pid: i32,
}

/// What is known of the relay that has the turn.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: Option<(Sign, Instant)>,
}

impl Watch {
    /// Notes a sign, and says whether it is the same for too long. Pure, but for the clock.
    fn is_silent(&mut self, sign: Sign, now: Instant) -> bool {
        match self.seen {
            Some((seen, since)) if seen == sign => now.duration_since(since) >= SILENT,
            _ => {
                self.seen = Some((sign, now));
                false
            }
        }
    }

    /// Looks whether the turn is to be had: nobody has it, or the one who had it is dead or silent.
    pub(super) async fn look(&mut self, database: &Database) -> Result<Option<Chance>, PostgresError> {
        let rows = database.for_store().query("looking who relays the log of", READ, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Some(Chance { after: None, dead: true })) };
        let sign = Sign { epoch: row.get(0), pid: row.get(1), beat: row.get(2) };
        let (dead, silent) = (!row.get::<_, bool>(3), self.is_silent(sign, clock::now()));
        Ok((dead || silent).then_some(Chance { after: Some(sign), dead }))
    }
}

/// That the turn is to be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    /// The last sign of life of whoever had it.
    after: Option<Sign>,
    /// Its session is gone.
    dead: bool,
}

impl Chance {
    /// Takes the turn, unless somebody else was quicker. Returns the epoch.
    pub(super) async fn take(
        self,
        connection: &Dedicated,
        database: &Database,
        holder: &str,
    ) -> Result<Option<i64>, tokio_postgres::Error> {
        let client = connection.client();
        let locked: bool = client.query_one(&*database.sql(LOCK), &[]).await?.get(0);
        if self.dead && !locked {
            return Ok(None);
        }
        let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let (epoch, beat) = (self.after.map(|sign| sign.epoch), self.after.map(|sign| sign.beat));
        let taken = client.query_opt(&*database.sql(TAKE), &[&holder, &pid, &epoch, &beat]).await?;
        let Some(epoch) = taken.map(|row| row.get::<_, i64>(0)) else { return Ok(None) };
        if let (false, Some(sign)) = (self.dead, self.after) {
            // It may stand still in the middle of an append, and keep the row locked.
            client.query(TERMINATE, &[&sign.pid]).await?;
        }
        client.execute(&*database.sql(EPOCH), &[&epoch]).await?;
        if !locked {
            self.lock(client, database).await?;
        }
        Ok(Some(epoch))
    }
}

impl Chance {
    /// Locks what the session that was just ended had locked: without it, others would take this one for dead.
    async fn lock(self, client: &Client, database: &Database) -> Result<(), tokio_postgres::Error> {
        for _ in 0..LOCK_AGAIN.1 {
            if client.query_one(&*database.sql(LOCK), &[]).await?.get(0) {
                break;
            }
            tokio::time::sleep(LOCK_AGAIN.0).await;
        }
        Ok(())
    }
}

/// Gives signs of life until the turn is somebody else's, or the database cannot be reached for too long.
pub(super) async fn beat(database: Database, epoch: i64) -> PostgresError {
    let mut last = clock::now();
    loop {
        tokio::time::sleep(EVERY).await;
        let beat = async {
            let client = database.for_store().client().await?;
            let beaten = client.execute(&*database.sql(BEAT), &[&epoch]).await;
            beaten.map_err(|cause| database.error("relaying the log of", cause))
        };
        match beat.await {
            Ok(0) => return PostgresError::busy(database.name(), &"another host relays its log by now"),
            Ok(_) => last = clock::now(),
            Err(error) if last.elapsed() >= SILENT * 9 / 10 => return error,
            Err(error) => tracing::debug!(%error, "no sign of life of the relay; trying again"),
        }
    }
}

/// The relay as the books have it, with this epoch; `None` when it is another one's.
pub(super) async fn state(
    client: &Client,
    database: &Database,
    epoch: i64,
) -> Result<Option<State>, tokio_postgres::Error> {
    let state = State::of_session(client, database).await?;
    Ok(state.filter(|state| state.epoch == epoch && state.fault.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_silent_when_its_sign_of_life_does_not_move() {
        let (now, mut watch) = (clock::now(), Watch::default());
        let sign = |beat| Sign { epoch: 1, beat, pid: 7 };
        assert!(!watch.is_silent(sign(1), now));
        assert!(!watch.is_silent(sign(1), now + SILENT / 2));
        assert!(!watch.is_silent(sign(2), now + SILENT));
        assert!(!watch.is_silent(sign(2), now + SILENT + SILENT / 2));
        assert!(watch.is_silent(sign(2), now + SILENT * 2));
    }
}
