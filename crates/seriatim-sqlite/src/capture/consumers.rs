//! Registers consumers, and decides where they begin.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction};
use seriatim::change::Position;
use seriatim::source::{Consumer, Start};

use super::error::Fault;
use super::errors::Names;
use super::journal::flight::CHANGES;
use super::position::Place;
use super::registry::{self, Registration};
use super::slices;
use super::sql::{NOW_MS, any};
use super::watched::Watched;
use seriatim::backend::Kind;

const INSERT: &str = include_str!("../../queries/consumer_insert.sql");
const BEGINS: &str = include_str!("../../queries/consumer_begins.sql");
const MOVED: &str = include_str!("../../queries/consumer_moved.sql");
const DELETE: &str = include_str!("../../queries/consumer_delete.sql");
const COUNT: &str = include_str!("../../queries/consumer_count.sql");

/// Registers a consumer of the capture, anew if it was registered before, and returns where it begins.
pub(super) fn register(
    transaction: &Transaction<'_>,
    watched: &Watched,
    consumer: &Consumer,
    start: &Start,
    names: &Names,
) -> Result<Position, Fault> {
    let from = Beginning::decide(transaction, watched, start, names)?;
    let (feed, store) = (consumer.feed.as_str(), consumer.store.as_str());
    transaction.execute(DELETE, (feed, store))?;
    let now = now(transaction)?;
    let capture = watched.objects.capture;
    // The rows of a snapshot have ids too, and nobody else ever gets them: not even this consumer, when it reads them again.
    registry::draw(transaction, watched.objects, from.snapshot)?;
    transaction.execute(INSERT, (capture, feed, store, from.snapshot, now, from.existing, from.consumed))?;
    let registration = transaction.last_insert_rowid();
    let place = match from.rows {
        Rows::First => Place::before_first_row(registration),
        Rows::PassedOver => Place::Live(from.consumed as u64),
    };
    let position = place.position();
    transaction.execute(BEGINS, (registration, position.to_string()))?;
    Ok(position)
}

/// Has a registered consumer go on at a place of its own. Its registration stays: other partitions may still need it.
pub(super) fn move_to(
    transaction: &Transaction<'_>,
    registration: &Registration,
    position: &Position,
    names: &Names,
) -> Result<(), Fault> {
    match Place::parse(position) {
        None => return Err(names.not_a_position(position).into()),
        Some(Place::Backfill(row)) if row.registration == registration.id => {}
        Some(Place::Backfill(_)) => return Err(names.snapshot_gone(position).into()),
        Some(Place::Live(number)) => {
            transaction.prepare_cached(MOVED)?.execute((registration.id, number as i64))?;
        }
    }
    Ok(())
}

/// Forgets a consumer. Says how many the capture has left.
pub(super) fn forget(
    transaction: &Transaction<'_>,
    capture: i64,
    consumer: &Consumer,
) -> rusqlite::Result<i64> {
    transaction.execute(DELETE, (consumer.feed.as_str(), consumer.store.as_str()))?;
    transaction.query_row(COUNT, [capture], |row| row.get(0))
}

/// The database's clock, in ms.
pub(super) fn now(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(&format!("select {NOW_MS}"))?.query_row([], |row| row.get(0))
}

/// Where a consumer begins.
struct Beginning {
    /// Everything up to here does not concern it.
    consumed: i64,
    rows: Rows,
    /// How many rows exist that come first.
    existing: i64,
    /// The last number before the changes that happen from now on; those of the rows that exist are before it.
    snapshot: i64,
}

/// What becomes of the rows that exist.
enum Rows {
    /// They come first, from a snapshot.
    First,
    /// Only changes come.
    PassedOver,
}

impl Beginning {
    fn decide(
        connection: &Connection,
        watched: &Watched,
        start: &Start,
        names: &Names,
    ) -> Result<Self, Fault> {
        let head = registry::head(connection, watched.objects)?;
        let live = |consumed| Beginning { consumed, rows: Rows::PassedOver, existing: 0, snapshot: head };
        let floor =
            registry::entry(connection, watched.objects.capture, names)?.map_or(head, |entry| entry.floor);
        match start {
            Start::Now => Ok(live(head)),
            Start::Position(position) => match Place::parse(position) {
                Some(Place::Live(number)) if (number as i64) < floor => {
                    Err(names.fell_behind(position, floor, head).into())
                }
                Some(Place::Live(number)) if number as i64 > head => {
                    Err(names.beyond_head(position, head).into())
                }
                Some(Place::Live(number)) => Ok(live(number as i64)),
                Some(Place::Backfill(_)) => Err(names.snapshot_gone(position).into()),
                None => Err(names.not_a_position(position).into()),
            },
            Start::Time(time) => {
                refuse_future(connection, *time, names)?;
                warn_if_forgotten(connection, watched, *time, names)?;
                let first = first_since(connection, watched, time.as_millisecond())?;
                Ok(live(first.map_or(head, |first| (first - 1).max(floor))))
            }
            Start::Beginning => {
                refuse_nulls(connection, watched, names)?;
                match watched.objects.kind {
                    Kind::Log => Ok(live(floor)),
                    Kind::Journal => {
                        let existing = count(connection, watched)?;
                        let snapshot = head + existing;
                        Ok(Beginning { consumed: snapshot, rows: Rows::First, existing, snapshot })
                    }
                }
            }
        }
    }
}

/// The first place with a change at that moment or later. Clocks step, so it is searched by place, not by time.
fn first_since(connection: &Connection, watched: &Watched, ms: i64) -> rusqlite::Result<Option<i64>> {
    let changes = watched.objects.changes();
    let sql = match watched.objects.kind {
        Kind::Journal => format!("select min(id) from {changes} where at >= ?1 and {CHANGES}"),
        Kind::Log => format!(
            "select min(case when first_at >= ?1 then first else seq end) from {changes} where first_at >= ?1 or at >= ?1"
        ),
    };
    connection.query_row(&sql, [ms], |row| row.get(0))
}

fn refuse_future(connection: &Connection, time: Timestamp, names: &Names) -> Result<(), Fault> {
    let now = now(connection)?;
    match time.as_millisecond() > now {
        true => Err(names.in_the_future(time, slices::time(now)).into()),
        false => Ok(()),
    }
}

/// Clocks step, but the first change that is retained is about the oldest.
fn warn_if_forgotten(
    connection: &Connection,
    watched: &Watched,
    time: Timestamp,
    names: &Names,
) -> rusqlite::Result<()> {
    let sql = format!("select at from {} order by rowid limit 1", watched.objects.changes());
    let first: Option<i64> = connection.query_row(&sql, [], |row| row.get(0)).optional()?;
    if first.is_none_or(|first| time.as_millisecond() < first) {
        let first = first.map_or_else(|| "none".to_owned(), |first| slices::time(first).to_string());
        tracing::warn!(
            feed = %names.feed,
            from = %time,
            oldest = %first,
            "changes from that time are not retained, or were never noted: the feed begins with the oldest that is"
        );
    }
    Ok(())
}

fn count(connection: &Connection, watched: &Watched) -> rusqlite::Result<i64> {
    connection.query_row(&format!("select count(*) from {}", watched.table.quoted()), [], |row| row.get(0))
}

fn refuse_nulls(connection: &Connection, watched: &Watched, names: &Names) -> Result<(), Fault> {
    let table = &watched.table;
    let null = any(table.primary.iter().map(|column| format!("{} is null", table.column(column.slot))));
    let sql = format!("select exists (select 1 from {} where {null})", table.quoted());
    match connection.query_row(&sql, [], |row| row.get(0))? {
        true => Err(names.null_in_primary_key().into()),
        false => Ok(()),
    }
}
