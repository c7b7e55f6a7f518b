//! Short triggers for the commonest writes while states are put aside: one row, whose key stays, and no other row in its way.
//!
//! After an `INSERT OR IGNORE` or an upsert nobody can tell whether an insert is still under way until the time moves on, a
//! millisecond later. So for a client that writes many of them, almost every write comes while a state is put aside.
//!
//! The rule is that of [`super::flight`]: what is put aside of a row is its state that was journalled last.

use super::flight::{Flight, Way};
use crate::capture::names::Event;
use crate::capture::sql::NOW_MS;

impl Flight<'_> {
    /// The triggers for what the long ones leave to them.
    pub(super) fn lean_triggers(&self) -> String {
        let (aside, old) = (self.any_aside(), self.row_is_old());
        let inserted = self.journal_aside("new") + &self.journal_insert() + &self.is_now("new");
        let updated = self.journal_update() + &self.is_now("old");
        let gone =
            format!("  update {} set here = 0, claimed = 0 where {};\n", self.aside, self.aside_of("old"));
        let unknown = |lean: String| format!("{lean} and not {}", self.known("old"));
        let replaces = self.same_key("r", "new");
        [
            self.trigger(
                Event::AsideBeforeInsert,
                &self.lean_insert(),
                &(self.keep_plainly(&replaces, ", claimed") + &self.keep_absent()),
            ),
            self.trigger(
                Event::AsideBeforeUpdate,
                &unknown(self.lean_update()),
                &self.keep_plainly(&old, ""),
            ),
            self.trigger(
                Event::AsideBeforeDelete,
                &unknown(self.lean_delete()),
                &self.keep_plainly(&old, ""),
            ),
            self.trigger(
                Event::AsideInsert,
                &format!("{aside}\n  and {}", self.leanly_inserted()),
                &inserted,
            ),
            self.trigger(Event::AsideUpdate, &format!("{aside}\n  and {}", self.leanly_updated()), &updated),
            self.trigger(
                Event::AsideDelete,
                &format!("{aside}\n  and {}", self.leanly_deleted()),
                &(self.journal_aside("old") + &gone),
            ),
        ]
        .concat()
    }

    /// An insert with a key, and with no row in its way but one of that key.
    pub(super) fn insert_is_lean(&self) -> String {
        let chosen = self.table.chosen_key().map(|key| format!(" and {} <> -1", self.column("new", key)));
        let table = self.table.quoted();
        let free = |way: Way| format!("\n    and not exists (select 1 from {table} as r where {})", way.row);
        let late = self.table.primary_slots().into_iter().filter(|slot| self.table.columns[*slot].is_late());
        let late = late.map(|slot| format!(" and {} is not null", self.column("new", slot)));
        format!(
            "1{}{}{}{}",
            chosen.unwrap_or_default(),
            late.collect::<String>(),
            self.and_whole(|slot| self.column("new", slot)),
            self.ways().into_iter().skip(1).map(free).collect::<String>()
        )
    }

    /// An update that leaves the key alone, and has no row in its way.
    pub(super) fn update_is_lean(&self) -> String {
        format!("not {} and not ({})", self.moves(), self.update_collides())
    }

    pub(super) fn lean_insert(&self) -> String {
        let entry = format!("not exists (select 1 from {} where {})", self.aside, self.aside_of("new"));
        format!(
            "{} and {}\n  and {entry} and {}",
            self.any_aside(),
            self.only_fresh_states(),
            self.insert_is_lean()
        )
    }

    pub(super) fn lean_update(&self) -> String {
        format!("{} and {}", self.lean_delete(), self.update_is_lean())
    }

    /// States are put aside; that of the row as it is, or it can be. Another trigger may have given the row another key.
    pub(super) fn lean_delete(&self) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        let (of, there) = (self.aside_of("old"), self.row_is_old());
        format!(
            "{} and {}{}\n  and exists (select 1 from {table} as r where {there} and {})\n  \
             and ({} or not exists (select 1 from {aside} where {of}))",
            self.any_aside(),
            self.only_fresh_states(),
            self.and_whole(|slot| self.column("old", slot)),
            self.same_key("r", "old"),
            self.known("old")
        )
    }

    /// The row is put aside as it is.
    fn known(&self, image: &str) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        format!(
            "exists (select 1 from {aside} join {table} as r on {} where {} and {aside}.here = 1 and not {})",
            self.row_of_aside(),
            self.aside_of(image),
            self.differs()
        )
    }

    pub(super) fn leanly_inserted(&self) -> String {
        let entry = format!("({0}.here = 0 or {0}.claimed = 1)", self.aside);
        let replaced = self.nothing_replaced("new");
        format!("{}\n  and {}{replaced}", self.has_entry("new", &entry), self.present("new"))
    }

    pub(super) fn leanly_updated(&self) -> String {
        let entry = format!("{}.here = 1 and not {}", self.aside, self.moves());
        let replaced = self.nothing_replaced("old");
        format!("{}\n  and {}{replaced}", self.has_entry("old", &entry), self.present("old"))
    }

    pub(super) fn leanly_deleted(&self) -> String {
        let (table, same) = (self.table.quoted(), self.same_key("r", "old"));
        let entry = self.has_entry("old", &format!("{}.here = 1", self.aside));
        format!("{entry}\n  and not exists (select 1 from {table} as r where {same})")
    }

    /// Nothing but states is put aside, and no row is open.
    fn only_states(&self) -> String {
        let (aside, journal) = (&self.aside, &self.journal);
        format!(
            "not exists (select 1 from {aside} where kind is not null)\n  \
             and ifnull((select op from {journal} order by id desc limit 1) > 0, 1)"
        )
    }

    /// The same, and nothing is left of earlier statements. The first was put aside first; where it has been touched since,
    /// all go when its time is over.
    fn only_fresh_states(&self) -> String {
        let first = format!("(select at from {} order by rowid limit 1)", self.aside);
        format!("{} and ifnull({first} = {NOW_MS}, 1)", self.only_states())
    }

    fn has_entry(&self, image: &str, which: &str) -> String {
        format!(
            "{}{}\n  and exists (select 1 from {} where {} and {which})",
            self.only_states(),
            self.and_whole(|slot| self.column(image, slot)),
            self.aside,
            self.aside_of(image)
        )
    }

    /// No other row that is put aside was in the way of the new row.
    fn nothing_replaced(&self, image: &str) -> String {
        let aside = &self.aside;
        let itself = self.aside_is(aside, |slot| self.column(image, slot));
        let other = |way: Way| {
            format!(
                "\n  and not exists (select 1 from {aside} where {} and here = 1 and not ({itself}))",
                way.aside
            )
        };
        self.ways().into_iter().skip(1).map(other).collect()
    }

    /// The row of an image's key is in the table, and is the new row.
    fn present(&self, image: &str) -> String {
        format!(
            "exists (select 1 from {} as r where {} and not {})",
            self.table.quoted(),
            self.same_key("r", image),
            self.differs_from(|slot| self.column("new", slot))
        )
    }

    /// Puts aside that there is no row of the new row's key.
    fn keep_absent(&self) -> String {
        format!(
            "  insert into {} (at, here, {}) select {NOW_MS}, 0, {} where not exists (select 1 from {} as r where {});\n",
            self.aside,
            self.primary(|slot| format!("c{slot}")),
            self.primary(|slot| self.column("new", slot)),
            self.table.quoted(),
            self.same_key("r", "new")
        )
    }

    /// Puts a row aside; one that an insert would replace is claimed by it.
    fn keep_plainly(&self, which: &str, claimed: &str) -> String {
        format!(
            "  insert into {} (at, here{claimed}, {}) select {NOW_MS}, 1{}, {} from {} as r where {which};\n",
            self.aside,
            self.columns(),
            if claimed.is_empty() { "" } else { ", 1" },
            self.values("r"),
            self.table.quoted()
        )
    }

    /// Journals the delete of a row that is put aside.
    fn journal_aside(&self, image: &str) -> String {
        format!(
            "  insert into {} (op, at, {}) select 3, {NOW_MS}, {} from {aside} where {} and {aside}.here = 1;\n",
            self.journal,
            self.each("old_"),
            self.each("c"),
            self.aside_of(image),
            aside = self.aside
        )
    }

    fn journal_insert(&self) -> String {
        format!(
            "  insert into {} (op, at, {}) values (1, {NOW_MS}, {});\n",
            self.journal,
            self.each("new_"),
            self.image("new")
        )
    }

    fn journal_update(&self) -> String {
        let aside = &self.aside;
        format!(
            "  insert into {} (op, at, {}, {}) select 2, {NOW_MS}, {}, {} from {aside} where {} and {};\n",
            self.journal,
            self.each("old_"),
            self.each("new_"),
            self.each("c"),
            self.image("new"),
            self.aside_of("old"),
            self.any_differs(|slot| self.column("new", slot), |slot| format!("{aside}.c{slot}"))
        )
    }

    /// What is put aside of an image's row is the new row.
    fn is_now(&self, image: &str) -> String {
        // A column that is set costs a write of its index.
        let stays = |slot: usize| {
            let key = self.table.primary.iter().find(|one| one.slot == slot);
            key.is_some_and(|one| one.collation.eq_ignore_ascii_case("BINARY"))
                && !self.table.columns[slot].keeps_types_apart()
        };
        let columns = self.slots().filter(|slot| !stays(*slot));
        let set = columns.map(|slot| format!("c{slot} = {}", self.column("new", slot)));
        let rowid = self.table.rowid.map(|_| format!("r = {}", self.rowid("new")));
        let set: String = set.chain(rowid).map(|one| format!(", {one}")).collect();
        format!("  update {} set here = 1, claimed = 0{set} where {};\n", self.aside, self.aside_of(image))
    }
}
