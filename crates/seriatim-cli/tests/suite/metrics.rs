//! `seriatim run --metrics`, read as Prometheus reads it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;

use crate::handling::eventually;
use crate::queues::Works;
use crate::shop::Shop;

/// A host that serves metrics; killed when the test ends.
pub struct Measured {
    host: Child,
    pub address: String,
}

impl Measured {
    pub fn start(shop: &Shop, name: &str) -> Self {
        let mut host = shop.start(&format!("run --host {name} --metrics 0"));
        let mut logs = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = logs.find(|line| line.contains("metrics at http://")).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        // Somebody must go on reading, or the host waits for room in the pipe.
        std::thread::spawn(move || logs.for_each(drop));
        let stdout = host.stdout.take().unwrap();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).for_each(drop));
        Measured { host, address }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub fn metrics(&self) -> String {
        self.ask("GET /metrics")
    }

    /// The value of a metric with these labels, once it is what is expected.
    #[track_caller]
    fn until(&self, line: &str) {
        eventually(line, || self.metrics().lines().any(|known| known == line), || self.metrics());
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        drop(self.host.kill());
        drop(self.host.wait());
    }
}

#[test]
fn metrics_count_what_is_done_and_tell_the_lag_also_of_what_nobody_owns() {
    let shop = Shop::open();
    // One host may have half of the partitions, and there is no other.
    shop.reconfigure("[feed.totals.handler]", "start = \"now\"\n[lease]\nmax = 2\n\n[feed.totals.handler]");
    let host = Measured::start(&shop, "anna");
    eventually(
        "it owns two",
        || host.metrics().matches("seriatim_partition_owned{feed=\"totals\",partition=").count() == 4,
        || host.metrics(),
    );
    host.until(r#"seriatim_leases_acquired_total{feed="totals"} 2"#);
    for n in 0..40 {
        shop.sql(&format!("insert into orders (amount) values ({n})"));
    }
    // Of 40 changes, each is handled or lags: nothing is unknown, and nothing is zero that is not.
    let sum = |text: &str, name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    eventually(
        "all of its own is handled and the rest lags",
        || {
            let text = host.metrics();
            let handled = sum(&text, "seriatim_changes_handled_total");
            handled > 0.0 && handled + sum(&text, "seriatim_lag_changes") == 40.0
        },
        || host.metrics(),
    );
    let text = host.metrics();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("application/openmetrics-text"), "{text}");
    assert_eq!(sum(&text, "seriatim_partition_owned"), 2.0);
    assert!(sum(&text, "seriatim_lag_seconds") > 0.0, "{text}");
    let handled = sum(&text, "seriatim_changes_handled_total");
    assert_eq!(sum(&text, "seriatim_commit_to_handled_seconds_count"), handled, "{text}");
    assert_eq!(sum(&text, "seriatim_leases_lost_total"), 0.0);
}

#[test]
fn failures_are_counted_and_other_pages_are_not_there() {
    let shop = Shop::open();
    // Never for any order but the first.
    let never =
        "sql = \"insert into totals values (:key_id, 1), (case :key_id when 1 then 9 else :key_id end, 2)\"";
    shop.reconfigure("stdout = true", &format!("{never}\n[feed.totals.retry]\nattempts = 1"));
    let host = Measured::start(&shop, "anna");
    host.until(r#"seriatim_changes_parked_total{feed="totals"} 2"#);
    assert!(!host.metrics().contains(r#"seriatim_attempts_failed_total{feed="totals"} 0"#));
    assert!(host.ask("GET /").starts_with("HTTP/1.1 404"), "only metrics are there");
    assert!(host.ask("POST /metrics").starts_with("HTTP/1.1 405"));
}

#[test]
fn an_address_that_cannot_be_is_refused() {
    let shop = Shop::open();
    shop.run("run --once --metrics example.org:80").expect(2, &["write a port"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    shop.run(&format!("run --once --metrics {port}"))
        .expect(1, &["metrics cannot be served at 127.0.0.1", "another address or port"]);
}

#[test]
fn clients_that_send_no_request_keep_nobody_out() {
    let shop = Shop::open();
    let host = Measured::start(&shop, "anna");
    let half_open: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&host.address).unwrap()).collect();
    let mut stream = TcpStream::connect(&host.address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // One of the last ones is still connected, and is told to go when its time is over.
    let mut last = half_open.last().unwrap();
    last.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    assert!(last.read_to_string(&mut answer).is_ok(), "it is not let go");
}

#[test]
fn queues_have_the_metrics_of_feeds() {
    for works in Works::everywhere() {
        works.refuse_poison();
        works.push("work:1", &["1", "2"]).expect(0, &[]);
        works.push("work:2", &[r#""poison""#, "3"]).expect(0, &[]);
        let host = Measured::start(&works.shop, "anna");
        for line in [
            r#"seriatim_changes_handled_total{feed="works"} 2"#,
            r#"seriatim_attempts_failed_total{feed="works"} 2"#,
            r#"seriatim_changes_redelivered_total{feed="works"} 1"#,
            r#"seriatim_changes_parked_total{feed="works"} 1"#,
            r#"seriatim_leases_acquired_total{feed="works"} 2"#,
            r#"seriatim_commit_to_handled_seconds_count{feed="works"} 2"#,
            r#"seriatim_lag_changes{feed="works",partition="0"} 2.0"#,
            r#"seriatim_partition_owned{feed="works",partition="0"} 1.0"#,
        ] {
            host.until(line);
        }
    }
}

#[test]
fn what_is_parked_and_blocked_now_is_told_also_after_a_restart() {
    let shop = Shop::open();
    // Two of three cannot be handled: with all of them, it would be the target's fault.
    let never =
        "sql = \"insert into totals values (:key_id, 1), (case :key_id when 1 then 99 else :key_id end, 2)\"";
    shop.reconfigure("stdout = true", &format!("{never}\n[feed.totals.retry]\nattempts = 1"));
    Measured::start(&shop, "anna").until(r#"seriatim_changes_parked_total{feed="totals"} 2"#);
    shop.sql("update orders set amount = 1 where id = 2");
    let host = Measured::start(&shop, "bert");
    host.until(r#"seriatim_parked_objects{feed="totals"} 2.0"#);
    host.until(r#"seriatim_parked_changes{feed="totals"} 3.0"#);
    host.until(r#"seriatim_blocked{feed="totals"} 0.0"#);
    shop.run("pause totals").expect(0, &[]);
    host.until(r#"seriatim_blocked{feed="totals"} 1.0"#);
}

#[test]
fn a_host_says_that_it_lives_and_when_it_is_ready() {
    let shop = Shop::open();
    let host = Measured::start(&shop, "anna");
    assert!(host.ask("GET /healthz").starts_with("HTTP/1.1 200"));
    eventually(
        "it is ready",
        || host.ask("GET /readyz").starts_with("HTTP/1.1 200"),
        || host.ask("GET /readyz"),
    );
    shop.sql("delete from seriatim_host");
    eventually(
        "it is not",
        || host.ask("GET /readyz").starts_with("HTTP/1.1 503"),
        || host.ask("GET /readyz"),
    );
    assert!(host.ask("GET /healthz").starts_with("HTTP/1.1 200"));
}
