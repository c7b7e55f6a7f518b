//! The steps that triggers take when something is under way, in SQL.

use super::{Doing, Flight, KEYED_INSERT, KEYLESS_INSERT, OPEN, OPEN_INSERT, VOID, Way};
use crate::capture::sql::{NOW_MS, list};

impl Flight<'_> {
    /// Before a row is written: puts aside what is under way and what the write is about to touch, and journals what was changed
    /// since it was journalled last. `touched` does the latter two for other rows. `lean` holds for a write that the short
    /// triggers could do.
    pub(in crate::capture::journal) fn begin(&self, doing: Doing, lean: &str, touched: &str) -> String {
        // From an earlier statement: within one, the time stands still.
        let stale = format!("at <> {NOW_MS}");
        let greatest = match self.table.chosen_key().filter(|_| doing == Doing::Insert) {
            Some(key) => format!("(select max({}) from {})", self.table.column(key), self.table.quoted()),
            None => "null".to_owned(),
        };
        [
            self.call(&self.objects.begin(), doing, lean),
            self.find_left_over(&stale),
            touched.to_owned(),
            self.journal_due(),
            self.call(&self.objects.kept(), doing, &greatest),
        ]
        .concat()
    }

    /// After a row is written: journals the differences that the write may have made.
    pub(in crate::capture::journal) fn end(&self, doing: Doing) -> String {
        [
            self.call(&self.objects.ended(), doing, "null"),
            self.look_at_due(),
            self.call(&self.objects.told(), doing, "null"),
        ]
        .concat()
    }

    /// Goes on in the program behind a view.
    fn call(&self, view: &str, doing: Doing, more: &str) -> String {
        let nulls = list(self.values("new").split(", ").map(|_| "null".to_owned()));
        let image = |image: &str, given: bool| if given { self.values(image) } else { nulls.clone() };
        format!(
            "  insert into {view} values ({NOW_MS}, {}, {more}, {}, {});\n",
            doing as u8,
            image("new", doing != Doing::Delete),
            image("old", doing != Doing::Insert)
        )
    }

    /// Behind a view: an outermost change is noted as such, and what is put aside of its row is due.
    fn begun(&self, doing: Doing) -> String {
        let (aside, now, kind) = (&self.aside, self.now(), doing as u8);
        let image = if doing == Doing::Insert { "new" } else { "old" };
        let of_this_row = match doing {
            // Its key may be unknown yet.
            Doing::Insert => String::new(),
            _ => format!(" and {}", self.aside_is(aside, |slot| self.column(image, slot))),
        };
        let due = |which: String| format!("  update {aside} set due = 1, at = {now} where {which};\n");
        let new = || due(self.put_aside(|slot| self.as_it_will_be(slot)));
        [
            // One inside another that looks like it: which of the two is ending could not be told.
            format!("  update {aside} set shared = 1 where kind = {kind}{of_this_row};\n"),
            format!("  insert into {} values ({now});\n", self.objects.open()),
            // Nothing of this statement is under way yet. A note of it would keep the next writes from the short triggers.
            format!(
                "  insert into {aside} (at, kind, shared, {}) select {now}, {kind}, 0, {}\n    \
                 where not new.more and not exists (select 1 from {aside} where at = {now});\n",
                self.primary(|slot| format!("c{slot}")),
                self.primary(|slot| self.column(image, slot)),
            ),
            match doing {
                Doing::Insert => new(),
                Doing::Update => due(self.aside_of("old")) + &new(),
                Doing::Delete => due(self.aside_of("old")),
            },
        ]
        .concat()
    }

    /// Behind a view: what is left of earlier statements is told by now, and the rows in the way are put aside.
    fn has_kept(&self, doing: Doing) -> String {
        let stale = format!("  delete from {} where at <> {};\n", self.aside, self.now());
        stale
            + &match doing {
                Doing::Insert => self.mark_keyless() + &self.keep_absence() + &self.claim(),
                Doing::Update => self.keep_absence() + &self.link(),
                Doing::Delete => String::new(),
            }
    }

    /// Behind a view: what is put aside of the row, and of rows that it may have replaced, is due.
    fn has_ended(&self, doing: Doing) -> String {
        let replaced = || -> String {
            let due = |way: Way| self.due(&format!("{} and {}.here = 1", way.aside, self.aside));
            self.ways().into_iter().map(due).collect()
        };
        match doing {
            Doing::Insert => self.keep_absence() + &self.due(&self.aside_of("new")) + &replaced(),
            Doing::Update => self.due(&self.aside_of("old")) + &self.due(&self.aside_of("new")) + &replaced(),
            Doing::Delete => {
                // Another trigger may have given the row another key.
                let moved =
                    |_| self.due(&format!("{0}.r = +{1} and {0}.here = 1", self.aside, self.rowid("old")));
                self.due(&self.aside_of("old")) + &self.table.rowid.map(moved).unwrap_or_default()
            }
        }
    }

    /// Behind a view: journals what is due. If the change is the outermost, nothing is under way any more.
    fn is_told(&self, doing: Doing) -> String {
        let of_this_row = match doing {
            Doing::Insert => String::new(),
            _ => format!(" and {}", self.aside_is("x", |slot| self.column("old", slot))),
        };
        let replaced = if doing == Doing::Insert { self.replace_claimed() } else { String::new() };
        format!(
            "{replaced}  insert into {1} values ({2});\n\
            \x20 delete from {0} where exists (select 1 from {0} as x where x.kind = {3} and x.shared = 0{of_this_row});\n",
            self.aside,
            self.objects.due(),
            self.now(),
            doing as u8
        )
    }

    /// Journals whatever is left, and forgets it. For somebody who can write: no statement is running then.
    pub(in crate::capture) fn settle(&self) -> String {
        [
            self.put_open_row_aside(),
            self.find_left_over("at is not null"),
            self.look_at_due(),
            self.tell_due(NOW_MS),
            format!("  delete from {};\n", self.aside),
        ]
        .concat()
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
    fn find_left_over(&self, left: &str) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        let inserted = self.table.chosen_key().map(|key| {
            let row = self.column("r", key);
            format!(
                "  insert into {aside} (at, here, c{key}) select m.at, 0, {row} from {aside} as m join {} as r on {row} > ifnull(m.above, 0)\n    \
                 where m.kind = {KEYLESS_INSERT} and m.{left} and not exists (select 1 from {aside} where {});\n",
                self.table.quoted(),
                self.aside_of("r")
            )
        });
        let same = self.row_of_aside();
        let changed = format!(
            "(here = 0 and exists (select 1 from {table} as r where {same})\n    \
             or here = 1 and not exists (select 1 from {table} as r where {same} and not {}))",
            self.differs()
        );
        inserted.unwrap_or_default() + &self.due(&format!("{left} and {changed}"))
    }

    /// An insert without a key: rows above the greatest are its own, unless they are put aside.
    fn mark_keyless(&self) -> String {
        let Some(key) = self.table.chosen_key() else { return String::new() };
        format!(
            "  insert into {0} (at, kind, above) select {1}, {KEYLESS_INSERT}, new.more\n    \
             where {2} = -1 and not exists (select 1 from {0} where kind = {KEYLESS_INSERT});\n",
            self.aside,
            self.now(),
            self.column("new", key)
        )
    }

    /// What is put aside and fits is due to be journalled.
    fn due(&self, which: &str) -> String {
        format!("  update {} set due = 1 where {which};\n", self.aside)
    }

    /// The rows that the new row may replace are due, or put aside.
    pub(in crate::capture::journal) fn in_the_way(&self) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        let ways = self.ways();
        // What is put aside of the new row's key is due already.
        let due = ways.iter().skip(1).map(|way| {
            let rowid = match (&way.columns, self.table.rowid) {
                (None, Some(_)) => format!(", r = {}", self.rowid("new")),
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
        let (aside, unsaid) = (&self.aside, self.is_unsaid(|slot| self.column("r", slot)));
        format!(
            "  insert into {aside} (at, here, due, {}) select {NOW_MS}, not {unsaid}, {unsaid}, {} from {} as r where {which}{}\n    \
             and not exists (select 1 from {aside} where {});\n",
            self.columns(),
            self.values("r"),
            self.table.quoted(),
            self.and_whole(|slot| self.column("r", slot)),
            self.aside_of("r")
        )
    }

    /// Puts aside that there is no row of the new row's key, if nothing else is known of it.
    fn keep_absence(&self) -> String {
        let now = self.now();
        let new = |slot| self.as_it_will_be(slot);
        let aside = &self.aside;
        format!(
            "  insert into {aside} (at, here, {}) select {now}, 0, {} where not exists (select 1 from {aside} where {}){};\n",
            self.primary(|slot| format!("c{slot}")),
            self.primary(new),
            self.put_aside(new),
            self.and_whole(new)
        )
    }

    /// A row that becomes another one: when the new one is due, the old one is too, and its delete comes first.
    fn link(&self) -> String {
        let aside = &self.aside;
        let old = self.aside_is("o", |slot| self.column("old", slot));
        format!(
            "  update {aside} set was = (select o.rowid from {aside} as o where {old} and o.here = 1) where {} and here = 0;\n",
            self.put_aside(|slot| self.as_it_will_be(slot))
        )
    }

    /// A row of the key that an insert brings: if the insert happens, that one is deleted.
    fn claim(&self) -> String {
        format!(
            "  update {} set claimed = 1 where {} and here = 1;\n",
            self.aside,
            self.put_aside(|slot| self.as_it_will_be(slot))
        )
    }

    /// The insert has happened, and has deleted the row of its key.
    fn replace_claimed(&self) -> String {
        let (aside, journal, now) = (&self.aside, &self.journal, self.now());
        let claimed = format!(
            "{} and here = 1 and claimed = 1\n    \
             and (exists (select 1 from {aside} as x where x.kind = {} and x.shared = 0) or p = 1 and {})",
            self.aside_of("new"),
            Doing::Insert as u8,
            self.any_differs(|slot| format!("{aside}.s{slot}"), |slot| format!("{aside}.c{slot}"))
        );
        format!(
            "  insert into {journal} (op, at, {}) select 3, {now}, {} from {aside} where {claimed};\n\
            \x20 update {aside} set here = 0 where {claimed};\n",
            self.each("old_"),
            self.each("c"),
        )
    }

    /// Journals the difference between what is put aside and the table, for all that is due. The program for it is long and
    /// rarely needed, so it is behind a view; it must not name the user's table, which may be dropped and made anew.
    pub(in crate::capture::journal) fn journal_due(&self) -> String {
        self.look_at_due() + &format!("  insert into {} values ({NOW_MS});\n", self.objects.due())
    }

    /// Notes beside what is due how it is in the table now.
    fn look_at_due(&self) -> String {
        let (aside, table) = (&self.aside, self.table.quoted());
        format!(
            "  update {aside} set due = 1 where rowid in (select was from {aside} where due = 1);\n\
            \x20 update {aside} set (p, {}) = (select 1, {} from {table} as r where {}) where due = 1;\n",
            self.present_columns(),
            self.values("r"),
            self.row_of_aside()
        )
    }

    /// Journals the differences that were found: deletes first, since others may have taken their place.
    fn tell_due(&self, now: &str) -> String {
        let (aside, journal) = (&self.aside, &self.journal);
        let moved = self.moved(|slot| format!("s{slot}"), |slot| format!("c{slot}"));
        let differs = self.any_differs(|slot| format!("s{slot}"), |slot| format!("c{slot}"));
        let (old, new, then, present) =
            (self.each("old_"), self.each("new_"), self.each("c"), self.each("s"));
        let columns = self.columns();
        let present_columns = self.present_columns();
        let set = columns.split(", ").zip(present_columns.split(", "));
        let set = list(set.map(|(column, present)| format!("{column} = {present}")));
        format!(
            "  insert into {journal} (op, at, {old}) select 3, {now}, {then} from {aside} where due = 1 and here = 1\n    \
             and (p is null or {moved});\n\
            \x20 insert into {journal} (op, at, {old}, {new}) select 2, {now}, {then}, {present} from {aside}\n    \
             where due = 1 and here = 1 and p = 1 and not {moved} and {differs};\n\
            \x20 insert into {journal} (op, at, {new}) select 1, {now}, {present} from {aside}\n    \
             where due = 1 and p = 1 and (here = 0 or {moved});\n\
            \x20 update {aside} set here = 0, due = 0, claimed = 0 where due = 1 and p is null;\n\
            \x20 update {aside} set claimed = claimed and here and not {differs}, here = 1, due = 0, {set} where due = 1;\n"
        )
    }

    /// The views, and the programs behind them.
    pub(in crate::capture::journal) fn views(&self) -> String {
        let behind = self.behind_view();
        let (aside, journal) = (&self.aside, &self.journal);
        let any_due = format!("exists (select 1 from {aside} where due = 1)");
        let is_open = format!("(select op from {journal} order by id desc limit 1) <= 0");
        let (due, open) = (self.objects.due(), self.objects.open());
        [
            view(&due, "") + &program(&due, "do", &any_due, &behind.tell_due(behind.now())),
            view(&open, "") + &program(&open, "do", &is_open, &behind.put_open_row_aside()),
            behind.view_of(&self.objects.begin(), |doing| behind.begun(doing)),
            behind.view_of(&self.objects.kept(), |doing| behind.has_kept(doing)),
            behind.view_of(&self.objects.ended(), |doing| behind.has_ended(doing)),
            behind.view_of(&self.objects.told(), |doing| behind.is_told(doing)),
        ]
        .concat()
    }

    /// A view with a program for each event.
    fn view_of(&self, name: &str, body: impl Fn(Doing) -> String) -> String {
        let images = [self.values("new"), self.values("old")];
        let columns = images.iter().flat_map(|image| image.split(", "));
        let columns = columns.map(|column| format!(", null as {}", column.replace("new.", "")));
        let made = view(name, &format!(", null as kind, null as more{}", columns.collect::<String>()));
        let events = [(Doing::Insert, "insert"), (Doing::Update, "update"), (Doing::Delete, "delete")];
        let programs = events
            .map(|(doing, event)| program(name, event, &format!("new.kind = {}", doing as u8), &body(doing)));
        made + &programs.into_iter().filter(|one| !one.is_empty()).collect::<String>()
    }
}

fn view(name: &str, columns: &str) -> String {
    format!("create view {name} as select null as now{columns};\n")
}

/// A program behind a view whose only use it is.
fn program(view: &str, name: &str, when: &str, body: &str) -> String {
    format!("create trigger {view}_{name} instead of insert on {view}\nwhen {when}\nbegin\n{body}end;\n")
}
