//! The SQL of a journal: its tables, its functions and its triggers. Nothing here touches a database.
//!
//! Triggers must never get into a writer's way, so they depend on no column: a row is noted as JSON, with the names that its
//! columns have at that moment, and its key is found by the name that it has then (see `rows`).
//! Whatever they use is named with its schema, for the writer's search path is not ours.

use super::super::registry::Known;
use super::super::table::Table;
use super::nested;

/// How many tables the ring has.
pub(super) const RING: i16 = 3;

/// The columns of a journal's tables, in their order: rows that come in it need no step more.
const COLUMNS: &str = "id, xid, op, at, hash, before, after";

/// Where there was no row.
const NO_IMAGE: &str = "null::pg_catalog.json";

/// A journal whose SQL is written.
pub(super) struct Journal<'a> {
    /// The capture's number.
    pub id: i64,
    pub table: &'a Table,
    pub key: &'a [i16],
    pub known: &'a Known,
    /// The table of the ring that triggers write to.
    pub ring: i16,
}

/// What a trigger waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Insert,
    Update,
    Delete,
    Truncate,
}

impl Event {
    pub(super) const ALL: [Event; 4] = [Event::Insert, Event::Update, Event::Delete, Event::Truncate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Event::Insert => "insert",
            Event::Update => "update",
            Event::Delete => "delete",
            Event::Truncate => "truncate",
        }
    }

    /// The rows that a statement-level trigger gets.
    fn transition(self) -> &'static str {
        match self {
            Event::Insert => "referencing new table as new_rows ",
            Event::Update => "referencing old table as old_rows new table as new_rows ",
            Event::Delete => "referencing old table as old_rows ",
            Event::Truncate => "",
        }
    }
}

impl Journal<'_> {
    /// Everything from nothing.
    pub(super) fn install(&self) -> String {
        [self.tables(), self.functions(), self.triggers()].concat()
    }

    /// The functions and the triggers anew, for a table that is not as it was.
    pub(super) fn make_anew(&self) -> String {
        [Journal::drop_functions(self.id), self.functions(), self.triggers()].concat()
    }

    /// Takes everything out again. The table may be gone already.
    pub(super) fn remove(id: i64) -> String {
        format!(
            "{}drop table if exists seriatim.journal_{id} cascade;\ndrop table if exists seriatim.journal_{id}_nested;\n\
             drop sequence if exists seriatim.journal_{id}_id;\n",
            Journal::drop_functions(id)
        )
    }

    /// Their triggers go with them, for whoever may not drop triggers: that takes the owner of the table.
    fn drop_functions(id: i64) -> String {
        let functions = ["insert", "update", "delete", "truncate", "before", "phase"];
        functions
            .map(|name| format!("drop function if exists seriatim.journal_{id}_{name}() cascade;\n"))
            .concat()
    }

    fn tables(&self) -> String {
        let id = self.id;
        let columns = "id bigint not null, xid xid8 not null default pg_catalog.pg_current_xact_id(), op \"char\" not null, \
             at timestamptz not null default pg_catalog.clock_timestamp(), hash int4, before json, after json";
        let ring = |at: i16| {
            format!(
                "create table seriatim.journal_{id}_{at} () inherits (seriatim.journal_{id}) with (autovacuum_enabled = false);\n\
                 create index on seriatim.journal_{id}_{at} (id);\n\
                 create index on seriatim.journal_{id}_{at} (xid, id);\n"
            )
        };
        format!(
            "create table seriatim.journal_{id} ({columns});\n{}\
             create table seriatim.journal_{id}_nested (start int4 not null, {columns});\n\
             create sequence seriatim.journal_{id}_id;\n",
            (0..RING).map(ring).collect::<String>()
        )
    }

    fn functions(&self) -> String {
        let each = Event::ALL.iter().map(|event| self.function(event.name(), &self.body(*event)));
        let nesting = if self.nests() { nested::functions(self) } else { String::new() };
        each.chain([nesting]).collect()
    }

    /// A trigger's function: it runs as its owner, so that whoever may write to the table can.
    pub(super) fn function(&self, name: &str, body: &str) -> String {
        let settings = match self.known.depends_on_settings {
            true => {
                " set extra_float_digits = 1 set intervalstyle = 'iso_8601' set datestyle = 'ISO, YMD' set timezone = 'UTC'"
            }
            false => "",
        };
        format!(
            "create or replace function seriatim.journal_{}_{name}() returns trigger\n\
             language plpgsql security definer{settings} as $seriatim$\n#variable_conflict use_column\n{body}$seriatim$;\n",
            self.id
        )
    }

    fn body(&self, event: Event) -> String {
        let id = self.id;
        let direct = Target { table: format!("seriatim.journal_{id}_{}", self.ring), column: "", value: "" };
        if event == Event::Truncate {
            return format!("begin\n{}    return null;\nend\n", self.note(event, &direct));
        }
        if self.nests() {
            return nested::body(self, event, &direct);
        }
        let doubt = nested::doubt(self, &direct);
        let noted = match event {
            Event::Update => format!("declare\n    noted bigint;\nbegin\n{}", self.update(&direct, &doubt)),
            _ => format!("begin\n{doubt}{}", self.note(event, &direct)),
        };
        format!("{noted}    return null;\nend\n")
    }

    /// The statements that note what happened.
    pub(super) fn note(&self, event: Event, target: &Target<'_>) -> String {
        let hash = self.hash_of(&self.keys("r.key"));
        match event {
            Event::Insert => {
                self.write(target, 'i', [&hash, NO_IMAGE, "r.image"], &format!("{} r", self.rows("new")))
            }
            Event::Delete => {
                self.write(target, 'd', [&hash, "r.image", NO_IMAGE], &format!("{} r", self.rows("old")))
            }
            Event::Update => self.update(target, ""),
            Event::Truncate => {
                let Target { table, .. } = target;
                format!("    insert into {table} (id, op) values ({}, 't');\n", self.next())
            }
        }
    }

    /// Rows that keep their key are noted first; of the others all old keys go before any new one comes, since one row's new key
    /// may be another's old one. What comes first is left out where one row of a statement on its own kept its key: most do, and
    /// then most of the cost is to set the plan up.
    fn update(&self, target: &Target<'_>, first: &str) -> String {
        let (before, after) = (self.hash_of(&self.keys("p.before")), self.hash_of(&self.keys("p.after")));
        let from = |pairs: &str, same| format!("{pairs} p\n    where {}", self.same_key(same));
        let kept =
            |pairs: &str| self.write(target, 'u', [&before, "p.before", "p.after"], &from(pairs, true));
        let pairs = self.pairs();
        let others = from(&pairs, false);
        let count = if self.table.partitioned { "1" } else { "(select pg_catalog.count(*) from new_rows)" };
        let all = format!(
            "{first}{}    get diagnostics noted = row_count;\n    if noted operator(pg_catalog.<>) {count} then\n{}{}    end if;\n",
            kept(&pairs),
            self.write(target, 'd', [&before, "p.before", NO_IMAGE], &others),
            self.write(target, 'i', [&after, NO_IMAGE, "p.after"], &others)
        );
        match self.table.partitioned {
            true => all,
            false => format!("{}    if not found then\n{all}    end if;\n", kept(&self.only_pair())),
        }
    }

    /// Writes rows of a source: the hash of the key, and the images before and after.
    fn write(&self, target: &Target<'_>, op: char, [hash, before, after]: [&str; 3], from: &str) -> String {
        let Target { table, column, value } = target;
        format!(
            "    insert into {table} ({column}{COLUMNS})\n    select {value}{}, pg_catalog.pg_current_xact_id(), \
             '{op}'::pg_catalog.\"char\", pg_catalog.clock_timestamp(), {hash}, {before}, {after}\n    from {from};\n",
            self.next()
        )
    }

    pub(super) fn next(&self) -> String {
        format!("pg_catalog.nextval('seriatim.journal_{}_id'::pg_catalog.regclass)", self.id)
    }

    fn triggers(&self) -> String {
        let (id, table) = (self.id, self.table.quoted());
        let each = |event: &Event| {
            let name = event.name();
            let how = match (*event, self.table.partitioned) {
                (Event::Truncate, _) => "for each statement ".to_owned(),
                (_, true) => "for each row ".to_owned(),
                (event, false) => format!("{}for each statement ", event.transition()),
            };
            format!(
                "create trigger \"!seriatim_{id}_{name}\" after {name} on {table} {how}execute function seriatim.journal_{id}_{name}();\n"
            )
        };
        let nesting = if self.nests() { nested::triggers(self) } else { String::new() };
        Event::ALL.iter().map(each).chain([nesting]).collect()
    }

    pub(super) fn nests(&self) -> bool {
        self.known.nests && !self.table.partitioned
    }
}

/// Where a statement's rows are noted: a table, and a column more with its value.
pub(super) struct Target<'a> {
    pub table: String,
    pub column: &'a str,
    pub value: &'a str,
}
