//! Random tables: their keys, their foreign keys, and what else writes to them.

use fastrand::Rng;

use super::statements::write;

/// What a table has that makes statements nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// Nothing, but it was seen that they do.
    Watched,
    /// Triggers.
    Triggers,
    /// Foreign keys with actions, and a parent with triggers.
    Cascades,
    /// A key that is checked late.
    Deferrable,
    /// Partitions, and triggers.
    Partitioned,
}

impl Kind {
    pub fn any(random: &mut Rng) -> Self {
        let kinds = [
            Kind::Plain,
            Kind::Triggers,
            Kind::Triggers,
            Kind::Cascades,
            Kind::Cascades,
            Kind::Deferrable,
            Kind::Partitioned,
            Kind::Partitioned,
        ];
        kinds[random.usize(0..kinds.len())]
    }

    /// The SQL that makes the table, its parent, its functions and its triggers, and some rows.
    pub fn script(self, table: &str, random: &mut Rng) -> String {
        let parent = format!("p{table}");
        let mut script = format!("create table {parent} (id int primary key, n int);\n");
        let action = |random: &mut Rng| ["cascade", "set null", "cascade"][random.usize(0..3)];
        let mut references = |own: bool| match self {
            Kind::Cascades => format!(
                " references {} on update cascade on delete {}",
                if own { table } else { &parent },
                action(random)
            ),
            _ => String::new(),
        };
        let (a, b, c) = (references(false), references(false), references(true));
        let key = match self {
            Kind::Deferrable => "primary key (id) deferrable initially deferred",
            Kind::Partitioned => "primary key (id, n)",
            _ => "primary key (id)",
        };
        let parts = if self == Kind::Partitioned { " partition by list (n)" } else { "" };
        script += &format!(
            "create table {table} (id int not null, n int not null default 0, a int{a}, b int{b}, c int, g int generated always as (n * 2) stored, {key}){parts};\n"
        );
        if self == Kind::Cascades && random.bool() {
            script += &format!("alter table {table} add foreign key (c){c};\n");
        }
        if self == Kind::Partitioned {
            script += &format!(
                "create table {table}_1 partition of {table} for values in (0, 1);\n\
                 create table {table}_2 (g int generated always as (n * 2) stored, c int, n int not null, b int, id int not null, a int);\n\
                 alter table {table} attach partition {table}_2 for values in (2, 3);\n\
                 create table {table}_3 partition of {table} default;\n"
            );
        }
        script += &format!("insert into {parent} select g, 0 from generate_series(0, 3) g;\n");
        script += &format!(
            "insert into {table} select g, g % 4, g % 4, (g + 1) % 4 from generate_series(1, 6) g;\n"
        );
        script += &function(table, self, random);
        if matches!(self, Kind::Triggers | Kind::Partitioned) {
            for at in 0..random.usize(1..4) {
                script += &trigger(table, table, self, at, random);
            }
        }
        if self == Kind::Cascades {
            for at in 0..random.usize(0..3) {
                script += &trigger(table, &parent, self, at, random);
            }
            if random.bool() {
                script += &trigger(table, table, self, 9, random);
            }
        }
        if self == Kind::Plain && random.bool() {
            script +=
                &format!("create rule r as on update to {parent} do also {};\n", write(table, self, random));
        }
        script
    }
}

/// A function that writes to the table, for `returning` and the like.
fn function(table: &str, kind: Kind, random: &mut Rng) -> String {
    let writes: Vec<String> =
        (0..random.usize(1..3)).map(|_| format!("{};", write_of(table, kind, "$1", random))).collect();
    format!(
        "create function f{table}(int) returns int language plpgsql as $$ begin if random() < 2 then {} end if; return $1; end $$;\n",
        writes.join(" ")
    )
}

/// A write to the row that a function is called for, or to any.
fn write_of(table: &str, kind: Kind, id: &str, random: &mut Rng) -> String {
    match random.u8(0..5) {
        0 => format!("update {table} set b = 1 - coalesce(b, 0) where id = {id}"),
        1 => format!("update {table} set c = null where id = {id}"),
        2 => format!("delete from {table} where id = {id}"),
        _ => write(table, kind, random),
    }
}

/// A trigger that writes to the table, on it or on its parent.
fn trigger(table: &str, on: &str, kind: Kind, at: usize, random: &mut Rng) -> String {
    let row = random.u8(0..4) > 0;
    let before = random.bool();
    let events = ["insert", "update", "delete", "insert or update", "insert or update or delete"];
    let events = events[random.usize(0..events.len())];
    let id = match (row, events.contains("delete")) {
        (true, false) => "new.id",
        (true, true) => "coalesce(new.id, old.id)",
        _ => "2",
    };
    let writes = write_of(table, kind, id, random);
    let name = ["a", "z", "R", "~"][random.usize(0..4)];
    let deferred = !before && row && random.u8(0..5) == 0;
    let (constraint, deferrable) =
        if deferred { ("constraint ", "deferrable initially deferred ") } else { ("", "") };
    let depth = random.u8(1..4);
    // One that runs at the commit is in no other: it would go on for ever. So its turns in a transaction are counted.
    let turns = "coalesce(nullif(current_setting('random.turns', true), '')::int, 0)";
    let (often, counted) = match deferred {
        true => (
            format!("{turns} < 8"),
            format!("perform set_config('random.turns', ({turns} + 1)::text, true); "),
        ),
        false => (format!("pg_trigger_depth() <= {depth}"), String::new()),
    };
    format!(
        "create function \"{name}{on}{at}\"() returns trigger language plpgsql as $$ begin
             if {often} then {counted}{writes}; end if;
             return case when tg_op = 'DELETE' then old else new end; end $$;\n\
         create {constraint}trigger \"{name}{at}\" {} {events} on {on} {deferrable}for each {} execute function \"{name}{on}{at}\"();\n",
        if before { "before" } else { "after" },
        if row { "row" } else { "statement" },
    )
}
