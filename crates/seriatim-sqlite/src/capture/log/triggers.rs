//! The triggers of a log: one row for each key, which moves to a new place with every change.
//!
//! A row has two places. `seq` is the newest; `first` is the oldest that some consumer has not passed. A row that changes all
//! the time moves on with `seq` before a slow consumer gets there, but waits for it at `first`.

use crate::capture::names::{Event, Objects};
use crate::capture::replaced::Replaced;
use crate::capture::sql::{NOW_MS, all, any, list};
use crate::capture::table::Table;

/// Makes the table of the log and its indexes.
pub(in crate::capture) fn create_table(objects: &Objects, key: &[usize]) -> String {
    let log = objects.changes();
    let columns = list((0..key.len()).map(|index| format!("k{index}")));
    format!(
        "create table {log} (seq integer primary key autoincrement, first, first_at, at, deleted, {columns});\n\
         create index {log}_first on {log} (first);\n\
         create index {log}_key on {log} ({columns});\n\
         create index {log}_deleted on {log} (deleted) where deleted = 1;"
    )
}

/// The table of rows put aside: what tells rows and keys apart is enough.
pub(in crate::capture) fn replaced<'a>(objects: &Objects, table: &'a Table, key: &[usize]) -> Replaced<'a> {
    let mut slots = table.primary_slots();
    slots.extend(key);
    slots.sort_unstable();
    slots.dedup();
    Replaced { table, name: objects.replaced(), slots }
}

/// Makes all triggers.
pub(in crate::capture) fn create_triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let replaced = replaced(objects, table, key);
    let log = Log { objects, table, key };
    let (collides, put_aside) = replaced.before_insert();
    let (update_collides, update_put_aside) = replaced.before_update();
    let vanished = log.vanished(&replaced);
    let insert = vanished.clone() + &log.moved("new", "0", "") + &log.settle();
    let old_key = log.moved("old", "1", &format!(" where {}", log.key_differs()));
    let update = replaced.forget_old() + &vanished + &old_key + &log.moved("new", "0", "") + &log.settle();
    let delete = replaced.forget_old() + &log.moved("old", "1", "") + &log.settle();
    [
        objects.trigger(Event::BeforeInsert, table, &collides, &put_aside),
        objects.trigger(Event::BeforeUpdate, table, &update_collides, &update_put_aside),
        objects.trigger(Event::Insert, table, "", &insert),
        objects.trigger(Event::Update, table, &log.anything_differs(), &update),
        objects.trigger(Event::Delete, table, "", &delete),
    ]
    .concat()
}

/// SQL that moves keys to new places.
struct Log<'a> {
    objects: &'a Objects,
    table: &'a Table,
    key: &'a [usize],
}

impl Log<'_> {
    /// The key of `old` or `new` gets a new place, and its former ones are cleared away.
    fn moved(&self, image: &str, deleted: &str, condition: &str) -> String {
        let key: Vec<String> = self.key.iter().map(|slot| format!("{image}.{}", self.table.column(*slot))).collect();
        let log = self.objects.changes();
        let same = self.same_key(&log, &key);
        let newest = format!("(select max(l.seq) from {log} as l where {})", self.same_key("l", &key));
        self.insert(&key, deleted, condition) + &format!("  delete from {log} where {same} and seq < {newest};\n")
    }

    /// The keys of rows that were replaced without a word.
    fn vanished(&self, replaced: &Replaced<'_>) -> String {
        let (log, aside) = (self.objects.changes(), &replaced.name);
        let key: Vec<String> = self.key.iter().map(|slot| format!("{aside}.c{slot}")).collect();
        let gone = replaced.is_gone();
        let insert = self.insert(&key, "1", &format!(" from {aside} where {gone}"));
        let newer = format!("exists (select 1 from {log} as l where l.seq > {log}.seq and {})", {
            let own: Vec<String> = (0..self.key.len()).map(|index| format!("{log}.k{index}")).collect();
            self.same_key("l", &own)
        });
        let clear = format!(
            "  delete from {log} where seq in (select k.seq from {aside} join {log} as k on {} where {gone}) and {newer};\n",
            self.same_key("k", &key)
        );
        insert + &clear + &replaced.forget_gone()
    }

    fn insert(&self, key: &[String], deleted: &str, rest: &str) -> String {
        let log = self.objects.changes();
        // What some consumer has not passed yet stays in its place.
        let waiting = format!(
            "from {log} as l where {} and l.first > (select min(consumed) from seriatim_consumer where capture = {})",
            self.same_key("l", key),
            self.objects.capture
        );
        let columns = list((0..key.len()).map(|index| format!("k{index}")));
        format!(
            "  insert into {log} (first, first_at, at, deleted, {columns}) select \
             ifnull((select l.first {waiting}), 0), ifnull((select l.first_at {waiting}), {NOW_MS}), {NOW_MS}, {deleted}, {}{rest};\n",
            list(key.iter().cloned())
        )
    }

    /// A row that nobody waits for has one place: its number was not known before it was drawn.
    fn settle(&self) -> String {
        format!("  update {} set first = seq where first = 0;\n", self.objects.changes())
    }

    /// `+` takes the affinity away, without which the index on the key (that has none) would not be used.
    fn same_key(&self, row: &str, key: &[String]) -> String {
        all(key.iter().enumerate().map(|(index, value)| format!("{row}.k{index} is +{value} collate binary")))
    }

    fn key_differs(&self) -> String {
        any(self.key.iter().map(|slot| self.differs(*slot)))
    }

    fn anything_differs(&self) -> String {
        any((0..self.table.columns.len()).map(|slot| self.differs(slot)))
    }

    fn differs(&self, slot: usize) -> String {
        let name = self.table.column(slot);
        let differs = format!("old.{name} is not new.{name} collate binary");
        if self.table.columns[slot].keeps_types_apart() {
            return format!("{differs} or typeof(old.{name}) <> typeof(new.{name})");
        }
        differs
    }
}
