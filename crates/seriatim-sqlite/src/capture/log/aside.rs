//! Rows that a write may change without a word of ours.
//!
//! `REPLACE`, `INSERT OR REPLACE`, `UPDATE OR REPLACE` and `ON CONFLICT REPLACE` in a schema delete every row that is in the
//! way, by any unique constraint, and unless `recursive_triggers` is on, no delete trigger hears of it. `INSERT OR IGNORE` and an
//! upsert look the same until they are done. So a trigger *before* the write puts aside the rows that are in its way, and
//! the rows that it writes itself, as they are then. The trigger *after* it notes which of them are gone.
//!
//! A write that is ignored, or cut off by somebody's `RAISE`, has no trigger after it. Then the rows stay put aside until
//! somebody settles: those that are not in the table as they are here have changed.
//!
//! Triggers must never run into a constraint: the outer statement's conflict clause would overrule theirs. So there is none.

use crate::capture::names::Objects;
use crate::capture::sql::{all, any_of, list, quoted};
use crate::capture::table::{Indexed, Table, Unique};

/// The table of the rows put aside, and the SQL around it.
pub(super) struct Aside<'a> {
    table: &'a Table,
    /// The slots of the log's key.
    key: Vec<usize>,
    /// Its name.
    pub name: String,
    /// The table that has a row for each insert under way whose key SQLite has yet to choose.
    pub keyless: String,
}

/// One way in which a new row can be in another's place.
struct Way {
    /// What must hold besides, for an update; cheaper to ask first.
    gate: String,
    /// With a row of the table.
    with_row: String,
    /// With a row that is put aside.
    with_aside: String,
}

impl<'a> Aside<'a> {
    pub(super) fn new(objects: &Objects, table: &'a Table, key: &[usize]) -> Self {
        Aside { table, key: key.to_vec(), name: objects.replaced(), keyless: objects.keyless() }
    }

    /// Makes the tables, with an index for each way to be in another row's way.
    pub(super) fn create(&self) -> String {
        let name = &self.name;
        let mut keys: Vec<String> = vec![self.index_columns(&self.table.primary)];
        keys.extend(self.table.uniques.iter().map(|unique| self.index_columns(&unique.columns)));
        keys.extend(self.table.rowid.map(|_| "r".to_owned()));
        let index =
            |(number, key): (usize, String)| format!("create index {name}_{number} on {name} ({key});\n");
        let keyless =
            self.table.chosen_key().map(|_| format!("create table {} (above, seq);\n", self.keyless));
        format!(
            "create table {name} (here, {});\n{}{}",
            self.columns(),
            keys.into_iter().enumerate().map(index).collect::<String>(),
            keyless.unwrap_or_default()
        )
    }

    fn index_columns(&self, columns: &[Indexed]) -> String {
        list(columns.iter().map(|column| format!("c{} collate {}", column.slot, quoted(&column.collation))))
    }

    fn slots(&self) -> std::ops::Range<usize> {
        0..self.table.columns.len()
    }

    /// Its columns; the last is the rowid, where that is something else than the primary key.
    fn columns(&self) -> String {
        list(self.slots().map(|slot| format!("c{slot}")).chain(self.table.rowid.map(|_| "r".to_owned())))
    }

    /// The values of those columns in a row of the table.
    fn values(&self) -> String {
        let columns = self.slots().map(|slot| format!("r.{}", self.table.column(slot)));
        list(columns.chain(self.table.rowid.map(|rowid| format!("r.{rowid}"))))
    }

    /// `OR REPLACE` will put a default into the key.
    pub(super) fn late_key(&self) -> String {
        let late = |slot: &&usize| self.table.columns[**slot].is_late();
        let null = |slot: &usize| format!("new.{} is null", self.table.column(*slot));
        let primary = self.table.primary_slots();
        any_of(&self.key.iter().chain(&primary).filter(late).map(null).collect::<Vec<_>>())
    }

    /// An insert is in the way of other rows.
    pub(super) fn insert_collides(&self) -> String {
        self.collides(&self.ways(|_| String::new()), "")
    }

    /// An update is in the way of other rows. The row itself is not in its own way.
    pub(super) fn update_collides(&self) -> String {
        self.collides(&self.gated_ways(), &self.besides_itself())
    }

    fn collides(&self, ways: &[Way], besides: &str) -> String {
        let table = self.table.quoted();
        let exists = |way: &Way| {
            format!("({}exists (select 1 from {table} as r where {}{besides}))", way.gate, way.with_row)
        };
        ways.iter().map(exists).collect::<Vec<_>>().join("\n  or ")
    }

    /// Puts the rows in the way of an insert aside, and that there is none of its key.
    pub(super) fn before_insert(&self) -> String {
        let ways = self.ways(|_| String::new());
        ways.iter().map(|way| self.keep(&way.with_row)).collect::<String>() + &self.keep_absence()
    }

    /// Puts the rows in the way of an update aside, its own row, and that there is none of its new key.
    pub(super) fn before_update(&self) -> String {
        let (ways, besides) = (self.gated_ways(), self.besides_itself());
        let others = ways.iter().map(|way| self.keep(&format!("{}{besides}", way.with_row)));
        let itself = self.keep(&self.row_is("old"));
        others.collect::<String>() + &itself + &self.keep_absence()
    }

    fn besides_itself(&self) -> String {
        format!(" and not ({})", self.row_is("old"))
    }

    fn gated_ways(&self) -> Vec<Way> {
        let differs = |column: &Indexed| {
            let name = self.table.column(column.slot);
            format!("old.{name} is not new.{name} collate binary")
        };
        self.ways(|columns| format!("{} and ", any_of(&columns.iter().map(differs).collect::<Vec<_>>())))
    }

    /// Puts rows `r` aside that are not yet. One statement for each way: SQLite would rather scan than use an index for each
    /// side of an OR.
    fn keep(&self, which: &str) -> String {
        let (table, name) = (self.table.quoted(), &self.name);
        let known = self.aside_is(|slot| format!("r.{}", self.table.column(slot)));
        let refresh = match self.table.rowid {
            None => String::new(),
            // VACUUM has given the rows other rowids since.
            Some(rowid) => format!(
                "  update {name} set r = (select r.{rowid} from {table} as r where {known}) where rowid in\n    \
                 (select {name}.rowid from {table} as r join {name} on {known} where {which});\n"
            ),
        };
        format!(
            "{refresh}  insert into {name} (here, {}) select 1, {} from {table} as r where {which}\n    \
             and not exists (select 1 from {name} where {known});\n",
            self.columns(),
            self.values()
        )
    }

    /// Puts aside that there is no row of the new key. Nothing else of that row matters.
    fn keep_absence(&self) -> String {
        let (table, name) = (self.table.quoted(), &self.name);
        let new = |slot: usize| self.table.as_it_will_be(slot);
        let whole = all(self.key.iter().map(|slot| format!("{} is not null", new(*slot))));
        format!(
            "  insert into {name} (here, {}) select 0, {} where {whole}\n    \
             and not exists (select 1 from {name} where {}) and not exists (select 1 from {table} as r where {});\n",
            list(self.key.iter().map(|slot| format!("c{slot}"))),
            list(self.key.iter().map(|slot| new(*slot))),
            self.absence(new),
            self.row_of_key(new)
        )
    }

    /// Holds for the absence put aside of this key.
    fn absence(&self, value: impl Fn(usize) -> String) -> String {
        let name = &self.name;
        let same = |slot: &usize| format!("{name}.c{slot} is +{} collate binary", value(*slot));
        format!("{} and {name}.here = 0", all(self.key.iter().map(same)))
    }

    /// Holds for the absence put aside of an image's key.
    pub(super) fn absence_of(&self, image: &str) -> String {
        self.absence(|slot| format!("{image}.{}", self.table.column(slot)))
    }

    /// The row `r` has this key.
    fn row_of_key(&self, value: impl Fn(usize) -> String) -> String {
        let same = |slot: &usize| self.table.same_key_column(&self.key, *slot, &value(*slot));
        all(self.key.iter().flat_map(same))
    }

    /// Every way in which a new row can be in another's place.
    fn ways(&self, gate: impl Fn(&[Indexed]) -> String) -> Vec<Way> {
        let name = &self.name;
        let way = |columns: &[Indexed], gate| {
            let with = |theirs: &dyn Fn(usize) -> String, plus: &str| {
                let equal = |column: &Indexed| {
                    let new = self.table.as_it_will_be(column.slot);
                    format!("{} = {plus}{new} collate {}", theirs(column.slot), quoted(&column.collation))
                };
                all(columns.iter().map(equal))
            };
            let with_row = with(&|slot| format!("r.{}", self.table.column(slot)), "");
            // `+` takes the affinity away, without which the index (that has none) would not be used.
            let with_aside = with(&|slot| format!("{name}.c{slot}"), "+");
            Way { gate, with_row, with_aside }
        };
        let by_unique = |unique: &Unique| {
            // A change of any column may bring a row under a partial index.
            let gate = if unique.partial { String::new() } else { gate(&unique.columns) };
            way(&unique.columns, gate)
        };
        let by_rowid = |rowid| Way {
            gate: String::new(),
            with_row: format!("r.{rowid} = new.{rowid}"),
            with_aside: format!("{name}.r = +new.{rowid}"),
        };
        let mut ways = vec![way(&self.table.primary, gate(&self.table.primary))];
        ways.extend(self.table.uniques.iter().map(by_unique));
        ways.extend(self.table.rowid.map(by_rowid));
        ways
    }

    /// Hold for the rows put aside that the new row may have replaced and that are not in the table any more: one condition
    /// for each way.
    pub(super) fn gone(&self) -> Vec<String> {
        let (table, name) = (self.table.quoted(), &self.name);
        let (alive, replaced) = (self.row_of_aside(), self.of("new"));
        let gone = |way: Way| {
            format!(
                "{} and {name}.here = 1\n    \
                 and ({replaced} or not exists (select 1 from {table} as r where {alive}))",
                way.with_aside
            )
        };
        self.ways(|_| String::new()).into_iter().map(gone).collect()
    }

    /// Holds for the rows put aside that are not in the table as they are here.
    pub(super) fn changed(&self) -> String {
        let (table, name) = (self.table.quoted(), &self.name);
        let differs = |slot: usize| {
            let now = format!("r.{}", self.table.column(slot));
            let differs = format!("+{now} is not +{name}.c{slot} collate binary");
            match self.table.columns[slot].keeps_types_apart() {
                true => format!("({differs} or typeof({now}) <> typeof({name}.c{slot}))"),
                false => differs,
            }
        };
        format!(
            "({name}.here = 0 and exists (select 1 from {table} as r where {})\n    \
             or {name}.here = 1 and not exists (select 1 from {table} as r where {} and not {}))",
            self.row_of_key(|slot| format!("{name}.c{slot}")),
            self.row_of_aside(),
            any_of(&self.slots().map(differs).collect::<Vec<_>>())
        )
    }

    /// Holds for what is put aside of the row of an image.
    pub(super) fn of(&self, image: &str) -> String {
        self.aside_is(|slot| format!("{image}.{}", self.table.column(slot)))
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

    fn aside_is(&self, other: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            let (name, collation) = (&self.name, quoted(&column.collation));
            format!("{name}.c{} is +{} collate {collation}", column.slot, other(column.slot))
        };
        format!("{} and {}.here = 1", all(self.table.primary.iter().map(same)), self.name)
    }

    fn row_of_aside(&self) -> String {
        self.same_row(|slot| format!("{}.c{slot}", self.name))
    }

    fn row_is(&self, image: &str) -> String {
        self.same_row(|slot| format!("{image}.{}", self.table.column(slot)))
    }

    /// The row `r` of the table has this primary key.
    fn same_row(&self, other: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            let name = self.table.column(column.slot);
            format!("r.{name} is {} collate {}", other(column.slot), quoted(&column.collation))
        };
        all(self.table.primary.iter().map(same))
    }
}
