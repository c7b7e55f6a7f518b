//! Random statements on a table and its parent.

use fastrand::Rng;

use super::tables::Kind;

/// Few keys, so that they meet.
const KEYS: i64 = 8;

/// One statement that writes to the table, and is short enough for a trigger.
pub fn write(table: &str, kind: Kind, random: &mut Rng) -> String {
    let (id, other, n) = (random.i64(1..KEYS), random.i64(1..KEYS), random.i64(0..5));
    let conflict = match kind {
        Kind::Deferrable => String::new(),
        Kind::Partitioned => " on conflict (id, n) do update set b = 1 - coalesce(excluded.b, 0)".to_owned(),
        _ => " on conflict (id) do update set b = 1 - coalesce(excluded.b, 0)".to_owned(),
    };
    match random.u8(0..12) {
        0 | 1 => format!("update {table} set n = 1 - n where id = {id}"),
        2 => format!("update {table} set n = {n}"),
        3 => format!("update {table} set b = coalesce(b, 0) % 3 where id in ({id}, {other})"),
        4 => format!("update {table} set id = {other} where id = {id}"),
        5 => format!("update {table} set id = id + {KEYS} where id = {id} and id < {KEYS}"),
        6 => format!("delete from {table} where id = {id}"),
        7 => format!("delete from {table} where n = {n} and id <> {other}"),
        8 => format!("insert into {table} values ({id}, {n}, null, 1)"),
        9 => format!("insert into {table} values ({id}, {n}), ({other} + {KEYS}, {n})"),
        10 => format!("insert into {table} values ({id}, {n}), ({other}, 1){conflict}"),
        _ => format!("update {table} set c = b, n = {n} where id >= {id}"),
    }
}

/// The statements of one seed.
pub struct Statements<'a> {
    table: &'a str,
    kind: Kind,
    merges: bool,
}

impl<'a> Statements<'a> {
    pub fn new(table: &'a str, kind: Kind, merges: bool) -> Self {
        Statements { table, kind, merges }
    }

    pub fn any(&mut self, random: &mut Rng) -> String {
        let (table, f) = (self.table, format!("f{}", self.table));
        let parent = format!("p{table}");
        let (id, n) = (random.i64(1..KEYS), random.i64(0..4));
        let one = |random: &mut Rng| write(table, self.kind, random);
        match random.u8(0..24) {
            0 => format!("{} returning {f}(id)", one(random)),
            1 => format!("update {table} set n = {n} where {f}(id) > 0"),
            2 => format!("with w as ({} returning id) {}", one(random), one(random)),
            3 => format!(
                "with w as (delete from {table} where id in ({id}, {id} + 1) returning *) insert into {table} select id, n, a, b from w returning {f}(id)"
            ),
            4 => format!(
                "with d as (delete from {table} where id = {id} returning *), i as (insert into {table} select id, n, b, a from d), e as (delete from {table} where id = {id} + 1) select 1"
            ),
            5 if self.merges => format!(
                "merge into {table} t using (values ({id}, {n}), ({id} + 1, {n})) s (id, n) on t.id = s.id and t.n = s.n
                 when matched and t.n > 1 then delete when matched then update set b = 5 when not matched then insert values (s.id, s.n, null, null)"
            ),
            6 if self.merges => format!(
                "merge into {table} t using (select id from {table} union all select 99) s on t.id = s.id and t.n <> {n}
                 when matched and t.id = {id} then delete when not matched then insert (id, n) values ({id}, {n})"
            ),
            7 => format!("insert into {table} (id, n) select {f}({id}), {n}"),
            8 => format!("select {f}({id})"),
            9 => format!("update {parent} set id = (id + 1) % 4 + 10 where id = {n}"),
            10 => format!("update {parent} set id = id - 10 where id >= 10"),
            11 => format!("update {parent} set n = n + 1"),
            12 => format!("delete from {parent} where id = {n}"),
            13 => format!("insert into {parent} values ({n}, 0)"),
            14 => "set constraints all immediate".to_owned(),
            15 if random.u8(0..3) == 0 => format!("truncate {table}"),
            16 if self.kind == Kind::Partitioned => format!("truncate {table}_{}", random.u8(1..4)),
            17 => format!("savepoint q; {}; rollback to q; {}; release q", one(random), one(random)),
            18 => format!("{}; {}", one(random), one(random)),
            19 => format!(
                "do $$ begin {}; begin {}; raise exception 'x'; exception when others then null; end; {}; end $$",
                one(random),
                one(random),
                one(random)
            ),
            _ => one(random),
        }
    }
}
