//! Sinks that hold each change once, and the forms in which changes leave, from outside.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use seriatim_testkit::servers::Redis;

use crate::handling::{Running, eventually, program, run_once, shop_with};
use crate::server::{Server, answer};
use crate::shop::Shop;

/// What a feed prints, each line as JSON.
fn printed(format: &str) -> Vec<Value> {
    let shop = shop_with(&format!("stdout = true\n{format}"));
    shop.sql("update orders set amount = 11 where id = 1; delete from orders where id = 2;");
    let ran = shop.run("run --once").expect(0, &[]);
    shop.sql("update orders set amount = 12 where id = 1");
    let again = shop.run("run --once").expect(0, &[]);
    ran.stdout.lines().chain(again.stdout.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_feed_leaves_as_debezium_writes_it() {
    let lines = printed("format = \"debezium\"");
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert!(ops.contains(&"r") && ops.last() == Some(&"u"), "{ops:?}");
    let last = lines.last().unwrap();
    assert_eq!((&last["before"]["amount"], &last["after"]["amount"]), (&Value::from(11), &Value::from(12)));
    let source = &last["source"];
    assert_eq!((&source["connector"], &source["table"]), (&Value::from("sqlite"), &Value::from("orders")));
    assert_eq!((&source["db"], &source["name"]), (&Value::from("shop"), &Value::from("shop")));
    assert_eq!(source["snapshot"], "false");
}

#[test]
fn a_feed_leaves_as_cloudevents() {
    let lines = printed("format = \"cloudevents\"");
    let last = lines.last().unwrap();
    assert_eq!((&last["specversion"], &last["type"]), (&Value::from("1.0"), &Value::from("seriatim.update")));
    assert_eq!(
        (&last["source"], &last["subject"]),
        (&Value::from("/seriatim/feeds/totals"), &Value::from("1"))
    );
    assert_eq!(last["id"], last["data"]["id"].to_string());
}

#[test]
fn a_webhook_gets_cloudevents_in_its_body_or_in_its_headers() {
    let server = Server::start(|_| answer(200));
    let handler =
        |more: &str| format!("webhook = \"{}/in\"\nformat = \"cloudevents\"\n{more}", server.address());
    run_once(&shop_with(&handler(""))).expect(0, &[]);
    let batch = &server.requests()[0];
    assert_eq!(batch.header("content-type"), "application/cloudevents-batch+json");
    run_once(&shop_with(&handler("batch = 1"))).expect(0, &[]);
    let single = server.requests().pop().unwrap();
    assert_eq!(single.header("content-type"), "application/cloudevents+json");
    run_once(&shop_with(&handler("batch = 1\ncloudevents_mode = \"binary\""))).expect(0, &[]);
    let binary = server.requests().pop().unwrap();
    assert_eq!(binary.header("content-type"), "application/json");
    assert_eq!((binary.header("ce-specversion"), binary.header("ce-type")), ("1.0", "seriatim.upsert"));
    assert!(binary.body.starts_with(r#"{"feed":"totals""#), "{}", binary.body);
    run_once(&shop_with(&handler("cloudevents_mode = \"binary\""))).expect(2, &["batch = 1"]);
}

#[test]
fn a_form_that_cannot_be_is_told_why() {
    let said = |handler: &str, words: &[&str]| {
        shop_with(handler).run("check").expect(2, words);
    };
    said("stdout = true\nformat = \"debezum\"", &["handler.format cannot be", "\"debezium\""]);
    said("stdout = true\ncloudevents_mode = \"binary\"", &["cloudevents_mode means nothing without format"]);
    said(
        "stdout = true\nformat = \"cloudevents\"\ncloudevents_mode = \"binary\"",
        &["this handler has no headers"],
    );
    said("sql = \"select 1\"\nformat = \"debezium\"", &["format is for sinks, and this handler has sql"]);
}

#[test]
fn sinks_that_this_build_has_not_are_told_of() {
    let said = |handler: &str, words: &[&str]| {
        shop_with(handler).run("check").expect(2, words);
    };
    said(
        "kafka = \"orders\"\nbrokers = \"127.0.0.1:9092\"",
        &["handler.kafka asks for Kafka, which Seriatim cannot write to yet"],
    );
    if !cfg!(feature = "sqs") {
        said("sqs = \"https://sqs.x.amazonaws.com/1/o.fifo\"", &["needs SQS", "--features sqs"]);
    }
    if !cfg!(feature = "nats") {
        said("nats = \"orders.{id}\"", &["needs NATS", "--features nats"]);
    }
}

fn to_stream(redis: &Redis) -> String {
    format!("redis_stream = \"orders\"\nurl = \"{}\"", redis.url())
}

/// The entries of the stream, as names and values.
fn entries(redis: &Redis) -> Vec<BTreeMap<String, String>> {
    let asked = Command::new("redis-cli")
        .args(["-p", &redis.port().to_string(), "--json", "XRANGE", "orders", "-", "+"])
        .output()
        .unwrap();
    let entries: Vec<(String, Vec<String>)> = serde_json::from_slice(&asked.stdout).unwrap_or_default();
    let pairs = |fields: &[String]| fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    entries.iter().map(|(_, fields)| pairs(fields)).collect()
}

/// The ids of each object, in the stream's order.
fn histories(redis: &Redis) -> BTreeMap<String, Vec<u64>> {
    let mut histories: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries(redis) {
        histories.entry(entry["key"].clone()).or_default().push(entry["id"].parse().unwrap());
    }
    histories
}

fn guarantee(shop: &Shop) -> String {
    let status: Value = serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap();
    status["feeds"][0]["guarantee"].as_str().unwrap().to_owned()
}

#[test]
fn a_stream_gets_every_change_once_and_once_more_after_a_rewind() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&to_stream(&redis));
    run_once(&shop).expect(0, &["exactly-once"]);
    assert_eq!((entries(&redis).len(), guarantee(&shop).as_str()), (3, "exactly-once"));
    shop.run("rewind totals --to beginning").expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(entries(&redis).len(), 6, "a rewind has them come again");
    run_once(&shop).expect(0, &[]);
    assert_eq!(entries(&redis).len(), 6);
}

#[test]
fn a_feed_that_is_set_up_anew_fills_its_stream_anew() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&to_stream(&redis));
    run_once(&shop).expect(0, &[]);
    shop.run("unwatch totals").expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(entries(&redis).len(), 6);
}

#[test]
fn a_window_has_no_ids_that_rise_and_says_at_least_once() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&to_stream(&redis));
    shop.reconfigure(
        "capture = \"journal\"",
        "capture = \"window\"\nchanged_at = \"amount\"\nchanged_at_unit = \"s\"",
    );
    shop.reconfigure("partitions = 2", "partitions = 1");
    shop.run("check").expect(0, &["at-least-once"]);
}

#[test]
fn hosts_that_are_killed_in_the_middle_leave_every_change_once_and_in_order() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&format!("{}\nbatch = 7\nconcurrency = 3", to_stream(&redis)));
    shop.run("watch").expect(0, &[]);
    let mut expected = 0;
    for round in 0..6 {
        let writes: String = (0..200)
            .map(|write| format!("update orders set amount = amount + 1 where id = {};", write % 3 + 1))
            .collect();
        shop.sql(&format!("begin; {writes} commit;"));
        expected += 200;
        let mut host = program(&shop, "run")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let before = entries(&redis).len();
        // Somewhere in the middle, at another place each time.
        eventually("some are sent", || entries(&redis).len() > before + round * 20, String::new);
        kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
        host.wait().unwrap();
    }
    run_once(&shop).expect(0, &[]);
    let histories = histories(&redis);
    assert_eq!(histories.values().map(Vec::len).sum::<usize>(), expected + 3);
    for (object, ids) in histories {
        assert!(ids.is_sorted_by(|id, next| id < next), "object {object}: {ids:?}");
    }
}

#[test]
fn a_server_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    let mut redis = Redis::start_durable().unwrap();
    let shop = shop_with(&format!("{}\nbatch = 5", to_stream(&redis)));
    shop.run("watch").expect(0, &[]);
    let host = Running::start(&shop, "run");
    for round in 1..5 {
        let writes: String = (0..100)
            .map(|write| format!("update orders set amount = amount + 1 where id = {};", write % 3 + 1))
            .collect();
        shop.sql(&format!("begin; {writes} commit;"));
        redis.restart().unwrap();
        eventually(
            "all are there",
            || entries(&redis).len() == 3 + round * 100,
            || format!("{}: {}", entries(&redis).len(), host.log()),
        );
    }
    host.stop().expect(0, &[]);
    for (object, ids) in histories(&redis) {
        assert!(ids.is_sorted_by(|id, next| id < next), "object {object}: {ids:?}");
    }
}

#[test]
fn another_number_of_partitions_holds_each_change_once() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&to_stream(&redis));
    run_once(&shop).expect(0, &[]);
    shop.reconfigure("partitions = 2", "partitions = 5");
    let host = Running::start(&shop, "run");
    shop.sql("update orders set amount = amount + 1");
    eventually(
        "all are there",
        || entries(&redis).len() == 6,
        || format!("{:?} {}", entries(&redis), host.log()),
    );
    host.stop().expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(entries(&redis).len(), 6);
}

#[test]
fn a_server_that_may_forget_is_told_of() {
    let redis = Redis::start().unwrap();
    let shop = shop_with(&to_stream(&redis));
    shop.run("check").expect(0, &["risk", "appendonly no", "appendfsync always"]);
    run_once(&shop).expect(0, &[]);
    let status = shop.run("status --json").expect(0, &["can lose changes of the stream"]);
    assert!(status.stdout.contains("appendonly"), "{}", status.stdout);
    let named = shop_with("redis_stream = \"orders\"");
    named.run("check").expect(2, &["has no url", "redis://"]);
    let away = shop_with("redis_stream = \"orders\"\nurl = \"redis://:s3cret@127.0.0.1:1/\"");
    let ran = away.run("check").expect(1, &["connecting to Redis"]);
    assert!(!ran.stderr.contains("s3cret") && !ran.stdout.contains("s3cret"), "{ran:?}");
}

#[test]
fn a_bound_of_the_stream_is_refused_without_consent() {
    let to_stream =
        |more: &str| shop_with(&format!("redis_stream = \"orders\"\nurl = \"redis://127.0.0.1:1/\"\n{more}"));
    for line in ["check", "run --once"] {
        let bounded = to_stream("max_entries = 100");
        bounded.run(line).expect(2, &["max_entries", "that nobody has read", "trim_unread = true"]);
    }
    to_stream("trim_unread = true").run("check").expect(2, &["means nothing without max_entries"]);
    let agreed = to_stream("max_entries = 100\ntrim_unread = true").run("check");
    assert!(!agreed.stderr.contains("max_entries") && !agreed.stdout.contains("max_entries"), "{agreed:?}");
}

/// Targets that are away: nobody listens there, or somebody who never answers.
fn dead_targets(silent: u16) -> Vec<(&'static str, String)> {
    let mut targets = Vec::new();
    for port in [1, silent] {
        let host = format!("127.0.0.1:{port}");
        targets.push(("redis", format!("redis_stream = \"orders\"\nurl = \"redis://{host}/\"")));
        targets.push(("webhook", format!("webhook = \"http://{host}/\"")));
        if cfg!(feature = "nats") {
            targets.push(("nats", format!("nats = \"orders.{{id}}\"\nurl = \"nats://{host}\"")));
        }
        if cfg!(feature = "sqs") {
            targets.push(("sqs", format!("sqs = \"http://{host}/1/orders.fifo\"")));
        }
    }
    targets
}

#[test]
fn a_dead_target_slows_no_other_feed() {
    // Connections to it are made, and nothing is ever said there.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let receiver = Server::start(|_| answer(200));
    let shop = Shop::empty();
    let mut config = "store = \"sqlite:shop.db\"\n[source.shop]\nurl = \"sqlite:shop.db\"\n".to_owned();
    let dead = dead_targets(silent.local_addr().unwrap().port());
    let living = ("living", format!("webhook = \"{}/in\"\nbatch = 1", receiver.address()));
    for (number, (name, handler)) in dead.iter().chain([&living]).enumerate() {
        config.push_str(&format!(
            "[feed.{name}{number}]\nsource = \"shop\"\ncapture = \"journal\"\ntable = \"orders\"\npartitions = 1\n[feed.{name}{number}.handler]\n{handler}\n"
        ));
    }
    shop.configure(&config);
    shop.sql("create table orders (id integer primary key, amount integer)");
    shop.run("watch").expect(0, &[]);
    let host = Running::start(&shop, "run");
    shop.sql("insert into orders (amount) values (10)");
    eventually("the host handles", || !receiver.requests().is_empty(), || host.log());
    let began = seriatim::clock::now();
    for number in 2..12 {
        shop.sql("insert into orders (amount) values (10)");
        eventually("it is handled", || receiver.requests().len() >= number, || host.log());
    }
    // Each dead target takes five seconds and more to be found dead, again and again.
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(receiver.requests().len(), 11, "each once");
}
