//! `seriatim run`, as real processes that are told to stop, killed with -9, and stopped in the middle of things.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Pid, Signal, kill_process};

use crate::shop::{Shop, config};

/// Watches orders, keeps each customer's total, and notes each change: all in the checkpoint's transaction.
const LEDGER: &str = r#"store = "sqlite:shop.db"
[source.shop]
url = "sqlite:shop.db"
[feed.totals]
source = "shop"
capture = "journal"
table = "orders"
partitions = 6
[feed.totals.handler]
sql = """
insert into totals (customer, amount) select :old_customer, -:old_amount where :old_customer is not null
    on conflict (customer) do update set amount = amount + excluded.amount;
insert into totals (customer, amount) select :new_customer, :new_amount where :new_customer is not null
    on conflict (customer) do update set amount = amount + excluded.amount;
insert into handled (change, order_id, revision) values (:id, :key_id, coalesce(:new_revision, :old_revision + 1));
"""
batch = 10
[lease]
acquire = "100ms"
renew = "300ms"
expire = "1500ms"
"#;

const SCHEMA: &str = "
create table orders (id integer primary key autoincrement, customer text, amount integer, revision integer);
create table totals (customer text primary key, amount integer);
create table handled (place integer primary key, change integer unique, order_id integer, revision integer);
pragma journal_mode = wal;";

/// Totals that are not the sums over the orders, and changes noted out of their order's order.
const WRONG: &str = "
select (select count(*) from (select customer, sum(amount) as amount from orders group by customer
                              except select customer, amount from totals)),
       (select count(*) from (select customer, amount from totals where amount <> 0
                              except select customer, sum(amount) from orders group by customer)),
       (select count(*) from (select revision, row_number() over (partition by order_id order by place) as expected
                              from handled) where revision <> expected)";

fn ledger() -> Shop {
    let shop = Shop::empty();
    shop.configure(LEDGER);
    shop.sql(SCHEMA);
    shop
}

fn patient(shop: &Shop) -> Connection {
    let connection = shop.connect();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

/// Changes orders until told to stop. Counts what it committed.
struct Writer {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Writer {
    fn start(shop: &Shop) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted, mut connection) = (Arc::clone(&stop), Arc::clone(&committed), patient(shop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                let mut changes = 0;
                for _ in 0..fastrand::u8(1..6) {
                    let order = "(select id from orders order by random() limit 1)";
                    let sql = match fastrand::u8(0..10) {
                        0..3 => "insert into orders (customer, amount, revision)
                                 values ('c' || abs(random() % 9), abs(random() % 100), 1)"
                            .to_owned(),
                        3..9 => format!(
                            "update orders set amount = amount + 7, customer = 'c' || abs(random() % 9),
                                         revision = revision + 1 where id = {order}"
                        ),
                        _ => format!("delete from orders where id = {order}"),
                    };
                    changes += transaction.execute(&sql, []).unwrap() as u64;
                }
                if fastrand::u8(0..10) == 0 {
                    transaction.rollback().unwrap();
                } else {
                    transaction.commit().unwrap();
                    counted.fetch_add(changes, Ordering::AcqRel);
                }
                // Lets the hosts at the file: SQLite's lock is not fair.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Writer { stop, committed, thread }
    }

    fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
        self.committed.load(Ordering::Acquire)
    }
}

fn handled(connection: &Connection) -> u64 {
    connection.query_row("select count(*) from handled", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

#[track_caller]
fn assert_exact(shop: &Shop, committed: u64) {
    let connection = patient(shop);
    let wrong: (i64, i64, i64) =
        connection.query_row(WRONG, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(wrong, (0, 0, 0), "missing totals, wrong totals, changes out of order");
    assert_eq!(handled(&connection), committed, "every change once");
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How a process ended, which it must do within the bound.
#[track_caller]
fn end_of(process: &mut Child) -> std::process::ExitStatus {
    let mut ended = None;
    until("the process ends", || {
        ended = process.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap()
}

fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

/// Stops a process while it does not hold the file's write lock: nobody could do anything as long as it does.
fn stop_between_writes(shop: &Shop, process: &Child) {
    let connection = shop.connect();
    connection.busy_timeout(Duration::from_millis(500)).unwrap();
    until("it is stopped between two writes", || {
        signal(process, Signal::STOP);
        let is_free = connection.execute_batch("begin immediate; rollback").is_ok();
        if !is_free {
            signal(process, Signal::CONT);
        }
        is_free
    });
}

/// A host whose logs nobody reads, so that they cannot fill a pipe.
fn host(shop: &Shop, name: &str) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(shop.path("hosts.log")).unwrap();
    shop.command(&format!("run --host {name}"))
        .stdout(std::process::Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

#[test]
fn what_is_there_is_handled_and_printed_once() {
    let shop = Shop::open();
    let first = shop.run("run --once").expect(0, &[r#""key":{"id":1},"op":"upsert""#, "at-least-once"]);
    assert_eq!(first.stdout.lines().count(), 3);
    shop.sql("update orders set amount = 11 where id = 1; delete from orders where id = 2");
    let second = shop.run("run --once").expect(
        0,
        &[
            r#""op":"update""#,
            r#""before":{"id":1,"amount":10},"after":{"id":1,"amount":11}"#,
            r#""op":"delete""#,
            r#""before":{"id":2,"amount":20},"after":null"#,
        ],
    );
    assert_eq!(second.stdout.lines().count(), 2);
    assert_eq!(shop.run("run --once").expect(0, &[]).stdout, "");
}

#[test]
fn killed_at_any_moment_many_times_the_totals_are_exact() {
    let shop = ledger();
    shop.run("watch").expect(0, &[]);
    let writer = Writer::start(&shop);
    let mut living: Vec<Child> = (0..2).map(|n| host(&shop, &format!("first-{n}"))).collect();
    for kill in 0..30 {
        std::thread::sleep(Duration::from_millis(fastrand::u64(5..250)));
        let mut victim = living.remove(fastrand::usize(..living.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        // The same name again and again: a dead holder's name is free at once.
        living.push(host(&shop, &format!("next-{}", kill % 5 + 10 * (kill / 5 % 2))));
        living.retain_mut(|host| host.try_wait().unwrap().is_none());
        if living.is_empty() {
            living.push(host(&shop, &format!("spare-{kill}")));
        }
    }
    let committed = writer.stop();
    let connection = patient(&shop);
    until("the rest is handled", || handled(&connection) >= committed);
    for host in &mut living {
        signal(host, Signal::TERM);
        assert!(end_of(host).success());
    }
    shop.run("run --once").expect(0, &["exactly-once"]);
    assert!(committed > 500, "the test did something: {committed}");
    assert_exact(&shop, committed);
}

#[test]
fn a_host_stopped_beyond_its_lease_does_no_harm_when_it_comes_back() {
    let shop = ledger();
    shop.run("watch").expect(0, &[]);
    let writer = Writer::start(&shop);
    let connection = patient(&shop);
    let (mut zombie, mut other) = (host(&shop, "zombie"), host(&shop, "other"));
    for _ in 0..3 {
        let so_far = handled(&connection);
        until("both work", || handled(&connection) > so_far + 50);
        stop_between_writes(&shop, &zombie);
        until("the other owns everything", || {
            let owners: i64 = connection
                .query_row("select count(*) from seriatim_lease where owner = 'other'", [], |row| row.get(0))
                .unwrap();
            owners == 6
        });
        signal(&zombie, Signal::CONT);
        until("the zombie is a good citizen again", || {
            let owners: i64 = connection
                .query_row("select count(*) from seriatim_lease where owner = 'zombie'", [], |row| row.get(0))
                .unwrap();
            owners == 3
        });
    }
    let committed = writer.stop();
    until("the rest is handled", || handled(&connection) >= committed);
    for host in [&mut zombie, &mut other] {
        signal(host, Signal::TERM);
        assert!(end_of(host).success());
    }
    assert_exact(&shop, committed);
}

#[test]
fn told_to_stop_it_gives_everything_back_and_the_next_sees_nothing_twice() {
    let shop = ledger();
    shop.run("watch").expect(0, &[]);
    let writer = Writer::start(&shop);
    let mut first = host(&shop, "first");
    let connection = patient(&shop);
    until("it works", || handled(&connection) > 100);
    signal(&first, Signal::INT);
    assert!(end_of(&mut first).success());
    let status = shop.run("status --json").expect(0, &[r#""hosts":[]"#]).stdout;
    assert!(!status.contains(r#""owner":"first""#), "{status}");
    let mut second = host(&shop, "second");
    let committed = {
        until("the next goes on", || handled(&connection) > writer.committed() / 2 + 100);
        writer.stop()
    };
    until("the rest is handled", || handled(&connection) >= committed);
    signal(&second, Signal::TERM);
    assert!(end_of(&mut second).success());
    assert_exact(&shop, committed);
}

#[test]
fn a_living_hosts_name_is_refused() {
    let shop = Shop::open();
    let mut first = host(&shop, "only");
    until("it is there", || shop.run("status --json").stdout.contains(r#""name":"only""#));
    shop.run("run --once --host only").expect(1, &["a host named only is already running", "--host"]);
    first.kill().unwrap();
    first.wait().unwrap();
    shop.run("run --once --host only").expect(0, &[]);
}

#[test]
fn a_failing_change_is_parked_and_the_others_are_handled() {
    let shop = ledger();
    shop.reconfigure("batch = 10", "batch = 10\n[feed.totals.retry]\nattempts = 2\nbackoff = \"1ms..1ms\"");
    shop.sql(
        "insert into orders (customer, amount, revision) values ('a', 1, 1), ('b', 2, 1), ('c', 3, 1);
         create trigger no_b before insert on totals when new.customer = 'b' begin select raise(abort, 'not b'); end;",
    );
    shop.run("run --once").expect(1, &["parked after 2 attempts", "not b", "1 object is parked"]);
    shop.run("status --json").expect(0, &[r#""parked":1"#]);
    assert_eq!(handled(&patient(&shop)), 2);
}

#[test]
fn stop_ends_the_run_with_the_change_that_failed() {
    let shop = ledger();
    shop.reconfigure("batch = 10", "[feed.totals.retry]\nattempts = 1\nthen = \"stop\"");
    shop.sql("insert into orders (customer, amount, revision) values ('a', 1, 1); drop table handled;
              create table handled (place integer primary key, change check (change < 0), order_id, revision);");
    shop.run("run --once").expect(1, &["totals", "change 1", "CHECK constraint failed"]);
}

#[test]
fn whoever_stops_reading_ends_the_run_quietly() {
    let shop = Shop::open();
    let mut running = shop.start("run");
    drop(running.stdout.take());
    assert!(end_of(&mut running).success());
}

#[test]
fn two_feeds_of_one_table_go_their_own_way() {
    let shop = Shop::open();
    let second = "\n[feed.latest]\nsource = \"shop\"\ncapture = \"journal\"\ntable = \"orders\"\n\
                  start = \"now\"\n[feed.latest.handler]\nstdout = true\n";
    shop.configure(&(config("journal", "orders") + second));
    let first = shop.run("run --once").expect(0, &[]);
    assert_eq!(first.stdout.lines().count(), 3, "totals from the beginning, latest from now");
    shop.sql("update orders set amount = 0 where id = 3");
    let both = shop.run("run --once").expect(0, &[r#""feed":"totals""#, r#""feed":"latest""#]);
    assert_eq!(both.stdout.lines().count(), 2);
}

#[test]
fn handler_sql_that_cannot_work_is_refused_at_the_start() {
    let refused = |old: &str, new: &str, words: &[&str]| {
        let shop = ledger();
        shop.reconfigure(old, new);
        shop.sql("insert into orders (customer, amount, revision) values ('a', 1, 1)");
        shop.run("run --once").expect(1, words);
        shop.run("check").expect(1, words);
        assert_eq!(handled(&patient(&shop)), 0);
    };
    refused(":new_amount", ":new_amuont", &["feed totals", ":new_amuont"]);
    refused("insert into handled", "insert into handlet", &["feed totals", "handlet"]);
    refused("+ 1));", "+ 1)); commit;", &["feed totals", "COMMIT"]);
}

#[test]
fn a_source_that_is_not_there_is_not_made() {
    let shop = Shop::empty();
    shop.configure(LEDGER);
    for command in ["run --once", "watch"] {
        shop.run(command).expect(1, &["feed totals", "there is no", "file", "help: check the"]);
        assert!(!shop.path("shop.db").exists(), "{command}");
    }
}

#[test]
fn a_renamed_column_does_not_become_null() {
    let shop = ledger();
    shop.sql("insert into orders (customer, amount, revision) values ('a', 1, 1)");
    let mut running = host(&shop, "a");
    let connection = patient(&shop);
    until("it works", || handled(&connection) == 1);
    shop.sql("alter table orders rename column amount to cents; update orders set cents = 5, revision = 2");
    until("it says so", || {
        std::fs::read_to_string(shop.path("hosts.log"))
            .unwrap()
            .contains("which the table does not have any more")
    });
    let total: i64 = connection.query_row("select amount from totals", [], |row| row.get(0)).unwrap();
    assert_eq!((total, handled(&connection)), (1, 1), "nothing is made up, nothing is parked");
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn a_file_that_is_replaced_under_a_host_ends_it() {
    let shop = ledger();
    let mut running = host(&shop, "a");
    until("it is there", || shop.run("status --json").stdout.contains(r#""name":"a""#));
    std::fs::rename(shop.path("shop.db"), shop.path("old.db")).unwrap();
    shop.sql(SCHEMA);
    assert!(!end_of(&mut running).success());
    let log = std::fs::read_to_string(shop.path("hosts.log")).unwrap();
    assert!(log.contains("removed or replaced while it was in use"), "{log}");
}

#[test]
fn rewinding_to_the_beginning_lets_parked_objects_go() {
    let shop = ledger();
    shop.reconfigure("batch = 10", "[feed.totals.retry]\nattempts = 1");
    shop.sql(
        "insert into orders (customer, amount, revision) values ('a', 1, 1), ('b', 2, 1);
         create trigger no_b before insert on totals when new.customer = 'b' begin select raise(abort, 'not b'); end;",
    );
    shop.run("run --once").expect(1, &["1 object is parked"]);
    shop.run("status").expect(0, &[r#"parked {"id":2}"#, "not b"]);
    shop.sql("drop trigger no_b; delete from totals; delete from handled");
    shop.run("rewind totals --to now").expect(0, &["1 objects stay parked"]);
    let twice = "1 objects are parked, and what of them comes again would be handled twice";
    shop.run("rewind totals --to 2026-01-01T00:00:00Z").expect(1, &[twice, "parked retry totals --all"]);
    shop.run("rewind totals --to beginning").expect(0, &["1 objects are not parked any more"]);
    shop.run("run --once").expect(0, &[]);
    assert_exact(&shop, 2);
}

#[test]
fn the_bench_says_its_ratio_and_refuses_what_it_does_not_know() {
    let shop = Shop::empty();
    let said = shop.run("bench journal-drain-sqlite --changes 4000 --json").expect(0, &[]).stdout;
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let row = &report["rows"][0];
    assert_eq!((&row["name"], &row["unit"]), (&"journal-drain-sqlite".into(), &"changes/s".into()));
    let ratio = row["value"].as_f64().unwrap() / row["limit"].as_f64().unwrap();
    assert!((row["ratio"].as_f64().unwrap() - ratio).abs() < 0.01, "{said}");
    shop.run("bench journal-drian-sqlite").expect(2, &["did you mean \"journal-drain-sqlite\""]);
}

#[test]
fn the_demo_proves_itself() {
    Shop::empty().run("demo --seconds 6").expect(0, &["lost                       0", "equal, for"]);
}
