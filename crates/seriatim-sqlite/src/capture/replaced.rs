//! Rows that vanish without a word.
//!
//! `REPLACE`, `INSERT OR REPLACE`, `UPDATE OR REPLACE` and `ON CONFLICT REPLACE` in a schema delete every row that is in the
//! way, by any unique constraint, and unless `recursive_triggers` is on, no delete trigger hears of it. So a trigger *before*
//! the write puts aside the rows that it may replace, and the trigger *after* it looks which of them are really gone.
//!
//! Whatever else comes between the two, a users' trigger that writes to the same table included, keeps this true: a row put
//! aside is the present state of a row that exists, or was replaced by a write whose after-trigger is still to come. For
//! - a write looks only at what is in its own way, so one inside another leaves the other's rows alone;
//! - an update of a row changes what is put aside of it, and a delete (which with `recursive_triggers` is told by the delete's
//!   own trigger) takes it out;
//! - after `INSERT OR IGNORE` or an upsert, what was put aside stays, and is true.
//!
//! - where a user's trigger can write rows after ours has put rows aside, and the statement can then replace those, every row
//!   that is written is put aside too.
//!
//! So it may stay until somebody tidies up, between transactions (see `prune`).
//!
//! Triggers must never run into a constraint: the outer statement's conflict clause would overrule theirs. So there is none.

use super::sql::{all, any, list, quoted};
use super::table::{Column, Indexed, Table, Unique};

/// The table of the rows put aside, and the SQL around it.
pub(super) struct Replaced<'a> {
    pub table: &'a Table,
    /// Its name.
    pub name: String,
    /// Which columns it keeps, as `c0`, `c1`, …; the primary key's and all unique ones are among them.
    pub slots: Vec<usize>,
}

impl Replaced<'_> {
    /// Makes the table, with an index for each way to be in another row's way.
    pub(super) fn create(&self) -> String {
        let name = &self.name;
        let mut keys: Vec<String> = vec![self.index_columns(&self.table.primary)];
        keys.extend(self.table.uniques.iter().map(|unique| self.index_columns(&unique.columns)));
        keys.extend(self.table.rowid.map(|_| "r".to_owned()));
        let index =
            |(number, key): (usize, String)| format!("\ncreate index {name}_{number} on {name} ({key});");
        format!(
            "create table {name} ({});{}",
            self.columns(),
            keys.into_iter().enumerate().map(index).collect::<String>()
        )
    }

    fn index_columns(&self, columns: &[Indexed]) -> String {
        list(columns.iter().map(|column| format!("c{} collate {}", column.slot, quoted(&column.collation))))
    }

    /// Its columns; the last is the rowid, where that is something else than the primary key.
    fn columns(&self) -> String {
        list(self.slots.iter().map(|slot| format!("c{slot}")).chain(self.table.rowid.map(|_| "r".to_owned())))
    }

    /// The values of those columns in an image (`old`, `new`, or a row of the table).
    fn values(&self, image: &str) -> impl Iterator<Item = String> {
        let columns = self.slots.iter().map(move |slot| format!("{image}.{}", self.table.column(*slot)));
        columns.chain(self.table.rowid.map(|rowid| format!("{image}.{rowid}")))
    }

    /// The condition and body of the trigger before an insert.
    pub(super) fn before_insert(&self) -> (String, String) {
        self.put_aside(|_| String::new(), "")
    }

    /// The condition and body of the trigger before an update. The row itself is not in its own way.
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
        self.put_aside(moved, &itself)
    }

    fn put_aside(&self, gate: impl Fn(&[Indexed]) -> String, besides: &str) -> (String, String) {
        let collisions = self.collisions(gate);
        let (table, name) = (self.table.quoted(), &self.name);
        let exists = |one: &Collision| {
            format!("({}exists (select 1 from {table} as r where {}{besides}))", one.gate, one.with_row)
        };
        let when = collisions.iter().map(exists).collect::<Vec<_>>().join("\n  or ");
        let known = self.same_put_aside(|slot| format!("r.{}", self.table.column(slot)));
        // One statement for each way: SQLite would rather scan than use an index for each side of an OR.
        let put_aside = |one: &Collision| {
            let which = format!("{}{besides}", one.with_row);
            let refresh = match self.table.rowid {
                None => String::new(),
                // VACUUM has given the rows other rowids since.
                Some(_) => self.forget(&format!(
                    "rowid in (select {name}.rowid from {table} as r join {name} on {known} where {which})"
                )),
            };
            format!(
                "{refresh}  insert into {name} ({}) select {} from {table} as r where {which}\n    \
                 and not exists (select 1 from {name} where {known});\n",
                self.columns(),
                list(self.values("r"))
            )
        };
        (when, collisions.iter().map(put_aside).collect())
    }

    /// Every way in which a new row can be in another's place.
    fn collisions(&self, gate: impl Fn(&[Indexed]) -> String) -> Vec<Collision> {
        let name = &self.name;
        let collision = |columns: &[Indexed], gate| {
            let with = |theirs: &dyn Fn(usize) -> String, plus: &str| {
                let equal = |column: &Indexed| {
                    let new = as_it_will_be(&self.table.columns[column.slot]);
                    format!("{} = {plus}{new} collate {}", theirs(column.slot), quoted(&column.collation))
                };
                all(columns.iter().map(equal))
            };
            let with_row = with(&|slot| format!("r.{}", self.table.column(slot)), "");
            // `+` takes the affinity away, without which the index (that has none) would not be used.
            let with_put_aside = with(&|slot| format!("{name}.c{slot}"), "+");
            Collision { gate, with_row, with_put_aside }
        };
        let by_unique = |unique: &Unique| {
            // A change of any column may bring a row under a partial index.
            let gate = if unique.partial { String::new() } else { gate(&unique.columns) };
            collision(&unique.columns, gate)
        };
        let by_rowid = |rowid| Collision {
            gate: String::new(),
            with_row: format!("r.{rowid} = new.{rowid}"),
            with_put_aside: format!("{name}.r = +new.{rowid}"),
        };
        let mut collisions = vec![collision(&self.table.primary, gate(&self.table.primary))];
        collisions.extend(self.table.uniques.iter().map(by_unique));
        collisions.extend(self.table.rowid.map(by_rowid));
        collisions
    }

    /// Hold for the rows put aside that an insert has replaced, once the new row is in its place: one condition for each way.
    pub(super) fn gone_by_insert(&self) -> Vec<String> {
        let replaced = self.same_put_aside(|slot| format!("new.{}", self.table.column(slot)));
        let alive = self.same_row("r", |slot| format!("{}.c{slot}", self.name));
        let table = self.table.quoted();
        let gone = |one: Collision| {
            let collides = one.with_put_aside;
            format!(
                "{collides}\n    and (({replaced}) or not exists (select 1 from {table} as r where {alive}))"
            )
        };
        self.collisions(|_| String::new()).into_iter().map(gone).collect()
    }

    /// Hold for the rows put aside that an update has replaced. The row itself is not among them.
    pub(super) fn gone_by_update(&self) -> Vec<String> {
        let others = |gone: String| format!("{gone}\n    and not ({})", self.is_old());
        self.gone_by_insert().into_iter().map(others).collect()
    }

    /// Holds for what is put aside of the row that is updated or deleted.
    pub(super) fn is_old(&self) -> String {
        self.same_put_aside(|slot| format!("old.{}", self.table.column(slot)))
    }

    /// Whether there is a row for which one of the conditions holds.
    pub(super) fn any(&self, conditions: &[String]) -> String {
        let exists = |which: &String| format!("exists (select 1 from {} where {which})", self.name);
        conditions.iter().map(exists).collect::<Vec<_>>().join("\n  or ")
    }

    /// Takes out rows.
    pub(super) fn forget(&self, which: &str) -> String {
        format!("  delete from {} where {which};\n", self.name)
    }

    /// Puts the inserted row aside, where the statement around its own may replace it.
    pub(super) fn keep_new(&self) -> String {
        if !self.table.interposed {
            return String::new();
        }
        format!("  insert into {} ({}) values ({});\n", self.name, self.columns(), list(self.values("new")))
    }

    /// What is put aside of a row follows its update.
    pub(super) fn follow(&self) -> String {
        if self.table.interposed {
            return self.forget(&self.is_old()) + &self.keep_new();
        }
        let names = self.columns();
        let set =
            list(names.split(", ").zip(self.values("new")).map(|(name, value)| format!("{name} = {value}")));
        format!("  update {} set {set} where {};\n", self.name, self.is_old())
    }

    fn same_put_aside(&self, other: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            let (name, collation) = (&self.name, quoted(&column.collation));
            format!("{name}.c{} is +{} collate {collation}", column.slot, other(column.slot))
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
    /// With a row of the table.
    with_row: String,
    /// With a row that is put aside.
    with_put_aside: String,
}

/// `OR REPLACE` puts the default in place of a NULL that must not be, but only after the before-triggers ran.
fn as_it_will_be(column: &Column) -> String {
    let new = format!("new.{}", quoted(&column.name));
    match &column.default {
        Some(default) if column.not_null => format!("ifnull({new}, ({default}))"),
        _ => new,
    }
}
