//! Hosts: joining, renewing, leaving, and who is there.

use std::io;

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{FeedName, HostName, SessionId};
use seriatim::store::Session;

use super::liveness::{HostLock, HostLocks};
use super::rows;

const BY_NAME: &str = include_str!("../../queries/host_by_name.sql");
const SESSIONS: &str = include_str!("../../queries/host_sessions.sql");
const INSERT: &str = include_str!("../../queries/host_insert.sql");
const DELETE: &str = include_str!("../../queries/host_delete.sql");
const RENEW: &str = include_str!("../../queries/host_renew.sql");
const LIST: &str = include_str!("../../queries/host_list.sql");
const RELEASE_ALL: &str = include_str!("../../queries/lease_release_all.sql");

/// A host that wants to come in.
pub(super) struct Entry {
    host: HostName,
    feeds: String,
    replacing: Option<(SessionId, u64)>,
}

impl Entry {
    pub(super) fn new(host: &HostName, feeds: &[FeedName], replacing: Option<(&SessionId, u64)>) -> Self {
        let replacing = replacing.map(|(session, beat)| (session.clone(), beat));
        Entry { host: host.clone(), feeds: rows::to_json(&feeds), replacing }
    }
}

/// How joining went.
pub(super) enum Joined {
    In { session: SessionId, lock: HostLock },
    Taken { session: SessionId, beat: u64, liveness: Liveness },
    NoLock(io::Error),
}

/// Who holds a name, and what is known about it.
struct Holder {
    session: SessionId,
    beat: u64,
    liveness: Liveness,
}

/// Enters a host under its name, if that is free or may be taken over.
///
/// The lock file is made and the dead are buried inside the write transaction, so no two processes do it at once.
pub(super) fn join(connection: &Connection, locks: &HostLocks, entry: &Entry) -> Result<Joined> {
    let holder = holder(connection, locks, &entry.host)?;
    if let Some(Holder { session, beat, liveness }) = holder {
        // A name changes hands when its holder is dead for sure, or has not beaten since the caller saw it expire.
        let may_be_replaced =
            entry.replacing.as_ref().is_some_and(|seen| (&seen.0, seen.1) == (&session, beat));
        if liveness != Liveness::Dead && !may_be_replaced {
            return Ok(Joined::Taken { session, beat, liveness });
        }
        leave(connection, locks, &session)?;
    }
    bury_the_dead(connection, locks)?;
    let session = SessionId::random();
    let lock = match locks.lock(&session) {
        Ok(lock) => lock,
        Err(cause) => return Ok(Joined::NoLock(cause)),
    };
    connection.execute(INSERT, (entry.host.as_str(), session.as_str(), &entry.feeds))?;
    Ok(Joined::In { session, lock })
}

fn holder(connection: &Connection, locks: &HostLocks, host: &HostName) -> Result<Option<Holder>> {
    let holder = connection.query_row(BY_NAME, [host.as_str()], |row| {
        let session = rows::session_id(row, 0)?;
        let liveness = locks.liveness(&session);
        Ok(Holder { session, beat: rows::number(row, 1)?, liveness })
    });
    holder.optional()
}

/// Takes out all hosts whose process is gone, and the files of sessions that never came in.
fn bury_the_dead(connection: &Connection, locks: &HostLocks) -> Result<()> {
    let mut statement = connection.prepare_cached(SESSIONS)?;
    let joined: Vec<SessionId> =
        statement.query_map([], |row| rows::session_id(row, 0))?.collect::<Result<_>>()?;
    for session in joined.iter().chain(&locks.sessions()) {
        bury_if_dead(connection, locks, session)?;
    }
    Ok(())
}

/// Takes a host out if its process is gone. Its leases then have an owner that is not there: anybody may take them.
pub(super) fn bury_if_dead(connection: &Connection, locks: &HostLocks, session: &SessionId) -> Result<()> {
    if locks.liveness(session) == Liveness::Dead {
        connection.execute(DELETE, [session.as_str()])?;
        locks.remove(session);
    }
    Ok(())
}

/// Takes a host out and sets its leases free.
pub(super) fn leave(connection: &Connection, locks: &HostLocks, session: &SessionId) -> Result<()> {
    connection.execute(DELETE, [session.as_str()])?;
    connection.execute(RELEASE_ALL, [session.as_str()])?;
    locks.remove(session);
    Ok(())
}

/// Counts the heartbeat up. `false` when the name is not this session's any more.
pub(super) fn renew(connection: &Connection, session: &Session) -> Result<bool> {
    let mut statement = connection.prepare_cached(RENEW)?;
    let (feeds, troubles) = (rows::to_json(&session.feeds), rows::to_json(&session.troubles));
    let renewed = statement.execute((session.host.as_str(), session.id.as_str(), feeds, troubles))?;
    Ok(renewed == 1)
}

/// All hosts, by name, with nothing known yet about their processes.
pub(super) fn list(connection: &Connection) -> Result<Vec<HostView>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let hosts = statement.query_map([], |row| {
        Ok(HostView {
            name: rows::host_name(row, 0)?,
            session: rows::session_id(row, 1)?,
            feeds: rows::json(row, 2)?,
            beat: rows::number(row, 3)?,
            seen_at: rows::time(row, 4)?,
            troubles: rows::json(row, 5)?,
            liveness: Liveness::Unknown,
        })
    })?;
    hosts.collect()
}

/// The host with what its lock says.
pub(super) fn judged(host: HostView, locks: &HostLocks) -> HostView {
    HostView { liveness: locks.liveness(&host.session), ..host }
}
