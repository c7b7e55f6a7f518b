//! The source's own books: which captures there are, and who consumes them.

use rusqlite::{Connection, OptionalExtension, Row};
use seriatim::change::Position;
use seriatim::source::{Consumer, SourceError};

use super::error::Fault;
use super::errors::Names;
use super::journal::flight::CHANGES;
use super::names::Objects;
use super::table::Known;
use crate::migrate::{Component, version};
use seriatim::backend::Kind;

const CAPTURE_READ: &str = include_str!("../../queries/capture_read.sql");
const CAPTURE_LIST: &str = include_str!("../../queries/capture_list.sql");
const CAPTURE_NEXT_ID: &str = include_str!("../../queries/capture_next_id.sql");
const CAPTURE_TRIGGERS: &str = include_str!("../../queries/capture_triggers.sql");
const DRAWN: &str = include_str!("../../queries/sequence_drawn.sql");
const CONSUMER_MIN: &str = include_str!("../../queries/consumer_min.sql");
const CONSUMER_READ: &str = include_str!("../../queries/consumer_read.sql");
const CONSUMER_BY_ID: &str = include_str!("../../queries/consumer_by_id.sql");

/// The tables of the books.
pub(super) const COMPONENT: Component = Component {
    name: "source",
    migrations: &[
        include_str!("../../migrations/source/0001_registry.sql"),
        include_str!("../../migrations/source/0002_shown.sql"),
    ],
};

/// A capture as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub objects: Objects,
    /// The slots of the key's columns.
    pub key: Vec<usize>,
    /// Changes after this id carry this many columns; in order.
    pub shapes: Vec<(i64, usize)>,
    /// What the triggers know of the table.
    pub known: Known,
    /// Positions below this are not retained.
    pub floor: i64,
    /// Log: the highest place of a delete that is forgotten.
    pub pruned: i64,
    /// Log: places up to this are kept for rows that were there before the triggers.
    pub seeds: i64,
    /// Log: how far those rows are listed.
    pub seeded: Option<String>,
}

/// A consumer as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Registration {
    pub id: i64,
    pub capture: i64,
    pub start: Position,
    /// The changes after this are not in the snapshot. The numbers up to it, as many as the snapshot has rows, are theirs.
    pub snapshot: i64,
    pub snapshot_at: i64,
    /// How many rows the snapshot has.
    pub total: i64,
    pub consumed: i64,
    pub seen_at: i64,
}

impl Registration {
    /// The id of the n-th row of the snapshot.
    pub(super) fn id_of(&self, ordinal: u64) -> u64 {
        (self.snapshot - self.total).max(0) as u64 + ordinal
    }
}

/// Where a capture's triggers are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Triggers {
    /// The table, by its present name.
    pub table: String,
    /// The newest trigger that somebody made after ours. SQLite fires the newest first, and ours must be: a user's trigger
    /// that writes to the same row would otherwise be recorded before the change that made it fire.
    pub overtaken_by: Option<String>,
}

/// Whether the books exist in this file.
pub(super) fn exists(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version(connection, COMPONENT.name)? > 0)
}

/// One capture by its id.
pub(super) fn entry(connection: &Connection, capture: i64, names: &Names) -> Result<Option<Entry>, Fault> {
    if !exists(connection)? {
        return Ok(None);
    }
    let row = connection.prepare_cached(CAPTURE_READ)?.query_row([capture], entry_of).optional()?;
    row.map(|row| row.understood(names)).transpose().map_err(Fault::from)
}

/// All captures of a kind.
pub(super) fn entries(connection: &Connection, kind: Kind, names: &Names) -> Result<Vec<Entry>, Fault> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(CAPTURE_LIST)?;
    let rows = statement.query_map([kind.as_str()], entry_of)?.collect::<rusqlite::Result<Vec<_>>>()?;
    rows.into_iter().map(|row| row.understood(names).map_err(Fault::from)).collect()
}

/// The id that the next capture gets.
pub(super) fn next_capture(connection: &Connection) -> rusqlite::Result<i64> {
    if !exists(connection)? {
        return Ok(1);
    }
    connection.query_row(CAPTURE_NEXT_ID, [], |row| row.get(0))
}

/// Where the capture's triggers are; `None` when one of them is gone.
pub(super) fn triggers(connection: &Connection, entry: &Entry) -> rusqlite::Result<Option<Triggers>> {
    let objects = entry.objects;
    let mut statement = connection.prepare_cached(CAPTURE_TRIGGERS)?;
    let mut found: Option<Triggers> = None;
    for event in objects.events(entry.known.edition) {
        let trigger = statement.query_row([objects.trigger_name(event)], |row| {
            Ok(Triggers { table: row.get(0)?, overtaken_by: row.get(1)? })
        });
        match trigger.optional()? {
            None => return Ok(None),
            Some(trigger) => {
                let before = found.take().and_then(|found| found.overtaken_by);
                found = Some(Triggers { overtaken_by: trigger.overtaken_by.or(before), ..trigger });
            }
        }
    }
    Ok(found)
}

/// The consumer's registration, if it has one.
pub(super) fn registration(
    connection: &Connection,
    consumer: &Consumer,
) -> rusqlite::Result<Option<Registration>> {
    if !exists(connection)? {
        return Ok(None);
    }
    let names = (consumer.feed.as_str(), consumer.store.as_str());
    connection.prepare_cached(CONSUMER_READ)?.query_row(names, registration_of).optional()
}

/// The registration that a place in a backfill belongs to.
pub(super) fn registration_by_id(connection: &Connection, id: i64) -> rusqlite::Result<Option<Registration>> {
    connection.prepare_cached(CONSUMER_BY_ID)?.query_row([id], registration_of).optional()
}

/// The highest number that the capture has drawn.
///
/// SQLite notes it when a statement ends, but not when one fails half-way and keeps what it did (`INSERT OR FAIL`): then only
/// the rows themselves know.
pub(super) fn head(connection: &Connection, objects: Objects) -> rusqlite::Result<i64> {
    let changes = objects.changes();
    let sql = format!(
        "select max(ifnull((select seq from sqlite_sequence where name = ?1), 0), ifnull((select max(rowid) from {changes}), 0))"
    );
    connection.prepare_cached(&sql)?.query_row([changes], |row| row.get(0))
}

/// The highest number that captures had drawn which are taken out by now: ids go on upwards over `unwatch` and `watch`.
pub(super) fn drawn_before(connection: &Connection) -> rusqlite::Result<i64> {
    if !connection.table_exists(None, "sqlite_sequence")? {
        return Ok(0);
    }
    connection.query_row(include_str!("../../queries/ids_drawn.sql"), [], |row| row.get(0))
}

/// Whether no change was captured after this number; without one, after what every consumer has handled.
pub(super) fn nothing_since(
    connection: &Connection,
    objects: Objects,
    number: Option<i64>,
) -> rusqlite::Result<bool> {
    let number = match number {
        Some(number) => Some(number),
        None => connection.prepare_cached(CONSUMER_MIN)?.query_row([objects.capture], |row| row.get(0))?,
    };
    let changes = match objects.kind {
        Kind::Journal => format!(" and {CHANGES}"),
        Kind::Log => String::new(),
    };
    let sql = format!("select not exists (select 1 from {} where rowid > ?1{changes})", objects.changes());
    connection.prepare_cached(&sql)?.query_row([number.unwrap_or(0)], |row| row.get(0))
}

/// Draws numbers that no change gets: up to and including this one.
pub(super) fn draw(connection: &Connection, objects: Objects, upto: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(DRAWN)?.execute((objects.changes(), upto))?;
    Ok(())
}

fn registration_of(row: &Row<'_>) -> rusqlite::Result<Registration> {
    Ok(Registration {
        id: row.get(0)?,
        capture: row.get(1)?,
        start: Position::text(&row.get::<_, String>(2)?),
        snapshot: row.get(3)?,
        snapshot_at: row.get(4)?,
        total: row.get(5)?,
        consumed: row.get(6)?,
        seen_at: row.get(7)?,
    })
}

/// A capture's row, its JSON not yet read.
struct EntryRow {
    id: i64,
    kind: String,
    key: String,
    shapes: String,
    known: String,
    floor: i64,
    pruned: i64,
    seeds: i64,
    seeded: Option<String>,
}

fn entry_of(row: &Row<'_>) -> rusqlite::Result<EntryRow> {
    Ok(EntryRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        key: row.get(3)?,
        shapes: row.get(4)?,
        known: row.get(5)?,
        floor: row.get(6)?,
        pruned: row.get(7)?,
        seeds: row.get(8)?,
        seeded: row.get(9)?,
    })
}

impl EntryRow {
    fn understood(self, names: &Names) -> Result<Entry, SourceError> {
        let unreadable = || names.unreadable_registry("seriatim_capture");
        let kind = Kind::parse(&self.kind).ok_or_else(unreadable)?;
        Ok(Entry {
            objects: Objects { kind, capture: self.id },
            key: serde_json::from_str(&self.key).map_err(|_| unreadable())?,
            shapes: serde_json::from_str(&self.shapes).map_err(|_| unreadable())?,
            known: serde_json::from_str(&self.known).map_err(|_| unreadable())?,
            floor: self.floor,
            pruned: self.pruned,
            seeds: self.seeds,
            seeded: self.seeded,
        })
    }
}
