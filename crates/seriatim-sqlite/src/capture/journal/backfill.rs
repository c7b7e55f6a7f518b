//! Reads the rows of a table exactly as they were when the consumer registered, while others write.
//!
//! The journal knows what happened since. For each row that changed, the *first* change after the registration tells what the
//! row was before: its old image, or that it did not exist. So the snapshot is: the rows that did not change, and the old
//! images of those that did. The first changes are kept in a temporary table of the reading connection, which grows with the
//! journal and is made anew after a restart; each chunk is read in one transaction with it.
//!
//! Chunks go in the order of the primary key (a VACUUM renumbers rowids), and since the snapshot is exact, the n-th row of it
//! is the same row whenever it is read, and has the n-th of the numbers that were drawn for the snapshot: that is its id.

use rusqlite::{Connection, params_from_iter};
use seriatim::change::{Op, Position};
use seriatim::source::Slice;

use super::flight::CHANGES;
use crate::capture::error::Fault;
use crate::capture::position::{BackfillPlace, Place};
use crate::capture::registry::Registration;
use crate::capture::row_filter::{RowFilter, sifted};
use crate::capture::slices::{ChangeHeader, Images, Slices, Stepped, time};
use crate::capture::sql::{all, list, quoted};
use crate::capture::table::Indexed;
use crate::capture::value::Exact;
use crate::capture::watched::Watched;

const FIRST_CHANGES: &str = "temp.seriatim_first_change";

/// Up to where the temporary table of first changes is filled, and for which registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) struct FirstChanges {
    registration: i64,
    scanned: i64,
}

impl FirstChanges {
    /// Brings the temporary table up to the head of the journal; makes it first if it belongs to another snapshot.
    pub(in crate::capture) fn fill(
        known: Option<Self>,
        connection: &Connection,
        watched: &Watched,
        registration: &Registration,
        head: i64,
    ) -> rusqlite::Result<Self> {
        let scanned = match known.filter(|known| known.registration == registration.id) {
            Some(known) => known.scanned,
            None => {
                connection.execute_batch(&create(watched))?;
                registration.snapshot
            }
        };
        if scanned < head {
            connection.prepare_cached(&extend(watched))?.execute([scanned, head])?;
        }
        Ok(FirstChanges { registration: registration.id, scanned: head })
    }
}

/// Which part of the snapshot to read.
pub(in crate::capture) struct Chunk<'a> {
    pub registration: &'a Registration,
    pub after: &'a BackfillPlace,
    /// At most so many rows.
    pub rows: usize,
}

/// Reads a chunk into the slices. After the last row the position is the place in the journal where the changes begin.
pub(in crate::capture) fn read(
    connection: &Connection,
    watched: &Watched,
    sieve: Option<&RowFilter>,
    chunk: &Chunk<'_>,
    mut slices: Slices,
) -> Result<Vec<Slice>, Fault> {
    let mut statement = connection.prepare_cached(&select(watched, !chunk.after.key.is_empty()))?;
    let limit = Exact::Integer(chunk.rows as i64);
    let mut rows = statement.query(params_from_iter(chunk.after.key.iter().chain([&limit])))?;
    let (mut looked, mut last) = (0, chunk.after.clone());
    while let Some(row) = rows.next()? {
        let row = Stepped(row);
        looked += 1;
        last.ordinal += 1;
        last.key = watched.table.primary.iter().map(|column| Exact::from(row.raw(1 + column.slot))).collect();
        take(watched, sieve, chunk, &row, &last, &mut slices)?;
        if slices.full() {
            break;
        }
    }
    let exhausted = looked < chunk.rows && !slices.full();
    let upto = match exhausted {
        true => Position::number(chunk.registration.snapshot as u64),
        false => Place::Backfill(last).position(),
    };
    Ok(slices.upto(&upto, false))
}

fn take(
    watched: &Watched,
    sieve: Option<&RowFilter>,
    chunk: &Chunk<'_>,
    row: &Stepped<'_>,
    at: &BackfillPlace,
    slices: &mut Slices,
) -> Result<(), Fault> {
    let Some(key) = slices.wanted(row, watched.key.iter().map(|slot| 1 + slot)) else { return Ok(()) };
    let chosen = match row.number(0) {
        0 => &watched.chosen,
        changed_by => watched.columns_at(changed_by),
    };
    let happened = ChangeHeader {
        position: Place::Backfill(at.clone()).position(),
        id: chunk.registration.id_of(at.ordinal),
        op: Op::Upsert,
        at: time(chunk.registration.snapshot_at),
    };
    let after = sifted(sieve, row, Some(1), chosen.of)?;
    if after.is_some() {
        let images = Images { chosen, before: None, after };
        slices.add(row, &key, &watched.key_columns, &images, happened);
    }
    Ok(())
}

/// The primary key's columns `p0`, `p1`, … with what the given function makes of each.
fn each_key_column(
    watched: &Watched,
    piece: impl Fn(usize, &Indexed) -> String,
) -> impl Iterator<Item = String> {
    watched.table.primary.iter().enumerate().map(move |(index, column)| piece(index, column))
}

fn create(watched: &Watched) -> String {
    let columns = list(each_key_column(watched, |index, column| {
        format!("p{index} collate {}", quoted(&column.collation))
    }));
    let key = list(each_key_column(watched, |index, _| format!("p{index}")));
    format!(
        "drop table if exists {FIRST_CHANGES};\n\
         create table {FIRST_CHANGES} ({columns}, id, existed, primary key ({key})) without rowid;"
    )
}

/// A row without a whole primary key cannot have been in the snapshot: NOT NULL leaves it out.
fn extend(watched: &Watched) -> String {
    let key = list(each_key_column(watched, |_, column| {
        format!("case op when 1 then new_{0} else old_{0} end", column.slot)
    }));
    format!(
        "insert or ignore into {FIRST_CHANGES} select {key}, id, op <> 1 from main.{} where id > ?1 and id <= ?2 and {CHANGES} order by id",
        watched.objects.changes()
    )
}

fn select(watched: &Watched, after: bool) -> String {
    let table = &watched.table;
    let slots = 0..watched.columns.len();
    let now = list(slots.clone().map(|slot| format!("r.{} as c{slot}", table.column(slot))));
    let then = list(slots.map(|slot| match table.primary.iter().position(|column| column.slot == slot) {
        Some(index) => format!("f.p{index}"),
        None => format!("j.old_{slot}"),
    }));
    let unchanged = all(each_key_column(watched, |index, column| {
        format!("f.p{index} is +r.{} collate {}", table.column(column.slot), quoted(&column.collation))
    }));
    let whole =
        all(each_key_column(watched, |_, column| format!("r.{} is not null", table.column(column.slot))));
    let order = list(each_key_column(watched, |_, column| {
        format!("c{} collate {}", column.slot, quoted(&column.collation))
    }));
    let beyond = |name: &dyn Fn(usize, &Indexed) -> String| match after {
        false => String::new(),
        true => {
            let left: Vec<String> = each_key_column(watched, |index, column| {
                format!("{} collate {}", name(index, column), quoted(&column.collation))
            })
            .collect();
            let right = list(each_key_column(watched, |index, _| format!("?{}", index + 1)));
            // The first condition follows from the second, but SQLite does not always see it and would scan.
            format!(" and {} >= ?1 and ({}) > ({right})", left[0], list(left.iter().cloned()))
        }
    };
    let now_beyond = beyond(&|_, column| format!("r.{}", table.column(column.slot)));
    let then_beyond = beyond(&|index, _| format!("f.p{index}"));
    let limit = if after { table.primary.len() + 1 } else { 1 };
    format!(
        "select 0, {now} from main.{} as r where {whole}{now_beyond}\n  \
         and not exists (select 1 from {FIRST_CHANGES} as f where {unchanged})\n\
         union all\n\
         select f.id, {then} from {FIRST_CHANGES} as f join main.{} as j on j.id = f.id where f.existed = 1{then_beyond}\n\
         order by {order} limit ?{limit}",
        table.quoted(),
        watched.objects.changes()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::errors::Names;
    use crate::capture::install;
    use crate::capture::registry::COMPONENT;
    use crate::capture::settings::Settings;
    use crate::migrate::migrate;
    use seriatim::backend::Kind;
    use std::path::Path;

    fn plan(schema: &str, after: bool) -> Vec<String> {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        migrate(&mut connection, &COMPONENT).unwrap();
        let names = Names::of_table("t", Path::new("memory"));
        let settings = Settings::new("memory".into(), Kind::Journal, names);
        let transaction = install::write(&mut connection).unwrap();
        let watched = install::install(&transaction, &settings).unwrap();
        transaction.execute_batch(&create(&watched)).unwrap();
        let mut statement =
            transaction.prepare(&format!("explain query plan {}", select(&watched, after))).unwrap();
        let nothing = vec![Exact::Null; statement.parameter_count()];
        let steps = statement.query_map(params_from_iter(&nothing), |row| row.get(3)).unwrap();
        steps.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn a_chunk_of_a_big_table_costs_as_much_as_one_of_a_small_table() {
        let tables = [
            "create table t (k integer primary key, p)",
            "create table t (k text primary key, p)",
            "create table t (p, a, b, primary key (b, a))",
            "create table t (k primary key, p) without rowid",
        ];
        for table in tables {
            let plan = plan(table, true);
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "sorts: {table}: {plan:?}");
            assert!(
                !plan.iter().any(|step| step.starts_with("SCAN r")),
                "scans the table: {table}: {plan:?}"
            );
            assert!(
                !plan.iter().any(|step| step.starts_with("SCAN f")),
                "scans the changes: {table}: {plan:?}"
            );
        }
    }
}
