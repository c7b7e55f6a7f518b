//! The triggers of a journal: every insert, update and delete is one more row, with the state before and after.
//!
//! Values go from column to column and never through text or JSON, so each comes out as it went in. Nothing here is newer
//! than SQLite 3.38: triggers run in the writer's SQLite, not in ours.

use crate::capture::names::{Event, Objects};
use crate::capture::replaced::Replaced;
use crate::capture::sql::{NOW_MS, any, list};
use crate::capture::table::Table;

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

/// The table of rows put aside: whole rows, since a delete has the state before.
pub(in crate::capture) fn replaced<'a>(objects: &Objects, table: &'a Table) -> Replaced<'a> {
    Replaced { table, name: objects.replaced(), slots: (0..table.columns.len()).collect() }
}

/// Makes all triggers.
pub(in crate::capture) fn create_triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let replaced = replaced(objects, table);
    let append = Append { changes: objects.changes(), table };
    let mut identity = key.to_vec();
    identity.extend(table.primary_slots());
    let (collides, put_aside) = replaced.before_insert();
    let (update_collides, update_put_aside) = replaced.before_update();
    let vanished = append.vanished(&replaced, &replaced.gone_by_insert());
    let insert = vanished + &replaced.keep_new() + &append.row(1, &["new"], "");
    let vanished = append.vanished(&replaced, &replaced.gone_by_update());
    let update = vanished + &replaced.follow() + &append.update(&identity);
    let delete = replaced.forget(&replaced.is_old()) + &append.row(3, &["old"], "");
    [
        objects.trigger(Event::BeforeInsert, table, &collides, &put_aside),
        objects.trigger(Event::BeforeUpdate, table, &update_collides, &update_put_aside),
        objects.trigger(Event::Insert, table, "", &insert),
        objects.trigger(Event::Update, table, "", &update),
        objects.trigger(Event::Delete, table, "", &delete),
    ]
    .concat()
}

/// SQL that appends to the journal.
struct Append<'a> {
    changes: String,
    table: &'a Table,
}

impl Append<'_> {
    /// One row with the given images (`old`, `new`), when the condition holds.
    fn row(&self, op: u8, images: &[&str], condition: &str) -> String {
        let slots = || 0..self.table.columns.len();
        let into = images.iter().flat_map(|image| slots().map(move |slot| format!("{image}_{slot}")));
        let from = images
            .iter()
            .flat_map(|image| slots().map(move |slot| format!("{image}.{}", self.table.column(slot))));
        let (into, from) = (list(into), list(from));
        format!("  insert into {} (op, at, {into}) select {op}, {NOW_MS}, {from}{condition};\n", self.changes)
    }

    /// An update, or a delete and an insert when the row became another object.
    fn update(&self, identity: &[usize]) -> String {
        let differs = |slot: &usize| {
            let name = self.table.column(*slot);
            format!("old.{name} is not new.{name} collate binary")
        };
        let moved = any(identity.iter().map(differs));
        [
            self.row(3, &["old"], &format!(" where {moved}")),
            self.row(1, &["new"], &format!(" where {moved}")),
            self.row(2, &["old", "new"], &format!(" where not ({moved})")),
        ]
        .concat()
    }

    /// A delete for each row that was replaced without a word: one for which one of the conditions holds.
    fn vanished(&self, replaced: &Replaced<'_>, gone: &[String]) -> String {
        let into = list(replaced.slots.iter().map(|slot| format!("old_{slot}")));
        let from = list(replaced.slots.iter().map(|slot| format!("c{slot}")));
        let vanished = |gone: &String| {
            format!(
                "  insert into {} (op, at, {into}) select 3, {NOW_MS}, {from} from {} where {gone};\n{}",
                self.changes,
                replaced.name,
                replaced.forget(gone)
            )
        };
        gone.iter().map(vanished).collect()
    }
}
