//! The checkpoint, fenced: the store's own, and the one in a handler's transaction.

use deadpool_postgres::GenericClient;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::Epoch;
use seriatim::store::{Checkpoint, StoreError};

use super::{parked, rows};
use crate::database::Database;

const CHECKPOINT: &str = include_str!("../../queries/lease_checkpoint.sql");
const EPOCH: &str = include_str!("../../queries/lease_epoch.sql");
const DOING: &str = "checkpointing in";

/// Whether an owner's word counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fence {
    /// It does.
    Open,
    /// The lease has changed hands.
    Closed {
        /// The epoch that it has now.
        by: Epoch,
    },
}

/// The parameters by which an owner's statements name the lease and the right to write it.
pub(crate) struct Right<'l> {
    pub(crate) feed: &'l str,
    pub(crate) partition: i32,
    pub(crate) session: &'l str,
    pub(crate) epoch: i64,
}

impl<'l> Right<'l> {
    pub(crate) fn of(lease: &'l Lease) -> Self {
        Right {
            feed: lease.id.feed.as_str(),
            partition: partition(&lease.id),
            session: lease.session.as_str(),
            epoch: lease.epoch.0.cast_signed(),
        }
    }
}

pub(super) fn partition(id: &LeaseId) -> i32 {
    id.partition.0.cast_signed()
}

/// Moves the position, takes out what is done and parks, if the lease is still its owner's: one statement when the position is
/// all there is to it.
pub(super) async fn checkpoint(
    database: &Database,
    lease: &Lease,
    checkpoint: &Checkpoint,
) -> Result<Fence, StoreError> {
    let mut client = database.client().await?;
    let error = |cause| StoreError::from(database.error(DOING, cause));
    let Checkpoint { resumed, parked, unparked, chained, .. } = checkpoint;
    if resumed.is_empty() && parked.is_empty() && unparked.is_empty() && chained.is_empty() {
        let moved = execute(&client, database, lease, checkpoint).await.map_err(error)?;
        drop(client);
        return if moved == 1 { Ok(Fence::Open) } else { closed(database, lease).await };
    }
    let transaction = client.transaction().await.map_err(error)?;
    if execute(&transaction, database, lease, checkpoint).await.map_err(error)? == 0 {
        transaction.rollback().await.map_err(error)?;
        drop(client);
        return closed(database, lease).await;
    }
    // Later statements: what they find is what is so under the lock of the lease's row.
    parked::carry_out(&transaction, database, lease, checkpoint).await.map_err(error)?;
    transaction.commit().await.map_err(error)?;
    Ok(Fence::Open)
}

async fn execute(
    client: &impl GenericClient,
    database: &Database,
    lease: &Lease,
    checkpoint: &Checkpoint,
) -> Result<u64, tokio_postgres::Error> {
    let Right { feed, partition, session, epoch } = Right::of(lease);
    let (position, done) = (checkpoint.position.to_string(), checkpoint.done.to_text());
    let statement = client.prepare_cached(&database.sql(CHECKPOINT)).await?;
    client.execute(&statement, &[&feed, &partition, &session, &epoch, &position, &done]).await
}

/// What a lease that refused its owner looks like now.
pub(super) async fn closed(database: &Database, lease: &Lease) -> Result<Fence, StoreError> {
    let Right { feed, partition, .. } = Right::of(lease);
    let rows = database.query(DOING, EPOCH, &[&feed, &partition]).await?;
    let epoch = rows.first().map(|row| rows::epoch(row, 0)).transpose()?;
    // A feed that was forgotten has no epoch any more; whatever comes, it is later than this owner's.
    Ok(Fence::Closed { by: epoch.unwrap_or(lease.epoch.next()) })
}
