//! Reads the latest states of the keys that changed.
//!
//! A reader at `p` looks at the places in a window `(p, e]`. A row that has a place in it is delivered once, in its present
//! state, at the first of its places there. A row that is changed all the time may have moved on with `seq`, but its `first`
//! stays where it was until every consumer has passed it.

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use seriatim::change::{Op, Position};
use seriatim::source::Slice;

use crate::capture::error::Fault;
use crate::capture::errors::Names;
use crate::capture::journal::live::Span;
use crate::capture::row_filter::{RowFilter, sifted};
use crate::capture::slices::{ChangeHeader, Images, Slices, Stepped};
use crate::capture::sql::{all, list};
use crate::capture::watched::Watched;

/// The columns before the key: place, at, whether the row exists.
const HEAD_COLUMNS: usize = 3;

/// Whether deleted rows are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Deletes {
    Delivered,
    PassedOver,
}

/// Reads a span into the slices.
pub(in crate::capture) fn read(
    connection: &Connection,
    watched: &Watched,
    sieve: Option<&RowFilter>,
    span: &Span,
    deletes: Deletes,
    names: &Names,
    mut slices: Slices,
) -> Result<Vec<Slice>, Fault> {
    let end = window_end(connection, watched, span)?;
    let mut statement = connection.prepare_cached(&select(watched))?;
    let mut rows = statement.query((span.after, end))?;
    let mut upto = end;
    let mut before = None;
    while let Some(row) = rows.next()? {
        let row = Stepped(row);
        if has_null_key(watched, &row) {
            upto = before.ok_or_else(|| names.null_was_written(row.number(0)))?;
            break;
        }
        before = Some(row.number(0));
        take(watched, sieve, &row, deletes, &mut slices)?;
        if slices.full() {
            upto = row.number(0);
            break;
        }
    }
    Ok(slices.upto(&Position::number(upto as u64), upto >= span.head))
}

/// Where the window ends so that it has no more places than rows may be looked at.
fn window_end(connection: &Connection, watched: &Watched, span: &Span) -> rusqlite::Result<i64> {
    let log = watched.objects.changes();
    let sql = format!(
        "select max(place), count(*) from (select place from (\
           select * from (select first as place from {log} where first > ?1 and first <= ?2 order by first limit ?3)\n\
           union\n\
           select * from (select seq as place from {log} where seq > ?1 and seq <= ?2 order by seq limit ?3)\
         ) order by place limit ?3)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (last, places): (Option<i64>, i64) = statement
        .query_row((span.after, span.upto, span.rows as i64), |row| Ok((row.get(0)?, row.get(1)?)))?;
    match last {
        Some(last) if places as usize >= span.rows => Ok(last),
        _ => Ok(span.upto),
    }
}

/// The row is there, with NULL in its key: it cannot be told from others.
fn has_null_key(watched: &Watched, row: &Stepped<'_>) -> bool {
    let null = |(index, slot): (usize, &usize)| {
        watched.table.is_nullable(*slot) && row.raw(HEAD_COLUMNS + index) == ValueRef::Null
    };
    row.number(2) == 1 && watched.key.iter().enumerate().any(null)
}

/// What a row was before is not known here. So one for which the filter does not hold is treated as one that is gone: whoever
/// has it from before is to forget it.
fn take(
    watched: &Watched,
    sieve: Option<&RowFilter>,
    row: &Stepped<'_>,
    deletes: Deletes,
    slices: &mut Slices,
) -> Result<(), Fault> {
    let exists = row.number(2) == 1;
    if !exists && deletes == Deletes::PassedOver {
        return Ok(());
    }
    let row_at = HEAD_COLUMNS + watched.key.len();
    let Some(key) = slices.wanted(row, HEAD_COLUMNS..row_at) else { return Ok(()) };
    let chosen = &watched.chosen;
    let after = sifted(sieve, row, exists.then_some(row_at), chosen.of)?;
    if after.is_none() && deletes == Deletes::PassedOver {
        return Ok(());
    }
    let id = row.number(0) as u64;
    let op = if after.is_some() { Op::Upsert } else { Op::Delete };
    let happened = ChangeHeader { position: Position::number(id), id, op, at: row.time(1) };
    slices.add(row, &key, &watched.key_columns, &Images { chosen, before: None, after }, happened);
    Ok(())
}

fn select(watched: &Watched) -> String {
    let (table, log) = (&watched.table, watched.objects.changes());
    let key = list((0..watched.key.len()).map(|index| format!("l.k{index}")));
    let columns = list((0..watched.columns.len()).map(|slot| format!("r.{}", table.column(slot))));
    let same = all(watched
        .key
        .iter()
        .enumerate()
        .flat_map(|(index, slot)| table.same_key_column(&watched.key, *slot, &format!("l.k{index}"))));
    let exists = match (table.rowid, &table.primary[0]) {
        (Some(rowid), _) => format!("r.{rowid} is not null"),
        (None, primary) => format!("r.{} is not null", table.column(primary.slot)),
    };
    format!(
        "select l.place, l.at, {exists}, {key}, {columns} from (\
           select first as place, * from {log} where first > ?1 and first <= ?2\n\
           union all\n\
           select seq as place, * from {log} where seq > ?1 and seq <= ?2 and first <= ?1\
         ) as l left join {} as r on {same} order by l.place",
        table.quoted()
    )
}
