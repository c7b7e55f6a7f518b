//! The relay as the books have it, and its slot as the server has it.

use deadpool_postgres::GenericClient;
use seriatim::source::Slot;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::super::error::Fault;
use super::lsn::Lsn;
use crate::database::Database;

const READ: &str = include_str!("../../../queries/relay_read.sql");
const SLOT: &str = include_str!("../../../queries/relay_slot.sql");

/// What the relay's slot and publication are to be called; names of our own where nobody says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotNames {
    pub slot: Option<String>,
    pub publication: Option<String>,
}

/// The relay as the books have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub slot: String,
    pub publication: String,
    /// The publication was there before the relay.
    pub foreign_publication: bool,
    /// The server whose log it reads, and the server's timeline.
    pub system: String,
    pub timeline: i32,
    pub epoch: i64,
    /// The commit of the last transaction that is appended.
    pub committed: Lsn,
    /// Everything that committed before this place is appended, or concerns no journal.
    pub passed: Lsn,
    /// Why nobody may go on.
    pub fault: Option<String>,
}

impl State {
    /// The relay, if there is one in this database.
    pub(crate) async fn read(
        client: &impl GenericClient,
        database: &Database,
    ) -> Result<Option<Self>, Fault> {
        let row = match client.query_opt(&*database.sql(READ), &[]).await {
            Err(cause) if is_not_there(&cause) => return Ok(None),
            row => row?,
        };
        Ok(row.as_ref().map(State::of))
    }

    /// The same on a connection that is not of the pool.
    pub(super) async fn of_session(
        client: &tokio_postgres::Client,
        database: &Database,
    ) -> Result<Option<Self>, tokio_postgres::Error> {
        match client.query_opt(&*database.sql(READ), &[]).await {
            Err(cause) if is_not_there(&cause) => Ok(None),
            row => Ok(row?.as_ref().map(State::of)),
        }
    }

    fn of(row: &Row) -> Self {
        State {
            slot: row.get(0),
            publication: row.get(1),
            foreign_publication: row.get(2),
            system: row.get(3),
            timeline: row.get(4),
            epoch: row.get(5),
            committed: place(row.get(6)),
            passed: place(row.get(7)),
            fault: row.get(8),
        }
    }
}

/// Whether an older version made the tables, or none.
fn is_not_there(cause: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    cause.code().is_some_and(|code| codes.contains(code))
}

/// A place as the server writes it.
pub(super) fn place(text: &str) -> Lsn {
    text.parse().unwrap_or_default()
}

/// A slot as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// It is of this database, and of the plugin that the relay understands.
    pub ours: bool,
    /// The session that reads it.
    pub reader: Option<i32>,
    pub active: bool,
    pub confirmed: Option<Lsn>,
    pub retained: Option<i64>,
    /// The server has forgotten what it should have kept.
    pub lost: bool,
}

impl Found {
    pub(super) async fn read(
        client: &impl GenericClient,
        slot: &str,
    ) -> Result<Option<Self>, tokio_postgres::Error> {
        Ok(client.query_opt(SLOT, &[&slot]).await?.as_ref().map(Found::of))
    }

    /// The same on a connection that is not of the pool.
    pub(super) async fn of_session(
        client: &tokio_postgres::Client,
        slot: &str,
    ) -> Result<Option<Self>, tokio_postgres::Error> {
        Ok(client.query_opt(SLOT, &[&slot]).await?.as_ref().map(Found::of))
    }

    fn of(row: &Row) -> Self {
        Found {
            ours: row.get::<_, Option<&str>>(0) == Some("pgoutput")
                && row.get::<_, Option<bool>>(1) == Some(true),
            active: row.get(2),
            reader: row.get(3),
            confirmed: row.get::<_, Option<&str>>(4).map(place),
            retained: row.get(5),
            lost: row.get(6),
        }
    }
}

/// Why a relay that stands here may not go on with its slot; `None` when it may. Pure.
pub(super) fn fault(state: &State, found: Option<&Found>) -> Option<String> {
    let slot = &state.slot;
    match found {
        None => Some(format!("the replication slot {slot} is gone")),
        Some(found) if !found.ours => {
            Some(format!("the replication slot {slot} is of another database, or of another plugin"))
        }
        Some(found) if found.lost => Some(format!(
            "the server has removed the log that the replication slot {slot} needs (max_slot_wal_keep_size)"
        )),
        // The server is told of places only after they are noted here.
        Some(Found { confirmed: Some(confirmed), .. }) if *confirmed > state.passed => Some(format!(
            "the replication slot {slot} was made anew or moved by somebody else: it begins at {confirmed}, and everything is kept up to {}",
            state.passed
        )),
        Some(_) => None,
    }
}

/// The slot as users see it. One that is gone has no place and keeps nothing.
pub(crate) async fn shown(client: &impl GenericClient, database: &Database) -> Result<Option<Slot>, Fault> {
    let Some(state) = State::read(client, database).await? else { return Ok(None) };
    let found = Found::read(client, &state.slot).await?;
    Ok(Some(match found {
        None => Slot { name: state.slot, retained_bytes: None, confirmed: None, active: false },
        Some(found) => Slot {
            name: state.slot,
            retained_bytes: found.retained.map(|bytes| bytes.max(0).unsigned_abs()),
            confirmed: found.confirmed.map(|place| place.to_string()),
            active: found.active,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(passed: u64) -> State {
        State {
            slot: "s".into(),
            publication: "p".into(),
            foreign_publication: false,
            system: "1".into(),
            timeline: 1,
            epoch: 1,
            committed: Lsn(passed),
            passed: Lsn(passed),
            fault: None,
        }
    }

    fn found(confirmed: u64) -> Found {
        Found {
            ours: true,
            reader: None,
            active: false,
            confirmed: Some(Lsn(confirmed)),
            retained: Some(0),
            lost: false,
        }
    }

    #[test]
    fn a_slot_that_begins_after_what_is_kept_is_refused() {
        assert_eq!(fault(&state(100), Some(&found(100))), None);
        assert_eq!(fault(&state(100), Some(&found(40))), None, "what comes again is passed over");
        assert!(fault(&state(40), Some(&found(100))).unwrap().contains("made anew"));
    }

    #[test]
    fn a_slot_that_is_gone_lost_or_somebody_elses_is_refused() {
        assert!(fault(&state(1), None).unwrap().contains("gone"));
        assert!(fault(&state(1), Some(&Found { lost: true, ..found(1) })).unwrap().contains("removed"));
        assert!(fault(&state(1), Some(&Found { ours: false, ..found(1) })).unwrap().contains("another"));
    }
}
