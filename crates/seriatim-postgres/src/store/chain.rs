//! The chains of feeds: the last change of each object that a checkpoint has passed.

use deadpool_postgres::{GenericClient, Transaction};
use seriatim::name::FeedName;
use seriatim::store::{Chained, StoreError};
use seriatim::value::Key;

use super::{parked, rows};
use crate::database::Database;
use crate::migrate::{Component, Upgrade};

pub(super) const COMPONENT: Component = Component {
    name: "chain",
    migrations: &[include_str!("../../migrations/chain/0001_chain.sql")],
    upgrade: Upgrade::Rest,
};
const NOTE: &str = include_str!("../../queries/chain_note.sql");
const READ: &str = include_str!("../../queries/chain_read.sql");

/// Notes what a checkpoint passes. Belongs into its transaction, after the lease's row is locked.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    database: &Database,
    feed: &FeedName,
    chained: &[Chained],
) -> Result<(), tokio_postgres::Error> {
    if chained.is_empty() {
        return Ok(());
    }
    let objects: Vec<Vec<u8>> = chained.iter().map(|chained| parked::object(&chained.key)).collect();
    let ids: Vec<i64> = chained.iter().map(|chained| chained.id.cast_signed()).collect();
    let statement = transaction.prepare_cached(&database.sql(NOTE)).await?;
    transaction.execute(&statement, &[&feed.as_str(), &objects, &ids]).await.map(drop)
}

/// The last change of each of these objects.
pub(super) async fn read(
    database: &Database,
    feed: &FeedName,
    keys: &[Key],
) -> Result<Vec<Option<u64>>, StoreError> {
    let objects: Vec<Vec<u8>> = keys.iter().map(parked::object).collect();
    let found = database.query("reading a chain in", READ, &[&feed.as_str(), &objects]).await?;
    found.iter().map(|row| Ok(rows::get::<Option<i64>>(row, 0)?.map(i64::cast_unsigned))).collect()
}
