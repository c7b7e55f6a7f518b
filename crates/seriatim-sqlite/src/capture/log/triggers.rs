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

/// The table of rows put aside: what tells rows and keys apart, and what can be in another's way, is enough.
pub(in crate::capture) fn replaced<'a>(objects: &Objects, table: &'a Table, key: &[usize]) -> Replaced<'a> {
    let mut slots = table.primary_slots();
    slots.extend(key);
    slots.extend(table.uniques.iter().flat_map(|unique| unique.columns.iter().map(|column| column.slot)));
    slots.sort_unstable();
    slots.dedup();
    Replaced { table, name: objects.replaced(), slots }
}

/// Makes all triggers. Where an event has several, their order does not matter.
pub(in crate::capture) fn create_triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let replaced = replaced(objects, table, key);
    let log = Log { objects, table, key };
    let (collides, put_aside) = replaced.before_insert();
    let (update_collides, update_put_aside) = replaced.before_update();
    let (moved, changed) = (log.key_differs(), log.anything_differs());
    let same_key_changed = format!("({changed}) and not ({moved})");
    let (by_insert, by_update) = (replaced.gone_by_insert(), replaced.gone_by_update());
    let (row_moves, aside) = (log.row_moves(), replaced.any(&[replaced.is_old()]));
    let replaces = format!("{}\n  or (({row_moves}) and {aside})", replaced.any(&by_update));
    // Almost always an upsert: it puts the row aside, replaces nothing, and must not pay for what replacing costs.
    let only_follows =
        if table.interposed { "0".to_owned() } else { format!("not ({row_moves}) and {aside}") };
    let unless_interposed = |condition| if table.interposed { String::new() } else { condition };
    let (new, gone) = (log.moves("new"), log.moves("old"));
    [
        objects.trigger(Event::BeforeInsert, table, &collides, &put_aside),
        objects.trigger(Event::BeforeUpdate, table, &update_collides, &update_put_aside),
        objects.trigger(Event::Insert, table, "", &new),
        objects.trigger(Event::Update, table, &same_key_changed, &new),
        objects.trigger(Event::UpdateOfKey, table, &moved, &(gone.clone() + &new)),
        objects.trigger(Event::Delete, table, "", &(replaced.forget(&replaced.is_old()) + &gone)),
        objects.trigger(
            Event::ReplacingInsert,
            table,
            &unless_interposed(replaced.any(&by_insert)),
            &(log.vanished(&replaced, &by_insert) + &replaced.keep_new()),
        ),
        objects.trigger(
            Event::ReplacingUpdate,
            table,
            &unless_interposed(replaces),
            &(log.vanished(&replaced, &by_update) + &replaced.follow()),
        ),
        objects.trigger(Event::FollowingUpdate, table, &only_follows, &replaced.follow()),
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
    /// The key of `old` or `new` gets a new place, and its former one is cleared away.
    ///
    /// With VALUES and the number just drawn: a SELECT that reads the table it inserts into goes through a temporary table,
    /// which costs a writer several times as much.
    fn moves(&self, image: &str) -> String {
        let key: Vec<String> =
            self.key.iter().map(|slot| format!("{image}.{}", self.table.column(*slot))).collect();
        let log = self.objects.changes();
        // Others may have written the row again, or deleted it, before this trigger fired: what counts is the table.
        let taken = all(self
            .key
            .iter()
            .zip(&key)
            .flat_map(|(slot, value)| self.table.same_key_column(self.key, *slot, value)));
        let deleted = format!("not exists (select 1 from {} as r where {taken})", self.table.quoted());
        format!(
            "  insert into {log} {} values ({});\n\
            \x20 delete from {log} where {} and seq < last_insert_rowid();\n\
            \x20 update {log} set first = seq where seq = last_insert_rowid() and first = 0;\n",
            self.columns(),
            self.values(&key, &deleted),
            self.same_key(&log, &key)
        )
    }

    /// The keys of rows that were replaced without a word. One may belong to the row that replaced it, which then needs
    /// nothing beyond what the new row gets.
    fn vanished(&self, replaced: &Replaced<'_>, gone: &[String]) -> String {
        gone.iter().map(|which| self.vanished_by(replaced, which)).collect()
    }

    fn vanished_by(&self, replaced: &Replaced<'_>, which: &str) -> String {
        let (log, aside) = (self.objects.changes(), &replaced.name);
        let other = any(self
            .key
            .iter()
            .map(|slot| format!("{aside}.c{slot} is not new.{} collate binary", self.table.column(*slot))));
        let gone = format!("{which}\n    and ({other})");
        let key: Vec<String> = self.key.iter().map(|slot| format!("{aside}.c{slot}")).collect();
        let own: Vec<String> = (0..self.key.len()).map(|index| format!("{log}.k{index}")).collect();
        let taken = all(self
            .key
            .iter()
            .zip(&key)
            .flat_map(|(slot, value)| self.table.same_key_column(self.key, *slot, value)));
        let deleted = format!("not exists (select 1 from {} as r where {taken})", self.table.quoted());
        format!(
            "  insert into {log} {} select {} from {aside} where {gone};\n\
            \x20 delete from {log} where seq in (select k.seq from {aside} join {log} as k on {} where {gone})\n    \
             and exists (select 1 from {log} as l where l.seq > {log}.seq and {});\n\
            \x20 update {log} set first = seq where first = 0;\n{}",
            self.columns(),
            self.values(&key, &deleted),
            self.same_key("k", &key),
            self.same_key("l", &own),
            replaced.forget(which)
        )
    }

    fn columns(&self) -> String {
        format!(
            "(first, first_at, at, deleted, {})",
            list((0..self.key.len()).map(|index| format!("k{index}")))
        )
    }

    /// What some consumer has not passed yet stays in its place. Otherwise that is still zero: the number is not drawn yet.
    fn values(&self, key: &[String], deleted: &str) -> String {
        let waiting = format!(
            "from {} as l where {} and l.first > (select min(consumed) from seriatim_consumer where capture = {})",
            self.objects.changes(),
            self.same_key("l", key),
            self.objects.capture
        );
        format!(
            "ifnull((select l.first {waiting}), 0), ifnull((select l.first_at {waiting}), {NOW_MS}), {NOW_MS}, {deleted}, {}",
            list(key.iter().cloned())
        )
    }

    /// `+` takes the affinity away, without which the index on the key (that has none) would not be used.
    fn same_key(&self, row: &str, key: &[String]) -> String {
        all(key.iter().enumerate().map(|(index, value)| format!("{row}.k{index} is +{value} collate binary")))
    }

    /// The update makes another row of it, by the primary key.
    fn row_moves(&self) -> String {
        any(self.table.primary_slots().into_iter().map(|slot| self.differs(slot)))
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
