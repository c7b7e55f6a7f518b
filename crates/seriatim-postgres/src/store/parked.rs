//! Parked objects, and the changes that wait for them.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use seriatim::change::Change;
use seriatim::lease::Lease;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{
    Checkpoint, ParkedCount, ParkedFailure, ParkedObject, ParkedPage, ParkedState, Parking, StoreError,
    Unparking,
};
use seriatim::value::{Columns, Key, Row};
use tokio_postgres::types::ToSql;

use super::checkpoint::partition;
use super::{chain, channel, rows};
use crate::database::Database;

const FAILED: &str = include_str!("../../queries/parked_failed.sql");
const WAITING: &str = include_str!("../../queries/parked_waiting.sql");
const CHANGE_INSERT: &str = include_str!("../../queries/parked_change_insert.sql");
const RESUME: &str = include_str!("../../queries/parked_resume.sql");
const TAKE_OUT: &str = include_str!("../../queries/parked_take_out.sql");
const SETTLE: &str = include_str!("../../queries/parked_settle.sql");
const LOCK: &str = include_str!("../../queries/parked_lock.sql");
const RETRY: &str = include_str!("../../queries/parked_retry.sql");
const LIST: &str = include_str!("../../queries/parked_list.sql");
const PAGE: &str = include_str!("../../queries/parked_page.sql");
const COUNT: &str = include_str!("../../queries/parked_count.sql");
const READ: &str = include_str!("../../queries/parked_read.sql");
const CHANGES: &str = include_str!("../../queries/parked_changes.sql");

/// Objects to park, each once, as columns of a statement's parameters.
#[derive(Default)]
struct Objects {
    objects: Vec<Vec<u8>>,
    keys: Vec<String>,
    errors: Vec<String>,
    attempts: Vec<i32>,
    retrying: Vec<bool>,
    next_try: Vec<Option<Timestamp>>,
}

impl Objects {
    fn add(&mut self, object: &[u8], key: &Key, failure: Option<&ParkedFailure>) {
        let error = failure.map_or_else(String::new, |failure| rows::text(&failure.error));
        let attempts = failure.map_or(0, |failure| failure.attempts.cast_signed());
        let retrying = failure.is_none_or(|failure| failure.state == ParkedState::Retrying);
        let next_try = failure.and_then(|failure| failure.next_try);
        match self.objects.iter().position(|known| known == object) {
            // The last failure is the one to show.
            Some(place) => {
                (self.errors[place], self.attempts[place], self.retrying[place]) =
                    (error, attempts, retrying);
                self.next_try[place] = next_try;
            }
            None => {
                self.objects.push(object.to_owned());
                self.keys.push(rows::to_json(key));
                self.errors.push(error);
                self.attempts.push(attempts);
                self.retrying.push(retrying);
                self.next_try.push(next_try);
            }
        }
    }
}

/// Takes out what is done, then parks, and notes what a chain needs. Belongs into the checkpoint's transaction, after the lease's row is locked.
pub(crate) async fn carry_out(
    transaction: &Transaction<'_>,
    database: &Database,
    lease: &Lease,
    checkpoint: &Checkpoint,
) -> Result<(), tokio_postgres::Error> {
    let feed = &lease.id.feed;
    if !checkpoint.resumed.is_empty() {
        let objects: Vec<Vec<u8>> = checkpoint.resumed.iter().map(object).collect();
        execute(transaction, database, RESUME, &[&feed.as_str(), &objects]).await?;
    }
    unpark(transaction, database, feed, &checkpoint.unparked).await?;
    park(transaction, database, lease, &checkpoint.parked).await?;
    chain::note(transaction, database, &lease.id.feed, &checkpoint.chained).await
}

/// Takes changes out, and the objects of which nothing is left.
async fn unpark(
    transaction: &Transaction<'_>,
    database: &Database,
    feed: &FeedName,
    unparked: &[Unparking],
) -> Result<(), tokio_postgres::Error> {
    if unparked.is_empty() {
        return Ok(());
    }
    let (mut of, mut ids) = (Vec::new(), Vec::new());
    for done in unparked {
        of.extend(done.ids.iter().map(|_| object(&done.key)));
        ids.extend(done.ids.iter().map(|id| id.cast_signed()));
    }
    let objects: Vec<Vec<u8>> = unparked.iter().map(|done| object(&done.key)).collect();
    execute(transaction, database, TAKE_OUT, &[&feed.as_str(), &of, &ids]).await?;
    execute(transaction, database, SETTLE, &[&feed.as_str(), &objects]).await
}

/// Keeps changes, and their objects as parked.
async fn park(
    transaction: &Transaction<'_>,
    database: &Database,
    lease: &Lease,
    parked: &[Parking],
) -> Result<(), tokio_postgres::Error> {
    let (mut failed, mut waiting) = (Objects::default(), Objects::default());
    let (mut objects, mut ids, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    for Parking { change, failure } in parked {
        let key = change.key.clone().unwrap_or_else(no_key);
        let object = object(&key);
        let kind = if failure.is_some() { &mut failed } else { &mut waiting };
        kind.add(&object, &key, failure.as_ref());
        objects.push(object);
        ids.push(change.id.cast_signed());
        changes.push(rows::to_json(change));
    }
    let (feed, partition) = (lease.id.feed.as_str(), partition(&lease.id));
    if !failed.objects.is_empty() {
        let Objects { objects, keys, errors, attempts, retrying, next_try } = &failed;
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&feed, &partition, objects, keys, errors, attempts, retrying, next_try];
        execute(transaction, database, FAILED, &parameters).await?;
    }
    if !waiting.objects.is_empty() {
        let Objects { objects, keys, .. } = &waiting;
        execute(transaction, database, WAITING, &[&feed, &partition, objects, keys]).await?;
    }
    if !ids.is_empty() {
        execute(transaction, database, CHANGE_INSERT, &[&feed, &objects, &ids, &changes]).await?;
    }
    Ok(())
}

async fn execute(
    transaction: &Transaction<'_>,
    database: &Database,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<(), tokio_postgres::Error> {
    let statement = transaction.prepare_cached(&database.sql(sql)).await?;
    transaction.execute(&statement, parameters).await.map(drop)
}

/// The rows of a statement that is prepared once on each connection: while a lease's row is locked, every round trip counts.
pub(super) async fn query(
    transaction: &Transaction<'_>,
    database: &Database,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(&database.sql(sql)).await?;
    transaction.query(&statement, parameters).await
}

/// A key as it is found by: what its columns are called may change.
pub(super) fn object(key: &Key) -> Vec<u8> {
    key.identity().into_bytes()
}

fn no_key() -> Key {
    Key::new(Row::new(Columns::new::<&str>([]), []))
}

/// The partitions in which an object is parked, or any, whose leases' rows are locked from now on.
pub(super) struct Locked {
    pub(super) partitions: Vec<i32>,
    /// One of them has an owner.
    pub(super) owned: bool,
}

/// Locks the leases of the partitions in which an object is parked, or any. Nobody else changes what is parked there until the
/// transaction ends; what is there now, only a later statement sees.
pub(super) async fn lock(
    transaction: &Transaction<'_>,
    database: &Database,
    feed: &FeedName,
    object: Option<&[u8]>,
) -> Result<Locked, tokio_postgres::Error> {
    let leases = query(transaction, database, LOCK, &[&feed.as_str(), &object]).await?;
    let partitions = leases.iter().map(|row| row.get(0)).collect();
    Ok(Locked { partitions, owned: leases.iter().any(|row| row.get(1)) })
}

/// Marks one object or all of them to be tried again, and lets their owners know.
pub(super) async fn retry(
    database: &Database,
    feed: &FeedName,
    key: Option<&Key>,
) -> Result<u64, StoreError> {
    let object = key.map(object);
    let mut client = database.client().await?;
    let marked = async {
        let transaction = client.transaction().await?;
        let Locked { partitions, .. } = lock(&transaction, database, feed, object.as_deref()).await?;
        let parameters: [&(dyn ToSql + Sync); 4] = [&feed.as_str(), &object, &partitions, &channel(database)];
        let marked = query(&transaction, database, RETRY, &parameters).await?;
        transaction.commit().await?;
        Ok(marked.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    };
    marked.await.map_err(|cause| database.error("marking parked objects in", cause).into())
}

/// The parked objects of a feed, oldest first.
pub(super) async fn list(
    database: &Database,
    feed: &FeedName,
    partition: Option<Partition>,
) -> Result<Vec<ParkedObject>, StoreError> {
    let partition = partition.map(|partition| partition.0.cast_signed());
    let listed = database.query("listing what is parked in", LIST, &[&feed.as_str(), &partition]).await?;
    listed.iter().map(|row| parked_object(feed, row)).collect()
}

/// Some of the parked objects of a feed, in the order of the index by which they are found.
pub(super) async fn page(
    database: &Database,
    feed: &FeedName,
    after: Option<&str>,
    limit: usize,
) -> Result<ParkedPage, StoreError> {
    // One more than a page has tells whether there is another one.
    let limited = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let parameters: [&(dyn ToSql + Sync); 3] = [&feed.as_str(), &after.unwrap_or_default(), &limited];
    let listed = database.query("listing what is parked in", PAGE, &parameters).await?;
    let placed = listed.iter().map(|row| Ok((rows::get(row, 9)?, parked_object(feed, row)?)));
    Ok(ParkedPage::cut(placed.collect::<Result<_, StoreError>>()?, limit))
}

/// How much is parked, if it is not more than so many.
pub(super) async fn count(
    database: &Database,
    feed: &FeedName,
    most: u64,
) -> Result<ParkedCount, StoreError> {
    let limited = i64::try_from(most).unwrap_or(i64::MAX);
    let counted = database.query("counting what is parked in", COUNT, &[&feed.as_str(), &limited]).await?;
    let Some(row) = counted.first() else { return Ok(ParkedCount::default()) };
    Ok(ParkedCount {
        objects: rows::number(row, 0)?,
        changes: rows::number(row, 1)?,
        more: rows::get(row, 2)?,
    })
}

/// One parked object.
pub(super) async fn read(
    database: &Database,
    feed: &FeedName,
    key: &Key,
) -> Result<Option<ParkedObject>, StoreError> {
    let found =
        database.query("looking for a parked object in", READ, &[&feed.as_str(), &object(key)]).await?;
    found.first().map(|row| parked_object(feed, row)).transpose()
}

fn parked_object(feed: &FeedName, row: &tokio_postgres::Row) -> Result<ParkedObject, StoreError> {
    let state = if rows::get(row, 4)? { ParkedState::Retrying } else { ParkedState::Parked };
    Ok(ParkedObject {
        feed: feed.clone(),
        partition: Partition(rows::small(row, 0)?),
        key: rows::json(row, 1)?,
        failure: ParkedFailure {
            error: rows::get(row, 2)?,
            attempts: rows::small(row, 3)?,
            state,
            next_try: rows::get(row, 8)?,
        },
        since: rows::time(row, 5)?,
        waiting: rows::number(row, 6)?,
        bytes: rows::number(row, 7)?,
    })
}

/// The changes kept for an object, in order.
pub(super) async fn changes(
    database: &Database,
    feed: &FeedName,
    key: &Key,
    limit: usize,
) -> Result<Vec<Change>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let kept =
        database.query("reading parked changes in", CHANGES, &[&feed.as_str(), &object(key), &limit]).await?;
    kept.iter().map(|row| rows::json(row, 0)).collect()
}
