//! Hosts: joining, renewing, leaving, and who is there.

use std::io;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::lease::{EXPIRE_UNSAID, HostView, Liveness};
use seriatim::name::{HostName, SessionId};
use seriatim::store::{Renewal, Session};

use super::liveness::{HostLock, HostLocks};
use super::{leases, rows};

const BY_NAME: &str = include_str!("../../queries/host_by_name.sql");
const SESSIONS: &str = include_str!("../../queries/host_sessions.sql");
const INSERT: &str = include_str!("../../queries/host_insert.sql");
const DELETE: &str = include_str!("../../queries/host_delete.sql");
const RENEW: &str = include_str!("../../queries/host_renew.sql");
const LIST: &str = include_str!("../../queries/host_list.sql");
const OLDER: &str = include_str!("../../queries/host_older.sql");
const BEAT: &str = include_str!("../../queries/host_beat.sql");
const RELEASE_ALL: &str = include_str!("../../queries/lease_release_all.sql");

/// A host that wants to come in.
pub(super) struct Entry {
    host: HostName,
    session: SessionId,
    feeds: String,
    expire: Duration,
    replacing: Option<(SessionId, u64)>,
}

impl Entry {
    pub(super) fn new(session: &Session, replacing: Option<(&SessionId, u64)>) -> Self {
        Entry {
            host: session.host.clone(),
            session: session.id.clone(),
            feeds: rows::to_json(&session.feeds),
            expire: session.expire,
            replacing: replacing.map(|(session, beat)| (session.clone(), beat)),
        }
    }
}

/// How joining went.
pub(super) enum Joined {
    In { lock: HostLock },
    Taken(Holder),
    NoLock(io::Error),
}

/// Who holds a name, and what is known about it.
pub(super) struct Holder {
    pub(super) session: SessionId,
    pub(super) beat: u64,
    pub(super) expire: Duration,
    pub(super) liveness: Liveness,
}

/// Enters a host under its name, if that is free or may be taken over.
///
/// The lock file is made and the dead are buried inside the write transaction, so no two processes do it at once.
pub(super) fn join(connection: &Connection, locks: &HostLocks, entry: &Entry) -> Result<Joined> {
    if let Some(holder) = holder(connection, locks, &entry.host)? {
        // A name changes hands when its holder is dead for sure, or has not beaten since the caller saw it expire.
        let may_be_replaced =
            entry.replacing.as_ref().is_some_and(|seen| (&seen.0, seen.1) == (&holder.session, holder.beat));
        if holder.liveness != Liveness::Dead && !may_be_replaced {
            return Ok(Joined::Taken(holder));
        }
        leave(connection, locks, &holder.session)?;
    }
    bury_the_dead(connection, locks)?;
    let lock = match locks.lock(&entry.session) {
        Ok(lock) => lock,
        Err(cause) => return Ok(Joined::NoLock(cause)),
    };
    let (host, session, expire) =
        (entry.host.as_str(), entry.session.as_str(), rows::milliseconds(entry.expire));
    connection.execute(INSERT, (host, session, &entry.feeds, expire))?;
    Ok(Joined::In { lock })
}

/// Takes out the hosts of an older version that are dead or as they were seen, and returns the others.
pub(super) fn older(
    connection: &Connection,
    locks: &HostLocks,
    silent: &[(SessionId, u64)],
) -> Result<Vec<HostView>> {
    let mut left = Vec::new();
    for host in query(connection, OLDER)? {
        let host = judged(host, locks);
        let is_silent = silent.iter().any(|(session, beat)| *session == host.session && *beat == host.beat);
        if host.liveness == Liveness::Dead || is_silent {
            leave(connection, locks, &host.session)?;
        } else {
            left.push(host);
        }
    }
    Ok(left)
}

/// The sign of life of a session; nothing when it is not there.
pub(super) fn beat(connection: &Connection, session: &SessionId) -> Result<Option<u64>> {
    let mut statement = connection.prepare_cached(BEAT)?;
    statement.query_row([session.as_str()], |row| rows::number(row, 0)).optional()
}

fn holder(connection: &Connection, locks: &HostLocks, host: &HostName) -> Result<Option<Holder>> {
    let holder = connection.query_row(BY_NAME, [host.as_str()], |row| {
        let session = rows::session_id(row, 0)?;
        let liveness = locks.liveness(&session);
        Ok(Holder { session, beat: rows::number(row, 1)?, expire: expire(row, 2)?, liveness })
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
    leases::have_moved(connection)?;
    locks.remove(session);
    Ok(())
}

/// Counts the heartbeat up: one statement, however many leases the host has.
pub(super) fn renew(connection: &Connection, session: &Session) -> Result<Renewal> {
    let mut statement = connection.prepare_cached(RENEW)?;
    let (feeds, troubles) = (rows::to_json(&session.feeds), rows::to_json(&session.troubles));
    let (host, id, progress) = (session.host.as_str(), session.id.as_str(), session.progress.cast_signed());
    let renewed = statement.execute((host, id, feeds, troubles, progress))?;
    Ok(if renewed == 1 { Renewal::Kept } else { Renewal::Gone })
}

/// All hosts, by name, with nothing known yet about their processes.
pub(super) fn list(connection: &Connection) -> Result<Vec<HostView>> {
    query(connection, LIST)
}

fn query(connection: &Connection, sql: &str) -> Result<Vec<HostView>> {
    let mut statement = connection.prepare_cached(sql)?;
    let hosts = statement.query_map([], |row| {
        Ok(HostView {
            name: rows::host_name(row, 0)?,
            session: rows::session_id(row, 1)?,
            feeds: rows::json(row, 2)?,
            beat: rows::number(row, 3)?,
            expire: expire(row, 6)?,
            progress: rows::number(row, 7)?,
            seen_at: rows::time(row, 4)?,
            troubles: rows::json(row, 5)?,
            liveness: Liveness::Unknown,
        })
    })?;
    hosts.collect()
}

fn expire(row: &rusqlite::Row<'_>, column: usize) -> Result<Duration> {
    let expire: Option<i64> = row.get(column)?;
    Ok(expire.map_or(EXPIRE_UNSAID, |expire| Duration::from_millis(expire.cast_unsigned())))
}

/// The host with what its lock says.
pub(super) fn judged(host: HostView, locks: &HostLocks) -> HostView {
    HostView { liveness: locks.liveness(&host.session), ..host }
}
