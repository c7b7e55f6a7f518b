//! The triggers of a journal: every insert, update and delete is one more row, with the state before and after.
//!
//! Values go from column to column and never through text or JSON, so each comes out as it went in. Nothing here is newer
//! than SQLite 3.38: triggers run in the writer's SQLite, not in ours.
//!
//! Each event has two triggers: a short one for a change that nothing comes between, and one for when something is under way
//! (see [`super::flight`]). In which order SQLite fires them does not matter.

use super::flight::{Doing, Flight, OPEN, OPEN_INSERT, Way};
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
    let trigger = |event, condition: &str, body: &str| objects.trigger(event, table, condition, body);
    let (free, under_way) = (format!("not {}", flight.under_way()), flight.under_way());
    let (nothing_aside, any_aside) = (format!("not {}", flight.any_aside()), flight.any_aside());
    [
        trigger(Event::BeforeInsert, &free, &flight.open_insert()),
        trigger(Event::BeforeUpdate, &free, &flight.open()),
        trigger(Event::BeforeDelete, &free, &flight.open()),
        trigger(Event::Insert, &nothing_aside, &flight.close_insert()),
        trigger(Event::Update, &nothing_aside, &flight.close_update()),
        trigger(Event::Delete, &nothing_aside, &flight.close_delete()),
        trigger(
            Event::NestedBeforeInsert,
            &format!("{under_way}\n  or {}", flight.insert_collides()),
            &flight.begin_insert(),
        ),
        trigger(
            Event::NestedBeforeUpdate,
            &format!("{under_way}\n  or {}\n  or {}", flight.moves(), flight.update_collides()),
            &flight.begin_update(),
        ),
        trigger(Event::NestedBeforeDelete, &under_way, &flight.begin_delete()),
        trigger(Event::NestedInsert, &any_aside, &flight.end_insert()),
        trigger(Event::NestedUpdate, &any_aside, &flight.end_update()),
        trigger(Event::NestedDelete, &any_aside, &flight.end_delete()),
    ]
    .concat()
}

impl Flight<'_> {
    /// An open row with the key, and with the greatest one if SQLite is to choose it.
    fn open_insert(&self) -> String {
        let primary = self.table.primary_slots();
        let above = self.table.chosen_key();
        let into =
            primary.iter().map(|slot| format!("new_{slot}")).chain(above.map(|key| format!("old_{key}")));
        let greatest = |key| format!("(select max({}) from {})", self.table.column(key), self.table.quoted());
        let from = primary.iter().map(|slot| self.column("new", *slot)).chain(above.map(greatest));
        format!(
            "  insert into {} (op, at, {}) values ({OPEN_INSERT}, {NOW_MS}, {});\n",
            self.journal,
            list(into),
            list(from)
        )
    }

    /// An open row with the row as it is. Not as `old` says: other triggers may have changed it meanwhile.
    fn open(&self) -> String {
        format!(
            "  insert into {} (op, at, {}) select {OPEN}, {NOW_MS}, {} from {} as r where {};\n",
            self.journal,
            self.each("old_"),
            self.image("r"),
            self.table.quoted(),
            self.row_is_old()
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
        let new = self.put_aside(|slot| self.table.as_it_will_be(slot));
        let touched = self.due_and_kept(&new) + &self.in_the_way();
        self.begin(Doing::Insert, &touched) + &self.keep_absence() + &self.claim()
    }

    fn begin_update(&self) -> String {
        let new = self.put_aside(|slot| self.table.as_it_will_be(slot));
        let touched = self.due_and_kept(&self.aside_of("old"))
            + &self.due_and_kept(&new)
            + &self.in_the_way()
            + &self.keep(&self.row_is_old());
        // SQLite computes generated columns from the columns that some trigger asks for, and takes the others for NULL.
        let ask_for_all = format!("  select {} where 0;\n", self.image("new"));
        self.begin(Doing::Update, &touched) + &self.keep_absence() + &self.link() + &ask_for_all
    }

    fn begin_delete(&self) -> String {
        let touched = self.due_and_kept(&self.aside_of("old")) + &self.keep(&self.row_is_old());
        self.begin(Doing::Delete, &touched)
    }

    fn end_insert(&self) -> String {
        [
            self.replace_claimed(),
            self.keep_absence(),
            self.due(&self.aside_of("new")),
            self.replaced_due(),
            self.journal_due(),
            self.without_key("new", 1),
            self.end(Doing::Insert),
        ]
        .concat()
    }

    fn end_update(&self) -> String {
        [
            self.due(&self.aside_of("old")),
            self.due(&self.aside_of("new")),
            self.replaced_due(),
            self.journal_due(),
            self.without_key("old", 3),
            self.without_key("new", 1),
            self.end(Doing::Update),
        ]
        .concat()
    }

    fn end_delete(&self) -> String {
        self.due(&self.aside_of("old"))
            + &self.journal_due()
            + &self.without_key("old", 3)
            + &self.end(Doing::Delete)
    }

    /// The rows that the new row may have replaced are due.
    fn replaced_due(&self) -> String {
        let due = |way: Way| self.due(&format!("{} and {}.here = 1", way.aside, self.aside));
        self.ways().into_iter().map(due).collect()
    }

    /// Rows with NULL in their key are not put aside: what the trigger sees of them has to do.
    fn without_key(&self, image: &str, op: u8) -> String {
        let nulls: Vec<String> =
            self.nullable().into_iter().map(|slot| format!("{} is null", self.column(image, slot))).collect();
        if nulls.is_empty() {
            return String::new();
        }
        format!(
            "  insert into {} (op, at, {}) select {op}, {NOW_MS}, {} where {};\n",
            self.journal,
            self.each(&format!("{image}_")),
            self.image(image),
            any_of(&nulls)
        )
    }

    fn insert_collides(&self) -> String {
        self.collides(|_| String::new(), "")
    }

    /// The row itself is not in its own way.
    fn update_collides(&self) -> String {
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
