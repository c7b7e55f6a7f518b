//! The program on PostgreSQL, from outside: a fleet that is killed, a server that is restarted, connections that are cut.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seriatim_testkit::servers::Postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::shop::{Shop, finish};

/// Watches orders, keeps each customer's total, and notes each change: all in the checkpoint's transaction.
pub const LEDGER: &str = r#"store = "URL"
[source.shop]
url = "URL"
[feed.totals]
source = "shop"
capture = "journal"
table = "orders"
partitions = 6
[feed.totals.handler]
sql = """
insert into totals as t (customer, amount) select :old_customer, -:old_amount where :old_customer is not null
    on conflict (customer) do update set amount = t.amount + excluded.amount;
insert into totals as t (customer, amount) select :new_customer, :new_amount where :new_customer is not null
    on conflict (customer) do update set amount = t.amount + excluded.amount;
insert into handled (change, order_id, revision) values (:id, :key_id, coalesce(:new_revision, :old_revision + 1));
"""
batch = 10
[lease]
acquire = "100ms"
renew = "300ms"
expire = "1500ms"
"#;

pub const SCHEMA: &str = "
create table orders (id bigint generated always as identity primary key, customer text, amount int, revision int);
create table totals (customer text primary key, amount int);
create table handled (place bigint generated always as identity primary key, change bigint unique, order_id bigint, revision int);";

/// Totals that are not the sums over the orders, and changes noted out of their order's order.
const WRONG: &str = "
select (select count(*) from (select customer, sum(amount) as amount from orders group by customer
                              except select customer, amount from totals) as missing)
     + (select count(*) from (select customer, amount from totals where amount <> 0
                              except select customer, sum(amount) from orders group by customer) as wrong)
     + (select count(*) from (select revision, row_number() over (partition by order_id order by place) as expected
                              from handled) as noted where revision <> expected)";

/// One change of one order, or of none: 1 in 4 new, 1 in 8 deleted, the rest updated.
const CHANGE: &str = "
with dice as materialized (select floor(random() * 8)::int as n),
     chosen as materialized (select id from orders order by random() limit 1),
     made as (insert into orders (customer, amount, revision)
              select 'c' || floor(random() * 9)::int, floor(random() * 100)::int, 1 from dice where n < 2 returning 1),
     gone as (delete from orders where id = (select id from chosen) and (select n from dice) = 2 returning 1),
     changed as (update orders set amount = amount + 7, customer = 'c' || floor(random() * 9)::int, revision = revision + 1
                 where id = (select id from chosen) and (select n from dice) > 2 returning 1)
select (select count(*) from made) + (select count(*) from gone) + (select count(*) from changed)";

/// A folder with a config, and a database of its own on a server.
pub struct Fleet {
    pub shop: Shop,
    pub url: String,
    runtime: Runtime,
    client: Client,
}

impl Fleet {
    pub fn new(config: &str) -> Self {
        Fleet::on(Postgres::shared(), config)
    }

    pub fn on(server: &Postgres, config: &str) -> Self {
        let url = server.url_of(&server.database().unwrap());
        let shop = Shop::empty();
        shop.configure(&config.replace("URL", &url));
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(connect(&url));
        Fleet { shop, url, runtime, client }
    }

    fn ledger() -> Self {
        let fleet = Fleet::new(LEDGER);
        fleet.sql(SCHEMA);
        fleet
    }

    pub fn sql(&self, sql: &str) {
        self.runtime
            .block_on(self.client.batch_execute(sql))
            .unwrap_or_else(|error| panic!("{error:?} in {sql}"));
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    /// As [`Fleet::number`], through a server that may be down at times.
    pub fn number_at_last(&self, sql: &str) -> i64 {
        let mut found = None;
        until("the server answers", || {
            found = self.runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.ok()?;
                tokio::spawn(connection);
                client.query_one(sql, &[]).await.ok().map(|row| row.get(0))
            });
            found.is_some()
        });
        found.unwrap()
    }

    pub fn run(&self, line: &str) -> crate::shop::Ran {
        self.shop.run(line)
    }

    /// A host whose logs nobody reads, so that they cannot fill a pipe.
    pub fn host(&self, name: &str) -> Child {
        let log =
            std::fs::File::options().create(true).append(true).open(self.shop.path("hosts.log")).unwrap();
        let mut command = self.shop.command(&format!("run --host {name}"));
        command.stdout(std::process::Stdio::null()).stderr(log).spawn().unwrap()
    }

    /// Waits until so many changes are handled; says how things stand when that never comes.
    #[track_caller]
    pub fn until_handled(&self, count: u64) {
        let began = seriatim::clock::now();
        while self.handled() < count {
            let log = || std::fs::read_to_string(self.shop.path("hosts.log")).unwrap_or_default();
            let last = || log().lines().rev().take(30).collect::<Vec<_>>().join("\n");
            assert!(
                began.elapsed() < Duration::from_secs(90),
                "{} of {count} are handled\n{}\n{}",
                self.handled(),
                self.run("status").stdout,
                last()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn handled(&self) -> u64 {
        self.number_at_last("select count(*) from handled") as u64
    }

    #[track_caller]
    pub fn assert_exact(&self, committed: u64) {
        assert_eq!(self.number_at_last(WRONG), 0, "wrong totals, or changes out of order");
        assert_eq!(self.handled(), committed, "every change once");
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Sessions that change orders until told to stop, and count what they committed.
pub struct Writers {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Writers {
    pub fn start(fleet: &Fleet, sessions: usize) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..sessions).map(|_| {
            let (stop, committed, url) = (Arc::clone(&stop), Arc::clone(&committed), fleet.url.clone());
            std::thread::spawn(move || Runtime::new().unwrap().block_on(write(&url, &stop, &committed)))
        });
        let threads = threads.collect();
        Writers { stop, committed, threads }
    }

    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.committed.load(Ordering::Acquire)
    }
}

async fn write(url: &str, stop: &AtomicBool, committed: &AtomicU64) {
    let mut client = connect(url).await;
    while !stop.load(Ordering::Acquire) {
        let transaction = client.transaction().await.unwrap();
        let mut changes = 0;
        let mut deadlocked = false;
        for _ in 0..fastrand::u8(1..5) {
            match transaction.query_one(CHANGE, &[]).await {
                Ok(row) => changes += row.get::<_, i64>(0) as u64,
                Err(_) => {
                    deadlocked = true;
                    break;
                }
            }
            if fastrand::u8(0..8) == 0 {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..40))).await;
            }
        }
        if deadlocked || fastrand::u8(0..10) == 0 {
            transaction.rollback().await.unwrap();
        } else {
            transaction.commit().await.unwrap();
            committed.fetch_add(changes, Ordering::AcqRel);
        }
    }
}

#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(90), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
pub fn end(mut process: Child) {
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    let mut ended = None;
    until("the process ends", || {
        ended = process.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success());
}

#[test]
fn what_is_there_is_handled_and_printed_once() {
    let fleet = Fleet::new(
        "store = \"URL\"\n[source.shop]\nurl = \"URL\"\n[feed.totals]\nsource = \"shop\"\ncapture = \"journal\"\n\
         table = \"public.orders\"\n[feed.totals.handler]\nstdout = true\n",
    );
    fleet.sql("create table orders (id int primary key, amount int); insert into orders values (1, 10), (2, 20), (3, 30)");
    fleet.run("check").expect(0, &["is not installed yet"]);
    let first = fleet.run("run --once").expect(0, &[r#""key":{"id":1},"op":"upsert""#, "at-least-once"]);
    assert_eq!(first.stdout.lines().count(), 3);
    fleet.sql("update orders set amount = 11 where id = 1; delete from orders where id = 2");
    let second = fleet.run("run --once").expect(
        0,
        &[
            r#""before":{"id":1,"amount":10},"after":{"id":1,"amount":11}"#,
            r#""op":"delete""#,
            r#""before":{"id":2,"amount":20},"after":null"#,
        ],
    );
    assert_eq!(second.stdout.lines().count(), 2);
    assert_eq!(fleet.run("run --once").expect(0, &[]).stdout, "");
    fleet.run("check").expect(0, &["is installed"]);
    fleet.run("status --json").expect(0, &[r#""capture":"journal""#, r#""changes":0"#, r#""blocked_by":[]"#]);
    fleet.run("rewind totals --to beginning").expect(0, &[]);
    assert_eq!(fleet.run("run --once").expect(0, &[]).stdout.lines().count(), 2);
    fleet.run("unwatch totals").expect(0, &["forgotten"]);
    let left = "select count(*) from pg_trigger where tgrelid = 'orders'::regclass";
    assert_eq!(fleet.number(left), 0);
}

#[test]
fn killed_at_any_moment_many_times_the_totals_are_exact() {
    let fleet = Fleet::ledger();
    fleet.sql("insert into orders (customer, amount, revision) select 'c' || n % 9, n, 1 from generate_series(1, 300) as n");
    fleet.run("watch").expect(0, &[]);
    let writers = Writers::start(&fleet, 4);
    let mut living: Vec<Child> = (0..2).map(|n| fleet.host(&format!("first-{n}"))).collect();
    for kill in 0..25 {
        std::thread::sleep(Duration::from_millis(fastrand::u64(5..300)));
        let mut victim = living.remove(fastrand::usize(..living.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        living.push(fleet.host(&format!("next-{kill}")));
        living.retain_mut(|host| host.try_wait().unwrap().is_none());
    }
    let committed = writers.stop() + 300;
    fleet.until_handled(committed);
    living.into_iter().for_each(end);
    fleet.run("run --once").expect(0, &["exactly-once"]);
    assert!(committed > 600, "the test did something: {committed}");
    fleet.assert_exact(committed);
}

#[test]
fn a_server_that_is_restarted_and_connections_that_are_cut_lose_and_double_nothing() {
    let server = Postgres::start().unwrap();
    let fleet = Fleet::on(&server, LEDGER);
    fleet.sql(SCHEMA);
    fleet.run("watch").expect(0, &[]);
    let mut committed = 0;
    let hosts = [fleet.host("a"), fleet.host("b")];
    for round in 0..3 {
        let writers = Writers::start(&fleet, 3);
        let so_far = fleet.handled();
        until("they work", || fleet.handled() > so_far + 100);
        for _ in 0..5 {
            let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where application_name = 'seriatim' and pid <> pg_backend_pid() and random() < 0.7";
            fleet.number_at_last(cut);
            let so_far = fleet.handled();
            until("they go on", || fleet.handled() > so_far);
        }
        committed += writers.stop();
        if round < 2 {
            server.restart().unwrap();
        }
    }
    fleet.until_handled(committed);
    hosts.into_iter().for_each(end);
    fleet.assert_exact(committed);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let fleet = Fleet::ledger();
    fleet.shop.reconfigure("table = \"orders\"", "table = \"ordres\"");
    fleet.run("check").expect(1, &["feed totals", "ordres", "orders"]);
    fleet.run("run --once").expect(1, &["feed totals", "ordres"]);
    fleet.shop.reconfigure("table = \"ordres\"", "table = \"orders\"");
    fleet.shop.reconfigure(":new_amount", ":new_amuont");
    fleet.run("check").expect(1, &[":new_amuont"]);
    let nowhere = "postgres://ann:s3cret@127.0.0.1:1/shop";
    let ran = finish(fleet.shop.command("status").env("SERIATIM_STORE", nowhere))
        .expect(1, &["127.0.0.1:1", "refused"]);
    assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
    let missing = fleet.url.replace("/test", "/no_such_test");
    let missing = if missing == fleet.url { format!("{}x", fleet.url) } else { missing };
    finish(fleet.shop.command("status").env("SERIATIM_STORE", missing))
        .expect(1, &["does not exist", "create the database"]);
}

#[test]
fn status_names_the_transaction_that_holds_changes_back() {
    let fleet = Fleet::ledger();
    fleet.run("watch").expect(0, &[]);
    let open = fleet.runtime.block_on(async {
        let client = connect(&format!("{}?application_name=forgetful", fleet.url)).await;
        client
            .batch_execute("begin; insert into orders (customer, amount, revision) values ('a', 1, 1)")
            .await
            .unwrap();
        client
    });
    until("it is named", || {
        let said = fleet.run("status --json").expect(0, &[]).stdout;
        said.contains("forgetful") && said.contains("remedy")
    });
    fleet.runtime.block_on(open.batch_execute("commit")).unwrap();
    fleet.run("run --once").expect(0, &[]);
    fleet.assert_exact(1);
}

#[test]
fn everything_is_done_by_a_role_that_has_only_what_it_needs() {
    let fleet = Fleet::ledger();
    let database = fleet.url.rsplit('/').next().unwrap().to_owned();
    let role = format!("plain_{database}");
    fleet.sql(&format!("create role {role} login; revoke create on schema public from public;"));
    let plain = fleet.url.replace("postgres@", &format!("{role}@"));
    let config = LEDGER.replace("URL", &plain);
    fleet.shop.configure(&config);
    fleet.run("check").expect(1, &["grant", &role]);
    fleet.sql(&format!(
        "grant create on database {database} to {role}; grant select, trigger on orders to {role};
         grant select, insert, update on totals, handled to {role}; grant usage on all sequences in schema public to {role}"
    ));
    fleet.run("check").expect(0, &[]);
    fleet.sql("insert into orders (customer, amount, revision) values ('a', 1, 1), ('b', 2, 1)");
    fleet.run("run --once").expect(0, &["exactly-once"]);
    fleet.assert_exact(2);
    fleet.sql(&format!("drop owned by {role} cascade; drop role {role}"));
}
