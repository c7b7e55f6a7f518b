//! The steps that triggers take when something is under way, in SQL.

use super::{Doing, Flight, KEYED_INSERT, KEYLESS_INSERT, OPEN, OPEN_INSERT, VOID};
use crate::capture::sql::NOW_MS;

/// From an earlier statement: within one, the time stands still. Both comparisons can use the index.
fn stale(at: &str) -> String {
    format!("({at} < {NOW_MS} or {at} > {NOW_MS})")
}

impl Flight<'_> {
    /// Before a row is written: puts aside what is under way and what the write is about to touch, and journals what was changed
    /// since it was journalled last. `touched` does the latter two for the rows that the write touches.
    pub(in crate::capture::journal) fn begin(&self, doing: Doing, touched: &str) -> String {
        let image = if doing == Doing::Insert { "new" } else { "old" };
        let of_this_row = match doing {
            // Its key may be unknown yet.
            Doing::Insert => String::new(),
            _ => format!(" and {}", self.aside_is(&self.aside, |slot| self.column(image, slot))),
        };
        let aside = &self.aside;
        // Nothing of this statement is under way yet.
        let outermost = format!(
            "  insert into {aside} (at, kind, shared, {}) select {NOW_MS}, {}, 0, {} \
             where not exists (select 1 from {aside} where at = {NOW_MS});\n",
            self.primary(|slot| format!("c{slot}")),
            doing as u8,
            self.primary(|slot| self.column(image, slot)),
        );
        [
            // One inside another that looks like it: which of the two is ending could not be told.
            format!("  update {aside} set shared = 1 where kind = {}{of_this_row};\n", doing as u8),
            self.put_open_row_aside(),
            self.find_left_over(stale),
            outermost,
            touched.to_owned(),
            self.journal_due(),
            format!("  delete from {aside} where {};\n", stale("at")),
            self.mark_keyless(doing),
        ]
        .concat()
    }

    /// Journals whatever is left, and forgets it. For somebody who can write: no statement is running then.
    pub(in crate::capture) fn settle(&self) -> String {
        let everything = |at: &str| format!("{at} is not null");
        [
            self.put_open_row_aside(),
            self.find_left_over(everything),
            self.journal_due(),
            format!("  delete from {};\n", self.aside),
        ]
        .concat()
    }

    /// The end of a change: if it is the outermost, nothing is under way any more.
    pub(in crate::capture::journal) fn end(&self, doing: Doing) -> String {
        let of_this_row = match doing {
            Doing::Insert => String::new(),
            _ => format!(" and {}", self.aside_is("x", |slot| self.column("old", slot))),
        };
        format!(
            "  delete from {0} where exists (select 1 from {0} as x where x.kind = {1} and x.shared = 0{of_this_row});\n",
            self.aside, doing as u8
        )
    }

    /// What the open row at the journal's end says goes to the others that are put aside.
    fn put_open_row_aside(&self) -> String {
        let (aside, journal, last) = (&self.aside, &self.journal, self.last());
        let known = |prefix: &str| self.put_aside(|slot| format!("{journal}.{prefix}{slot}"));
        let whole = |prefix: &str| self.and_whole(|slot| format!("{prefix}{slot}"));
        let mark = match self.table.chosen_key() {
            Some(key) => format!(
                "insert into {aside} (at, kind, above) select at, {KEYLESS_INSERT}, old_{key} from {journal} \
                 where id = {last} and op = {OPEN_INSERT} and new_{key} = -1"
            ),
            None => format!(
                "insert into {aside} (at, kind) select at, {KEYED_INSERT} from {journal} where id = {last} and op = {OPEN_INSERT}"
            ),
        };
        format!(
            "  {mark};\n\
            \x20 insert into {aside} (at, here, {}) select at, 0, {} from {journal} where id = {last} and op = {OPEN_INSERT}{}\n    \
             and not exists (select 1 from {aside} where {});\n\
            \x20 insert into {aside} (at, here, due, {}) select at, not {}, 1, {} from {journal} where id = {last} and op = {OPEN}{}\n    \
             and not exists (select 1 from {aside} where {});\n\
            \x20 update {journal} set op = {VOID} where id = {last} and op <= 0;\n",
            self.primary(|slot| format!("c{slot}")),
            self.primary(|slot| format!("new_{slot}")),
            whole("new_"),
            known("new_"),
            self.each("c"),
            self.is_unsaid(|slot| format!("{journal}.old_{slot}")),
            self.each("old_"),
            whole("old_"),
            known("old_"),
        )
    }

    /// The row of this key is there by an insert without a key, which nothing says yet: all others have been put aside.
    fn is_unsaid(&self, value: impl Fn(usize) -> String) -> String {
        let Some(key) = self.table.chosen_key() else { return "0".to_owned() };
        format!(
            "exists (select 1 from {} as m where m.kind = {KEYLESS_INSERT} and +{} > ifnull(m.above, 0))",
            self.aside,
            value(key)
        )
    }

    /// What earlier statements left is due to be journalled: they have come to their end, whichever it was.
    fn find_left_over(&self, left: impl Fn(&str) -> String) -> String {
        let aside = &self.aside;
        let inserted = self.table.chosen_key().map(|key| {
            let row = self.column("r", key);
            format!(
                "  insert into {aside} (at, here, c{key}) select m.at, 0, {row} from {aside} as m join {} as r on {row} > ifnull(m.above, 0)\n    \
                 where m.kind = {KEYLESS_INSERT} and {} and not exists (select 1 from {aside} where {});\n",
                self.table.quoted(),
                left("m.at"),
                self.aside_of("r")
            )
        });
        inserted.unwrap_or_default() + &self.due(&format!("{} and here is not null", left("at")))
    }

    /// An insert without a key: rows above the greatest are its own, unless they are put aside.
    fn mark_keyless(&self, doing: Doing) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        match self.table.chosen_key().filter(|_| doing == Doing::Insert) {
            None => String::new(),
            Some(key) => format!(
                "  insert into {aside} (at, kind, above) select {NOW_MS}, {KEYLESS_INSERT}, (select max({}) from {table})\n    \
                 where {} = -1 and not exists (select 1 from {aside} where kind = {KEYLESS_INSERT});\n",
                self.table.column(key),
                self.column("new", key)
            ),
        }
    }

    /// What is put aside and fits is due to be journalled.
    pub(in crate::capture::journal) fn due(&self, which: &str) -> String {
        format!("  update {} set due = 1 where {which};\n", self.aside)
    }

    /// The same, for a row that is about to be written.
    pub(in crate::capture::journal) fn due_and_kept(&self, which: &str) -> String {
        format!("  update {} set due = 1, at = {NOW_MS} where {which};\n", self.aside)
    }

    /// The rows that the new row may replace are due, or put aside.
    pub(in crate::capture::journal) fn in_the_way(&self) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        let ways = self.ways();
        let due = ways.iter().map(|way| {
            let rowid = match (&way.columns, self.table.rowid) {
                (None, Some(rowid)) => format!(", r = new.{rowid}"),
                _ => String::new(),
            };
            format!(
                "  update {aside} set due = 1, at = {NOW_MS}{rowid} where rowid in\n    \
                 (select {aside}.rowid from {table} as r join {aside} on {} where {});\n",
                self.aside_of("r"),
                way.row
            )
        });
        due.collect::<String>() + &ways.iter().map(|way| self.keep(&way.row)).collect::<String>()
    }

    /// Puts rows `r` of the table aside that are not yet.
    pub(in crate::capture::journal) fn keep(&self, which: &str) -> String {
        let aside = &self.aside;
        format!(
            "  insert into {aside} (at, here, due, {}) select {NOW_MS}, not {}, 1, {} from {} as r where {which}{}\n    \
             and not exists (select 1 from {aside} where {});\n",
            self.columns(),
            self.is_unsaid(|slot| self.column("r", slot)),
            self.values("r"),
            self.table.quoted(),
            self.and_whole(|slot| self.column("r", slot)),
            self.aside_of("r")
        )
    }

    /// Puts aside that there is no row of the new row's key, if nothing else is known of it.
    pub(in crate::capture::journal) fn keep_absence(&self) -> String {
        let new = |slot| self.table.as_it_will_be(slot);
        let aside = &self.aside;
        format!(
            "  insert into {aside} (at, here, {}) select {NOW_MS}, 0, {} where not exists (select 1 from {aside} where {}){};\n",
            self.primary(|slot| format!("c{slot}")),
            self.primary(new),
            self.put_aside(new),
            self.and_whole(new)
        )
    }

    /// A row that becomes another one: when the new one is due, the old one is too, and its delete comes first.
    pub(in crate::capture::journal) fn link(&self) -> String {
        let aside = &self.aside;
        let old = self.aside_is("o", |slot| self.column("old", slot));
        format!(
            "  update {aside} set was = (select o.rowid from {aside} as o where {old} and o.here = 1) where {} and here = 0;\n",
            self.put_aside(|slot| self.table.as_it_will_be(slot))
        )
    }

    /// A row of the key that an insert brings: if the insert happens, that one is deleted.
    pub(in crate::capture::journal) fn claim(&self) -> String {
        format!(
            "  update {} set claimed = 1 where {} and here = 1;\n",
            self.aside,
            self.put_aside(|slot| self.table.as_it_will_be(slot))
        )
    }

    /// The insert has happened, and has deleted the row of its key.
    pub(in crate::capture::journal) fn replace_claimed(&self) -> String {
        let (aside, journal, table) = (&self.aside, &self.journal, self.table.quoted());
        let claimed = format!(
            "{} and here = 1 and claimed = 1 and (exists (select 1 from {aside} as x where x.kind = {} and x.shared = 0)\n    \
             or exists (select 1 from {table} as r where {} and {}))",
            self.aside_of("new"),
            Doing::Insert as u8,
            self.row_of_aside(),
            self.differs()
        );
        format!(
            "  insert into {journal} (op, at, {}) select 3, {NOW_MS}, {} from {aside} where {claimed};\n\
            \x20 update {aside} set here = 0 where {claimed};\n",
            self.each("old_"),
            self.each("c"),
        )
    }

    /// Journals the difference between what is put aside and the table, for all that is due: deletes first, since others may
    /// have taken their place.
    pub(in crate::capture::journal) fn journal_due(&self) -> String {
        let (aside, journal, table) = (&self.aside, &self.journal, self.table.quoted());
        let (same, moved, differs) = (self.row_of_aside(), self.moved_since(), self.differs());
        let (old, new, then) = (self.each("old_"), self.each("new_"), self.each(&format!("{aside}.c")));
        let now = self.image("r");
        format!(
            "  update {aside} set due = 1 where rowid in (select was from {aside} where due = 1);\n\
            \x20 insert into {journal} (op, at, {old}) select 3, {NOW_MS}, {then} from {aside} where due = 1 and here = 1\n    \
             and not exists (select 1 from {table} as r where {same} and not {moved});\n\
            \x20 insert into {journal} (op, at, {old}, {new}) select 2, {NOW_MS}, {then}, {now} from {aside} join {table} as r on {same}\n    \
             where due = 1 and here = 1 and not {moved} and {differs};\n\
            \x20 insert into {journal} (op, at, {new}) select 1, {NOW_MS}, {now} from {aside} join {table} as r on {same}\n    \
             where due = 1 and (here = 0 or {moved});\n\
            \x20 update {aside} set here = 0, due = 0, claimed = 0 where due = 1 and not exists (select 1 from {table} as r where {same});\n\
            \x20 update {aside} set ({}, here, due, claimed) =\n    \
             (select {}, 1, 0, {aside}.claimed and {aside}.here and not {differs} from {table} as r where {same}) where due = 1;\n",
            self.columns(),
            self.values("r")
        )
    }
}
