//! The source's own books: which tables are watched, and who consumes them.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use seriatim::change::Position;
use seriatim::name::{FeedName, StoreId};
use seriatim::source::Consumer;
use tokio_postgres::Row;

use super::error::Fault;
use super::errors::Names;
use super::kind::Writer;
use super::table::{Column, Table};
use crate::database::Database;
use crate::migrate::{Component, Upgrade};
use seriatim::backend::Kind;

const CAPTURE_FIND: &str = include_str!("../../queries/capture_find.sql");
const CAPTURE_READ: &str = include_str!("../../queries/capture_read.sql");
const CAPTURE_INSERT: &str = include_str!("../../queries/capture_insert.sql");
const CAPTURE_KNOWN: &str = include_str!("../../queries/capture_known.sql");
const CAPTURE_DELETE: &str = include_str!("../../queries/capture_delete.sql");
const CONSUMER_READ: &str = include_str!("../../queries/consumer_read.sql");
const CONSUMER_BY_ID: &str = include_str!("../../queries/consumer_by_id.sql");
const CONSUMER_DELETE: &str = include_str!("../../queries/consumer_delete.sql");
const CONSUMER_INSERT: &str = include_str!("../../queries/consumer_insert.sql");
const CONSUMER_BEGINS: &str = include_str!("../../queries/consumer_begins.sql");
const EXISTS: &str = include_str!("../../queries/relation_exists.sql");

/// The tables and functions that captures share.
pub(crate) const COMPONENT: Component = Component {
    name: "source",
    migrations: &[
        include_str!("../../migrations/capture/0001_registry.sql"),
        include_str!("../../migrations/capture/0002_tick.sql"),
        include_str!("../../migrations/capture/0003_prune.sql"),
        include_str!("../../migrations/capture/0004_pinned.sql"),
        include_str!("../../migrations/capture/0005_watermark.sql"),
        include_str!("../../migrations/capture/0006_shapes.sql"),
        include_str!("../../migrations/capture/0007_log_beside.sql"),
        include_str!("../../migrations/capture/0008_moved.sql"),
        include_str!("../../migrations/capture/0009_nesting.sql"),
        include_str!("../../migrations/capture/0010_documents.sql"),
        include_str!("../../migrations/capture/0011_set_back.sql"),
        include_str!("../../migrations/capture/0012_keys.sql"),
        include_str!("../../migrations/capture/0013_relay.sql"),
    ],
    upgrade: Upgrade::Rest,
};

/// A capture as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub id: i64,
    /// The watched table.
    pub relation: u32,
    /// The numbers of the key's columns.
    pub key: Vec<i16>,
    pub known: Known,
    /// Journal: the table of the ring that is written to.
    pub ring: i16,
    /// Ticks before this are not retained.
    pub floor: i64,
    pub writer: Writer,
}

/// What the triggers know of the table. When it changes, they are made anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The names that each column of the key has or had, newest first: older images have older names.
    pub key_names: Vec<Vec<String>>,
    /// The types of the key's columns.
    pub key_types: Vec<u32>,
    pub partitioned: bool,
    /// Statements on the table can be inside of each other.
    pub nests: bool,
    /// Some values are written as the session's settings say.
    pub depends_on_settings: bool,
    /// The form that the triggers were made in: those of another version are made anew.
    #[serde(default)]
    pub form: u32,
    /// A statement was inside of another one though nothing in the table's definition said that this can be.
    #[serde(default)]
    pub seen_nesting: bool,
    /// Some key is checked late.
    #[serde(default)]
    pub deferrable: bool,
    /// The columns that name a row.
    #[serde(default)]
    pub identity: Vec<i16>,
    /// The partitions, by number.
    #[serde(default)]
    pub partitions: Vec<u32>,
    /// The lengths of the key's columns that are filled up to their length; -1 for all others.
    #[serde(default)]
    pub key_lengths: Vec<i32>,
    /// The triggers as they were made, or the publication.
    #[serde(default)]
    pub made: Option<Made>,
    /// By the relay: the log has rows as they were, with all columns.
    #[serde(default)]
    pub full: bool,
}

/// The form of triggers that this version makes.
const FORM: u32 = 2;

/// Triggers as they were made. One that was written since, even if it looks the same again, may have been disabled for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// The server's major version: a newer one has other numbers for the same triggers.
    pub major: i32,
    /// The number of each, and the transaction that wrote it.
    pub triggers: Vec<(u32, String)>,
}

impl Known {
    /// What triggers on this table have to know, after what they knew before.
    pub(crate) fn of(table: &Table, key: &[i16], before: Option<&Known>) -> Option<Self> {
        let columns: Vec<&Column> = key.iter().map(|number| table.column(*number)).collect::<Option<_>>()?;
        let names = |(at, column): (usize, &&Column)| {
            let mut names = vec![column.name.clone()];
            let older = before.and_then(|known| known.key_names.get(at)).into_iter().flatten();
            names.extend(older.filter(|name| **name != column.name).cloned());
            names
        };
        Some(Known {
            key_names: columns.iter().enumerate().map(names).collect(),
            key_types: columns.iter().map(|column| column.base).collect(),
            partitioned: table.partitioned,
            nests: table.nests || before.is_some_and(|known| known.seen_nesting),
            depends_on_settings: table.columns.iter().any(Column::depends_on_settings),
            form: FORM,
            seen_nesting: before.is_some_and(|known| known.seen_nesting),
            deferrable: table.deferrable,
            identity: table.identity().unwrap_or_default().to_vec(),
            partitions: table.partitions.iter().map(|partition| partition.oid).collect(),
            key_lengths: columns.iter().map(|column| column.filled_up_to()).collect(),
            made: before.and_then(|known| known.made.clone()),
            full: false,
        })
    }

    /// The same where no triggers write, but the relay: how statements follow each other does not matter to it.
    pub(crate) fn by_relay(self, full: bool) -> Self {
        Known {
            nests: false,
            seen_nesting: false,
            deferrable: false,
            depends_on_settings: false,
            partitions: Vec::new(),
            full,
            ..self
        }
    }

    /// Whether keys are written in the same way by the types that the columns have now: an object stays in its partition, and is
    /// known by the same key.
    pub(crate) fn writes_keys_as(&self, now: &Known) -> bool {
        let mut types = self.key_types.iter().zip(&now.key_types);
        let mut lengths = self.key_lengths.iter().zip(&now.key_lengths);
        types.all(|(before, now)| writes_as(*before, *now)) && lengths.all(|(before, now)| before == now)
    }
}

/// Whether every value of the one type is written like the same value of the other.
fn writes_as(before: u32, now: u32) -> bool {
    // int8, int2, int4
    const INTEGERS: [u32; 3] = [20, 21, 23];
    // text, varchar; and uuid
    const TEXTS: [u32; 2] = [25, 1043];
    const UUID: u32 = 2950;
    before == now
        || INTEGERS.contains(&before) && INTEGERS.contains(&now)
        || (TEXTS.contains(&before) || before == UUID) && TEXTS.contains(&now)
}

/// A consumer as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registration {
    pub id: i64,
    pub capture: i64,
    /// Where it begins.
    pub start: Position,
    /// Journal: the tick at which it registered. Log: the number.
    pub since: i64,
    /// How many rows existed then.
    pub existing: i64,
    /// Everything up to here is handled.
    pub consumed: i64,
    pub seen_at: Timestamp,
}

/// Whether the books exist in this database.
pub(crate) async fn exists(client: &impl GenericClient, database: &Database) -> Result<bool, Fault> {
    let table = format!("{}.capture", database.schema());
    Ok(client.query_one(EXISTS, &[&table]).await?.get(0))
}

/// The capture of this table by this key, if there is one.
pub(crate) async fn entry(
    client: &impl GenericClient,
    database: &Database,
    (kind, writer): (Kind, Writer),
    table: u32,
    key: &[i16],
    names: &Names,
) -> Result<Option<Entry>, Fault> {
    if !exists(client, database).await? {
        return Ok(None);
    }
    let writer = writer.as_str();
    let row =
        client.query_opt(&*database.sql(CAPTURE_FIND), &[&kind.as_str(), &table, &key, &writer]).await?;
    row.map(|row| entry_of(&row, names)).transpose()
}

/// The capture with this id, if it is still there.
pub(crate) async fn entry_by_id(
    client: &impl GenericClient,
    database: &Database,
    id: i64,
    names: &Names,
) -> Result<Option<Entry>, Fault> {
    let row = client.query_opt(&*database.sql(CAPTURE_READ), &[&id]).await?;
    row.map(|row| entry_of(&row, names)).transpose()
}

/// Writes a capture down and returns its id.
pub(crate) async fn insert(
    client: &impl GenericClient,
    database: &Database,
    (kind, writer): (Kind, Writer),
    table: u32,
    key: &[i16],
    known: &Known,
) -> Result<i64, Fault> {
    let known = serde_json::to_string(known).unwrap_or_default();
    let (kind, writer) = (kind.as_str(), writer.as_str());
    let insert = database.sql(CAPTURE_INSERT);
    let row = client.query_one(&*insert, &[&kind, &table, &key, &known, &writer]).await?;
    Ok(row.get(0))
}

/// Notes what the triggers know by now.
pub(crate) async fn note_known(
    client: &impl GenericClient,
    database: &Database,
    id: i64,
    known: &Known,
) -> Result<(), Fault> {
    let known = serde_json::to_string(known).unwrap_or_default();
    client.execute(&*database.sql(CAPTURE_KNOWN), &[&id, &known]).await?;
    Ok(())
}

/// Strikes a capture out of the books.
pub(crate) async fn delete(client: &impl GenericClient, database: &Database, id: i64) -> Result<(), Fault> {
    client.execute(&*database.sql(CAPTURE_DELETE), &[&id]).await?;
    Ok(())
}

/// The consumer's registration, if it has one.
pub(crate) async fn registration(
    client: &impl GenericClient,
    database: &Database,
    consumer: &Consumer,
) -> Result<Option<Registration>, Fault> {
    if !exists(client, database).await? {
        return Ok(None);
    }
    let (feed, store) = (consumer.feed.as_str(), consumer.store.as_str());
    let row = client.query_opt(&*database.sql(CONSUMER_READ), &[&feed, &store]).await?;
    Ok(row.map(|row| registration_of(&row)))
}

/// The registration with this id, if it is still there.
pub(crate) async fn registration_by_id(
    client: &impl GenericClient,
    database: &Database,
    id: i64,
) -> Result<Option<Registration>, Fault> {
    let row = client.query_opt(&*database.sql(CONSUMER_BY_ID), &[&id]).await?;
    Ok(row.map(|row| registration_of(&row)))
}

/// Registers a consumer, anew if it was registered before: everything up to `since` does not concern it. Returns its id; where
/// it begins is written down by [`begins`].
pub(crate) async fn register(
    client: &impl GenericClient,
    database: &Database,
    capture: i64,
    consumer: &Consumer,
    since: i64,
    existing: i64,
) -> Result<i64, Fault> {
    let (feed, store) = (consumer.feed.as_str(), consumer.store.as_str());
    client.execute(&*database.sql(CONSUMER_DELETE), &[&feed, &store]).await?;
    let insert = database.sql(CONSUMER_INSERT);
    Ok(client.query_one(&*insert, &[&capture, &feed, &store, &since, &existing]).await?.get(0))
}

/// Writes down where a registration begins.
pub(crate) async fn begins(
    client: &impl GenericClient,
    database: &Database,
    registration: i64,
    position: &Position,
) -> Result<(), Fault> {
    client.execute(&*database.sql(CONSUMER_BEGINS), &[&registration, &position.to_string()]).await?;
    Ok(())
}

/// Forgets a consumer. Says how many its capture has left.
pub(crate) async fn forget(
    client: &impl GenericClient,
    database: &Database,
    capture: i64,
    consumer: &Consumer,
) -> Result<i64, Fault> {
    let (feed, store) = (consumer.feed.as_str(), consumer.store.as_str());
    client.execute(&*database.sql(CONSUMER_DELETE), &[&feed, &store]).await?;
    consumers(client, database, capture).await
}

/// How many consumers a capture has.
pub(crate) async fn consumers(
    client: &impl GenericClient,
    database: &Database,
    capture: i64,
) -> Result<i64, Fault> {
    let count = database.sql(include_str!("../../queries/consumer_count.sql"));
    Ok(client.query_one(&*count, &[&capture]).await?.get(0))
}

fn registration_of(row: &Row) -> Registration {
    Registration {
        id: row.get(0),
        capture: row.get(1),
        start: Position::text(row.get(2)),
        since: row.get(3),
        existing: row.get(4),
        consumed: row.get(5),
        seen_at: time(row.get(6)),
    }
}

fn entry_of(row: &Row, names: &Names) -> Result<Entry, Fault> {
    let known = serde_json::from_str(row.get(3)).map_err(|_| names.unreadable("the table capture"))?;
    Ok(Entry {
        id: row.get(0),
        relation: row.get(1),
        key: row.get(2),
        known,
        ring: row.get(4),
        floor: row.get(5),
        writer: Writer::parse(row.get(6)),
    })
}

/// The consumer of these names; `None` where nobody can have them.
pub(crate) fn consumer(feed: &str, store: &str) -> Option<Consumer> {
    Some(Consumer { feed: FeedName::new(feed).ok()?, store: StoreId::new(store).ok()? })
}

/// A moment from microseconds; one that no calendar has is the first that every calendar has.
pub(crate) fn time(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
