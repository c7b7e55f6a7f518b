//! The life of a feed without a host: checked, watched, looked at, rewound, unwatched.

use std::io::{BufRead, BufReader};

use rusqlite::Connection;
use serde_json::Value;

use crate::shop::{Ran, Shop, finish};

fn status(shop: &Shop) -> Value {
    serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap()
}

fn triggers(shop: &Shop) -> i64 {
    // Those of the tables of the store stay.
    let count = "select count(*) from sqlite_schema where type = 'trigger' and tbl_name not like 'seriatim~_%' escape '~'";
    shop.connect().query_row(count, [], |row| row.get(0)).unwrap()
}

fn changes(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn check_passes_before_anything_is_installed_and_installs_nothing() {
    let shop = Shop::open();
    shop.run("check").expect(0, &["ok", "source shop", "feed totals", "`run` will", "at-least-once"]);
    assert_eq!(triggers(&shop), 0);
}

#[test]
fn check_says_which_guarantee_holds() {
    let shop = Shop::open();
    shop.reconfigure(
        "stdout = true",
        "sql = \"insert or replace into totals values (:key_id, :new_amount)\"",
    );
    shop.run("check").expect(0, &["exactly-once"]);
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:state.db\"");
    shop.run("check").expect(0, &["at-least-once"]);
    assert!(!shop.path("state.db").exists());
}

#[test]
fn status_of_what_never_ran_is_empty_and_makes_no_file() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:state.db\"");
    assert_eq!(status(&shop), serde_json::json!({"feeds": [], "hosts": []}));
    shop.run("status").expect(0, &["nothing has run yet"]);
    assert!(!shop.path("state.db").exists());
}

#[test]
fn watch_print_shows_sql_and_changes_nothing() {
    let shop = Shop::open();
    let ran = shop.run("watch --print").expect(0, &["create trigger", "-- feed totals"]);
    assert_eq!(triggers(&shop), 0);
    Connection::open(shop.path("shop.db")).unwrap().execute_batch(&ran.stdout).unwrap();
    assert!(triggers(&shop) > 0);
}

#[test]
fn watch_and_unwatch_leave_no_trace() {
    for capture in ["journal", "log"] {
        let shop = Shop::open();
        shop.reconfigure("\"journal\"", &format!("{capture:?}"));
        shop.run("watch").expect(0, &["feed totals", "installed"]);
        shop.run("watch totals").expect(0, &[]);
        assert!(triggers(&shop) > 0, "{capture}");
        shop.run("check").expect(0, &["is installed"]);
        let status = status(&shop);
        assert_eq!(status["feeds"][0]["partitions"].as_array().unwrap().len(), 4);
        assert_eq!(status["feeds"][0]["partitions"][0]["owner"], Value::Null);
        shop.run("unwatch").expect(0, &["forgotten"]);
        assert_eq!(triggers(&shop), 0, "{capture}");
        shop.run("unwatch").expect(0, &["was not watched"]);
    }
}

#[test]
fn another_number_of_partitions_is_taken_over_by_the_next_run() {
    let shop = Shop::open();
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40), (50)");
    shop.run("run --once").expect(0, &[]);
    shop.reconfigure("partitions = 4", "partitions = 8");
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (60)");
    let ran = shop.run("run --once").expect(0, &[]);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    assert_eq!(status(&shop)["feeds"][0]["partitions"].as_array().unwrap().len(), 8);
}

#[test]
fn the_lag_of_a_feed_that_nobody_runs_is_known() {
    let shop = Shop::open();
    shop.reconfigure("partitions = 4", "partitions = 1\nstart = \"now\"");
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40), (50)");
    assert_eq!(status(&shop)["feeds"][0]["partitions"][0]["lag"]["changes"], 2);
}

#[test]
fn a_feed_whose_source_is_gone_has_unknown_lag_and_a_warning() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:state.db\"");
    shop.run("watch").expect(0, &[]);
    std::fs::remove_file(shop.path("shop.db")).unwrap();
    let ran = shop.run("status --json").expect(0, &["its lag is unknown"]);
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(status["feeds"][0]["partitions"][0]["lag"]["changes"], Value::Null);
}

#[test]
fn tail_prints_changes_as_they_come() {
    let shop = Shop::open();
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40); update orders set amount = 41 where id = 4");
    let ran = shop.run("tail totals --from beginning --limit 2").expect(0, &[]);
    let ops: Vec<_> = changes(&ran).iter().map(|change| change["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["insert", "update"]);
    assert_eq!(changes(&ran)[1]["after"]["amount"], 41);
}

#[test]
fn tail_of_what_is_not_watched_says_what_to_do() {
    Shop::open().run("tail totals").expect(1, &["not watched", "seriatim watch totals"]);
}

#[test]
fn tail_ends_with_zero_when_told_to() {
    let shop = Shop::open();
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40)");
    for signal in ["TERM", "INT"] {
        let mut tail = shop.start("tail totals --from beginning");
        // Its first line shows that it listens.
        BufReader::new(tail.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let id = tail.id().to_string();
        std::process::Command::new("kill").args(["-s", signal, &id]).status().unwrap();
        assert_eq!(tail.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn tail_ends_quietly_when_nobody_reads() {
    let shop = Shop::open();
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40)");
    let mut tail = shop.start("tail totals --from beginning");
    let mut out = BufReader::new(tail.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    shop.sql("insert into orders (amount) values (50)");
    let ran = Ran::from(tail.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn rewind_moves_every_partition_or_one() {
    let shop = Shop::open();
    shop.reconfigure("partitions = 4", "partitions = 4\nstart = \"now\"");
    shop.run("watch").expect(0, &[]);
    shop.sql("insert into orders (amount) values (40), (50)");
    let positions = |shop: &Shop| -> Vec<String> {
        let status = status(shop);
        let partitions = status["feeds"][0]["partitions"].as_array().unwrap();
        partitions.iter().map(|partition| partition["position"].as_str().unwrap().to_owned()).collect()
    };
    let before = positions(&shop);
    shop.run("rewind totals --to now --partition 2").expect(0, &["partition 2 set to now"]);
    let after = positions(&shop);
    assert_eq!((&after[..2], &after[3]), (&before[..2], &before[3]));
    assert_ne!(after[2], before[2]);
    shop.run("rewind totals --to now").expect(0, &["all partitions set to now"]);
    assert_eq!(positions(&shop), vec![after[2].clone(); 4]);
    shop.run(&format!("rewind totals --to {}", before[0])).expect(0, &[]);
    assert_eq!(positions(&shop), before);
    shop.run("rewind totals --to beginning").expect(0, &[]);
}

#[test]
fn rewind_refuses_places_that_do_not_exist() {
    let shop = Shop::open();
    shop.run("rewind totals --to now").expect(1, &["has never run"]);
    shop.run("watch").expect(0, &[]);
    shop.run("rewind totals --to potato").expect(1, &["potato"]);
    shop.run("rewind totals --to 999999").expect(1, &["999999"]);
    shop.run("rewind totals --to now --partition 9").expect(2, &["has no partition 9", "0 to 3"]);
}

#[test]
fn colours_are_for_terminals_only() {
    let shop = Shop::open();
    let ran = finish(shop.command("check").env("TERM", "xterm-256color"));
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:#?}");
}

#[test]
fn a_replaced_source_is_noticed_and_started_afresh_by_rewind() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:state.db\"");
    shop.run("watch").expect(0, &[]);
    std::fs::remove_file(shop.path("shop.db")).unwrap();
    shop.sql("create table orders (id integer primary key, amount integer)");
    shop.run("watch").expect(1, &["replaced or restored", "seriatim rewind totals --to beginning"]);
    shop.run("rewind totals --to 1").expect(1, &["replaced or restored"]);
    shop.run("rewind totals --to beginning").expect(0, &[]);
    shop.run("watch").expect(0, &[]);
}

#[test]
fn unwatch_forgets_a_feed_whose_source_is_gone_only_by_force() {
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:state.db\"");
    shop.run("watch").expect(0, &[]);
    std::fs::remove_file(shop.path("shop.db")).unwrap();
    shop.run("unwatch").expect(1, &["shop.db"]);
    shop.run("unwatch --force").expect(0, &["forgotten"]);
    assert_eq!(status(&shop)["feeds"], serde_json::json!([]));
}
