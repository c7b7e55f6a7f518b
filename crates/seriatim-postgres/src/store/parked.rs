//! Parked objects, and the changes that wait for them.

use deadpool_postgres::Transaction;
use seriatim::change::Change;
use seriatim::lease::Lease;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{ParkedFailure, ParkedObject, Parking, StoreError};
use seriatim::value::{Columns, Key, Row};

use super::checkpoint::partition;
use super::rows;
use crate::database::Database;

const FAILED: &str = include_str!("../../queries/parked_failed.sql");
const WAITING: &str = include_str!("../../queries/parked_waiting.sql");
const CHANGE_INSERT: &str = include_str!("../../queries/parked_change_insert.sql");
const LIST: &str = include_str!("../../queries/parked_list.sql");
const CHANGES: &str = include_str!("../../queries/parked_changes.sql");

/// Objects to park, each once, as columns of a statement's parameters.
#[derive(Default)]
struct Objects {
    objects: Vec<Vec<u8>>,
    keys: Vec<String>,
    errors: Vec<String>,
    attempts: Vec<i32>,
}

impl Objects {
    fn add(&mut self, object: &[u8], key: &Key, failure: Option<&ParkedFailure>) {
        let error = failure.map_or_else(String::new, |failure| rows::text(&failure.error));
        let attempts = failure.map_or(0, |failure| failure.attempts.cast_signed());
        match self.objects.iter().position(|known| known == object) {
            // The last failure is the one to show.
            Some(place) => (self.errors[place], self.attempts[place]) = (error, attempts),
            None => {
                self.objects.push(object.to_owned());
                self.keys.push(rows::to_json(key));
                self.errors.push(error);
                self.attempts.push(attempts);
            }
        }
    }
}

/// Keeps changes, and their objects as parked. Belongs into the checkpoint's transaction.
pub(crate) async fn park(
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
        let Objects { objects, keys, errors, attempts } = &failed;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&feed, &partition, objects, keys, errors, attempts];
        transaction.execute(&*database.sql(FAILED), &parameters).await?;
    }
    if !waiting.objects.is_empty() {
        let Objects { objects, keys, .. } = &waiting;
        transaction.execute(&*database.sql(WAITING), &[&feed, &partition, objects, keys]).await?;
    }
    if !ids.is_empty() {
        transaction.execute(&*database.sql(CHANGE_INSERT), &[&feed, &objects, &ids, &changes]).await?;
    }
    Ok(())
}

/// A key is found by its values: what its columns are called may change.
fn object(key: &Key) -> Vec<u8> {
    rows::to_json(&key.row().values()).into_bytes()
}

fn no_key() -> Key {
    Key::new(Row::new(Columns::new::<&str>([]), []))
}

/// The parked objects of a feed, oldest first.
pub(super) async fn list(
    database: &Database,
    feed: &FeedName,
    partition: Option<Partition>,
) -> Result<Vec<ParkedObject>, StoreError> {
    let partition = partition.map(|partition| partition.0.cast_signed());
    let listed = database.query("listing what is parked in", LIST, &[&feed.as_str(), &partition]).await?;
    let object = |row| {
        Ok(ParkedObject {
            feed: feed.clone(),
            partition: Partition(rows::small(row, 0)?),
            key: rows::json(row, 1)?,
            failure: ParkedFailure { error: rows::get(row, 2)?, attempts: rows::small(row, 3)? },
            since: rows::time(row, 4)?,
            waiting: rows::number(row, 5)?,
        })
    };
    listed.iter().map(object).collect()
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
