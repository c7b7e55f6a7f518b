//! Nobody gets the rights of the role that Seriatim runs as: its functions look up nothing where others can put something.

use seriatim::FeedName;
use seriatim::source::{Install, Start};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_postgres::{Database, PostgresGateState, PostgresQueue, PostgresStore};

use crate::log_kit::{Follower, Shop, consumer, told};
use crate::support::client;

const TABLES: &str = "create table plain (id bigint primary key, n int not null, t text);
     create table parted (id bigint primary key, n int not null, t text) partition by range (id);
     create table low partition of parted for values from (0) to (100);
     create table journalled (id bigint primary key, n int not null, t text);
     create table nesting (id bigint primary key, parent bigint references nesting on delete cascade, n int not null, t text);
     create table parted_journalled (id bigint primary key, n int not null, t text) partition by range (id);
     create table low_journalled partition of parted_journalled for values from (0) to (100)";

fn name(name: &str) -> FeedName {
    FeedName::new(name).unwrap()
}

/// A database in which everything is installed that this version can install.
async fn everything() -> Shop {
    let shop = Shop::with(TABLES).await;
    for table in ["plain", "parted"] {
        let log = shop.source().log(table).partitions(1).with_deletes();
        log.install(&consumer(table), &Start::Beginning).await.unwrap();
    }
    for table in ["journalled", "nesting", "parted_journalled"] {
        let journal = shop.source().journal(table).partitions(1);
        journal.install(&consumer(table), &Start::Beginning).await.unwrap();
    }
    let database = || Database::connect(shop.place.url()).unwrap();
    PostgresQueue::open(database(), &name("works")).await.unwrap();
    PostgresGateState::open(database(), &name("partner")).await.unwrap();
    PostgresStore::connect(shop.place.url()).await.unwrap();
    shop.place.ledger().await;
    shop
}

#[tokio::test]
async fn every_function_has_a_search_path_of_its_own() {
    let shop = everything().await;
    // Those name everything with its schema, have no rights of their own, and are put into the statements that call them.
    let functions =         "select p.oid::regprocedure::text from pg_proc p
         where p.pronamespace = 'seriatim'::regnamespace and p.proname not in ('column_name', 'column_name_now', 'json_text')
           and not exists (select 1 from unnest(p.proconfig) c where c ~ '^search_path=pg_catalog(, .*)?, pg_temp$')";
    assert_eq!(shop.texts(functions).await, [""; 0]);
    let with_rights = "select p.oid::regprocedure::text from pg_proc p
         where p.pronamespace = 'seriatim'::regnamespace and p.prosecdef
           and p.proname in ('column_name', 'column_name_now', 'json_text')";
    assert_eq!(shop.texts(with_rights).await, [""; 0]);
    let count = "select count(*) from pg_proc p where p.pronamespace = 'seriatim'::regnamespace";
    assert!(shop.number(count).await > 100, "everything is installed");
}

#[tokio::test]
async fn nobody_else_may_put_a_trigger_function_on_a_table() {
    let shop = everything().await;
    // PostgreSQL itself puts a partitioned table's on its new partitions, for the role that makes them.
    let open = "select p.oid::regprocedure::text from pg_proc p
         where p.pronamespace = 'seriatim'::regnamespace and p.prorettype = 'trigger'::regtype
           and has_function_privilege('public', p.oid, 'execute')
           and not exists (select 1 from pg_trigger g join pg_class c on c.oid = g.tgrelid
                           where g.tgfoid = p.oid and c.relkind = 'p')";
    assert_eq!(shop.texts(open).await, [""; 0]);
}

/// A role that may use the schema and write to watched tables, and its connection.
struct Intruder {
    role: String,
    client: Client,
}

impl Intruder {
    async fn in_shop(shop: &Shop) -> Self {
        let role = format!("intruder_{}", fastrand::u64(..));
        let database = shop.place.url().rsplit('/').next().unwrap().to_owned();
        shop.sql(&format!(
            "create role {role} login; grant usage on schema seriatim to {role};
             grant create, temporary on database \"{database}\" to {role};
             grant select, insert, update, delete, truncate on all tables in schema public to {role};
             create table marker (who text, what text); grant usage on schema public to {role}"
        ))
        .await;
        let client = client(&shop.place.url().replace("postgres@", &format!("{role}@"))).await;
        Intruder { role, client }
    }

    /// Runs statements one after the other, and goes on when one is refused.
    async fn tries(&self, statements: &[String]) -> usize {
        let mut refused = 0;
        for statement in statements {
            refused += usize::from(self.client.batch_execute(statement).await.is_err());
        }
        refused
    }

    async fn must(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
    }
}

/// Stand-ins for whatever the server has: each notes who calls it, and as whom.
const STAND_INS: &str = include_str!("privileges_stand_ins.sql");

/// Everything that a writer can do to a table.
const WRITES: [&str; 7] = [
    "insert into {table} (id, n, t) values (1, 1, 'a'), (2, 2, 'b') on conflict (id) do update set n = excluded.n + 1",
    "insert into {table} (id, n, t) values (1, 1, 'a'), (3, 2, 'b') on conflict (id) do update set n = excluded.n + 1",
    "update {table} set n = 5, t = 'c'",
    "update {table} set id = 50 where id operator(pg_catalog.=) 1",
    "delete from {table} where id operator(pg_catalog.=) 2",
    "truncate {table}",
    "begin isolation level repeatable read; insert into {table} (id, n) values (1, 1); truncate {table}; commit",
];

/// What a careless function with its owner's rights looks like.
const CARELESS: &str =
    "create function public.careless(x text) returns boolean language plpgsql security definer as $$
     begin return nullif(x, 'a') is distinct from 'b' and 'marker'::regclass is not null; end $$";

#[tokio::test]
async fn stand_ins_for_the_servers_own_are_never_called_with_the_owners_rights() {
    let shop = everything().await;
    let intruder = Intruder::in_shop(&shop).await;
    intruder.must(STAND_INS).await;
    for path in ["evil, pg_temp, pg_catalog, public", "pg_temp, evil, public", "pg_catalog"] {
        intruder.must(&format!("set search_path = {path}")).await;
        for table in ["plain", "parted", "journalled", "nesting", "parted_journalled"] {
            for write in WRITES {
                intruder.must(&write.replace("{table}", &format!("public.{table}"))).await;
            }
        }
        for partition in ["low", "low_journalled"] {
            intruder.must(&format!("truncate public.{partition}")).await;
        }
        let pushes = [
            "select seriatim.queue_push('works', 'work:1', 'a')",
            "select seriatim.queue_push_at_most('works', 'work:1', 1000, 'a', 'b')",
            "select seriatim.queue_add('works', 'work:1', array['a']::pg_catalog.bytea[], 1000)",
            "select seriatim.journal_tick()",
            "select seriatim.log_tick()",
            "select seriatim.tick()",
            "select seriatim.log_sequence(1)",
            "select seriatim.log_sequence(2)",
            "select seriatim.log_prune(1, 10)",
            "select seriatim.log_prune(2, 10)",
        ];
        intruder.tries(&pushes.map(str::to_owned)).await;
        intruder.tries(&calls(&shop).await).await;
    }
    let called = "select distinct who || ' in ' || what from marker";
    assert_eq!(shop.texts(called).await, [""; 0]);
    // The same stand-ins do get the owner's rights from a function that is not careful.
    shop.sql(CARELESS).await;
    shop.sql("grant execute on function public.careless to public").await;
    intruder.must("set search_path = evil, pg_temp, pg_catalog, public; select public.careless('a')").await;
    let caught = shop.texts("select distinct who || ' in ' || what from marker").await;
    assert!(caught.iter().all(|caught| caught.starts_with("postgres in ")) && caught.len() > 1, "{caught:?}");
}

/// A call of every function of the schema, once with nothing and once with something.
async fn calls(shop: &Shop) -> Vec<String> {
    let something = "select format('select seriatim.%I(%s)', p.proname, (
             select string_agg(case when v.n = 0 then 'null' else case t.typname when 'text' then '''public.plain'''
                 when 'regclass' then '''public.plain''' when 'oid' then '''public.plain''::pg_catalog.regclass::pg_catalog.oid'
                 when 'int4' then '1' when 'int8' then '1' when 'int2' then '1' when 'bool' then 'true'
                 when 'jsonb' then '''{}''' when 'log' then '(select null::seriatim.log)' else 'null' end end || '::'
                 || format_type(a.type, null), ', ' order by a.at)
             from unnest(p.proargtypes::oid[]) with ordinality a (type, at) join pg_type t on t.oid = a.type))
         from pg_proc p, generate_series(0, 1) v (n)
         where p.pronamespace = 'seriatim'::regnamespace and p.prorettype <> 'trigger'::regtype order by p.proname";
    shop.texts(something).await
}

#[tokio::test]
async fn a_logs_triggers_note_nothing_of_another_table() {
    let shop = everything().await;
    let mut plain =
        Follower::open(shop.source().log("plain").partitions(1).with_deletes(), Start::Beginning).await;
    let mut parted =
        Follower::open(shop.source().log("parted").partitions(1).with_deletes(), Start::Beginning).await;
    plain.drain().await;
    parted.drain().await;
    let intruder = Intruder::in_shop(&shop).await;
    intruder.must("create schema evil; create table evil.plain (id bigint primary key, n int, t text)").await;
    let triggers = |log: &str, how: &str| {
        ["insert", "update", "delete"].map(|event| {
            format!("create trigger {log}_{event} after {event} on evil.plain {how} execute function seriatim.log_id_{log}_{event}()")
        })
    };
    let referencing = "referencing new table as new_rows for each statement";
    assert_eq!(intruder.tries(&triggers("plain", referencing)).await, 3, "a plain table's are refused");
    intruder.tries(&triggers("parted", "for each row")).await;
    let truncate =
        "create trigger t before truncate on evil.plain execute function seriatim.log_id_parted_truncate()";
    intruder.tries(&[truncate.to_owned()]).await;
    let writes = [
        "insert into evil.plain values (1, 1)",
        "update evil.plain set n = 2",
        "delete from evil.plain",
        "truncate evil.plain",
    ];
    intruder.tries(&writes.map(str::to_owned)).await;
    assert!(plain.drain().await.is_empty() && parted.drain().await.is_empty());
    // Nor do they for the role that owns them, whoever asks it to.
    shop.sql("create table other (like plain)").await;
    shop.sql(&format!(
        "create trigger t after insert on other {referencing} execute function seriatim.log_id_plain_insert()"
    ))
    .await;
    let refused = shop.writer.batch_execute("insert into other values (1, 1)").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("are on table public.other"), "{refused:?}");
    assert!(plain.drain().await.is_empty());
}

#[tokio::test]
async fn the_owner_of_a_watched_table_makes_partitions_without_any_right_of_seriatims() {
    let shop = everything().await;
    let mut parted = Follower::open(shop.source().log("parted").partitions(1), Start::Now).await;
    let intruder = Intruder::in_shop(&shop).await;
    shop.sql(&format!(
        "revoke usage on schema seriatim from {0}; grant create on schema public to {0}",
        intruder.role
    ))
    .await;
    for table in ["parted", "parted_journalled"] {
        shop.sql(&format!("alter table {table} owner to {}", intruder.role)).await;
        let part = format!(
            "create table public.{table}_high partition of public.{table} for values from (100) to (200)"
        );
        intruder.must(&part).await;
        intruder.must(&format!("insert into public.{table}_high values (150, 1, 'a')")).await;
    }
    assert_eq!(told(&parted.drain().await), [r#"upsert {"id":150}"#]);
    let noted = shop.texts("select format('select count(*) from seriatim.journal_%s', id) from seriatim.capture where relation = 'parted_journalled'::regclass").await;
    assert_eq!(shop.number(&noted[0]).await, 1);
}

#[tokio::test]
async fn functions_of_the_program_refuse_other_roles() {
    let shop = everything().await;
    let intruder = Intruder::in_shop(&shop).await;
    let journal = shop.number("select min(id) from seriatim.capture where kind = 'journal'").await;
    for call in ["journal_tick_now(N)", "journal_prune(N, 0)", "journal_turn(N, 0::int2)"] {
        let call = call.replace('N', &journal.to_string());
        let refused = intruder.client.batch_execute(&format!("select seriatim.{call}")).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "42501", "{call}: {refused:?}");
    }
    // What cron needs is open to every role that may use the schema.
    intruder.must("select seriatim.tick()").await;
}
