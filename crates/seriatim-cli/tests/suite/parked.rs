//! `seriatim parked`, with real hosts.

use std::io::{BufRead, BufReader};
use std::process::Child;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::shop::{Ran, Shop, finish};

/// Notes each order in the checkpoint's transaction. Orders with an amount that the rules forbid cannot be noted.
const LEDGER: &str = r#"store = "sqlite:shop.db"
[source.shop]
url = "sqlite:shop.db"
[feed.totals]
source = "shop"
capture = "journal"
table = "orders"
partitions = 4
[feed.totals.handler]
sql = "insert into noted (change, order_id, amount) values (:id, :key_id, :new_amount)"
[feed.totals.retry]
attempts = 2
backoff = "10ms..50ms"
[lease]
acquire = "100ms"
renew = "300ms"
expire = "1500ms"
"#;

const SCHEMA: &str = "
pragma journal_mode = wal;
create table orders (id integer primary key, amount integer);
create table noted (place integer primary key, change integer unique, order_id integer, amount integer);
create table rules (forbidden integer);
create trigger law before insert on noted
    when new.amount in (select forbidden from rules) begin select raise(abort, 'forbidden'); end;
insert into rules values (13), (14);
insert into orders values (1, 10), (2, 13), (3, 30), (4, 14);";

fn ledger() -> Shop {
    let shop = Shop::empty();
    shop.configure(LEDGER);
    shop.sql(SCHEMA);
    shop
}

/// A host; killed when the test ends.
struct Running(Child);

impl Running {
    fn start(shop: &Shop) -> Self {
        let mut host = shop.start("run --host anna");
        let mut logs = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(logs.any(|line| line.contains("owns 4 of 4 partitions")));
        // Somebody must go on reading, or the host waits for room in the pipe.
        std::thread::spawn(move || logs.for_each(drop));
        Running(host)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn parked(shop: &Shop) -> Vec<Value> {
    serde_json::from_str(&shop.run("parked list --json").expect(0, &[]).stdout).unwrap()
}

fn amounts(shop: &Shop, order: i64) -> Vec<i64> {
    let connection: Connection = shop.connect();
    let mut noted =
        connection.prepare("select amount from noted where order_id = ?1 order by place").unwrap();
    noted.query_map([order], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed().as_secs() < 60, "never happened: {what}");
        std::thread::yield_now();
    }
}

fn discard(shop: &Shop, arguments: &[&str]) -> Ran {
    finish(shop.command("parked discard").args(arguments))
}

#[test]
fn before_anything_is_parked_all_commands_say_so() {
    let shop = ledger();
    shop.run("parked list").expect(0, &["nothing is parked"]);
    assert_eq!(parked(&shop), Vec::<Value>::new());
    shop.run("parked retry totals --all").expect(1, &["feed totals has never run"]);
    shop.run("parked retry totls --all").expect(2, &["did you mean \"totals\"?"]);
    shop.run("parked retry totals").expect(2, &["--key <JSON>|--all"]);
    shop.run("parked discard totals --key 2").expect(2, &["--reason <TEXT>"]);
    shop.sql("delete from rules");
    shop.run("run --once").expect(0, &[]);
    shop.run("parked retry totals --all").expect(0, &["feed totals: nothing is parked"]);
    shop.run("parked retry totals --key 2")
        .expect(1, &["feed totals: 2 is not parked", "seriatim parked list totals"]);
    shop.run("parked show totals --key 2").expect(1, &["is not parked"]);
    shop.run("parked show totals --key {id").expect(2, &["this is not JSON"]);
    discard(&shop, &["totals", "--key", "2", "--reason", " "]).expect(2, &["--reason is empty"]);
}

#[test]
fn what_is_parked_is_listed_by_its_error_and_shown_with_its_tail() {
    let shop = ledger();
    shop.sql("insert into rules values (99); insert into orders values (9, 99)");
    shop.run("run --once").expect(1, &["parked after 2 attempts", "3 objects are parked"]);
    shop.sql("update orders set amount = 15 where id = 2");
    shop.run("run --once").expect(1, &["3 objects are parked"]);
    let list = parked(&shop);
    let of = |id: i64| list.iter().find(|object| object["key"] == json!({ "id": id })).unwrap();
    assert_eq!(list.len(), 3);
    let (two, since) = (of(2), of(2)["since"].as_str().unwrap());
    let next_try = two["next_try"].as_str().unwrap();
    let expected = json!({"feed": "totals", "partition": two["partition"], "key": {"id": 2}, "waiting": 2,
        "attempts": 2, "error": "forbidden", "since": since, "state": "parked", "next_try": next_try});
    assert_eq!(*two, expected);
    let people =
        shop.run("parked list totals").expect(0, &["forbidden  3 objects, 4 changes", r#"{"id":4}"#]);
    assert_eq!(people.stdout.matches("forbidden").count(), 1, "one error is said once");
    let shown = shop.run(r#"parked show totals --key {"id":2}"#);
    let shown = shown.expect(0, &["forbidden", "2 changes kept", r#""amount":13"#, r#""amount":15"#]);
    assert!(shown.stdout.find("13") < shown.stdout.rfind("15"), "in order");
    let json = shop.run(r#"parked show totals --json --key {"id":2}"#).expect(0, &[]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["changes"][1]["after"]["amount"], 15);
    shop.run("status --json").expect(0, &[r#""parked":3"#]);
}

#[test]
fn without_a_host_the_command_itself_tries() {
    let shop = ledger();
    shop.run("run --once").expect(1, &["2 objects are parked"]);
    shop.sql("update orders set amount = 20 where id = 2; insert into orders values (5, 50)");
    shop.run("parked retry totals --key 2").expect(1, &["1 object failed again: forbidden (1)"]);
    shop.sql("delete from rules where forbidden = 13");
    shop.run("parked retry totals --key 2")
        .expect(0, &["no host runs it: trying here", "1 object is handled to the end"]);
    assert_eq!(amounts(&shop, 2), [13], "what nobody has read yet is not its business");
    assert_eq!((amounts(&shop, 4), amounts(&shop, 5)), (vec![], vec![]));
    shop.run("run --once").expect(1, &["1 object is parked"]);
    assert_eq!((amounts(&shop, 2), amounts(&shop, 5)), (vec![13, 20], vec![50]), "once each, in order");
    assert_eq!(parked(&shop).len(), 1, "order 4 stays parked");
}

#[test]
fn a_running_host_tries_what_another_process_marks() {
    let shop = ledger();
    let _host = Running::start(&shop);
    until("both are parked", || parked(&shop).len() == 2);
    for amount in 20..40 {
        shop.sql(&format!("update orders set amount = {amount} where id in (2, 3, 4)"));
    }
    until("the tails wait", || parked(&shop).iter().all(|object| object["waiting"] == 21));
    shop.run("parked retry totals --all").expect(1, &["2 objects failed again: forbidden (2)"]);
    shop.sql("delete from rules");
    let retried = shop.run("parked retry totals --all").expect(0, &["2 objects are handled to the end"]);
    assert!(!retried.stderr.contains("trying here"), "{retried:?}");
    shop.sql("update orders set amount = 40 where id in (2, 3, 4)");
    let expected = |first: i64| std::iter::once(first).chain(20..=40).collect::<Vec<i64>>();
    until("they are live again", || [2, 3, 4].iter().all(|order| amounts(&shop, *order).len() == 22));
    for (order, first) in [(2, 13), (3, 30), (4, 14)] {
        assert_eq!(amounts(&shop, order), expected(first), "order {order}");
    }
    assert_eq!(parked(&shop), Vec::<Value>::new());
}

#[test]
fn retry_without_waiting_only_marks() {
    let shop = ledger();
    shop.run("run --once").expect(1, &["2 objects are parked"]);
    shop.run("parked retry totals --all --no-wait").expect(0, &["2 parked objects are to be tried again"]);
    shop.run("parked list").expect(0, &["to be tried again"]);
    shop.sql("delete from rules");
    shop.run("run --once").expect(0, &[]);
    assert_eq!((amounts(&shop, 2), amounts(&shop, 4)), (vec![13], vec![14]));
}

#[test]
fn a_discarded_change_is_dropped_for_a_reason_that_is_kept() {
    let shop = ledger();
    let _host = Running::start(&shop);
    until("both are parked", || parked(&shop).len() == 2);
    shop.sql("update orders set amount = 20; update orders set amount = 21");
    until("the tails wait", || parked(&shop).iter().all(|object| object["waiting"] == 3));
    let two = ["totals", "--key", r#"{"id":2}"#, "--reason", "a test order"];
    discard(&shop, &two).expect(0, &["of {\"id\":2} is dropped; 2 later changes go on"]);
    until("its tail is handled", || amounts(&shop, 2) == [20, 21]);
    let four = ["totals", "--key", "4", "--tail", "--reason", "gone with the wind"];
    discard(&shop, &four).expect(0, &["3 changes of {\"id\":4} are dropped"]);
    shop.sql("update orders set amount = 22");
    until("it is live again", || amounts(&shop, 4) == [22]);
    assert_eq!((amounts(&shop, 2), parked(&shop)), (vec![20, 21, 22], vec![]));
    shop.run("parked show totals --key 2").expect(0, &["discarded at", "1 changes", "a test order"]);
    let json = shop.run("parked show totals --json --key 4").expect(0, &[]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["discarded"][0]["reason"], "gone with the wind");
    assert_eq!(json["discarded"][0]["error"], "forbidden");
}

#[test]
fn killed_in_the_middle_of_a_retry_nothing_is_doubled() {
    let shop = ledger();
    shop.run("run --once").expect(1, &["2 objects are parked"]);
    let connection = shop.connect();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    for amount in 100..600 {
        connection.execute("update orders set amount = ?1 where id = 2", [amount]).unwrap();
    }
    shop.reconfigure("[feed.totals.retry]", "batch = 5\n[feed.totals.retry]");
    shop.run("run --once").expect(1, &["2 objects are parked"]);
    shop.sql("delete from rules");
    shop.run("parked retry totals --all --no-wait").expect(0, &[]);
    let mut handled = 0;
    while handled < 501 {
        let mut host = Running::start(&shop);
        let before = handled;
        until("it goes on", || {
            handled = amounts(&shop, 2).len();
            handled > before
        });
        host.0.kill().unwrap();
        host.0.wait().unwrap();
        handled = amounts(&shop, 2).len();
    }
    let expected: Vec<i64> = std::iter::once(13).chain(100..600).collect();
    assert_eq!(amounts(&shop, 2), expected);
    shop.run("run --once").expect(0, &[]);
    assert_eq!((amounts(&shop, 2), parked(&shop)), (expected, vec![]));
}
