//! The checkpoint, fenced: the store's own, and the one in a handler's transaction.

use rusqlite::{Connection, Result};
use seriatim::lease::Lease;
use seriatim::name::Epoch;
use seriatim::store::Checkpoint;

use super::{chain, leases, parked};

const CHECKPOINT: &str = include_str!("../../queries/lease_checkpoint.sql");

/// Whether an owner's word counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// It does.
    Open,
    /// The lease has changed hands.
    Closed {
        /// The epoch that it has now.
        by: Epoch,
    },
}

/// Moves the position, takes out what is done and parks, if the lease is still its owner's. Belongs into a write transaction.
pub(crate) fn checkpoint(connection: &Connection, lease: &Lease, checkpoint: &Checkpoint) -> Result<Fence> {
    let (feed, partition, session, epoch) = leases::owner(lease);
    let (position, done) = (checkpoint.position.to_string(), checkpoint.done.to_text());
    let mut statement = connection.prepare_cached(CHECKPOINT)?;
    if statement.execute((feed, partition, session, epoch, position, done))? == 0 {
        return closed(connection, lease);
    }
    for key in &checkpoint.resumed {
        parked::resume(connection, &lease.id.feed, key)?;
    }
    for done in &checkpoint.unparked {
        parked::unpark(connection, &lease.id.feed, done)?;
    }
    for parking in &checkpoint.parked {
        parked::park(connection, lease, parking)?;
    }
    chain::note(connection, &lease.id.feed, &checkpoint.chained)?;
    Ok(Fence::Open)
}

/// Whether [`checkpoint`] would succeed in the same transaction.
pub(crate) fn check_fence(connection: &Connection, lease: &Lease) -> Result<Fence> {
    if leases::is_owned(connection, lease)? { Ok(Fence::Open) } else { closed(connection, lease) }
}

fn closed(connection: &Connection, lease: &Lease) -> Result<Fence> {
    // A feed that was forgotten has no epoch any more; whatever comes, it is later than this owner's.
    let by = leases::current_epoch(connection, &lease.id)?.unwrap_or(lease.epoch.next());
    Ok(Fence::Closed { by })
}
