//! Leases: one for each partition of each feed.

use seriatim::change::Position;
use seriatim::lease::{Lease, LeaseId, LeaseView, Owner};
use seriatim::name::{FeedName, HostName, Partition};
use seriatim::store::{EnsureError, OnRewind, Renewal, Session, StoreError};
use tokio_postgres::Row;

use super::checkpoint::{Right, partition};
use super::{channel, rows};
use crate::database::Database;

const FEED_LIST: &str = include_str!("../../queries/feed_list.sql");
const FEED_SIZE: &str = include_str!("../../queries/feed_size.sql");
const FEED_INSERT: &str = include_str!("../../queries/feed_insert.sql");
const FEED_PARTITIONS: &str = include_str!("../../queries/feed_partitions.sql");
const FEED_FORGET: &str = include_str!("../../queries/feed_forget.sql");
const INSERT: &str = include_str!("../../queries/lease_insert.sql");
const ACQUIRE: &str = include_str!("../../queries/lease_acquire.sql");
const RENEW: &str = include_str!("../../queries/lease_renew.sql");
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
            transaction.commit().await?;
        }
        Ok(existing.cast_unsigned())
    };
    let existing = made.await.map_err(|cause| StoreError::from(database.error(DOING, cause)))?;
    if existing != partitions {
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

/// Takes a lease that is as it was seen, for a session that holds its host's name.
pub(super) async fn acquire(
    database: &Database,
    session: &Session,
    seen: &LeaseView,
) -> Result<Option<Lease>, StoreError> {
    let lease = Seen::of(seen);
    let (host, me, version) = (session.host.as_str(), session.id.as_str(), seen.version.cast_signed());
    let taken = database
        .query(
            "acquiring a lease in",
            ACQUIRE,
            &[&lease.feed, &lease.partition, &host, &me, &lease.epoch, &lease.session, &version],
        )
        .await?;
    let lease = |row: &Row| {
        let (epoch, position) = (rows::epoch(row, 0)?, rows::position(row, 1)?);
        Ok(Lease { id: seen.id.clone(), session: session.id.clone(), epoch, position })
    };
    taken.first().map(lease).transpose()
}

/// Counts the heartbeat up and moves the versions of these leases, in one statement.
pub(super) async fn renew(
    database: &Database,
    session: &Session,
    leases: &[Lease],
) -> Result<Vec<Renewal>, StoreError> {
    let running: Vec<&str> = session.feeds.iter().map(FeedName::as_str).collect();
    let feeds: Vec<&str> = leases.iter().map(|lease| lease.id.feed.as_str()).collect();
    let partitions: Vec<i32> = leases.iter().map(|lease| partition(&lease.id)).collect();
    let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.0.cast_signed()).collect();
    let (host, me, troubles) = (session.host.as_str(), session.id.as_str(), rows::to_json(&session.troubles));
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&host, &me, &running, &feeds, &partitions, &epochs, &troubles];
    let kept = database.query("renewing leases in", RENEW, &parameters).await?;
    let mut renewals = vec![Renewal::Lost; leases.len()];
    for row in &kept {
        let place = rows::number(row, 0)? as usize;
        if let Some(renewal) = renewals.get_mut(place - 1) {
            *renewal = Renewal::Kept { hand_over_to: rows::maybe_host_name(row, 1)? };
        }
    }
    Ok(renewals)
}

/// Notes who wants a lease that is as it was seen, unless somebody else has asked.
pub(super) async fn request_hand_over(
    database: &Database,
    seen: &LeaseView,
    to: &HostName,
) -> Result<bool, StoreError> {
    let lease = Seen::of(seen);
    let asked = database
        .query(
            "asking for a lease in",
            REQUEST,
            &[&lease.feed, &lease.partition, &lease.epoch, &lease.session, &to.as_str(), &channel(database)],
        )
        .await?;
    Ok(!asked.is_empty())
}

/// Sets a lease free, if it is still this owner's.
pub(super) async fn release(
    database: &Database,
    lease: &Lease,
    keep_for: Option<&HostName>,
) -> Result<(), StoreError> {
    let right = Right::of(lease);
    let keep_for = keep_for.map(HostName::as_str);
    database
        .query(
            "releasing a lease in",
            RELEASE,
            &[&right.feed, &right.partition, &right.session, &right.epoch, &keep_for, &channel(database)],
        )
        .await?;
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
        for statement in [FEED_FORGET, FORGET, PARKED_FORGET, DISCARDED_FORGET, CHAIN_FORGET] {
            transaction.execute(&*database.sql(statement), &[&feed.as_str()]).await?;
        }
        transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await?;
        transaction.commit().await
    };
    forgotten.await.map_err(|cause| database.error("forgetting a feed in", cause).into())
}
