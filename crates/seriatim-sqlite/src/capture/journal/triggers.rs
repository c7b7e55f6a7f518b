//! The triggers of a journal: every insert, update and delete is one more row, with the state before and after.
//!
//! Values go from column to column and never through text or JSON, so each comes out as it went in. Nothing here is newer
//! than SQLite 3.38: triggers run in the writer's SQLite, not in ours.
//!
//! Each event has three triggers: a short one for a change that nothing comes between, a long one for when something is under way
//! (see [`super::flight`]), and one for the commonest of those cases (see [`super::lean`]).
//!
//! Of the triggers of one event, SQLite fires the newest first. So the long ones are made last: they come first, and once they
//! have put something aside, the others have nothing to do. In which order other people's triggers fire does not matter.

use super::flight::{Doing, Flight, OPEN, OPEN_INSERT, VOID, Way};
use crate::capture::names::{Event, Objects};
use crate::capture::sql::{NOW_MS, any_of, list};
use crate::capture::table::{Indexed, Table};

/// Makes the table of the journal.
pub(in crate::capture) fn create_table(objects: &Objects, columns: usize) -> String {
    let slots = (0..columns).map(|slot| format!(", old_{slot}, new_{slot}")).collect::<String>();
    format!("create table {} (id integer primary key autoincrement, op, at{slots});", objects.changes())
}

/// Makes room for columns that were added to the table.
pub(in crate::capture) fn add_slots(objects: &Objects, from: usize, to: usize) -> String {
    let changes = objects.changes();
    let add = |slot| {
        format!(
            "alter table {changes} add column old_{slot};\nalter table {changes} add column new_{slot};\n"
        )
    };
    (from..to).map(add).collect()
}

/// Makes all triggers.
pub(in crate::capture) fn create_triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let flight = Flight::new(objects, table, key);
    // SQLite fires the newest first.
    [flight.views(), flight.short_triggers(), flight.lean_triggers(), flight.nested_triggers()].concat()
}

impl Flight<'_> {
    pub(super) fn trigger(&self, event: Event, condition: &str, body: &str) -> String {
        self.objects.trigger(event, self.table, condition, body)
    }

    /// For a change that nothing comes between.
    fn short_triggers(&self) -> String {
        let free = format!("not {}", self.under_way());
        [
            self.trigger(Event::BeforeInsert, &free, &self.open_insert()),
            self.trigger(Event::BeforeUpdate, &free, &self.open()),
            self.trigger(Event::BeforeDelete, &free, &self.open()),
            // While anything is put aside, no row is open.
            self.trigger(Event::Insert, "", &self.close_insert()),
            self.trigger(Event::Update, "", &self.close_update()),
            self.trigger(Event::Delete, "", &self.close_delete()),
        ]
        .concat()
    }

    /// For when something is under way, or may come between.
    fn nested_triggers(&self) -> String {
        let nested = |event, needed: String, lean: String, body: &str| {
            self.trigger(event, &format!("({needed})\n  and not ({lean})"), body)
        };
        let (under_way, stale) = (self.under_way(), format!("not {}", self.is_fresh()));
        let any_aside = || self.any_aside();
        let insert = format!("{under_way}\n  or {}", self.insert_collides());
        let update =
            format!("{under_way}\n  or {}\n  or {}\n  or {stale}", self.moves(), self.update_collides());
        let delete = format!("{under_way}\n  or {stale}");
        [
            nested(Event::NestedBeforeInsert, insert, self.lean_insert(), &self.begin_insert()),
            nested(Event::NestedBeforeUpdate, update, self.lean_update(), &self.begin_update()),
            nested(Event::NestedBeforeDelete, delete, self.lean_delete(), &self.begin_delete()),
            nested(Event::NestedInsert, any_aside(), self.leanly_inserted(), &self.end_insert()),
            nested(Event::NestedUpdate, any_aside(), self.leanly_updated(), &self.end_update()),
            nested(Event::NestedDelete, any_aside(), self.leanly_deleted(), &self.end_delete()),
        ]
        .concat()
    }

    /// An open row with the key, and with the greatest one if SQLite is to choose it.
    fn open_insert(&self) -> String {
        let primary = self.table.primary_slots();
        let above = self.table.chosen_key();
        let into =
            primary.iter().map(|slot| format!("new_{slot}")).chain(above.map(|key| format!("old_{key}")));
        let greatest = |key| {
            let (name, table) = (self.table.column(key), self.table.quoted());
            format!("case when new.{name} = -1 then (select max({name}) from {table}) end")
        };
        let from = primary.iter().map(|slot| self.column("new", *slot)).chain(above.map(greatest));
        format!(
            "  insert into {} (op, at, {}) values ({OPEN_INSERT}, {NOW_MS}, {});\n",
            self.journal,
            list(into),
            list(from)
        )
    }

    /// An open row with the row as it is.
    fn open(&self) -> String {
        format!(
            "  insert into {} (op, at, {}) values ({OPEN}, {NOW_MS}, {});\n",
            self.journal,
            self.each("old_"),
            self.image("old")
        )
    }

    fn set_new(&self) -> String {
        list(self.slots().map(|slot| format!("new_{slot} = {}", self.column("new", slot))))
    }

    fn close_insert(&self) -> String {
        let above = self.table.chosen_key().map(|key| format!(", old_{key} = null")).unwrap_or_default();
        self.close(&format!("op = 1, {}{above}", self.set_new()), OPEN_INSERT)
    }

    fn close_update(&self) -> String {
        self.close(&format!("op = 2, {}", self.set_new()), OPEN)
    }

    fn close_delete(&self) -> String {
        self.close("op = 3", OPEN)
    }

    fn close(&self, set: &str, open: i8) -> String {
        format!("  update {} set {set} where id = {} and op = {open};\n", self.journal, self.last())
    }

    fn begin_insert(&self) -> String {
        self.begin(Doing::Insert, &self.insert_is_lean(), &self.in_the_way()) + &self.mark_null_key()
    }

    fn begin_update(&self) -> String {
        let touched = self.in_the_way() + &self.keep(&self.row_is_old());
        let lean = format!("{} and {}", self.row_is_there(), self.update_is_lean());
        self.begin(Doing::Update, &lean, &touched) + &self.mark_null_key()
    }

    fn begin_delete(&self) -> String {
        self.begin(Doing::Delete, &self.row_is_there(), &self.keep(&self.row_is_old()))
    }

    /// Another trigger may have deleted the row already. Then nothing is put aside of it, and the short trigger must not take it
    /// for one that is there.
    fn row_is_there(&self) -> String {
        format!("exists (select 1 from {} as r where {})", self.table.quoted(), self.row_is_old())
    }

    fn end_insert(&self) -> String {
        self.end(Doing::Insert) + &self.without_key("new", 1)
    }

    fn end_update(&self) -> String {
        self.end(Doing::Update) + &self.without_key("old", 3) + &self.without_key("new", 1)
    }

    fn end_delete(&self) -> String {
        self.end(Doing::Delete) + &self.without_key("old", 3)
    }

    /// Rows with NULL in their key are not put aside: what the trigger sees of them has to do.
    fn without_key(&self, image: &str, op: u8) -> String {
        let Some(null) = self.key_is_null(image) else { return String::new() };
        format!(
            "  insert into {} (op, at, {}) select {op}, {NOW_MS}, {} where {};\n",
            self.journal,
            self.each(&format!("{image}_")),
            self.image(image),
            null
        )
    }

    /// Before a row is written that cannot be followed: a journal row without any key stops the reader, also if the trigger
    /// after the write never comes.
    fn mark_null_key(&self) -> String {
        let Some(null) = self.key_is_null("new") else { return String::new() };
        format!("  insert into {} (op, at) select {VOID}, {NOW_MS} where {null};\n", self.journal)
    }

    /// `None` where the table rules it out.
    fn key_is_null(&self, image: &str) -> Option<String> {
        let nullable = self.nullable();
        let nulls: Vec<String> =
            nullable.into_iter().map(|slot| format!("{} is null", self.column(image, slot))).collect();
        (!nulls.is_empty()).then(|| any_of(&nulls))
    }

    fn insert_collides(&self) -> String {
        self.collides(|_| String::new(), "")
    }

    /// The row itself is not in its own way.
    pub(super) fn update_collides(&self) -> String {
        let differs = |column: &Indexed| {
            let (old, new) = (self.column("old", column.slot), self.column("new", column.slot));
            format!("{old} is not {new} collate binary")
        };
        let gate = |way: &Way| match &way.columns {
            // A change of any column may bring a row under a partial index.
            Some((columns, false)) => {
                format!("{} and ", any_of(&columns.iter().map(differs).collect::<Vec<_>>()))
            }
            _ => String::new(),
        };
        self.collides(gate, &format!(" and not ({})", self.same_key("r", "old")))
    }

    fn collides(&self, gate: impl Fn(&Way) -> String, besides: &str) -> String {
        let table = self.table.quoted();
        let collides = |way: &Way| {
            format!("({}exists (select 1 from {table} as r where {}{besides}))", gate(way), way.row)
        };
        self.ways().iter().map(collides).collect::<Vec<_>>().join("\n  or ")
    }
}
