//! Rows that are replaced without a word are told as deleted, by every way of replacing them, and none is told twice.

use proptest::prelude::*;
use seriatim::change::Change;
use seriatim::source::Start;
use tokio::runtime::Builder;

use crate::capture_kit::{File, Follower, Replica, consumer, sorted, told};

/// Every kind of table in which a row can be in another's way. Columns: key `k`, unique `u`, `v` unique in part, payload `p`.
const TABLES: [&str; 7] = [
    "create table t (k integer primary key, u unique, v, p)",
    "create table t (k integer primary key, u int not null default 3 unique, v, p)",
    "create table t (k text not null primary key, u collate nocase unique, v, p)",
    "create table t (k primary key, u collate nocase unique, v, p) without rowid",
    "create table t (k not null, u not null, v, p, primary key (u, k)); create unique index one on t (u, v)",
    "create table t (k integer primary key on conflict replace, u unique on conflict replace, v, p, g as (v * 2) unique)",
    "create table t (k integer primary key, u unique, v, p); create unique index some on t (v) where u > 1",
];

/// Triggers of the user's own that write to the same table, while a statement is under way. Not to the very row that an
/// update is about to write: what SQLite makes of that is undefined.
const USERS_TRIGGERS: [&str; 8] = [
    "",
    "create trigger users after insert on t when new.p not like 'n%'
     begin insert or replace into t (k, u, v, p) values (new.u, new.k, new.v, 'n'); end",
    "create trigger users before insert on t when new.p not like 'n%'
     begin update t set p = p || '*' where u = new.u or k = new.k; end",
    "create trigger users before insert on t when new.p not like 'n%'
     begin insert or replace into t (k, u, v, p) values (new.u, new.k, new.v, 'n'); end",
    "create trigger users before update on t begin delete from t where k = new.u and k <> old.k; end",
    "create trigger users after delete on t when old.p not like 'n%' begin
     insert into t (k, u, p) values (100 + abs(random()) % 1000000000, 100 + abs(random()) % 1000000000, 'n'); end",
    "create trigger users before insert on t begin delete from t where u = new.u and v > 1; end",
    "create trigger users before update on t when new.p not like 'n%' and new.k <> old.k
     begin insert or replace into t (k, u, p) values (new.k, 'zz', 'n'); end",
];

const RECURSIVE: [&str; 2] = ["pragma recursive_triggers = off", "pragma recursive_triggers = on"];

fn on_conflict_update(table: usize) -> &'static str {
    if table == 4 {
        "on conflict (u, k) do update set p = excluded.p || '!'"
    } else {
        "on conflict (k) do update set p = excluded.p || '!', u = excluded.u"
    }
}

/// Statements that collide, in every way that SQLite has for it.
fn statement(table: usize) -> impl Strategy<Value = String> {
    let value = || prop_oneof![(0..5i64).prop_map(|n| n.to_string()), Just("null".to_owned())];
    // In the tables with collations, keys that differ only in case collide.
    let key = move || {
        let text = table == 2 || table == 3;
        (0..5usize).prop_map(move |n| {
            if text { ["'a'", "'A'", "'b'", "'B'", "'c'"][n].to_owned() } else { n.to_string() }
        })
    };
    let columns = "(k, u, v, p)";
    let row =
        move || (key(), key(), value(), 0..99).prop_map(|(k, u, v, p)| format!("({k}, {u}, {v}, 'p{p}')"));
    let verb = prop_oneof![
        Just("insert or replace"),
        Just("insert or ignore"),
        Just("replace"),
        Just("insert or fail"),
        Just("insert or abort"),
        Just("insert")
    ];
    let update = prop_oneof![
        Just("update or replace"),
        Just("update or ignore"),
        Just("update"),
        Just("update or fail")
    ];
    prop_oneof![
        4 => (verb, row(), row()).prop_map(move |(verb, a, b)| format!("{verb} into t {columns} values {a}, {b}")),
        1 => (key(), value(), 0..99).prop_map(|(k, v, p)| format!("insert or replace into t (k, u, v, p) values ({k}, null, {v}, {p})")),
        1 => (key(), 0..99).prop_map(|(u, p)| format!("insert or replace into t (u, p) values ({u}, {p})")),
        2 => row().prop_map(move |row| format!("insert into t {columns} values {row} {}", on_conflict_update(table))),
        1 => row().prop_map(move |row| format!("insert into t {columns} values {row} on conflict do nothing")),
        3 => (update.clone(), key(), key(), key()).prop_map(|(verb, k, u, x)| format!("{verb} t set k = {k}, u = {u} where k = {x}")),
        1 => (update.clone(), value()).prop_map(|(verb, v)| format!("{verb} t set v = {v}, p = p || '+'")),
        1 => (update, key(), key()).prop_map(|(verb, u, x)| format!("{verb} t set u = {u} where k >= {x}")),
        1 => key().prop_map(|k| format!("delete from t where k = {k}")),
    ]
}

fn table_and_statements() -> impl Strategy<Value = (usize, usize, usize, Vec<String>)> {
    let statements = |table| {
        let statements = prop::collection::vec(statement(table), 1..25);
        (Just(table), 0..USERS_TRIGGERS.len(), 0..RECURSIVE.len(), statements)
    };
    (0..TABLES.len()).prop_flat_map(statements)
}

/// Runs the statements under a watch; some fail, which is part of it.
fn watched(table: usize, users: usize, recursive: usize, statements: &[String]) -> (File, Vec<Change>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = File::with(TABLES[table]);
    file.sql(USERS_TRIGGERS[users]);
    file.sql(RECURSIVE[recursive]);
    let changes = runtime.block_on(async {
        let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
        for statement in statements {
            drop(file.writer.execute_batch(statement));
        }
        follower.drain().await
    });
    (file, changes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn whatever_collides_the_journal_makes_the_same_table((table, users, recursive, statements) in table_and_statements()) {
        let (file, changes) = watched(table, users, recursive, &statements);
        let mut replica = Replica::default();
        changes.iter().for_each(|change| replica.apply(change));
        prop_assert_eq!(replica.sorted(), sorted(&file, "t"));
    }
}

async fn changes_of(schema: &str, before: &str, watched: &str) -> Vec<String> {
    let file = File::with(schema);
    file.sql(before);
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql(watched);
    told(&follower.drain().await)
}

#[tokio::test]
async fn a_replaced_row_of_another_key_is_told_as_deleted() {
    for recursive in RECURSIVE {
        let told = changes_of(
            "create table t (id integer primary key, email unique)",
            "insert into t values (1, 'a'), (2, 'b')",
            &format!("{recursive}; insert or replace into t values (3, 'a')"),
        )
        .await;
        assert_eq!(told, [r#"delete {"id":1}"#, r#"insert {"id":3}"#], "{recursive}");
    }
}

#[tokio::test]
async fn a_row_replaced_by_its_hidden_rowid_is_told_as_deleted() {
    let told = changes_of(
        "create table t (name text primary key, x)",
        "insert into t (rowid, name) values (7, 'old')",
        "insert or replace into t (rowid, name) values (7, 'new')",
    )
    .await;
    assert_eq!(told, [r#"delete {"name":"old"}"#, r#"insert {"name":"new"}"#]);
}

#[tokio::test]
async fn a_row_that_comes_under_a_partial_index_can_replace_another() {
    let told = changes_of(
        "create table t (id integer primary key, slot, active); create unique index one on t (slot) where active",
        "insert into t values (1, 'a', 1), (2, 'a', 0)",
        "update or replace t set active = 1 where id = 2",
    )
    .await;
    assert_eq!(told, [r#"delete {"id":1}"#, r#"update {"id":2}"#]);
}

#[tokio::test]
async fn an_ignored_insert_tells_nothing_and_leaves_nothing_behind() {
    let file = File::with("create table t (id integer primary key, x)");
    file.sql("with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) insert into t select i, i from n");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    file.sql("insert or ignore into t select id, 'other' from t");
    assert!(follower.drain().await.is_empty());
    follower.consumed().await;
    assert_eq!(file.number("select count(*) from seriatim_replaced_1"), 0);
}

#[tokio::test]
async fn an_upsert_is_one_update() {
    let told = changes_of(
        "create table t (id integer primary key, n)",
        "insert into t values (1, 1)",
        "insert into t values (1, 1) on conflict (id) do update set n = n + 1; insert or replace into t values (1, 5)",
    )
    .await;
    assert_eq!(told, [r#"update {"id":1}"#, r#"delete {"id":1}"#, r#"insert {"id":1}"#]);
}

#[tokio::test]
async fn a_default_that_replace_puts_in_for_null_can_replace_too() {
    let told = changes_of(
        "create table t (id integer primary key, slot not null default free unique)",
        "insert into t values (1, 'free')",
        "insert or replace into t values (2, null)",
    )
    .await;
    assert_eq!(told, [r#"delete {"id":1}"#, r#"insert {"id":2}"#]);
}

#[tokio::test]
async fn a_users_own_trigger_on_the_same_row_is_told_after_what_fired_it() {
    let touch =
        "create trigger touch after insert on t begin update t set x = 'touched' where id = new.id; end";
    let schema = format!("create table t (id integer primary key, x); {touch}");
    let told = changes_of(
        &schema,
        "",
        "insert into t values (1, 'new'); insert or replace into t values (1, 'newer')",
    )
    .await;
    let once = [r#"insert {"id":1}"#, r#"update {"id":1}"#];
    assert_eq!(told, [once.as_slice(), &[r#"delete {"id":1}"#], &once].concat());
}

#[tokio::test]
async fn cascading_deletes_are_told() {
    for recursive in RECURSIVE {
        let told = changes_of(
            "create table parent (id integer primary key);
             create table t (id integer primary key, parent references parent on delete cascade)",
            "insert into parent values (1), (2); insert into t values (10, 1), (11, 1), (12, 2)",
            &format!("pragma foreign_keys = on; {recursive}; delete from parent where id = 1; replace into parent values (2)"),
        )
        .await;
        assert_eq!(
            told,
            [r#"delete {"id":10}"#, r#"delete {"id":11}"#, r#"delete {"id":12}"#],
            "{recursive}"
        );
    }
}

#[tokio::test]
async fn emptying_the_table_tells_every_row() {
    let told = changes_of(
        "create table t (id integer primary key)",
        "insert into t values (1), (2)",
        "delete from t",
    )
    .await;
    assert_eq!(told, [r#"delete {"id":1}"#, r#"delete {"id":2}"#]);
}

const KV: &str = "create table kv (k text primary key, v text unique);
    insert into kv values ('a', '1'), ('b', '2'), ('last', 'x');";

/// A user's trigger that replaces a row of the same table, before or after an insert.
fn nested_replace(when: &str) -> String {
    format!(
        "create trigger nested {when} insert on kv when new.k <> 'last'
         begin insert or replace into kv values ('last', 'last:' || new.k); end;"
    )
}

#[tokio::test]
async fn a_replace_inside_a_users_trigger_does_not_hide_the_outer_one() {
    for (recursive, when, existing) in RECURSIVE
        .iter()
        .flat_map(|r| [(r, "before", true), (r, "after", true), (r, "before", false), (r, "after", false)])
    {
        let context = format!("{recursive}, {when}, existing: {existing}");
        let file = File::with(KV);
        let trigger = nested_replace(when);
        if existing {
            file.sql(&trigger);
        }
        let log = file.source().log("kv").with_deletes().named(consumer("log", "store").feed);
        let mut log = Follower::open(log, Start::Now).await;
        let mut journal = Follower::open(file.source().journal("kv"), Start::Now).await;
        if !existing {
            file.sql(&trigger);
            journal.drain().await;
            log.drain().await;
        }
        file.sql(&format!("{recursive}; insert or replace into kv values ('c', '1')"));
        let deleted = r#"delete {"k":"a"}"#.to_owned();
        assert!(told(&journal.drain().await).contains(&deleted), "journal: {context}");
        assert!(told(&log.drain().await).contains(&deleted), "log: {context}");
    }
}

#[tokio::test]
async fn a_row_that_a_users_trigger_touches_before_it_is_replaced_is_told_as_it_was_last() {
    for recursive in RECURSIVE {
        let file = File::with(
            "create table t (id integer primary key, slot unique, n);
             create trigger touch before insert on t begin update t set n = n + 1; end;
             insert into t values (1, 'a', 0), (2, 'b', 0); update t set n = 0",
        );
        let mut follower = Follower::open(file.source().journal("t"), Start::Beginning).await;
        file.sql(&format!("{recursive}; insert or replace into t values (3, 'a', 0); insert or replace into t values (2, 'c', 0)"));
        let mut replica = Replica::default();
        follower.drain().await.iter().for_each(|change| replica.apply(change));
        assert_eq!(replica.sorted(), sorted(&file, "t"), "{recursive}");
    }
}

/// How many rows a statement and the triggers that it fires walk through, where no index leads to them.
fn scanned(file: &File, statement: &str) -> i32 {
    let mut statement = file.writer.prepare(statement).unwrap();
    drop(statement.execute([]));
    statement.get_status(rusqlite::StatementStatus::FullscanStep)
}

#[tokio::test]
async fn a_collision_in_a_big_table_costs_as_much_as_one_in_a_small_table() {
    for table in [TABLES[0], TABLES[2], TABLES[3], "create table t (k text primary key, u int unique, v, p)"]
    {
        for with_trigger in [false, true] {
            let file = File::with(table);
            file.sql("with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) insert into t select i, i, i, i from n");
            if with_trigger {
                file.sql(USERS_TRIGGERS[6]);
                file.sql("create index users on t (u, v)");
            }
            let follower = Follower::open(file.source().journal("t"), Start::Now).await;
            for statement in [
                "insert or replace into t (k, u, v, p) values (1, 2, 3, 4)",
                "update or replace t set k = 1, u = 2 where k = 3",
                "insert or ignore into t (k, u, v, p) values (7, 8, 3, 4)",
                "insert into t (k, u, v, p) values (9, 9, 3, 4) on conflict (k) do update set p = 5",
                "update t set p = 5 where k = 20",
                "delete from t where k = 1",
            ] {
                let rows = scanned(&file, statement);
                assert!(rows < 40, "{rows}: {statement} in {table}");
            }
            follower.consumed().await;
        }
    }
}
