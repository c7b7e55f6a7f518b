//! Changing which leases a feed has: the number of its partitions.

use seriatim::lease::{Lease, LeaseView, Reshape};
use seriatim::name::{FeedName, Partition};
use seriatim::store::StoreError;
use seriatim::value::Key;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::checkpoint::{Fence, Right, closed};
use super::{channel, parked, rows};
use crate::database::Database;

const PARTS: &str = include_str!("../../queries/lease_parts.sql");
const SET: &str = include_str!("../../queries/lease_set_parts.sql");
const INSERT: &str = include_str!("../../queries/lease_insert_parts.sql");
const REMOVE: &str = include_str!("../../queries/lease_remove.sql");
const RESHAPED: &str = include_str!("../../queries/feed_reshaped.sql");
const NOTIFY: &str = include_str!("../../queries/notify.sql");
const ADOPT_LOCK: &str = include_str!("../../queries/parked_adopt_lock.sql");
const ADOPT: &str = include_str!("../../queries/parked_adopt.sql");

const DOING: &str = "changing the partitions of a feed in";

/// Whether the leases of a feed are those that were seen, with the same parts, and free where they must be.
fn are_as_seen(now: &[Row], seen: &[LeaseView], free: &[Partition]) -> Result<bool, StoreError> {
    if now.len() != seen.len() {
        return Ok(false);
    }
    for (row, seen) in now.iter().zip(seen) {
        let (partition, is_owned) = (Partition(rows::small(row, 0)?), row.get::<_, bool>(2));
        let is_same = partition == seen.id.partition && rows::part(row, 1)? == seen.part;
        if !is_same || (is_owned && free.contains(&partition)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A reshape as columns of the statements' parameters.
#[derive(Default)]
struct Columns {
    marked: Vec<i32>,
    parts: Vec<String>,
    gone: Vec<i32>,
    born: Vec<i32>,
    starts: Vec<String>,
    born_parts: Vec<String>,
}

impl Columns {
    fn of(reshape: &Reshape) -> Self {
        let number = |partition: &Partition| partition.0.cast_signed();
        let mut columns = Columns { gone: reshape.gone.iter().map(number).collect(), ..Columns::default() };
        for (partition, part) in &reshape.marked {
            columns.marked.push(number(partition));
            columns.parts.push(rows::to_json(part));
        }
        for (partition, part, start) in &reshape.born {
            columns.born.push(number(partition));
            columns.starts.push(start.to_string());
            columns.born_parts.push(rows::to_json(part));
        }
        columns
    }
}

/// Changes which leases a feed has, if they are as they were seen.
pub(super) async fn reshape(
    database: &Database,
    feed: &FeedName,
    seen: &[LeaseView],
    reshape: &Reshape,
) -> Result<bool, StoreError> {
    let (name, Columns { marked, parts, gone, born, starts, born_parts }) =
        (feed.as_str(), Columns::of(reshape));
    let error = |cause| StoreError::from(database.error(DOING, cause));
    let mut client = database.client().await?;
    let transaction = client.transaction().await.map_err(error)?;
    transaction.execute(&*database.sql(RESHAPED), &[&name]).await.map_err(error)?;
    let now = transaction.query(&*database.sql(PARTS), &[&name]).await.map_err(error)?;
    if !are_as_seen(&now, seen, &reshape.free)? {
        transaction.rollback().await.map_err(error)?;
        return Ok(false);
    }
    let statements: [(&str, &[&(dyn ToSql + Sync)]); 3] = [
        (SET, &[&name, &marked, &parts]),
        (REMOVE, &[&name, &gone]),
        (INSERT, &[&name, &born, &starts, &born_parts]),
    ];
    for (statement, parameters) in statements {
        transaction.execute(&*database.sql(statement), parameters).await.map_err(error)?;
    }
    transaction.query_one(&*database.sql(NOTIFY), &[&channel(database)]).await.map_err(error)?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

/// Makes parked objects those of a lease's partition, if it is still its owner's.
pub(super) async fn adopt(database: &Database, lease: &Lease, keys: &[Key]) -> Result<Fence, StoreError> {
    const DOING: &str = "adopting parked objects in";
    let objects: Vec<Vec<u8>> = keys.iter().map(parked::object).collect();
    let Right { feed, partition, session, epoch } = Right::of(lease);
    let mut client = database.client().await?;
    let adopt = async {
        let transaction = client.transaction().await?;
        transaction.query(&*database.sql(ADOPT_LOCK), &[&feed, &partition, &objects]).await?;
        // A statement of its own: it sees what is so under the locks.
        let parameters: [&(dyn ToSql + Sync); 5] = [&feed, &partition, &session, &epoch, &objects];
        let mine: bool = transaction.query_one(&*database.sql(ADOPT), &parameters).await?.get(0);
        transaction.commit().await?;
        Ok(mine)
    };
    let mine = adopt.await.map_err(|cause| StoreError::from(database.error(DOING, cause)))?;
    drop(client);
    if mine { Ok(Fence::Open) } else { closed(database, lease).await }
}
