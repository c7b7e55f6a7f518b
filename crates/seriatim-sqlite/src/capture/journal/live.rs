//! Reads the changes of a journal in the order in which they committed.

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use seriatim::change::{Op, Position};
use seriatim::source::Slice;

use crate::capture::error::Fault;
use crate::capture::errors::Names;
use crate::capture::row_filter::{RowFilter, sifted};
use crate::capture::slices::{ChangeHeader, Images, Slices, Stepped};
use crate::capture::sql::list;
use crate::capture::watched::Watched;

/// The columns before the images: id, op, at.
const HEAD_COLUMNS: usize = 3;

/// Which part of the journal to read.
pub(in crate::capture) struct Span {
    /// After this id.
    pub after: i64,
    /// Up to and including this id, at most.
    pub upto: i64,
    /// At most so many rows.
    pub rows: usize,
    /// The last id that is committed.
    pub head: i64,
}

/// Reads a span into the slices.
pub(in crate::capture) fn read(
    connection: &Connection,
    watched: &Watched,
    sieve: Option<&RowFilter>,
    span: &Span,
    names: &Names,
    slices: Slices,
) -> Result<Vec<Slice>, Fault> {
    let mut slices = slices.expecting(span.upto.abs_diff(span.after));
    let mut statement = connection.prepare_cached(&select(watched))?;
    let mut rows = statement.query((span.after, span.upto, span.rows as i64))?;
    let (mut looked, mut last) = (0, span.after);
    let nullable = watched.table.nullable_key();
    let mut stopped = false;
    while let Some(row) = rows.next()? {
        let row = Stepped(row);
        stopped = has_null_key(watched, &nullable, &row);
        if stopped && looked == 0 {
            return Err(names.null_was_written(row.number(0)).into());
        }
        if stopped {
            break;
        }
        last = row.number(0);
        looked += 1;
        take(watched, sieve, &row, last, &mut slices)?;
        if slices.full() {
            break;
        }
    }
    // Fewer rows than asked for: the rest of the span is empty, and is passed as well.
    let exhausted = looked < span.rows && !slices.full() && !stopped;
    let upto = if exhausted { span.upto } else { last };
    Ok(slices.upto(&Position::number(upto as u64), upto >= span.head))
}

/// The row was left with NULL in its primary key, or may have been: of a write that came to nothing one image is there.
fn has_null_key(watched: &Watched, nullable: &[usize], row: &Stepped<'_>) -> bool {
    let (new, old) = (HEAD_COLUMNS, HEAD_COLUMNS + watched.columns.len());
    let null = |image: usize| nullable.iter().any(|slot| row.raw(image + slot) == ValueRef::Null);
    match row.number(1) {
        1 | 2 => null(new),
        // A delete leaves nothing to be followed.
        3 => false,
        _ => null(new) && null(old),
    }
}

/// A feed with a filter is one of a table that has no other rows: what comes to match is inserted, what does no more is deleted.
fn take(
    watched: &Watched,
    sieve: Option<&RowFilter>,
    row: &Stepped<'_>,
    id: i64,
    slices: &mut Slices,
) -> Result<(), Fault> {
    let (new, old) = (HEAD_COLUMNS, HEAD_COLUMNS + watched.columns.len());
    let (before, after) = match row.number(1) {
        1 => (None, Some(new)),
        2 => (Some(old), Some(new)),
        3 => (Some(old), None),
        // An open row, or one that came to nothing.
        _ => return Ok(()),
    };
    let image = after.unwrap_or(old);
    let Some(key) = slices.wanted(row, watched.key.iter().map(|slot| image + slot)) else { return Ok(()) };
    let chosen = watched.columns_at(id);
    let (before, after) = (sifted(sieve, row, before, chosen.of)?, sifted(sieve, row, after, chosen.of)?);
    let op = match (before, after) {
        (None, None) => return Ok(()),
        (None, Some(_)) => Op::Insert,
        (Some(_), Some(_)) => Op::Update,
        (Some(_), None) => Op::Delete,
    };
    let images = Images { chosen, before, after };
    let happened = ChangeHeader { position: Position::number(id as u64), id: id as u64, op, at: row.time(2) };
    slices.add(row, &key, &watched.key_columns, &images, happened);
    Ok(())
}

fn select(watched: &Watched) -> String {
    let images = ["new", "old"]
        .into_iter()
        .flat_map(|image| (0..watched.columns.len()).map(move |slot| format!("{image}_{slot}")));
    format!(
        "select id, op, at, {} from {} where id > ?1 and id <= ?2 order by id limit ?3",
        list(images),
        watched.objects.changes()
    )
}
