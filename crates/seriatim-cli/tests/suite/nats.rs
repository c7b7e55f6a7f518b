//! NATS JetStream from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use seriatim_testkit::servers::Nats;

use crate::handling::{Running, eventually, program, run_once, shop_with};
use crate::shop::Shop;

/// Asks JetStream for something, in NATS' own words.
fn ask(server: &Nats, what: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB $JS.API.{what} answer {}\r\n{body}\r\n",
        body.len()
    )
    .unwrap();
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(length) = line.strip_prefix("MSG answer 1 ") {
            let mut answer = vec![0; length.trim().parse().unwrap()];
            lines.read_exact(&mut answer).unwrap();
            return serde_json::from_slice(&answer).unwrap();
        }
    }
}

fn make_stream(server: &Nats, more: Value) {
    let mut config =
        json!({"name": "ORDERS", "subjects": ["orders.>"], "storage": "file", "num_replicas": 1});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = ask(server, "STREAM.CREATE.ORDERS", &config);
    assert!(made["error"].is_null(), "{made}");
}

fn messages(server: &Nats) -> u64 {
    ask(server, "STREAM.INFO.ORDERS", &json!({}))["state"]["messages"].as_u64().unwrap()
}

fn shop(server: &Nats, more: &str) -> Shop {
    shop_with(&format!("nats = \"orders.{{id}}\"\nurl = \"{}\"\n{more}", server.url()))
}

fn guarantee(shop: &Shop) -> String {
    let status: Value = serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap();
    status["feeds"][0]["guarantee"].as_str().unwrap().to_owned()
}

#[test]
fn a_stream_gets_every_change_once_and_once_more_after_a_rewind() {
    let server = Nats::start().unwrap();
    let shop = shop(&server, "");
    shop.run("check").expect(1, &["no stream takes the subjects orders.*"]);
    make_stream(&server, json!({}));
    shop.run("check").expect(0, &["exactly-once", "risk", "sync_interval: always"]);
    run_once(&shop).expect(0, &["exactly-once"]);
    assert_eq!((messages(&server), guarantee(&shop).as_str()), (3, "exactly-once"));
    shop.run("rewind totals --to beginning").expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(messages(&server), 6, "a rewind has them come again");
}

#[test]
fn a_stream_that_forgets_is_only_said_to_deduplicate() {
    let server = Nats::start().unwrap();
    make_stream(&server, json!({"max_age": 3_600_000_000_000u64}));
    let shop = shop(&server, "");
    run_once(&shop).expect(0, &["deduplicated"]);
    assert_eq!(guarantee(&shop), "deduplicated");
}

#[test]
fn hosts_that_are_killed_in_the_middle_leave_every_change_once() {
    let server = Nats::start().unwrap();
    make_stream(&server, json!({}));
    let shop = shop(&server, "batch = 7\nconcurrency = 3");
    shop.run("watch").expect(0, &[]);
    for round in 0..4 {
        let writes: String = (0..200)
            .map(|write| format!("update orders set amount = amount + 1 where id = {};", write % 3 + 1))
            .collect();
        shop.sql(&format!("begin; {writes} commit;"));
        let before = messages(&server);
        let mut host = program(&shop, "run")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("some are sent", || messages(&server) > before + round * 20, String::new);
        kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
        host.wait().unwrap();
    }
    run_once(&shop).expect(0, &[]);
    assert_eq!(messages(&server), 803);
}

#[test]
fn a_server_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    let mut server = Nats::start().unwrap();
    make_stream(&server, json!({}));
    let shop = shop(&server, "batch = 5");
    shop.run("watch").expect(0, &[]);
    let host = Running::start(&shop, "run");
    for round in 1..5 {
        let writes: String = (0..100)
            .map(|write| format!("update orders set amount = amount + 1 where id = {};", write % 3 + 1))
            .collect();
        let before = messages(&server);
        shop.sql(&format!("begin; {writes} commit;"));
        eventually("some are sent", || messages(&server) > before, || host.log());
        server.restart().unwrap();
        // JetStream reads its files before it answers.
        let stream = || ask(&server, "STREAM.INFO.ORDERS", &json!({}));
        eventually("the stream is there", || stream()["state"].is_object(), || host.log());
        let count = || messages(&server);
        eventually("all are there", || count() == 3 + round * 100, || format!("{}: {}", count(), host.log()));
    }
    host.stop().expect(0, &[]);
    let mut histories: std::collections::BTreeMap<String, Vec<u64>> = Default::default();
    for sequence in 1..=messages(&server) {
        let told = ask(&server, "STREAM.MSG.GET.ORDERS", &json!({"seq": sequence}));
        let headers = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            told["message"]["hdrs"].as_str().unwrap(),
        );
        let headers = String::from_utf8(headers.unwrap()).unwrap();
        let mark = headers.lines().find_map(|line| line.strip_prefix("Seriatim-Mark: ")).unwrap();
        let rank = mark.split_once('-').unwrap().1.parse().unwrap();
        histories.entry(told["message"]["subject"].to_string()).or_default().push(rank);
    }
    assert_eq!(histories.len(), 3);
    for (subject, ranks) in histories {
        assert!(ranks.is_sorted_by(|rank, next| rank < next), "{subject}: {ranks:?}");
    }
}

#[test]
fn a_subject_that_cannot_be_is_told_why() {
    let said = |handler: &str, words: &[&str]| {
        shop_with(handler).run("check").expect(2, words);
    };
    said("nats = \"orders.*\"\nurl = \"nats://h\"", &["handler.nats has a blank, `*` or `>`", "orders.{id}"]);
    said("nats = \"orders.{id\"\nurl = \"nats://h\"", &["handler.nats has a brace without its partner"]);
    said("nats = \"orders.{id}\"", &["has no url"]);
}
