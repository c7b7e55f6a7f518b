//! Leases: one for each partition of each feed.

use rusqlite::{Connection, OptionalExtension, Result};
use seriatim::change::Position;
use seriatim::lease::{Lease, LeaseId, LeaseView, Mark, Owner, Part, Sighting};
use seriatim::name::{Epoch, FeedName, HostName, Partition, SessionId};
use seriatim::store::{DoneAbove, OnRewind, Release, Session};

use super::{hosts, rows};

const FEED_INSERT: &str = include_str!("../../queries/feed_insert.sql");
const FEED_PARTITIONS: &str = include_str!("../../queries/feed_partitions.sql");
const FEED_LIST: &str = include_str!("../../queries/feed_list.sql");
const FEED_FORGET: &str = include_str!("../../queries/feed_forget.sql");
const HOST_JOINED: &str = include_str!("../../queries/host_joined.sql");
const INSERT: &str = include_str!("../../queries/lease_insert.sql");
const LIST: &str = include_str!("../../queries/lease_list.sql");
const READ: &str = include_str!("../../queries/lease_read.sql");
const ACQUIRE: &str = include_str!("../../queries/lease_acquire.sql");
const MOVED: &str = include_str!("../../queries/leases_moved.sql");
const MARK: &str = include_str!("../../queries/leases_mark.sql");
const REQUEST: &str = include_str!("../../queries/lease_request.sql");
const RELEASE: &str = include_str!("../../queries/lease_release.sql");
const REWIND: &str = include_str!("../../queries/lease_rewind.sql");
const FORGET: &str = include_str!("../../queries/lease_forget.sql");

/// In place of the number of partitions of a feed whose leases say themselves which parts they are on.
const RESHAPED: u32 = 0;

/// Whether a feed has the leases it should have.
pub(super) enum Ensured {
    Done,
    OtherCount(u32),
}

/// Adds the leases that a feed lacks.
pub(super) fn ensure(
    connection: &Connection,
    feed: &FeedName,
    partitions: u32,
    start: &Position,
) -> Result<Ensured> {
    connection.execute(FEED_INSERT, (feed.as_str(), partitions))?;
    let existing: u32 = connection.query_row(FEED_PARTITIONS, [feed.as_str()], |row| row.get(0))?;
    if existing == RESHAPED {
        return Ok(Ensured::Done);
    }
    if existing != partitions {
        return Ok(Ensured::OtherCount(existing));
    }
    let start = start.to_string();
    let mut insert = connection.prepare_cached(INSERT)?;
    let mut made = 0;
    for partition in 0..partitions {
        made += insert.execute((feed.as_str(), partition, &start))?;
    }
    if made > 0 {
        have_moved(connection)?;
    }
    Ok(Ensured::Done)
}

/// Tells everybody that leases are not as they were.
pub(super) fn have_moved(connection: &Connection) -> Result<()> {
    connection.prepare_cached(MOVED)?.execute([])?;
    Ok(())
}

/// What [`have_moved`] moves.
pub(super) fn mark(connection: &Connection) -> Result<Mark> {
    let moved: i64 = connection.prepare_cached(MARK)?.query_row([], |row| row.get(0))?;
    Ok(Mark(moved.to_string()))
}

/// All feeds, by name.
pub(super) fn feeds(connection: &Connection) -> Result<Vec<FeedName>> {
    let mut statement = connection.prepare_cached(FEED_LIST)?;
    statement.query_map([], |row| rows::feed_name(row, 0))?.collect()
}

/// The leases of these feeds, by feed and partition.
pub(super) fn list(connection: &Connection, feeds: &[FeedName]) -> Result<Vec<LeaseView>> {
    let mut feeds = feeds.to_vec();
    feeds.sort();
    feeds.dedup();
    let mut leases = Vec::new();
    for feed in &feeds {
        let mut statement = connection.prepare_cached(LIST)?;
        let of_feed = statement.query_map([feed.as_str()], |row| lease_view(feed, row))?;
        for lease in of_feed {
            leases.push(lease?);
        }
    }
    Ok(leases)
}

fn lease_view(feed: &FeedName, row: &rusqlite::Row<'_>) -> Result<LeaseView> {
    let host = rows::optional(row, 1, rows::host_name)?;
    let session = rows::optional(row, 2, rows::session_id)?;
    Ok(LeaseView {
        id: LeaseId { feed: feed.clone(), partition: Partition(row.get(0)?) },
        owner: host.zip(session).map(|(host, session)| Owner { host, session }),
        epoch: rows::epoch(row, 3)?,
        version: rows::number(row, 4)?,
        position: rows::position(row, 5)?,
        hand_over_to: rows::optional(row, 6, rows::host_name)?,
        asked: rows::number(row, 7)?,
        part: rows::part(row, 8)?,
    })
}

/// A lease as it is now, as far as a decision needs it.
struct Current {
    session: Option<SessionId>,
    epoch: Epoch,
    position: Position,
    hand_over_to: Option<HostName>,
    version: u64,
    done: DoneAbove,
    part: Option<Part>,
}

impl Current {
    fn is_as_seen(&self, seen: &LeaseView) -> bool {
        self.epoch == seen.epoch && self.session.as_ref() == seen.owner.as_ref().map(|owner| &owner.session)
    }

    /// Whether the lease is what acquiring it as seen would make of it: then this is the repetition of a lost answer.
    fn was_acquired(&self, by: &SessionId, seen: &LeaseView) -> bool {
        self.epoch == seen.epoch.next() && self.session.as_ref() == Some(by)
    }

    /// The same for a rewind.
    fn was_rewound(&self, to: &Position, seen: &LeaseView) -> bool {
        self.epoch == seen.epoch.next() && self.session.is_none() && self.position == *to
    }

    fn may_be_asked_for(&self, by: &HostName) -> bool {
        self.hand_over_to.as_ref().is_none_or(|first| first == by)
    }

    fn into_lease(self, id: &LeaseId, session: &SessionId, epoch: Epoch) -> Lease {
        let Current { position, done, part, .. } = self;
        Lease { id: id.clone(), session: session.clone(), epoch, position, done, part }
    }
}

fn current(connection: &Connection, id: &LeaseId) -> Result<Option<Current>> {
    let mut statement = connection.prepare_cached(READ)?;
    let current = statement.query_row((id.feed.as_str(), id.partition.0), |row| {
        Ok(Current {
            session: rows::optional(row, 0, rows::session_id)?,
            epoch: rows::epoch(row, 1)?,
            position: rows::position(row, 2)?,
            hand_over_to: rows::optional(row, 3, rows::host_name)?,
            version: rows::number(row, 4)?,
            done: rows::done_above(row, 5)?,
            part: rows::part(row, 6)?,
        })
    });
    current.optional()
}

/// The epoch that a lease has now; `None` when there is no such lease.
pub(super) fn current_epoch(connection: &Connection, id: &LeaseId) -> Result<Option<Epoch>> {
    Ok(current(connection, id)?.map(|current| current.epoch))
}

/// Whether this session and epoch own the lease now.
pub(super) fn is_owned(connection: &Connection, lease: &Lease) -> Result<bool> {
    let current = current(connection, &lease.id)?;
    Ok(current.is_some_and(|now| now.epoch == lease.epoch && now.session.as_ref() == Some(&lease.session)))
}

/// Takes leases that are as they were seen, for a session that holds its host's name.
pub(super) fn acquire_all(
    connection: &Connection,
    session: &Session,
    seen: &[Sighting],
) -> Result<Vec<Option<Lease>>> {
    let (host, id) = (session.host.as_str(), session.id.as_str());
    let joined: bool = connection.query_row(HOST_JOINED, (host, id), |row| row.get(0))?;
    if !joined {
        return Ok(vec![None; seen.len()]);
    }
    let leases = seen.iter().map(|seen| acquire(connection, session, seen)).collect::<Result<Vec<_>>>()?;
    if leases.iter().any(Option::is_some) {
        have_moved(connection)?;
    }
    Ok(leases)
}

fn acquire(connection: &Connection, session: &Session, seen: &Sighting) -> Result<Option<Lease>> {
    let Sighting { lease: seen, beat } = seen;
    let Some(current) = current(connection, &seen.id)? else { return Ok(None) };
    if current.was_acquired(&session.id, seen) {
        let epoch = current.epoch;
        return Ok(Some(current.into_lease(&seen.id, &session.id, epoch)));
    }
    if !current.is_as_seen(seen) || current.version != seen.version {
        return Ok(None);
    }
    // The owner's sign of life counts, not the taker's own.
    if let Some(owner) = seen.owner.as_ref().filter(|owner| owner.session != session.id)
        && let Some(now) = hosts::beat(connection, &owner.session)?
        && Some(now) != *beat
    {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(ACQUIRE)?;
    let (host, id) = (session.host.as_str(), session.id.as_str());
    statement.execute((seen.id.feed.as_str(), seen.id.partition.0, host, id))?;
    Ok(Some(current.into_lease(&seen.id, &session.id, seen.epoch.next())))
}

/// Notes who wants leases that are as they were seen, unless somebody else has asked.
pub(super) fn request_all(connection: &Connection, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>> {
    let mut statement = connection.prepare_cached(REQUEST)?;
    let mut asked = Vec::new();
    for seen in seen {
        let current = current(connection, &seen.id)?;
        let may = current.is_some_and(|current| current.is_as_seen(seen) && current.may_be_asked_for(to));
        if may {
            statement.execute((seen.id.feed.as_str(), seen.id.partition.0, to.as_str()))?;
        }
        asked.push(may);
    }
    if asked.contains(&true) {
        have_moved(connection)?;
    }
    Ok(asked)
}

/// Sets leases free that are still their owner's.
pub(super) fn release_all(connection: &Connection, releases: &[Release]) -> Result<()> {
    let mut statement = connection.prepare_cached(RELEASE)?;
    let mut released = 0;
    for Release { lease, keep_for } in releases {
        let (feed, partition, session, epoch) = owner(lease);
        let keep_for = keep_for.as_ref().map(HostName::as_str);
        released += statement.execute((feed, partition, session, epoch, keep_for))?;
    }
    if released > 0 {
        have_moved(connection)?;
    }
    Ok(())
}

/// Sets the position of a lease that is exactly as it was seen, and frees it under the next epoch.
pub(super) fn rewind(
    connection: &Connection,
    seen: &LeaseView,
    position: &Position,
    parked: OnRewind,
) -> Result<bool> {
    let Some(current) = current(connection, &seen.id)? else { return Ok(false) };
    if current.is_as_seen(seen) && current.version == seen.version {
        connection.execute(REWIND, (seen.id.feed.as_str(), seen.id.partition.0, position.to_string()))?;
        have_moved(connection)?;
        if parked == OnRewind::DropParked {
            super::parked::drop_partition(connection, &seen.id)?;
        }
        return Ok(true);
    }
    Ok(current.was_rewound(position, seen))
}

/// Forgets a feed and its leases.
pub(super) fn forget(connection: &Connection, feed: &FeedName) -> Result<()> {
    connection.execute(FORGET, [feed.as_str()])?;
    connection.execute(FEED_FORGET, [feed.as_str()])?;
    Ok(())
}

/// The parameters by which an owner's statements name the lease and the right to write it.
pub(super) fn owner(lease: &Lease) -> (&str, u32, &str, i64) {
    (lease.id.feed.as_str(), lease.id.partition.0, lease.session.as_str(), lease.epoch.0.cast_signed())
}
