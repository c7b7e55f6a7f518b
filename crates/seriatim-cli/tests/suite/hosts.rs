//! What commands do while a host runs, and after it was killed.

use std::io::{BufRead, BufReader};
use std::process::Child;

use serde_json::Value;

use crate::shop::Shop;

/// A host that owns all four partitions; killed when the test ends.
struct Running(Child);

impl Running {
    fn start(shop: &Shop) -> Self {
        let mut host = shop.start("run --host anna");
        let mut logs = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(logs.any(|line| line.contains("owns 4 of 4 partitions")));
        Running(host)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn status(shop: &Shop) -> Value {
    serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap()
}

fn owners(status: &Value) -> Vec<Value> {
    let partitions = status["feeds"][0]["partitions"].as_array().unwrap();
    partitions.iter().map(|partition| partition["owner"].clone()).collect()
}

#[test]
fn status_names_the_owners_and_forgets_the_dead() {
    let shop = Shop::open();
    let mut host = Running::start(&shop);
    let running = status(&shop);
    assert_eq!(owners(&running), vec![Value::from("anna"); 4]);
    assert_eq!((&running["hosts"][0]["name"], &running["hosts"][0]["leases"]), (&"anna".into(), &4.into()));
    host.kill();
    let killed = status(&shop);
    assert_eq!(owners(&killed), vec![Value::Null; 4]);
    assert_eq!(killed["hosts"], Value::Array(vec![]));
}

#[test]
fn rewind_and_unwatch_refuse_while_a_host_owns_the_feed() {
    let shop = Shop::open();
    let mut host = Running::start(&shop);
    for line in ["rewind totals --to beginning", "unwatch totals"] {
        shop.run(line).expect(1, &["feed totals cannot be", "owned by anna", "--force"]);
    }
    shop.run("rewind totals --to now --force").expect(0, &[]);
    host.kill();
    shop.run("rewind totals --to beginning").expect(0, &[]);
    shop.run("unwatch totals").expect(0, &["forgotten"]);
}

/// Loses all that the server keeps.
fn empty(redis: &seriatim_testkit::servers::Redis) {
    let url = redis.url();
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let mut server = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut server, b"FLUSHALL\r\n").unwrap();
    let mut answer = String::new();
    BufReader::new(server).read_line(&mut answer).unwrap();
    assert_eq!(answer, "+OK\r\n");
}

#[test]
fn a_store_that_lost_its_state_stops_the_feed_and_names_the_remedy() {
    let redis = seriatim_testkit::servers::Redis::start().unwrap();
    let shop = Shop::open();
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{}\"", redis.url()));
    shop.run("check").expect(0, &["risk", "Redis keeps nothing on disk", "appendonly yes"]);
    let mut host = shop.start("run --host anna");
    let mut logs = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(logs.any(|line| line.contains("owns 4 of 4 partitions")));
    empty(&redis);
    let said: Vec<String> = logs.collect();
    assert_eq!(host.wait().unwrap().code(), Some(1), "{said:?}");
    let said = said.join("\n");
    assert!(said.contains("joined again") && said.contains("lost its checkpoints"), "{said}");
    assert!(said.contains("seriatim rewind totals --to") && !said.contains("already running"), "{said}");
    shop.run("rewind totals --to beginning").expect(0, &["the store had no checkpoints of it"]);
    shop.run("run --once").expect(0, &[]);
}
