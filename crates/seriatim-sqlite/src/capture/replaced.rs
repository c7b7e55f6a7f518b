//! Rows that vanish without a word.
//!
//! `REPLACE`, `INSERT OR REPLACE`, `UPDATE OR REPLACE` and `ON CONFLICT REPLACE` in a schema delete every row that is in the
//! way, by any unique constraint, and unless `recursive_triggers` is on, no delete trigger hears of it. So a trigger *before*
//! the write puts aside the rows that it may replace, and the trigger *after* it looks which of them are really gone.
//!
//! Whatever else may come between the two is harmless, since a row put aside is always a row that exists:
//! - `INSERT OR IGNORE`: nothing comes after; the rows put aside are still there, the next look finds them alive.
//! - upsert: the insert turns into an update, whose after-trigger takes its row out again (as does a delete's).
//! - `recursive_triggers`: the delete's own trigger has taken the row out, so nothing is told twice.
//!
//! The next write that collides with something clears the table, so it never holds more than one write's rows.
//!
//! Triggers must never run into a constraint: the outer statement's conflict clause would overrule theirs. So there is none.

use super::sql::{all, any, list, quoted};
use super::table::{Column, Indexed, Table, Unique};

/// The table of the rows put aside, and the SQL around it.
pub(super) struct Replaced<'a> {
    pub table: &'a Table,
    /// Its name.
    pub name: String,
    /// Which columns it keeps, as `c0`, `c1`, …; the primary key's are among them.
    pub slots: Vec<usize>,
}

impl Replaced<'_> {
    /// Makes the table.
    pub(super) fn create(&self) -> String {
        format!("create table {} ({});", self.name, self.columns())
    }

    fn columns(&self) -> String {
        list(self.slots.iter().map(|slot| format!("c{slot}")))
    }

    /// The body and condition of the trigger before an insert.
    pub(super) fn before_insert(&self) -> (String, String) {
        self.put_aside(self.collisions(|_| String::new()), "")
    }

    /// The body and condition of the trigger before an update. The row itself is not in its own way.
    pub(super) fn before_update(&self) -> (String, String) {
        let itself =
            format!(" and not ({})", self.same_row("r", |slot| format!("old.{}", self.table.column(slot))));
        let moved = |columns: &[Indexed]| {
            let differs = |column: &Indexed| {
                let name = self.table.column(column.slot);
                format!("old.{name} is not new.{name} collate binary")
            };
            format!("({}) and ", any(columns.iter().map(differs)))
        };
        self.put_aside(self.collisions(moved), &itself)
    }

    fn put_aside(&self, collisions: Vec<Collision>, besides: &str) -> (String, String) {
        let table = self.table.quoted();
        let exists = |one: &Collision| {
            format!("({}exists (select 1 from {table} as r where {}{besides}))", one.gate, one.matches)
        };
        let when = collisions.iter().map(exists).collect::<Vec<_>>().join("\n  or ");
        let columns = list(self.slots.iter().map(|slot| format!("r.{}", self.table.column(*slot))));
        let matches = any(collisions.into_iter().map(|one| format!("({})", one.matches)));
        let name = &self.name;
        let body = format!(
            "  delete from {name};\n  insert into {name} ({}) select {columns} from {table} as r where ({matches}){besides};\n",
            self.columns()
        );
        (when, body)
    }

    /// Every way in which a new row can be in another's place.
    fn collisions(&self, gate: impl Fn(&[Indexed]) -> String) -> Vec<Collision> {
        let collision = |columns: &[Indexed], gate| {
            let equal = |column: &Indexed| {
                let name = self.table.column(column.slot);
                let new = as_it_will_be(&self.table.columns[column.slot]);
                format!("r.{name} = {new} collate {}", quoted(&column.collation))
            };
            Collision { gate, matches: all(columns.iter().map(equal)) }
        };
        let by_unique = |unique: &Unique| {
            // A change of any column may bring a row under a partial index.
            let gate = if unique.partial { String::new() } else { gate(&unique.columns) };
            collision(&unique.columns, gate)
        };
        let mut collisions = vec![collision(&self.table.primary, gate(&self.table.primary))];
        collisions.extend(self.table.uniques.iter().map(by_unique));
        if let Some(rowid) = self.table.rowid {
            collisions.push(Collision { gate: String::new(), matches: format!("r.{rowid} = new.{rowid}") });
        }
        collisions
    }

    /// Holds while a row is put aside that differs from one of these images (`old`, `new`) in what is kept of it.
    pub(super) fn others_than(&self, images: &[&str]) -> String {
        let same = images.iter().flat_map(|image| {
            self.slots
                .iter()
                .map(move |slot| format!("c{slot} is {image}.{} collate binary", self.table.column(*slot)))
        });
        format!("exists (select 1 from {} where not ({}))", self.name, all(same))
    }

    /// Takes a row out again: what happens to it is told by the trigger that calls this.
    pub(super) fn forget_old(&self) -> String {
        let same = self.same_put_aside(|slot| format!("old.{}", self.table.column(slot)));
        format!("  delete from {} where {same};\n", self.name)
    }

    /// Holds for the rows put aside that are really gone, once the new row is in its place.
    pub(super) fn is_gone(&self) -> String {
        let name = &self.name;
        let replaced = self.same_put_aside(|slot| format!("new.{}", self.table.column(slot)));
        let alive = self.same_row("r", |slot| format!("{name}.c{slot}"));
        format!("(({replaced}) or not exists (select 1 from {} as r where {alive}))", self.table.quoted())
    }

    /// Takes out the rows that were told to be gone.
    pub(super) fn forget_gone(&self) -> String {
        format!("  delete from {} where {};\n", self.name, self.is_gone())
    }

    fn same_put_aside(&self, other: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            format!(
                "{}.c{} is {} collate {}",
                self.name,
                column.slot,
                other(column.slot),
                quoted(&column.collation)
            )
        };
        all(self.table.primary.iter().map(same))
    }

    fn same_row(&self, row: &str, other: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            let name = self.table.column(column.slot);
            format!("{row}.{name} is {} collate {}", other(column.slot), quoted(&column.collation))
        };
        all(self.table.primary.iter().map(same))
    }
}

/// One way in which a new row can be in another's place.
struct Collision {
    /// What must hold besides, for an update; cheaper to ask first.
    gate: String,
    matches: String,
}

/// `OR REPLACE` puts the default in place of a NULL that must not be, but only after the before-triggers ran.
fn as_it_will_be(column: &Column) -> String {
    let new = format!("new.{}", quoted(&column.name));
    match &column.default {
        Some(default) if column.not_null => format!("ifnull({new}, ({default}))"),
        _ => new,
    }
}
