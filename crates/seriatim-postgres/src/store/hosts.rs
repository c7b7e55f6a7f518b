//! Hosts: joining, leaving, and who is there.

use std::time::Duration;

use seriatim::lease::{EXPIRE_UNSAID, HostView, Liveness};
use seriatim::name::{FeedName, HostName, SessionId};
use seriatim::store::{JoinError, Renewal, Session, StoreError};
use tokio_postgres::Row;

use super::presence::{Lock, Presence, lock_key};
use super::{channel, rows};
use crate::database::Database;

const ENTER: &str = include_str!("../../queries/host_enter.sql");
const BY_NAME: &str = include_str!("../../queries/host_by_name.sql");
const DELETE: &str = include_str!("../../queries/host_delete.sql");
const RENEW: &str = include_str!("../../queries/host_renew.sql");
const OLDER: &str = include_str!("../../queries/host_older.sql");
const RETIRE: &str = include_str!("../../queries/host_retire.sql");
const BURY: &str = include_str!("../../queries/host_bury.sql");
const RELEASE_ALL: &str = include_str!("../../queries/lease_release_all.sql");
const NOTIFY: &str = include_str!("../../queries/notify.sql");

/// How often joining is tried when the name's holder comes and goes at the same moment.
const TRIES: usize = 5;

/// Who holds a name.
struct Holder {
    session: SessionId,
    beat: u64,
    expire: Duration,
    lock: Lock,
}

/// Enters a host under its name, if that is free, or its holder is dead for sure or the one to be replaced.
pub(super) async fn join(
    database: &Database,
    presence: &Presence,
    session: Session,
    replacing: Option<(&SessionId, u64)>,
) -> Result<Session, JoinError> {
    let dead = presence.look_twice().await?;
    bury(database, &dead).await?;
    let host = session.host.clone();
    let mut replaced = replacing.map(|(session, beat)| (session.clone(), Some(beat)));
    for _ in 0..TRIES {
        if enter(database, &session, replaced.as_ref()).await? {
            presence.hold(&session.id).await;
            return Ok(session);
        }
        let Some(holder) = holder(database, &host).await? else { continue };
        if dead.contains(&(holder.session.clone(), holder.lock.number)) {
            replaced = Some((holder.session, None));
            continue;
        }
        let liveness = presence.liveness(&holder.session, &holder.lock);
        let Holder { session, beat, expire, .. } = holder;
        return Err(JoinError::NameTaken { host, session, beat, expire, liveness });
    }
    let said = "its holder comes and goes";
    Err(StoreError::unavailable(format!("joining as {host} in {}", database.name()), said).into())
}

/// One try. The old holder's leases are free afterwards.
async fn enter(
    database: &Database,
    session: &Session,
    replacing: Option<&(SessionId, Option<u64>)>,
) -> Result<bool, StoreError> {
    let feeds: Vec<&str> = session.feeds.iter().map(FeedName::as_str).collect();
    let (host, id, key) = (session.host.as_str(), session.id.as_str(), lock_key(&session.id));
    let (replacing, beat) =
        replacing.map(|(session, beat)| (session.as_str(), beat.map(u64::cast_signed))).unzip();
    let beat: Option<i64> = beat.flatten();
    let expire = i64::try_from(session.expire.as_millis()).unwrap_or(i64::MAX);
    let mut client = database.client().await?;
    let entered = async {
        let transaction = client.transaction().await?;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&host, &id, &feeds, &key, &replacing, &beat, &expire];
        if transaction.execute(&*database.sql(ENTER), &parameters).await? == 0 {
            return Ok(false);
        }
        // A statement of its own: a lease that the old session took a moment ago is seen, too.
        if let Some(replaced) = replacing {
            transaction.execute(&*database.sql(RELEASE_ALL), &[&replaced]).await?;
        }
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await?;
        Ok(true)
    };
    entered.await.map_err(|cause| database.error("joining in", cause).into())
}

async fn holder(database: &Database, host: &HostName) -> Result<Option<Holder>, StoreError> {
    let found = database.query("joining in", BY_NAME, &[&host.as_str()]).await?;
    let holder = |row: &Row| {
        let (session, beat) = (rows::session_id(row, 0)?, rows::number(row, 1)?);
        Ok(Holder { session, beat, expire: expire(row, 2)?, lock: Lock::read(row, 3)? })
    };
    found.first().map(holder).transpose()
}

/// How long a host may be silent; one of an older version does not say.
fn expire(row: &Row, column: usize) -> Result<Duration, StoreError> {
    let expire: Option<i64> = rows::get(row, column)?;
    Ok(expire.map_or(EXPIRE_UNSAID, |expire| Duration::from_millis(expire.cast_unsigned())))
}

/// Counts the heartbeat up: one statement, however many leases the host has.
pub(super) async fn renew(database: &Database, session: &Session) -> Result<Renewal, StoreError> {
    let feeds: Vec<&str> = session.feeds.iter().map(FeedName::as_str).collect();
    let (host, me, troubles) = (session.host.as_str(), session.id.as_str(), rows::to_json(&session.troubles));
    let progress = session.progress.cast_signed();
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&host, &me, &feeds, &troubles, &progress];
    let renewed = database.query("renewing a host in", RENEW, &parameters).await?;
    Ok(if renewed.is_empty() { Renewal::Gone } else { Renewal::Kept })
}

/// Takes out the hosts of an older version that are dead or as they were seen, and returns the others.
pub(super) async fn older(
    database: &Database,
    presence: &Presence,
    silent: &[(SessionId, u64)],
) -> Result<Vec<HostView>, StoreError> {
    let found = database.query("looking for older hosts in", OLDER, &[]).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let dead = presence.look_twice().await?;
    let mut left = Vec::new();
    for row in &found {
        let (host, lock) = older_host(row, presence)?;
        let is_silent = silent.iter().any(|(session, beat)| *session == host.session && *beat == host.beat);
        let is_dead = dead.contains(&(host.session.clone(), lock.number));
        if !(is_silent || is_dead) || !retire(database, &host).await? {
            left.push(host);
        }
    }
    Ok(left)
}

fn older_host(row: &Row, presence: &Presence) -> Result<(HostView, Lock), StoreError> {
    let (session, lock) = (rows::session_id(row, 1)?, Lock::read(row, 6)?);
    let liveness = presence.liveness(&session, &lock);
    let host = HostView {
        name: rows::host_name(row, 0)?,
        session,
        feeds: rows::feed_names(row, 2)?,
        beat: rows::number(row, 3)?,
        expire: EXPIRE_UNSAID,
        progress: 0,
        seen_at: rows::time(row, 4)?,
        troubles: rows::json(row, 5)?,
        liveness,
    };
    Ok((host, lock))
}

/// Takes out a host of an older version, and sets its leases free. `false` when it has beaten since.
async fn retire(database: &Database, host: &HostView) -> Result<bool, StoreError> {
    let mut client = database.client().await?;
    let retired = async {
        let transaction = client.transaction().await?;
        let (session, beat) = (host.session.as_str(), host.beat.cast_signed());
        if transaction.execute(&*database.sql(RETIRE), &[&session, &beat]).await? == 0 {
            return Ok(false);
        }
        transaction.execute(&*database.sql(RELEASE_ALL), &[&session]).await?;
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await?;
        Ok(true)
    };
    retired.await.map_err(|cause| database.error("taking an older host out of", cause).into())
}

/// Takes out hosts that have been dead for long. Their leases then have an owner that is not there: anybody may take them.
async fn bury(database: &Database, dead: &[(SessionId, i32)]) -> Result<(), StoreError> {
    if dead.is_empty() {
        return Ok(());
    }
    let (sessions, numbers): (Vec<&str>, Vec<i32>) =
        dead.iter().map(|(session, number)| (session.as_str(), *number)).unzip();
    database.query("joining in", BURY, &[&sessions, &numbers]).await?;
    Ok(())
}

/// Takes a host out and sets its leases free.
pub(super) async fn leave(
    database: &Database,
    presence: &Presence,
    session: &Session,
) -> Result<(), StoreError> {
    let mut client = database.client().await?;
    let left = async {
        let transaction = client.transaction().await?;
        transaction.execute(&*database.sql(DELETE), &[&session.id.as_str()]).await?;
        transaction.execute(&*database.sql(RELEASE_ALL), &[&session.id.as_str()]).await?;
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await
    };
    left.await.map_err(|cause| StoreError::from(database.error("leaving", cause)))?;
    presence.let_go(&session.id);
    Ok(())
}

/// A host as the store's view returns it.
pub(super) fn host_view(row: &Row, presence: &Presence) -> Result<HostView, StoreError> {
    let session = rows::session_id(row, 3)?;
    let liveness: Liveness = presence.liveness(&session, &Lock::read(row, 11)?);
    Ok(HostView {
        name: rows::host_name(row, 0)?,
        session,
        feeds: rows::feed_names(row, 9)?,
        beat: rows::number(row, 5)?,
        expire: expire(row, 14)?,
        progress: rows::number(row, 15)?,
        seen_at: rows::time(row, 10)?,
        troubles: rows::json(row, 13)?,
        liveness,
    })
}
