//! What is under way: changes of rows that are made but not yet journalled, or about to be made.
//!
//! SQLite runs foreign key actions, and the writer's own TEMP triggers, between a write and our trigger *after* it; other
//! BEFORE triggers, and the deletes of a REPLACE, between our trigger *before* it and the write. All of them may write the
//! same rows again, so neither the order in which our triggers fire nor their `old` row can be relied on. Hence the rule:
//!
//! - A journal row is the difference between the state of a row that was journalled last and the row in the table now.
//! - A trigger *before* a write keeps the state that was journalled last, and journals first what somebody else has changed
//!   since. A trigger *after* the write journals the difference.
//!
//! Between two writes of one row there is always one of our triggers for that row. So every change is journalled, in the order in
//! which they were made, and each begins where the last one ended, whatever comes between.
//!
//! Almost always nothing comes between. Then the state is kept in the journal itself, as an *open* row at its end, and the
//! trigger after the write closes it. When a trigger before a write finds something under way, it puts the state aside in a table,
//! by key, and while there is anything in that table every trigger uses it. The outermost change empties it.
//!
//! A write that is ignored or fails half-way has no trigger after it. What it left is found out when the table's triggers run
//! next, and before changes are pruned: the difference, if there is one, is journalled then. Whether something is left from an
//! earlier statement is told by its time: the time does not pass within one.
//!
//! Triggers must never run into a constraint: the outer statement's conflict clause would overrule theirs. So there is none.

mod steps;

use crate::capture::names::Objects;
use crate::capture::sql::{NOW_MS, all, any_of, list, quoted};
use crate::capture::table::{Indexed, Table};

/// Journal rows with these numbers are changes.
pub(in crate::capture) const CHANGES: &str = "op between 1 and 3";

/// The open row of an insert; its key is in the new columns.
pub(super) const OPEN_INSERT: i8 = -1;
/// The open row of an update or a delete; the state that was journalled last is in the old columns.
pub(super) const OPEN: i8 = 0;
/// An open row that is not needed any more. Its number must not be drawn again, so it stays.
pub(super) const VOID: i8 = 9;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Insert = 1,
    Update = 2,
    Delete = 3,
}

/// In the table of what is under way: an insert whose key SQLite has yet to choose.
const KEYLESS_INSERT: u8 = 0;
/// An insert with a key; the row says only that something is under way.
const KEYED_INSERT: u8 = 4;

/// The journal, the table of what is under way, and SQL about both.
pub(in crate::capture) struct Flight<'a> {
    pub objects: Objects,
    pub table: &'a Table,
    level: Level,
    pub journal: String,
    pub aside: String,
    /// The slots that make another object of a row when they change.
    identity: Vec<usize>,
}

/// Where the SQL runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// In a trigger on the table.
    Table,
    /// In a trigger on a view of ours, which has both images side by side. It must not name the user's table: that may be
    /// dropped and made anew, and SQLite renames no table while a trigger names one that is not there.
    View,
}

/// One way in which a new row can be in another's place.
pub(super) struct Way {
    /// Its columns; `None` for the rowid.
    pub columns: Option<(Vec<Indexed>, bool)>,
    /// A row `r` of the table is in the way of the new row.
    pub row: String,
    /// A row put aside was in the way of the new row.
    pub aside: String,
}

impl<'a> Flight<'a> {
    pub(in crate::capture) fn new(objects: &Objects, table: &'a Table, key: &[usize]) -> Self {
        let mut identity: Vec<usize> = key.iter().copied().chain(table.primary_slots()).collect();
        identity.sort_unstable();
        identity.dedup();
        let (journal, aside) = (objects.changes(), objects.replaced());
        Flight { objects: *objects, table, level: Level::Table, journal, aside, identity }
    }

    /// The same, for programs behind views.
    pub(super) fn behind_view(&self) -> Self {
        Flight {
            level: Level::View,
            journal: self.journal.clone(),
            aside: self.aside.clone(),
            identity: self.identity.clone(),
            ..*self
        }
    }

    /// The time of the statement. It takes long to compute, so it is passed on.
    pub(super) fn now(&self) -> &'static str {
        match self.level {
            Level::Table => NOW_MS,
            Level::View => "new.now",
        }
    }

    /// See [`Table::as_it_will_be`].
    pub(super) fn as_it_will_be(&self, slot: usize) -> String {
        self.table.will_be(slot, self.column("new", slot))
    }

    /// Makes the table of what is under way.
    pub(in crate::capture) fn create(&self) -> String {
        let aside = &self.aside;
        let index_columns = |columns: &[Indexed]| {
            list(columns.iter().map(|one| format!("c{} collate {}", one.slot, quoted(&one.collation))))
        };
        let mut indexes: Vec<String> = vec![index_columns(&self.table.primary)];
        indexes.extend(self.table.uniques.iter().map(|unique| index_columns(&unique.columns)));
        indexes.extend(self.table.rowid.map(|_| "r".to_owned()));
        let index =
            |(number, key): (usize, String)| format!("create index {aside}_{number} on {aside} ({key});\n");
        format!(
            "create table {aside} (at, kind, shared, here, claimed, due, above, was, {}, p, {});\n{}\
             create index {aside}_due on {aside} (due) where due = 1;\n\
             create index {aside}_kind on {aside} (kind) where kind is not null;\n",
            self.columns(),
            self.present_columns(),
            indexes.into_iter().enumerate().map(index).collect::<String>()
        )
    }

    pub(super) fn slots(&self) -> std::ops::Range<usize> {
        0..self.table.columns.len()
    }

    pub(super) fn column(&self, image: &str, slot: usize) -> String {
        match (self.level, image) {
            (Level::View, "new") => format!("new.n{slot}"),
            (Level::View, "old") => format!("new.o{slot}"),
            _ => format!("{image}.{}", self.table.column(slot)),
        }
    }

    /// The rowid of an image, where that is something else than the primary key.
    pub(super) fn rowid(&self, image: &str) -> String {
        match (self.level, image) {
            (Level::View, "new") => "new.nr".to_owned(),
            (Level::View, "old") => "new.pr".to_owned(),
            _ => format!("{image}.{}", self.table.rowid.unwrap_or("rowid")),
        }
    }

    /// `old_0, old_1, …`
    pub(super) fn each(&self, prefix: &str) -> String {
        list(self.slots().map(|slot| format!("{prefix}{slot}")))
    }

    /// The columns of an image: `old`, `new`, or a row of the table.
    pub(super) fn image(&self, image: &str) -> String {
        list(self.slots().map(|slot| self.column(image, slot)))
    }

    /// The columns of a row put aside; the last is the rowid, where that is something else than the primary key.
    pub(super) fn columns(&self) -> String {
        let rowid = self.table.rowid.map(|_| "r".to_owned());
        list(self.slots().map(|slot| format!("c{slot}")).chain(rowid))
    }

    /// The columns for how a row is in the table now, in the same order.
    pub(super) fn present_columns(&self) -> String {
        let rowid = self.table.rowid.map(|_| "sr".to_owned());
        list(self.slots().map(|slot| format!("s{slot}")).chain(rowid))
    }

    pub(super) fn values(&self, image: &str) -> String {
        let rowid = self.table.rowid.map(|_| self.rowid(image));
        list(self.slots().map(|slot| self.column(image, slot)).chain(rowid))
    }

    /// Slots of the primary key that can be NULL. Rows with NULL in their key cannot be told apart, and are never put aside.
    pub(super) fn nullable(&self) -> Vec<usize> {
        self.table.nullable_key()
    }

    pub(super) fn and_whole(&self, value: impl Fn(usize) -> String) -> String {
        self.nullable().into_iter().map(|slot| format!(" and {} is not null", value(slot))).collect()
    }

    pub(super) fn primary(&self, piece: impl Fn(usize) -> String) -> String {
        list(self.table.primary.iter().map(|column| piece(column.slot)))
    }

    /// A row put aside (or the mark of what is under way) has this primary key.
    pub(super) fn aside_is(&self, aside: &str, value: impl Fn(usize) -> String) -> String {
        let same = |column: &Indexed| {
            let Indexed { slot, collation } = column;
            format!("{aside}.c{slot} is +{} collate {}", value(*slot), quoted(collation))
        };
        all(self.table.primary.iter().map(same))
    }

    /// What is put aside is of the row of this image.
    pub(super) fn aside_of(&self, image: &str) -> String {
        self.put_aside(|slot| self.column(image, slot))
    }

    /// What is put aside is of the row of this key.
    pub(super) fn put_aside(&self, value: impl Fn(usize) -> String) -> String {
        format!("{} and {}.here is not null", self.aside_is(&self.aside, value), self.aside)
    }

    /// The row `r` of the table is the one that is put aside.
    pub(super) fn row_of_aside(&self) -> String {
        let same = |column: &Indexed| {
            let (name, collation) = (self.column("r", column.slot), quoted(&column.collation));
            format!("{name} is {}.c{} collate {collation}", self.aside, column.slot)
        };
        all(self.table.primary.iter().map(same))
    }

    /// The row `r` of the table is the one that is updated or deleted.
    pub(super) fn row_is_old(&self) -> String {
        if let Some(rowid) = self.table.rowid {
            return format!("r.{rowid} = {}", self.rowid("old"));
        }
        self.same_key("r", "old")
    }

    pub(super) fn same_key(&self, one: &str, other: &str) -> String {
        let same = |column: &Indexed| {
            let (one, other) = (self.column(one, column.slot), self.column(other, column.slot));
            format!("{one} is {other} collate {}", quoted(&column.collation))
        };
        all(self.table.primary.iter().map(same))
    }

    /// The row `r` is not as it was put aside.
    pub(super) fn differs(&self) -> String {
        self.differs_from(|slot| format!("{}.c{slot}", self.aside))
    }

    /// The row `r` is not as these values.
    pub(super) fn differs_from(&self, then: impl Fn(usize) -> String) -> String {
        self.any_differs(|slot| self.column("r", slot), then)
    }

    pub(super) fn any_differs(
        &self,
        now: impl Fn(usize) -> String,
        then: impl Fn(usize) -> String,
    ) -> String {
        let differs = |slot: usize| {
            let (now, then) = (now(slot), then(slot));
            let differs = format!("+{now} is not +{then} collate binary");
            match self.table.columns[slot].keeps_types_apart() {
                true => format!("({differs} or typeof({now}) <> typeof({then}))"),
                false => differs,
            }
        };
        any_of(&self.slots().map(differs).collect::<Vec<_>>())
    }

    /// Before a write: no other trigger has changed the row since SQLite read it.
    pub(super) fn is_fresh(&self) -> String {
        format!(
            "exists (select 1 from {} as r where {} and not {})",
            self.table.quoted(),
            self.row_is_old(),
            self.differs_from(|slot| self.column("old", slot))
        )
    }

    /// The update makes another object of its row.
    pub(super) fn moves(&self) -> String {
        let moved = self.moved(|slot| self.column("old", slot), |slot| self.column("new", slot));
        match self.table.rowid {
            Some(_) => format!("({moved} or {} is not {})", self.rowid("old"), self.rowid("new")),
            None => moved,
        }
    }

    pub(super) fn moved(&self, one: impl Fn(usize) -> String, other: impl Fn(usize) -> String) -> String {
        let differs = |slot: &usize| {
            let (one, other) = (one(*slot), other(*slot));
            format!("{one} is not {other} collate binary")
        };
        any_of(&self.identity.iter().map(differs).collect::<Vec<_>>())
    }

    /// Every way in which the new row can be in another's place.
    pub(super) fn ways(&self) -> Vec<Way> {
        let by = |columns: &[Indexed], partial: bool| {
            let equal = |theirs: &dyn Fn(usize) -> String, ours: &dyn Fn(usize) -> String| {
                let equal = |one: &Indexed| {
                    format!("{} = {} collate {}", theirs(one.slot), ours(one.slot), quoted(&one.collation))
                };
                all(columns.iter().map(equal))
            };
            Way {
                columns: Some((columns.to_vec(), partial)),
                row: equal(&|slot| self.column("r", slot), &|slot| self.as_it_will_be(slot)),
                // `+` takes the affinity away, without which the index (that has none) would not be used.
                aside: equal(&|slot| format!("{}.c{slot}", self.aside), &|slot| {
                    format!("+{}", self.column("new", slot))
                }),
            }
        };
        let by_rowid = |rowid| Way {
            columns: None,
            row: format!("r.{rowid} = {}", self.rowid("new")),
            aside: format!("{}.r = +{}", self.aside, self.rowid("new")),
        };
        let mut ways = vec![by(&self.table.primary, false)];
        ways.extend(self.table.uniques.iter().map(|unique| by(&unique.columns, unique.partial)));
        ways.extend(self.table.rowid.map(by_rowid));
        ways
    }

    /// The number of the last row of the journal.
    pub(super) fn last(&self) -> String {
        format!("(select max(id) from {})", self.journal)
    }

    /// Something is put aside.
    pub(super) fn any_aside(&self) -> String {
        format!("exists (select 1 from {})", self.aside)
    }

    /// Something is under way.
    pub(in crate::capture) fn under_way(&self) -> String {
        format!(
            "({} or ifnull((select op from {} order by id desc limit 1) <= 0, 0))",
            self.any_aside(),
            self.journal
        )
    }
}
