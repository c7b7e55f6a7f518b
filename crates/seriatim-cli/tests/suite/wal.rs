//! The capture `wal` from outside: the program, its hosts killed in the middle, the server's sessions cut.

use std::process::Child;
use std::time::Duration;

use seriatim_testkit::servers::Postgres;

use crate::postgres::{Fleet, LEDGER, SCHEMA, Writers, end, until};

const PRINTED: &str = "store = \"URL\"\n[source.shop]\nurl = \"URL\"\n[feed.totals]\nsource = \"shop\"\ncapture = \"wal\"\n\
                       table = \"public.orders\"\n[feed.totals.handler]\nstdout = true\n";

/// The ledger of `postgres.rs`, by the server's log. Sums by differences need rows as they were.
fn ledger(server: &Postgres) -> Fleet {
    let fleet = Fleet::on(server, &LEDGER.replace("\"journal\"", "\"wal\""));
    fleet.sql(SCHEMA);
    fleet.sql("alter table orders replica identity full");
    fleet
}

const SLOTS: &str = "select count(*) from pg_replication_slots where database = current_database()";

#[test]
fn what_is_there_is_handled_and_printed_once_from_the_log() {
    let fleet = Fleet::new(PRINTED);
    fleet.sql("create table orders (id int primary key, amount int); insert into orders values (1, 10), (2, 20), (3, 30)");
    fleet.run("check").expect(0, &["wal of public.orders is not installed yet"]);
    assert_eq!(fleet.number(SLOTS), 0, "`check` makes nothing");
    let first = fleet.run("run --once").expect(0, &[r#""key":{"id":1},"op":"upsert""#, "at-least-once"]);
    assert_eq!(first.stdout.lines().count(), 3);
    fleet.sql("update orders set amount = 11 where id = 1; delete from orders where id = 2");
    let second = fleet.run("run --once").expect(
        0,
        &[
            r#""op":"update""#,
            r#""before":null,"after":{"id":1,"amount":11}"#,
            r#""op":"delete""#,
            r#""before":{"id":2},"after":null"#,
        ],
    );
    assert_eq!(second.stdout.lines().count(), 2);
    assert_eq!(fleet.run("run --once").expect(0, &[]).stdout, "");
    fleet.run("check").expect(0, &["is installed"]);
    fleet.run("status --json").expect(
        0,
        &[r#""capture":"wal""#, r#""slot":{"name":"seriatim_"#, r#""retained_bytes":"#, r#""active":false"#],
    );
    fleet.run("status").expect(0, &["slot seriatim_", "is not read"]);
    fleet.run("rewind totals --to beginning").expect(0, &[]);
    assert_eq!(fleet.run("run --once").expect(0, &[]).stdout.lines().count(), 2);
    fleet.run("unwatch totals").expect(0, &["forgotten"]);
    assert_eq!(fleet.number(SLOTS), 0);
    assert_eq!(fleet.number("select count(*) from pg_publication"), 0);
}

#[test]
fn three_hosts_at_once_on_a_new_database_make_one_slot() {
    let fleet = ledger(Postgres::shared());
    fleet.sql("insert into orders (customer, amount, revision) select 'c' || n % 9, n, 1 from generate_series(1, 500) as n");
    let hosts: Vec<Child> = ["a", "b", "c"].into_iter().map(|name| fleet.host(name)).collect();
    // Changes from before the feed was installed are in the rows that existed then.
    fleet.until_handled(500);
    let writers = Writers::start(&fleet, 2);
    fleet.until_handled(700);
    let committed = writers.stop() + 500;
    fleet.until_handled(committed);
    assert_eq!(fleet.number(SLOTS), 1);
    hosts.into_iter().for_each(end);
    fleet.assert_exact(committed);
}

#[test]
fn killed_at_any_moment_the_totals_from_the_log_are_exact() {
    let fleet = ledger(Postgres::shared());
    fleet.sql("insert into orders (customer, amount, revision) select 'c' || n % 9, n, 1 from generate_series(1, 300) as n");
    fleet.run("watch").expect(0, &[]);
    let writers = Writers::start(&fleet, 3);
    let mut living: Vec<Child> = (0..2).map(|n| fleet.host(&format!("first-{n}"))).collect();
    for kill in 0..12 {
        std::thread::sleep(Duration::from_millis(fastrand::u64(5..500)));
        if kill % 3 == 2 {
            fleet.number_at_last("select count(pg_terminate_backend(pid)) from pg_stat_activity where backend_type = 'walsender' and datname = current_database()");
            continue;
        }
        let mut victim = living.remove(fastrand::usize(..living.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        living.push(fleet.host(&format!("next-{kill}")));
    }
    let committed = writers.stop() + 300;
    fleet.until_handled(committed);
    living.into_iter().for_each(end);
    fleet.run("run --once").expect(0, &["exactly-once"]);
    fleet.assert_exact(committed);
}

#[test]
fn a_relay_killed_in_the_middle_of_a_large_transaction_appends_it_once() {
    let fleet = ledger(Postgres::shared());
    fleet.run("watch").expect(0, &[]);
    let mut first = fleet.host("first");
    until("somebody relays", || {
        fleet.number(
            "select count(*) from pg_replication_slots where database = current_database() and active",
        ) == 1
    });
    fleet.sql("insert into orders (customer, amount, revision) select 'c' || n % 9, n, 1 from generate_series(1, 40000) as n");
    // Its numbers are drawn, and it is not committed.
    until("it is being appended", || {
        fleet.number("select coalesce(max(last_value), 0)::bigint from pg_sequences where schemaname = 'seriatim' and sequencename ~ '^journal_[0-9]+_id$'") > 2000
    });
    first.kill().unwrap();
    first.wait().unwrap();
    let second = fleet.host("second");
    fleet.until_handled(40_000);
    end(second);
    fleet.assert_exact(40_000);
}

#[test]
fn a_server_that_is_restarted_loses_and_doubles_nothing_of_its_log() {
    let server = Postgres::start().unwrap();
    let fleet = ledger(&server);
    fleet.run("watch").expect(0, &[]);
    let hosts = [fleet.host("a"), fleet.host("b")];
    let mut committed = 0;
    for _ in 0..2 {
        let (writers, so_far) = (Writers::start(&fleet, 2), fleet.handled());
        until("they work", || fleet.handled() > so_far + 100);
        committed += writers.stop();
        server.restart().unwrap();
    }
    fleet.until_handled(committed);
    hosts.into_iter().for_each(end);
    fleet.assert_exact(committed);
}

#[test]
fn handlers_that_need_what_the_log_does_not_carry_are_refused() {
    let fleet = Fleet::new(&LEDGER.replace("\"journal\"", "\"wal\""));
    fleet.sql(SCHEMA);
    for command in ["check", "watch", "run --once"] {
        fleet.run(command).expect(1, &["feed totals", ":old_customer", "replica identity full"]);
    }
    assert_eq!(fleet.number(SLOTS), 0, "nothing is made");
    fleet.sql("alter table orders replica identity full");
    fleet.run("check").expect(0, &["exactly-once"]);
}

#[test]
fn what_the_log_cannot_be_read_for_is_said_before_anything_runs() {
    let fleet = Fleet::new(PRINTED);
    fleet.shop.reconfigure("[feed.totals]", "journal = \"store\"\n[feed.totals]");
    fleet.run("check").expect(2, &["source.shop.journal", "not in this version"]);
    fleet.shop.reconfigure("journal = \"store\"", "slot = \"No Slot\"");
    fleet.run("check").expect(2, &["source.shop.slot"]);
    let url = fleet.url.clone();
    fleet.shop.reconfigure(
        &format!("[source.shop]\nurl = \"{url}\"\nslot = \"No Slot\""),
        "[source.shop]\nurl = \"sqlite:shop.db\"",
    );
    fleet.run("check").expect(2, &["feed.totals.capture", "wal", "journal"]);
}

#[test]
fn a_feed_that_changes_between_triggers_and_the_log_is_refused() {
    let fleet = Fleet::new(PRINTED);
    fleet.sql("create table orders (id int primary key, amount int)");
    fleet.run("watch").expect(0, &[]);
    fleet.shop.reconfigure("capture = \"wal\"", "capture = \"journal\"");
    fleet.run("run --once").expect(1, &["was watched by capture = \"wal\"", "unwatch totals"]);
}
