//! The SQL of a journal: its tables, its functions and its triggers. Nothing here touches a database.
//!
//! Triggers must never get into a writer's way, so they name no column: a row is noted as JSON, with the names that its columns
//! have at that moment, and the key is taken out of it by the name that its columns have (see `seriatim.column_name`).
//! Whatever they use is named with its schema, for the writer's search path is not ours.

use super::super::registry::Known;
use super::super::table::Table;
use super::nested;

/// How many tables the ring has.
pub(super) const RING: i16 = 3;

/// The row before and after, of a statement that changed one; nothing for any other.
const ONE_PAIR: &str = "select pg_catalog.row_to_json(o.*) as before, pg_catalog.row_to_json(n.*) as after \
     from old_rows o cross join new_rows n where not exists (select from new_rows offset 1) offset 0";

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
             language plpgsql security definer{settings} as $seriatim$\n{body}$seriatim$;\n",
            self.id
        )
    }

    fn body(&self, event: Event) -> String {
        let id = self.id;
        let direct = Target { table: format!("seriatim.journal_{id}_{}", self.ring), column: "", value: "" };
        if event == Event::Truncate {
            return format!("begin\n{}    return null;\nend\n", self.note(event, &direct));
        }
        match self.nests() {
            true => nested::body(self, event, &direct),
            false => {
                let counted = if self.pairs(event) { "declare\n    noted bigint;\n" } else { "" };
                let doubt = nested::doubt(self, &direct);
                format!("{counted}begin\n{doubt}{}    return null;\nend\n", self.note(event, &direct))
            }
        }
    }

    /// Whether the statement pairs rows, and counts them.
    pub(super) fn pairs(&self, event: Event) -> bool {
        event == Event::Update
    }

    /// The statements that note what happened.
    pub(super) fn note(&self, event: Event, target: &Target<'_>) -> String {
        let image = |rows: &str, row: &str| match self.table.partitioned {
            true => format!("select pg_catalog.row_to_json({row}.*) as image offset 0"),
            false => format!("select pg_catalog.row_to_json(r.*) as image from {rows} r offset 0"),
        };
        match event {
            Event::Insert => self.one('i', "after", &image("new_rows", "new"), target),
            Event::Delete => self.one('d', "before", &image("old_rows", "old"), target),
            Event::Update => self.update(target),
            Event::Truncate => {
                let Target { table, .. } = target;
                format!("    insert into {table} (id, op) values ({}, 't');\n", self.next())
            }
        }
    }

    fn one(&self, op: char, column: &str, rows: &str, target: &Target<'_>) -> String {
        let Target { table, column: more, value } = target;
        format!(
            "    insert into {table} ({more}id, op, hash, {column})\n    select {value}{}, '{op}', {}, i.image\n    from ({rows}) i;\n",
            self.next(),
            self.hash("i.image")
        )
    }

    /// Old and new rows stand in the same order. Those that keep their key are noted first; of the others all old keys go before
    /// any new one comes, since one row's new key may be another's old one.
    fn update(&self, target: &Target<'_>) -> String {
        let pairs = self.pairs_of_rows();
        let Target { table, column: more, value } = target;
        let (next, key_before, key_after) =
            (self.next(), self.key_text("p.before"), self.key_text("p.after"));
        let (hash_before, hash_after) = (self.hash("p.before"), self.hash("p.after"));
        let count = if self.table.partitioned { "1" } else { "(select pg_catalog.count(*) from new_rows)" };
        let same_key = |pairs: &str| {
            format!(
                "    insert into {table} ({more}id, op, hash, before, after)\n\
                 \x20   select {value}{next}, 'u', {hash_before}, p.before, p.after\n    from ({pairs}) p\n\
                 \x20   where {key_before} is not distinct from {key_after};\n"
            )
        };
        let all = format!(
            "{}    get diagnostics noted = row_count;\n\
             \x20   if noted operator(pg_catalog.<>) {count} then\n\
             \x20       insert into {table} ({more}id, op, hash, before)\n\
             \x20       select {value}{next}, 'd', {hash_before}, p.before\n        from ({pairs}) p\n\
             \x20       where {key_before} is distinct from {key_after};\n\
             \x20       insert into {table} ({more}id, op, hash, after)\n\
             \x20       select {value}{next}, 'i', {hash_after}, p.after\n        from ({pairs}) p\n\
             \x20       where {key_before} is distinct from {key_after};\n\
             \x20   end if;\n",
            same_key(&pairs)
        );
        match self.table.partitioned {
            true => all,
            // Most statements change one row, and then most of the cost is to set the plan up: one without pairing is cheaper.
            false => format!("{}    if not found then\n{all}    end if;\n", same_key(ONE_PAIR)),
        }
    }

    /// A full join is the only one that is safe from being done row by row for many rows, with a plan that was kept from few.
    fn pairs_of_rows(&self) -> String {
        if self.table.partitioned {
            return "select pg_catalog.row_to_json(old.*) as before, pg_catalog.row_to_json(new.*) as after offset 0"
                .to_owned();
        }
        let numbered = |rows: &str| {
            format!(
                "(select pg_catalog.row_number() over () as at, pg_catalog.row_to_json(r.*) as image from {rows} r offset 0)"
            )
        };
        format!(
            "select o.image as before, n.image as after from {} o full join {} n on n.at operator(pg_catalog.=) o.at offset 0",
            numbered("old_rows"),
            numbered("new_rows")
        )
    }

    pub(super) fn next(&self) -> String {
        format!("pg_catalog.nextval('seriatim.journal_{}_id'::pg_catalog.regclass)", self.id)
    }

    /// The key of an image, as one value that is equal for equal keys: a text, or a row of them.
    fn key_text(&self, image: &str) -> String {
        let each: Vec<String> = self
            .key
            .iter()
            .zip(&self.known.key_types)
            .map(|(number, of)| self.canonical(image, *number, *of))
            .collect();
        match each.as_slice() {
            [one] => one.clone(),
            _ => format!("row({})", each.join(", ")),
        }
    }

    /// A number that is the same for equal keys and never negative.
    pub(super) fn hash(&self, image: &str) -> String {
        let mut seed = "0".to_owned();
        for (number, of) in self.key.iter().zip(&self.known.key_types) {
            let value = self.canonical(image, *number, *of);
            seed = format!("coalesce(pg_catalog.hashtextextended({value}, {seed}), 1)");
        }
        format!("({seed} operator(pg_catalog.&) 2147483647)::pg_catalog.int4")
    }

    /// A column of an image as text, in one way for equal values.
    pub(super) fn canonical(&self, image: &str, number: i16, of: u32) -> String {
        let name = match self.table.partitioned {
            // Rows of a partition come with no sign of the table that they are a part of: nothing would tell a plan to be made anew.
            true => format!("seriatim.column_name_now({}, {number}::pg_catalog.int2)", self.table.oid),
            false => format!("seriatim.column_name({}, {number}::pg_catalog.int2)", self.table.oid),
        };
        canonical(&format!("({image} operator(pg_catalog.->>) {name})"), of)
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

/// A value's text as it is for all equal values of its type.
pub(super) fn canonical(text: &str, of: u32) -> String {
    match of {
        17 => format!("pg_catalog.encode({text}::pg_catalog.bytea, 'hex')"),
        700 | 701 => format!("({text}::pg_catalog.float8 operator(pg_catalog.+) 0)::pg_catalog.text"),
        1184 => format!("pg_catalog.date_part('epoch', {text}::pg_catalog.timestamptz)::pg_catalog.text"),
        1700 => format!("pg_catalog.trim_scale({text}::pg_catalog.numeric)::pg_catalog.text"),
        _ => text.to_owned(),
    }
}
