//! Notes what a consumer has handled, and forgets what nobody needs any more, in small steps.

use rusqlite::Connection;
use seriatim::change::Position;
use seriatim::source::Consumer;

use super::consumers::now;
use super::error::Fault;
use super::errors::Names;
use super::install::{self, write};
use super::lag::STALE_AFTER_MS;
use super::names::Objects;
use super::position::Place;
use super::registry::{self, Registration};
use super::watched::Watched;
use seriatim::backend::Kind;

const CONSUMED: &str = include_str!("../../queries/consumer_consumed.sql");
const SLOWEST: &str = include_str!("../../queries/consumer_min.sql");

/// How many rows one transaction prunes: writers wait that long.
const STEP: i64 = 2000;

/// How many transactions one call makes.
const STEPS: usize = 5;

/// A consumer that has nothing new to say still says that often that it is alive: well before somebody thinks it is not.
const SEEN_EVERY_MS: i64 = STALE_AFTER_MS / 6;

/// Notes the positions and prunes. Returns how many rows are gone.
pub(super) fn consumed(
    connection: &mut Connection,
    consumer: &Consumer,
    positions: &[Position],
    names: &Names,
) -> Result<u64, Fault> {
    let Some(registration) = registry::registration(connection, consumer)? else {
        return Err(names.not_registered(consumer.store.as_str()).into());
    };
    let Some(entry) = registry::entry(connection, registration.capture, names)? else {
        return Err(names.not_registered(consumer.store.as_str()).into());
    };
    note(connection, &registration, slowest(positions, &registration, names)?)?;
    settle(connection, registration.capture, names)?;
    let mut pruned = 0;
    for _ in 0..STEPS {
        let step = prune_step(connection, entry.objects)?;
        pruned += step;
        if step < STEP as u64 {
            break;
        }
    }
    Ok(pruned)
}

/// What all partitions have behind them. One that still reads existing rows needs every change since its snapshot.
fn slowest(positions: &[Position], registration: &Registration, names: &Names) -> Result<Option<i64>, Fault> {
    let mut slowest = None;
    for position in positions {
        let consumed = match Place::parse(position) {
            Some(Place::Live(number)) => number as i64,
            Some(Place::Backfill(_)) => registration.snapshot,
            None => return Err(names.not_a_position(position).into()),
        };
        slowest = Some(slowest.map_or(consumed, |slowest: i64| slowest.min(consumed)));
    }
    Ok(slowest)
}

fn note(connection: &Connection, registration: &Registration, consumed: Option<i64>) -> rusqlite::Result<()> {
    let (now, seen_at) = (now(connection)?, registration.seen_at);
    let consumed = consumed.unwrap_or(registration.consumed);
    // A clock that was set back must not keep the consumer silent.
    let recently = (seen_at..seen_at + SEEN_EVERY_MS).contains(&now);
    if consumed != registration.consumed || !recently {
        connection.prepare_cached(CONSUMED)?.execute((registration.id, consumed, now))?;
    }
    Ok(())
}

/// What ignored and failed statements left is settled: none is running when we can write.
pub(super) fn settle(connection: &mut Connection, capture: i64, names: &Names) -> Result<(), Fault> {
    let Some(watched) = Watched::by_id(connection, capture, names)? else { return Ok(()) };
    if !install::left_over(connection, &watched)? {
        return Ok(());
    }
    let transaction = write(connection)?;
    if let Some(watched) = Watched::by_id(&transaction, capture, names)? {
        install::settle(&transaction, &watched)?;
    }
    Ok(transaction.commit()?)
}

fn prune_step(connection: &mut Connection, objects: Objects) -> rusqlite::Result<u64> {
    let consumed: Option<i64> =
        connection.prepare_cached(SLOWEST)?.query_row([objects.capture], |row| row.get(0))?;
    let Some(consumed) = consumed else { return Ok(0) };
    let sql = PruneSql::of(objects);
    let upper = connection.prepare_cached(&sql.find)?.query_row((consumed, STEP), |row| row.get(0))?;
    let Some::<i64>(upper) = upper else { return Ok(0) };
    let transaction = write(connection)?;
    let deleted = transaction.prepare_cached(&sql.delete)?.execute([upper])?;
    transaction.prepare_cached(sql.note)?.execute((objects.capture, upper))?;
    // A number whose row is gone must not be drawn again (see `registry::head`).
    registry::draw(&transaction, objects, upper)?;
    transaction.commit()?;
    Ok(deleted as u64)
}

/// How each kind of capture forgets: a journal every change, a log only that rows were deleted.
struct PruneSql {
    /// The last of the next few places that nobody needs: `?1` consumed, `?2` how many.
    find: String,
    /// Deletes what nobody needs up to a place.
    delete: String,
    /// Notes in the books that it is gone.
    note: &'static str,
}

impl PruneSql {
    fn of(objects: Objects) -> Self {
        let (place, which, note) = match objects.kind {
            Kind::Journal => ("id", "", include_str!("../../queries/capture_floor.sql")),
            Kind::Log => ("seq", " and deleted = 1", include_str!("../../queries/capture_pruned.sql")),
        };
        let unneeded = format!("from {} where {place} <= ?1{which}", objects.changes());
        PruneSql {
            find: format!(
                "select max(place) from (select {place} as place {unneeded} order by {place} limit ?2)"
            ),
            delete: format!("delete {unneeded}"),
            note,
        }
    }
}
