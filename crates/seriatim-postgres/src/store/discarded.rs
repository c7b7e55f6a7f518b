//! Discarding what is parked, and remembering that.

use deadpool_postgres::Transaction;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{DISCARDS_KEPT, Discard, Discarded, Discarding, StoreError};
use seriatim::value::Key;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::parked::{self, Locked};
use super::{channel, rows};
use crate::database::Database;

const HEAD: &str = include_str!("../../queries/parked_head.sql");
const DISCARD: &str = include_str!("../../queries/parked_discard.sql");
const GO_ON: &str = include_str!("../../queries/parked_go_on.sql");
const TRIM: &str = include_str!("../../queries/discarded_trim.sql");
const LIST: &str = include_str!("../../queries/discarded_list.sql");

/// A parked object as far as a discard depends on it.
struct Head {
    seq: i64,
    retrying: bool,
    first: Option<i64>,
}

/// Drops what is to be dropped, if the object is as the caller has seen it.
pub(super) async fn discard(
    database: &Database,
    feed: &FeedName,
    key: &Key,
    what: Discard,
    reason: &str,
) -> Result<Discarding, StoreError> {
    let object = parked::object(key);
    let mut client = database.client().await?;
    let discarding = async {
        let transaction = client.transaction().await?;
        let locked = parked::lock(&transaction, database, feed, Some(&object)).await?;
        let head = head(&transaction, database, feed, &object, &locked).await?;
        let as_seen = |head: &Head| head.first == Some(what.first().cast_signed());
        let Some(head) = head.filter(as_seen) else { return Ok(Discarding::Changed) };
        if head.retrying && locked.owned {
            return Ok(Discarding::Busy);
        }
        let dropped = drop_changes(&transaction, database, head.seq, what, reason).await?;
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&head.seq, &feed.as_str(), &locked.partitions, &channel(database)];
        parked::query(&transaction, database, GO_ON, &parameters).await?;
        parked::query(&transaction, database, TRIM, &[&feed.as_str(), &(DISCARDS_KEPT as i64)]).await?;
        transaction.commit().await?;
        Ok(Discarding::Done(dropped))
    };
    discarding.await.map_err(|cause| database.error("discarding parked changes in", cause).into())
}

/// The object as it is now that its lease's row is locked.
async fn head(
    transaction: &Transaction<'_>,
    database: &Database,
    feed: &FeedName,
    object: &[u8],
    locked: &Locked,
) -> Result<Option<Head>, tokio_postgres::Error> {
    let parameters: [&(dyn ToSql + Sync); 3] = [&feed.as_str(), &object, &locked.partitions];
    let found = parked::query(transaction, database, HEAD, &parameters).await?;
    Ok(found.first().map(|row| Head { seq: row.get(0), retrying: row.get(1), first: row.get(2) }))
}

/// Drops the changes and remembers it, and says how many there were.
async fn drop_changes(
    transaction: &Transaction<'_>,
    database: &Database,
    parked: i64,
    what: Discard,
    reason: &str,
) -> Result<u64, tokio_postgres::Error> {
    let only = match what {
        Discard::First(id) => Some(id.cast_signed()),
        Discard::All(_) => None,
    };
    let parameters: [&(dyn ToSql + Sync); 3] = [&parked, &only, &rows::text(reason)];
    let dropped = parked::query(transaction, database, DISCARD, &parameters).await?;
    Ok(dropped.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
}

/// The latest discards of a feed.
pub(super) async fn list(
    database: &Database,
    feed: &FeedName,
    limit: usize,
) -> Result<Vec<Discarded>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let listed = database.query("listing what was discarded in", LIST, &[&feed.as_str(), &limit]).await?;
    let discarded = |row: &Row| {
        Ok(Discarded {
            feed: feed.clone(),
            partition: Partition(rows::small(row, 0)?),
            key: rows::json(row, 1)?,
            first: rows::number(row, 2)?,
            last: rows::number(row, 3)?,
            changes: rows::number(row, 4)?,
            error: rows::get(row, 5)?,
            reason: rows::get(row, 6)?,
            at: rows::time(row, 7)?,
        })
    };
    listed.iter().map(discarded).collect()
}
