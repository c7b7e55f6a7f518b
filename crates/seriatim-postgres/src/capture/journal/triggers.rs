//! The SQL of a journal: its tables, its functions and its triggers. Nothing here touches a database.
//!
//! Triggers must never get into a writer's way, so they depend on no column: a row is noted as JSON, with the names that its
//! columns have at that moment, and its key is found by the name that it has then (see `rows`).
//! They run with their owner's rights, under a search path of their own, note nothing of any other table, and can be put on a
//! table by nobody but their owner.
//!
//! Triggers for each statement note all of its rows at once. Where statements can be inside of each other, triggers for each row
//! note them one by one (see `linked`).

use super::super::registry::Known;
use super::super::table::Table;

const EMPTIED: &str = include_str!("../../../sql/journal/emptied.sql");

/// How many tables the ring has.
pub(super) const RING: i16 = 3;

/// The columns of a journal's tables, in their order: rows that come in it need no step more.
const COLUMNS: &str = "id, xid, op, at, hash, before, after";

/// Which version of a row was replaced and which one replaced it, and the file that both are in: only where rows are noted one by one.
const VERSIONS: [&str; 3] = ["part oid", "old_at tid", "new_at tid"];

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
    /// Those that concern rows.
    pub(super) const ROWS: [Event; 3] = [Event::Insert, Event::Update, Event::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Event::Insert => "insert",
            Event::Update => "update",
            Event::Delete => "delete",
            Event::Truncate => "truncate",
        }
    }

    /// The rows that a statement-level trigger gets.
    pub(super) fn transition(self) -> &'static str {
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
        let id = self.id;
        let columns = VERSIONS.map(|column| format!("add column if not exists {column}")).join(", ");
        let tables = format!(
            "drop table if exists seriatim.journal_{id}_nested;\nalter table seriatim.journal_{id} {columns};\n{}",
            self.row_indexes()
        );
        [Journal::drop_functions(id), tables, self.functions(), self.triggers()].concat()
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
        let functions = [
            "insert()",
            "update()",
            "delete()",
            "truncate()",
            "emptied()",
            "check()",
            "inside()",
            "before()",
            "phase()",
            "order(int4, text[], oid, tid)",
            "doubt(bigint, int4[], text[])",
        ];
        functions
            .map(|name| format!("drop function if exists seriatim.journal_{id}_{name} cascade;\n"))
            .concat()
    }

    fn tables(&self) -> String {
        [self.bare_tables(), self.row_indexes()].concat()
    }

    /// The tables alone, for whoever appends changes in their order.
    pub(super) fn bare_tables(&self) -> String {
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
            "create table seriatim.journal_{id} ({columns}, {});\n{}create sequence seriatim.journal_{id}_id;\n",
            VERSIONS.join(", "),
            (0..RING).map(ring).collect::<String>()
        )
    }

    /// What finds the changes of a row in a transaction.
    fn row_indexes(&self) -> String {
        let (id, linked) = (self.id, self.linked());
        let each = |at: i16| match linked {
            true => format!(
                "create index if not exists journal_{id}_{at}_row on seriatim.journal_{id}_{at} (xid, hash, id);\n"
            ),
            false => format!("drop index if exists seriatim.journal_{id}_{at}_row;\n"),
        };
        (0..RING).map(each).collect()
    }

    fn functions(&self) -> String {
        let more = match self.linked() {
            true => self.order(),
            false => self.noticing(),
        };
        let emptied = match self.table.partitioned {
            true => self.function("emptied", "", &self.emptied()),
            false => String::new(),
        };
        // A trigger's functions are looked for when it is made, so all are there before.
        let each = Event::ALL.iter().map(|event| self.function(event.name(), "", &self.body(*event)));
        [more, emptied].into_iter().chain(each).collect()
    }

    /// A trigger's function: it runs as its owner, so that whoever may write to the table can.
    ///
    /// Nobody else may call those of a plain table. Those of a partitioned one PostgreSQL puts on new partitions itself, and asks whether the
    /// role that makes the partition may call them; they note nothing of other tables.
    pub(super) fn function(&self, name: &str, volatility: &str, body: &str) -> String {
        // PostgreSQL does not put the one for a partition's TRUNCATE anywhere.
        let right = match self.table.partitioned && name != "emptied" {
            true => "grant execute on function {} to public",
            false => "revoke all on function {} from public",
        };
        let right = right.replace("{}", &format!("seriatim.journal_{}_{name}()", self.id));
        format!(
            "create or replace function seriatim.journal_{0}_{name}() returns trigger\n\
             language plpgsql {volatility}security definer set search_path = pg_catalog, pg_temp{1} as $seriatim$\n\
             #variable_conflict use_column\n{body}$seriatim$;\n{right};\n",
            self.id,
            self.settings()
        )
    }

    /// Settings that images are written by.
    pub(super) fn settings(&self) -> &'static str {
        match self.known.depends_on_settings {
            true => {
                " set extra_float_digits = 1 set intervalstyle = 'iso_8601' set datestyle = 'ISO, YMD' set timezone = 'UTC'"
            }
            false => "",
        }
    }

    fn body(&self, event: Event) -> String {
        match event {
            Event::Truncate => format!("begin\n{}{}    return null;\nend\n", self.guard(), self.note(event)),
            _ if self.linked() => self.linked_body(event),
            Event::Update => {
                format!(
                    "declare\n    noted bigint;\nbegin\n{}{}    return null;\nend\n",
                    self.guard(),
                    self.note(event)
                )
            }
            _ => format!("begin\n{}{}    return null;\nend\n", self.guard(), self.note(event)),
        }
    }

    /// What a TRUNCATE of one partition does.
    fn emptied(&self) -> String {
        let keys = self.texts_now("r.image");
        let keys: Vec<String> = (1..=self.key.len()).map(|at| format!("({keys})[{at}]")).collect();
        let quoted = |sql: String| sql.replace('\'', "''").replace('%', "%%");
        let body = EMPTIED
            .replace("{doubted}", &self.doubted(super::watching::INVERTED))
            .replace("{next}", &quoted(self.next()))
            .replace("{hash}", &quoted(self.hash_of(&keys)))
            .replace("{oid}", &self.table.oid.to_string())
            .replace("journal_N_R", &format!("journal_{}_{}", self.id, self.ring))
            .replace("journal_N", &format!("journal_{}", self.id));
        format!("declare\n    last_op \"char\";\nbegin\n{}{body}    return null;\nend\n", self.guard())
    }

    /// The statements that note what a statement did.
    fn note(&self, event: Event) -> String {
        let hash = self.hash_of(&self.keys("r.key"));
        match event {
            Event::Insert => {
                self.write('i', [&hash, NO_IMAGE, "r.image"], &format!("{} r", self.rows("new")))
            }
            Event::Delete => {
                self.write('d', [&hash, "r.image", NO_IMAGE], &format!("{} r", self.rows("old")))
            }
            Event::Update => self.update(),
            Event::Truncate => format!("    {}", self.doubted('t')),
        }
    }

    /// Rows that keep their key are noted first; of the others all old keys go before any new one comes, since one row's new key
    /// may be another's old one. What comes first is left out where one row of a statement on its own kept its key: most do, and
    /// then most of the cost is to set the plan up.
    fn update(&self) -> String {
        let (before, after) = (self.hash_of(&self.keys("p.before")), self.hash_of(&self.keys("p.after")));
        let from = |pairs: &str, same| format!("{pairs} p\n    where {}", self.same_key(same));
        let kept = |pairs: &str| self.write('u', [&before, "p.before", "p.after"], &from(pairs, true));
        let pairs = self.pairs();
        let others = from(&pairs, false);
        format!(
            "{}    if not found then\n{}    get diagnostics noted = row_count;\n    \
             if noted <> (select count(*) from new_rows) then\n{}{}    end if;\n    end if;\n",
            kept(&self.only_pair()),
            kept(&pairs),
            self.write('d', [&before, "p.before", NO_IMAGE], &others),
            self.write('i', [&after, NO_IMAGE, "p.after"], &others)
        )
    }

    /// Writes rows of a source: the hash of the key, and the images before and after.
    fn write(&self, op: char, [hash, before, after]: [&str; 3], from: &str) -> String {
        format!(
            "    insert into seriatim.journal_{}_{} ({COLUMNS})\n    select {}, pg_catalog.pg_current_xact_id(), \
             '{op}'::pg_catalog.\"char\", pg_catalog.clock_timestamp(), {hash}, {before}, {after}\n    from {from};\n",
            self.id,
            self.ring,
            self.next()
        )
    }

    pub(super) fn next(&self) -> String {
        format!("pg_catalog.nextval('seriatim.journal_{}_id'::pg_catalog.regclass)", self.id)
    }

    fn triggers(&self) -> String {
        let (id, table) = (self.id, self.table.quoted());
        let linked = self.linked();
        let each = |event: &Event| {
            let name = event.name();
            let how = match *event {
                Event::Truncate => "for each statement ".to_owned(),
                _ if linked => "for each row ".to_owned(),
                event => format!("{}for each statement ", event.transition()),
            };
            // A TRUNCATE of the whole table is noted before its partitions are emptied.
            let when = if *event == Event::Truncate && self.table.partitioned { "before" } else { "after" };
            format!(
                "create trigger \"!seriatim_{id}_{name}\" {when} {name} on {table} {how}execute function seriatim.journal_{id}_{name}();\n"
            )
        };
        let emptied = self.table.partitions.iter().map(|partition| {
            format!(
                "create trigger \"!seriatim_{id}_emptied\" before truncate on {} for each statement \
                 execute function seriatim.journal_{id}_emptied();\n",
                partition.quoted
            )
        });
        let noticing = if linked { String::new() } else { self.noticing_triggers() };
        Event::ALL.iter().map(each).chain(emptied).chain([noticing]).collect()
    }

    /// How many triggers the table itself has.
    pub(super) fn expected_triggers(known: &Known) -> usize {
        match known.nests || known.partitioned {
            true => 4,
            false => 8,
        }
    }

    /// Rows are noted one by one.
    pub(super) fn linked(&self) -> bool {
        self.known.nests || self.table.partitioned
    }
}
