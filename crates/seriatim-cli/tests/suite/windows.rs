//! Window feeds from outside: followed without triggers, owned by one process, and honest about what they drop.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::shop::{Shop, finish};

/// A shop whose orders have a moment of change, and a feed that notes each version of them in the same file.
fn shop() -> Shop {
    let shop = Shop::empty();
    shop.configure(
        r#"store = "sqlite:shop.db"

[source.shop]
url = "sqlite:shop.db"

[feed.totals]
source = "shop"
capture = "window"
table = "orders"
changed_at = "updated_at"
changed_at_unit = "ms"
buffer = "100ms"

[feed.totals.handler]
sql = "insert into told values (:key_id, :new_updated_at, :id)"
"#,
    );
    shop.sql(
        "pragma journal_mode = wal;
         create table orders (id integer primary key, amount integer, updated_at integer);
         create index orders_updated_at on orders (updated_at);
         create table told (id integer, at integer, version integer, primary key (id, at));
         insert into orders values (1, 10, 1000), (2, 20, 2000), (3, 30, 2000);",
    );
    shop
}

fn told(shop: &Shop) -> Vec<i64> {
    let connection = shop.connect();
    let mut statement = connection.prepare("select id from told order by rowid").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn status(shop: &Shop) -> Value {
    serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap()
}

fn partition(shop: &Shop) -> Value {
    status(shop)["feeds"][0]["partitions"][0].clone()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A host; killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn host(shop: &Shop, name: &str) -> Running {
    let mut command = shop.command(&format!("run --host {name}"));
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn rows_are_handled_exactly_once_and_nothing_is_installed() {
    let shop = shop();
    shop.run("watch --print").expect(0, &["installs nothing"]);
    shop.run("check").expect(0, &["window of orders needs nothing installed; exactly-once"]);
    shop.run("run --once").expect(0, &["there is no tracker: beginning with the first row"]);
    assert_eq!(told(&shop), [1, 2, 3]);
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [1, 2, 3]);
    shop.sql("update orders set amount = 11, updated_at = 3000 where id = 1");
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [1, 2, 3, 1]);
    assert_eq!(
        shop.connect()
            .query_row(
                "select count(*) from sqlite_master where type = 'trigger' and tbl_name not like 'seriatim%'",
                [],
                |row| row.get::<_, i64>(0)
            )
            .unwrap(),
        0
    );
}

#[test]
fn what_is_there_is_waited_for_until_it_is_old_enough() {
    let shop = shop();
    shop.sql("insert into orders values (4, 40, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer))");
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [1, 2, 3, 4]);
}

#[test]
fn status_shows_where_the_window_is_and_how_far_behind() {
    let shop = shop();
    shop.run("run --once").expect(0, &[]);
    let feed = status(&shop)["feeds"][0].clone();
    assert_eq!((&feed["capture"], &feed["guarantee"]), (&"window".into(), &"exactly-once".into()));
    assert_eq!(partition(&shop)["position"], "2000 [3]");
    assert_eq!(partition(&shop)["lag"]["changes"], 0);
    shop.sql("insert into orders values (4, 40, 5000)");
    assert_eq!(partition(&shop)["lag"]["changes"], 1);
    shop.sql("insert into orders values (5, 50, 99999999999999)");
    let blocked = status(&shop)["feeds"][0]["blocked_by"][0]["what"].to_string();
    assert!(blocked.contains("only in the future"), "{blocked}");
}

#[test]
fn a_missing_index_is_named_and_is_no_problem() {
    let shop = shop();
    shop.sql("drop index orders_updated_at");
    let missing = r#"→ create index "orders_updated_at" on "orders" ("updated_at")"#;
    shop.run("check").expect(0, &["slow", "reads all its rows", missing]);
}

#[test]
fn stale_rows_are_dropped_and_the_count_is_shown() {
    let shop = shop();
    shop.run("run --once").expect(0, &[]);
    shop.sql("insert into orders values (4, 40, 3000), (5, 50, 3001)");
    shop.sql("insert into orders values (6, 60, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer))");
    shop.reconfigure("buffer = ", "stale_age = \"1h\"\nbuffer = ");
    shop.run("run --once").expect(0, &["dropped stale rows", "dropped=2"]);
    assert_eq!(told(&shop), [1, 2, 3, 6]);
    let position = partition(&shop)["position"].as_str().unwrap().to_owned();
    assert!(position.ends_with(" [6] dropped=2"), "{position}");
}

#[test]
fn a_lost_tracker_begins_again_and_says_so() {
    let shop = shop();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:store.db\"");
    shop.reconfigure("sql = \"insert into told", "sql = \"insert or ignore into told");
    shop.run("run --once").expect(0, &["there is no tracker: beginning with the first row", "at-least-once"]);
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        drop(std::fs::remove_file(shop.path(file)));
    }
    shop.reconfigure("buffer = ", "stale_age = \"1h\"\nbuffer = ");
    shop.run("run --once").expect(0, &["there is no tracker: beginning with", "the stale age before now"]);
}

#[test]
fn wrong_variables_are_refused() {
    let shop = shop();
    for (variable, value) in [
        ("RECORD_CHANGE_WINDOW_BUFFER", "0"),
        ("RECORD_CHANGE_WINDOW_BUFFER", "-1s"),
        ("TOTALS_EXCESSIVE_COUNT", "none"),
    ] {
        let ran = finish(shop.command("run --once").env(variable, value));
        ran.expect(2, &[variable, "must be", value]);
    }
    finish(shop.command("run --once").env("TOTALS_EXCESSIVE_COUNT", "1")).expect(0, &[]);
    assert_eq!(told(&shop), [1, 2, 3]);
}

#[test]
fn values_that_are_no_moments_end_the_run_with_a_sentence() {
    let shop = shop();
    shop.reconfigure("changed_at_unit = \"ms\"", "");
    shop.run("run --once").expect(1, &["updated_at of the row with id 1", "changed_at_unit"]);
    shop.reconfigure("changed_at = \"updated_at\"", "changed_at = \"update_at\"");
    shop.run("check").expect(1, &["has no column \"update_at\"", "did you mean \"updated_at\"?"]);
}

#[test]
fn a_window_refuses_another_number_of_partitions() {
    let shop = shop();
    shop.run("run --once").expect(0, &[]);
    shop.reconfigure("capture = \"window\"", "capture = \"window\"\npartitions = 2");
    shop.run("run --once").expect(2, &["has 1 partitions in the store", "set partitions = 1", "a new name"]);
}

#[test]
fn a_query_is_followed_too() {
    let shop = shop();
    shop.reconfigure(
        "table = \"orders\"",
        "key = [\"id\"]\nquery = \"select id, amount, updated_at from orders where amount > 10\"",
    );
    shop.run("check").expect(0, &["window of its query needs nothing installed"]);
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [2, 3]);
}

#[test]
fn tail_and_rewind_go_by_time() {
    let shop = shop();
    let ran = shop.run("tail totals --from beginning --limit 3").expect(0, &[]);
    let keys: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["key"]["id"].clone())
        .collect();
    assert_eq!(keys, [1, 2, 3]);
    shop.run("run --once").expect(0, &[]);
    shop.sql("delete from told");
    shop.run("rewind totals --to 1970-01-01T00:00:02Z").expect(0, &[]);
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [2, 3]);
    shop.run("unwatch totals").expect(0, &["forgotten"]);
    shop.run("unwatch totals").expect(0, &["was not watched"]);
}

#[test]
fn of_two_processes_one_works_and_when_it_is_killed_the_other_goes_on() {
    let shop = shop();
    let mut hosts = vec![("anna", host(&shop, "anna")), ("bert", host(&shop, "bert"))];
    let connection = shop.connect();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    let moment = |partition: &Value| -> i64 {
        partition["position"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap_or(0)
    };
    let mut last = 0;
    for id in 10..60 {
        connection.execute("insert into orders values (?1, 1, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer))", [id]).unwrap();
        if id % 10 == 0 {
            until("all are handled", || told(&shop).contains(&id));
            let partition = partition(&shop);
            assert!(moment(&partition) >= last, "the tracker never goes backwards");
            last = moment(&partition);
        }
        if id == 35 {
            let owner = partition(&shop)["owner"].as_str().unwrap().to_owned();
            let place = hosts.iter().position(|(name, _)| *name == owner).unwrap();
            drop(hosts.remove(place));
        }
    }
    until("all are handled", || told(&shop).contains(&59));
    assert_eq!(partition(&shop)["owner"], hosts[0].0);
    let mut all = told(&shop);
    all.sort_unstable();
    assert_eq!(all, (1..=3).chain(10..60).collect::<Vec<_>>(), "each exactly once");
}

#[test]
fn a_transaction_that_stays_open_is_named_and_waited_for() {
    let shop = shop();
    let holder = shop.connect();
    shop.run("run --once").expect(0, &[]);
    holder.execute_batch("begin immediate; insert into orders values (4, 40, 4000)").unwrap();
    let blocked = status(&shop)["feeds"][0]["blocked_by"].to_string();
    assert!(blocked.contains("a write transaction has been open"), "{blocked}");
    holder.execute_batch("commit").unwrap();
    shop.run("run --once").expect(0, &[]);
    assert_eq!(told(&shop), [1, 2, 3, 4]);
}
