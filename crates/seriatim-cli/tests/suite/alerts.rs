//! The alert rules and the board: checked by Prometheus' own tools, and fired by real hosts.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::handling::eventually;
use crate::metrics::Measured;
use crate::serve::ask;
use crate::shop::{Shop, finish};

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages")
}

fn rules() -> String {
    fs::read_to_string(packages().join("prometheus/seriatim.rules.yml")).unwrap()
}

fn promtool(arguments: &[&str]) {
    let mut promtool = Command::new("promtool");
    finish(promtool.args(arguments).current_dir(packages().join("prometheus"))).expect(0, &["SUCCESS"]);
}

#[test]
fn the_rules_are_right_and_each_fires_and_stops() {
    promtool(&["check", "rules", "seriatim.rules.yml"]);
    promtool(&["test", "rules", "seriatim.test.yml"]);
    let tests = fs::read_to_string(packages().join("prometheus/seriatim.test.yml")).unwrap();
    for alert in alerts() {
        let fires = format!("alertname: {alert}\n        exp_alerts:");
        let stops = format!("alertname: {alert}}}");
        assert!(tests.contains(&fires), "no test fires {alert}");
        assert!(tests.matches(&stops).count() > 1 || alert == "SeriatimParkedMany", "no test stops {alert}");
    }
}

fn alerts() -> Vec<String> {
    let rules = rules();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// Words that are names of metrics, without what Prometheus adds to histograms.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("seriatim_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn every_alert_has_a_page_and_every_metric_is_served() {
    let page = fs::read_to_string(packages().join("../docs/alerts.md")).unwrap();
    for alert in alerts() {
        assert!(page.contains(&format!("\n## {alert}\n")), "docs/alerts.md says nothing of {alert}");
        assert!(
            rules().contains(&format!("docs/alerts.md#{}\n", alert.to_lowercase())),
            "{alert} names no page"
        );
    }
    let board = fs::read_to_string(packages().join("grafana/seriatim.json")).unwrap();
    let parsed: Value = serde_json::from_str(&board).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 8);
    can_be_asked(&parsed);
    let shop = Shop::open();
    let host = Measured::start(&shop, "one");
    let wanted: BTreeSet<String> = metrics_in(&rules()).into_iter().chain(metrics_in(&board)).collect();
    assert!(wanted.len() > 10, "{wanted:?}");
    let missing = || {
        let served = metrics_in(&host.metrics());
        wanted.difference(&served).cloned().collect::<Vec<_>>()
    };
    eventually("every metric is served", || missing().is_empty(), || format!("{:?}", missing()));
}

/// Every question of the board is one that Prometheus understands.
fn can_be_asked(board: &Value) {
    let targets =
        board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let questions = targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m"));
    let rules: Vec<Value> = questions.map(|expr| json!({"record": "a:question", "expr": expr})).collect();
    assert!(rules.len() > 10);
    // JSON is YAML, too. The same name twice is no rule, so each has a label.
    let rule = |(place, mut rule): (usize, Value)| {
        rule["labels"] = json!({"place": place.to_string()});
        rule
    };
    let rules: Vec<Value> = rules.into_iter().enumerate().map(rule).collect();
    let folder = TempDir::with_prefix("seriatim-").unwrap();
    let file = folder.path().join("board.yml");
    fs::write(&file, json!({"groups": [{"name": "board", "rules": rules}]}).to_string()).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
}

/// A Prometheus that reads a host, with rules that wait no longer than its next look. It ends with this.
struct Prometheus {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prometheus {
    fn of(host: &Measured) -> Self {
        let folder = TempDir::with_prefix("seriatim-").unwrap();
        let all = rules();
        let hurried = all.lines().map(|line| match line.trim().strip_prefix("for: ") {
            Some(_) => "        for: 200ms\n".to_owned(),
            None => format!("{line}\n"),
        });
        fs::write(folder.path().join("rules.yml"), hurried.collect::<String>()).unwrap();
        let config = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\nrule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: seriatim, static_configs: [{{targets: ['{}']}}]}}]\n",
            host.address
        );
        fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={free}"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Prometheus { child, address: free.to_string(), _folder: folder }
    }

    /// The alerts that fire for a feed.
    fn fires(&self, feed: &str) -> Vec<String> {
        if std::net::TcpStream::connect(&self.address).is_err() {
            return vec!["not there yet".to_owned()];
        }
        let (_, body) = ask(&self.address, "GET", "/api/v1/alerts", &[], "");
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let fires =
            alerts.iter().filter(|alert| alert["state"] == "firing" && alert["labels"]["feed"] == feed);
        fires.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn an_alert_fires_while_a_feed_is_paused_and_stops_when_it_goes_on() {
    let shop = Shop::open();
    let host = Measured::start(&shop, "one");
    let prometheus = Prometheus::of(&host);
    let blocked = || prometheus.fires("totals").iter().any(|alert| alert == "SeriatimBlocked");
    let seen = || format!("{:?}", prometheus.fires("totals"));
    eventually("nothing is wrong at first", || prometheus.fires("totals").is_empty(), seen);
    shop.run("pause totals").expect(0, &[]);
    eventually("the alert fires", blocked, seen);
    shop.run("resume totals").expect(0, &[]);
    eventually("the alert stops", || !blocked(), seen);
}
