//! The triggers of a log: one row for each key, which moves to a new place with every change.
//!
//! A row has two places. `seq` is the newest; `first` is the oldest that some consumer has not passed. A row that changes all
//! the time moves on with `seq` before a slow consumer gets there, but waits for it at `first`.
//!
//! Nobody sees a place before its transaction is committed, and its reader looks at the table then. So a key gets its place
//! *before* the write: a write that is cut off afterwards is noted all the same, and whatever is written between the two
//! is noted by itself. Two kinds of writes are noted after it, and put something aside before it in case that never comes:
//! - those that collide with other rows, since most of them are ignored or become updates (see [`super::aside`]);
//! - inserts for which SQLite chooses the key.

use super::aside::Aside;
use crate::capture::names::{Event, Objects};
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

/// Makes the tables of what is put aside.
pub(in crate::capture) fn create_aside(objects: &Objects, table: &Table, key: &[usize]) -> String {
    Aside::new(objects, table, key).create()
}

/// Makes all triggers. Where an event has several, their order does not matter.
pub(in crate::capture) fn create_triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let log = Log { objects, table, key, aside: Aside::new(objects, table, key) };
    log.on_insert() + &log.on_update() + &log.on_delete()
}

/// Notes what statements left that were ignored or cut off. For somebody who can write: no statement is running then.
pub(in crate::capture) fn settle(objects: &Objects, table: &Table, key: &[usize]) -> String {
    let log = Log { objects, table, key, aside: Aside::new(objects, table, key) };
    let keyless = table.chosen_key().map(|chosen| log.settle_keyless(chosen)).unwrap_or_default();
    keyless + &log.settle_aside()
}

/// Whether there is anything to settle.
pub(in crate::capture) fn left_over(objects: &Objects, table: &Table) -> String {
    let keyless = match table.chosen_key() {
        Some(_) => format!(" or exists (select 1 from {})", objects.keyless()),
        None => String::new(),
    };
    format!("(exists (select 1 from {}){keyless})", objects.replaced())
}

/// SQL that moves keys to new places.
struct Log<'a> {
    objects: &'a Objects,
    table: &'a Table,
    key: &'a [usize],
    aside: Aside<'a>,
}

impl Log<'_> {
    fn trigger(&self, event: Event, condition: &str, body: &str) -> String {
        self.objects.trigger(event, self.table, condition, body)
    }

    fn on_insert(&self) -> String {
        let aside = &self.aside;
        let collides =
            format!("{}\n  or {}\n  or {}", self.unknown_key(), aside.late_key(), aside.insert_collides());
        let mut replaced = aside.gone();
        replaced.extend([aside.of("new"), aside.absence_of("new")]);
        let mut ended = aside.any(&replaced) + &self.null_key();
        let mut end = self.vanished(&aside.gone()) + &self.moved("new") + &self.forget("new");
        let mut keyless = String::new();
        if let Some(chosen) = self.table.chosen_key() {
            let (marks, log) = (&aside.keyless, self.objects.changes());
            let any = format!("exists (select 1 from {marks})");
            let (id, table) = (self.table.column(chosen), self.table.quoted());
            ended = format!("{any}\n  or {ended}");
            // Every insert inside one of these adds a mark and takes one away, so the outer one's stays until it ends.
            end += &format!("  delete from {marks} where rowid = (select max(rowid) from {marks});\n");
            keyless = self.trigger(
                Event::KeylessInsert,
                &format!("new.{id} = -1 or {any}"),
                &format!(
                    "  insert into {marks} values (ifnull((select max({id}) from {table}), 0), ifnull((select max(seq) from {log}), 0));\n"
                ),
            );
        }
        self.trigger(Event::BeforeInsert, &format!("not ({collides})"), &self.moves("new"))
            + &self.trigger(Event::CollidingInsert, &collides, &aside.before_insert())
            + &keyless
            + &self.trigger(Event::Insert, &ended, &end)
    }

    fn on_update(&self) -> String {
        let aside = &self.aside;
        let collides = format!("{}\n  or {}", aside.late_key(), aside.update_collides());
        let moved = self.key_differs();
        let mut touched = aside.gone();
        touched.extend([aside.of("old"), aside.of("new"), aside.absence_of("new")]);
        let forget = self.forget("old");
        let end = self.vanished(&aside.gone()) + &self.moved("old") + &self.moved("new");
        let changed = format!("({}) and not ({collides})", self.anything_differs());
        let becomes_another = format!("({moved}) and not ({collides})");
        // SQLite fires the newest first, and the old key's place reads better before the new one's.
        self.trigger(Event::BeforeUpdateOfKey, &becomes_another, &self.moves("new"))
            + &self.trigger(Event::BeforeUpdate, &changed, &(self.moves("old") + &forget))
            + &self.trigger(Event::CollidingUpdate, &collides, &aside.before_update())
            + &self.trigger(
                Event::Update,
                &format!("({})\n  and ({})", self.anything_differs(), aside.any(&touched)),
                &(end + &forget + &self.forget("new")),
            )
            + &self.trigger(Event::UpdateOfKey, &moved, &self.is_deleted())
    }

    fn on_delete(&self) -> String {
        self.trigger(Event::BeforeDelete, "", &(self.moves("old") + &self.forget("old")))
            + &self.trigger(Event::Delete, "", &self.is_deleted())
    }

    /// Before an insert: SQLite has yet to choose the key.
    fn unknown_key(&self) -> String {
        match self.table.chosen_key().filter(|chosen| self.key.contains(chosen)) {
            Some(chosen) => format!("new.{} = -1", self.table.column(chosen)),
            None => "0".to_owned(),
        }
    }

    /// After an insert: rows with NULL in their key are not put aside.
    fn null_key(&self) -> String {
        let nullable = |slot: &&usize| self.table.is_nullable(**slot);
        let null = |slot: &usize| format!("\n  or new.{} is null", self.table.column(*slot));
        self.key.iter().filter(nullable).map(null).collect()
    }

    /// The key of `old` or `new` gets a new place, and its former one is cleared away.
    ///
    /// With VALUES and the number just drawn: a SELECT that reads the table it inserts into goes through a temporary table,
    /// which costs a writer several times as much.
    fn moves_to(&self, image: &str, deleted: impl Fn(&[String]) -> String) -> String {
        let key: Vec<String> =
            self.key.iter().map(|slot| format!("{image}.{}", self.table.column(*slot))).collect();
        let log = self.objects.changes();
        format!(
            "  insert into {log} {} values ({});\n\
            \x20 delete from {log} where {} and seq < last_insert_rowid();\n\
            \x20 update {log} set first = seq where seq = last_insert_rowid() and first = 0;\n",
            self.columns(),
            self.values(&key, &deleted(&key)),
            self.same_key(&log, &key)
        )
    }

    /// The same, before the write.
    fn moves(&self, image: &str) -> String {
        self.moves_to(image, |_| "0".to_owned())
    }

    /// The same, after the write. Others may have deleted the row already.
    fn moved(&self, image: &str) -> String {
        self.moves_to(image, |key| self.is_gone(key))
    }

    /// The table has no row of this key.
    fn is_gone(&self, key: &[String]) -> String {
        let same = self.key.iter().zip(key);
        let same = all(same.flat_map(|(slot, value)| self.table.same_key_column(self.key, *slot, value)));
        format!("not exists (select 1 from {} as r where {same})", self.table.quoted())
    }

    /// The row was there when its key got its place, and is gone now.
    fn is_deleted(&self) -> String {
        let key: Vec<String> =
            self.key.iter().map(|slot| format!("old.{}", self.table.column(*slot))).collect();
        let log = self.objects.changes();
        format!(
            "  update {log} set deleted = 1 where {} and {};\n",
            self.same_key(&log, &key),
            self.is_gone(&key)
        )
    }

    /// A row whose key has just got a place is not put aside any more.
    fn forget(&self, image: &str) -> String {
        let aside = &self.aside;
        aside.forget(&aside.of(image)) + &aside.forget(&aside.absence_of(image))
    }

    /// The keys of rows that were replaced without a word.
    fn vanished(&self, gone: &[String]) -> String {
        gone.iter().map(|which| self.move_aside(which) + &self.aside.forget(which)).collect()
    }

    fn settle_aside(&self) -> String {
        self.move_aside(&self.aside.changed()) + &self.aside.forget("1")
    }

    /// The keys of rows put aside get new places.
    fn move_aside(&self, which: &str) -> String {
        let aside = &self.aside.name;
        let key: Vec<String> = self.key.iter().map(|slot| format!("{aside}.c{slot}")).collect();
        let which = format!("{which}{}", whole(&key));
        self.move_all(&key, aside, &which, &which)
    }

    /// Rows that have appeared since an insert without a key began, and have no place since then, are its own.
    fn settle_keyless(&self, chosen: usize) -> String {
        let (marks, log) = (&self.aside.keyless, self.objects.changes());
        let key: Vec<String> =
            self.key.iter().map(|slot| format!("row.{}", self.table.column(*slot))).collect();
        let from = format!("{} as row", self.table.quoted());
        let among = format!("row.{} > (select min(above) from {marks})", self.table.column(chosen));
        let which = format!(
            "{among}{}\n    and not exists (select 1 from {log} as l where {} and l.seq > (select min(seq) from {marks}))",
            whole(&key),
            self.same_key("l", &key)
        );
        self.move_all(&key, &from, &which, &among) + &format!("  delete from {marks};\n")
    }

    /// The keys of all these rows get new places; the former ones, of rows among those, are cleared away.
    fn move_all(&self, key: &[String], from: &str, which: &str, among: &str) -> String {
        let log = self.objects.changes();
        let own: Vec<String> = (0..self.key.len()).map(|index| format!("{log}.k{index}")).collect();
        format!(
            "  insert into {log} {} select {} from {from} where {which};\n\
            \x20 delete from {log} where seq in (select k.seq from {from} join {log} as k on {} where {among})\n    \
             and exists (select 1 from {log} as l where l.seq > {log}.seq and {});\n\
            \x20 update {log} set first = seq where first = 0;\n",
            self.columns(),
            self.values(key, &self.is_gone(key)),
            self.same_key("k", key),
            self.same_key("l", &own),
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

/// A row put aside of which only the primary key is known has no other key.
fn whole(key: &[String]) -> String {
    key.iter().map(|value| format!(" and {value} is not null")).collect()
}
