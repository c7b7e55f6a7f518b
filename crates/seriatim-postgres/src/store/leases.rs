//! Leases: one for each partition of each feed.

use seriatim::change::Position;
use seriatim::lease::{Lease, LeaseId, LeaseView, Owner, Sighting};
use seriatim::name::{FeedName, HostName, Partition};
use seriatim::store::{EnsureError, OnRewind, Release, Session, StoreError};
use tokio_postgres::Row;

use super::checkpoint::{Right, partition};
use super::{channel, pause, rows};
use crate::database::Database;

const FEED_LIST: &str = include_str!("../../queries/feed_list.sql");
const FEED_SIZE: &str = include_str!("../../queries/feed_size.sql");
const FEED_INSERT: &str = include_str!("../../queries/feed_insert.sql");
const FEED_PARTITIONS: &str = include_str!("../../queries/feed_partitions.sql");
const FEED_FORGET: &str = include_str!("../../queries/feed_forget.sql");
const INSERT: &str = include_str!("../../queries/lease_insert.sql");
const ACQUIRE: &str = include_str!("../../queries/lease_acquire.sql");
const REQUEST: &str = include_str!("../../queries/lease_request.sql");
const RELEASE: &str = include_str!("../../queries/lease_release.sql");
const REWIND: &str = include_str!("../../queries/lease_rewind.sql");
const REWOUND: &str = include_str!("../../queries/lease_rewound.sql");
const FORGET: &str = include_str!("../../queries/lease_forget.sql");
const PARKED_FORGET: &str = include_str!("../../queries/parked_forget.sql");
const CHAIN_FORGET: &str = include_str!("../../queries/chain_forget.sql");
const DISCARDED_FORGET: &str = include_str!("../../queries/discarded_forget.sql");
const PARKED_DROP: &str = include_str!("../../queries/parked_drop.sql");
const NOTIFY: &str = include_str!("../../queries/notify.sql");

/// In place of the number of partitions of a feed whose leases say themselves which parts they are on.
const RESHAPED: u32 = 0;

/// Adds the leases that a feed lacks.
pub(super) async fn ensure(
    database: &Database,
    feed: &FeedName,
    partitions: u32,
    start: &Position,
) -> Result<(), EnsureError> {
    const DOING: &str = "setting up a feed in";
    let wanted = partitions.cast_signed();
    let known = database.query(DOING, FEED_SIZE, &[&feed.as_str()]).await.map_err(StoreError::from)?;
    if known
        .first()
        .is_some_and(|row| row.get::<_, i32>(0) == wanted && row.get::<_, i64>(1) == i64::from(partitions))
    {
        return Ok(());
    }
    let mut client = database.client().await.map_err(StoreError::from)?;
    let made = async {
        let transaction = client.transaction().await?;
        transaction.execute(&*database.sql(FEED_INSERT), &[&feed.as_str(), &wanted]).await?;
        let row = transaction.query_opt(&*database.sql(FEED_PARTITIONS), &[&feed.as_str()]).await?;
        // Forgotten by somebody else in between: then there is nothing of another size.
        let existing = row.map_or(wanted, |row| row.get(0));
        if existing == wanted {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&feed.as_str(), &wanted, &start.to_string()];
            transaction.execute(&*database.sql(INSERT), &parameters).await?;
            transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
            transaction.commit().await?;
        }
        Ok(existing.cast_unsigned())
    };
    let existing = made.await.map_err(|cause| StoreError::from(database.error(DOING, cause)))?;
    if existing != partitions && existing != RESHAPED {
        return Err(EnsureError::PartitionCount { feed: feed.clone(), existing, wanted: partitions });
    }
    Ok(())
}

/// All feeds, by name.
pub(super) async fn feeds(database: &Database) -> Result<Vec<FeedName>, StoreError> {
    let listed = database.query("listing the feeds of", FEED_LIST, &[]).await?;
    listed.iter().map(|row| rows::feed_name(row, 0)).collect()
}

/// A lease as the store's view returns it.
pub(super) fn lease_view(row: &Row) -> Result<LeaseView, StoreError> {
    let (host, session) = (rows::maybe_host_name(row, 2)?, rows::maybe_session_id(row, 3)?);
    Ok(LeaseView {
        id: LeaseId { feed: rows::feed_name(row, 0)?, partition: Partition(rows::small(row, 1)?) },
        owner: host.zip(session).map(|(host, session)| Owner { host, session }),
        epoch: rows::epoch(row, 4)?,
        version: rows::number(row, 5)?,
        position: rows::position(row, 6)?,
        hand_over_to: rows::maybe_host_name(row, 7)?,
        asked: rows::number(row, 8)?,
        part: rows::part(row, 16)?,
    })
}

/// The parameters by which a statement names a lease as it was seen.
struct Seen<'l> {
    feed: &'l str,
    partition: i32,
    epoch: i64,
    session: Option<&'l str>,
}

impl<'l> Seen<'l> {
    fn of(seen: &'l LeaseView) -> Self {
        Seen {
            feed: seen.id.feed.as_str(),
            partition: partition(&seen.id),
            epoch: seen.epoch.0.cast_signed(),
            session: seen.owner.as_ref().map(|owner| owner.session.as_str()),
        }
    }
}

/// The same for many leases: a list for each parameter.
#[derive(Default)]
struct AllSeen<'l> {
    feeds: Vec<&'l str>,
    partitions: Vec<i32>,
    epochs: Vec<i64>,
    sessions: Vec<Option<&'l str>>,
}

impl<'l> AllSeen<'l> {
    fn of(all: impl Iterator<Item = &'l LeaseView>) -> Self {
        let mut lists = AllSeen::default();
        for Seen { feed, partition, epoch, session } in all.map(Seen::of) {
            lists.feeds.push(feed);
            lists.partitions.push(partition);
            lists.epochs.push(epoch);
            lists.sessions.push(session);
        }
        lists
    }
}

/// Where an answer belongs: its first column counts from one.
fn place(row: &Row) -> Result<usize, StoreError> {
    Ok(rows::number(row, 0)? as usize - 1)
}

/// Takes leases that are as they were seen, for a session that holds its host's name: one statement, however many they are.
pub(super) async fn acquire_all(
    database: &Database,
    session: &Session,
    seen: &[Sighting],
) -> Result<Vec<Option<Lease>>, StoreError> {
    let mut leases = vec![None; seen.len()];
    if seen.is_empty() {
        return Ok(leases);
    }
    let AllSeen { feeds, partitions, epochs, sessions } = AllSeen::of(seen.iter().map(|seen| &seen.lease));
    let versions: Vec<i64> = seen.iter().map(|seen| seen.lease.version.cast_signed()).collect();
    let beats: Vec<Option<i64>> = seen.iter().map(|seen| seen.beat.map(u64::cast_signed)).collect();
    let (host, me) = (session.host.as_str(), session.id.as_str());
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
        [&host, &me, &feeds, &partitions, &epochs, &sessions, &versions, &beats];
    for row in &database.query("acquiring leases in", ACQUIRE, &parameters).await? {
        let place = place(row)?;
        let (epoch, position) = (rows::epoch(row, 1)?, rows::position(row, 2)?);
        let (id, done) = (seen[place].lease.id.clone(), rows::done_above(row, 3)?);
        let part = rows::part(row, 4)?;
        leases[place] = Some(Lease { id, session: session.id.clone(), epoch, position, done, part });
    }
    Ok(leases)
}

/// Notes who wants leases that are as they were seen, unless somebody else has asked.
pub(super) async fn request_all(
    database: &Database,
    seen: &[LeaseView],
    to: &HostName,
) -> Result<Vec<bool>, StoreError> {
    let AllSeen { feeds, partitions, epochs, sessions } = AllSeen::of(seen.iter());
    let (to, channel) = (to.as_str(), channel(database));
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&feeds, &partitions, &epochs, &sessions, &to, &channel];
    let mut asked = vec![false; seen.len()];
    for row in &database.query("asking for leases in", REQUEST, &parameters).await? {
        asked[place(row)?] = true;
    }
    Ok(asked)
}

/// Sets leases free that are still their owners'.
pub(super) async fn release_all(database: &Database, releases: &[Release]) -> Result<(), StoreError> {
    let rights: Vec<Right<'_>> = releases.iter().map(|release| Right::of(&release.lease)).collect();
    let feeds: Vec<&str> = rights.iter().map(|right| right.feed).collect();
    let partitions: Vec<i32> = rights.iter().map(|right| right.partition).collect();
    let sessions: Vec<&str> = rights.iter().map(|right| right.session).collect();
    let epochs: Vec<i64> = rights.iter().map(|right| right.epoch).collect();
    let keep_for: Vec<Option<&str>> =
        releases.iter().map(|release| release.keep_for.as_ref().map(HostName::as_str)).collect();
    let channel = channel(database);
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&feeds, &partitions, &sessions, &epochs, &keep_for, &channel];
    database.query("releasing leases in", RELEASE, &parameters).await?;
    Ok(())
}

/// Sets the position of a lease that is as it was seen, and frees it under the next epoch.
pub(super) async fn rewind(
    database: &Database,
    seen: &LeaseView,
    position: &Position,
    parked: OnRewind,
) -> Result<bool, StoreError> {
    let lease = Seen::of(seen);
    let (position, version) = (position.to_string(), seen.version.cast_signed());
    let mut client = database.client().await?;
    let done = async {
        let transaction = client.transaction().await?;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&lease.feed, &lease.partition, &lease.epoch, &lease.session, &position, &version];
        if transaction.execute(&*database.sql(REWIND), &parameters).await? == 0 {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&lease.feed, &lease.partition, &lease.epoch, &position];
            return Ok(transaction.query_one(&*database.sql(REWOUND), &parameters).await?.get(0));
        }
        // A statement of its own: what an owner parked just before it lost the lease is seen, too.
        if parked == OnRewind::DropParked {
            transaction.execute(&*database.sql(PARKED_DROP), &[&lease.feed, &lease.partition]).await?;
        }
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await?;
        Ok(true)
    };
    done.await.map_err(|cause| database.error("rewinding a lease in", cause).into())
}

/// Forgets a feed, its leases, what is parked and what was discarded.
pub(super) async fn forget(database: &Database, feed: &FeedName) -> Result<(), StoreError> {
    let mut client = database.client().await?;
    let forgotten = async {
        let transaction = client.transaction().await?;
        // The feed and its leases first: whoever ensures it, parks or discards at the same moment is waited for,
        // and then gone too.
        for statement in [FEED_FORGET, FORGET, PARKED_FORGET, DISCARDED_FORGET, CHAIN_FORGET, pause::REMOVE] {
            transaction.execute(&*database.sql(statement), &[&feed.as_str()]).await?;
        }
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await
    };
    forgotten.await.map_err(|cause| database.error("forgetting a feed in", cause).into())
}
