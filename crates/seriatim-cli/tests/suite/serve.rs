//! The page and its API, served by the program over real stores, with real hosts beside it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use seriatim_testkit::servers::Postgres;

use crate::handling::{Running, eventually, program, shop_with};
use crate::server::{Server, answer};
use crate::shop::Shop;

pub const TOKEN: &str = "a-long-secret";

/// The page of a shop. It ends with this.
pub struct Page {
    child: Child,
    pub address: String,
    lines: Vec<String>,
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Page {
    pub fn start(shop: &Shop, line: &str, token: Option<&str>) -> Self {
        let mut command = shop.command(&format!("serve --listen 127.0.0.1:0 {line}"));
        if let Some(token) = token {
            command.env("SERIATIM_TOKEN", token);
        }
        Page::of(&mut command, if token.is_some() || line.contains("read-only") { 1 } else { 2 })
    }

    fn of(command: &mut Command, lines: usize) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines: Vec<String> = output.lines().take(lines).map(Result::unwrap).collect();
        let address = lines[0].strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Page { child, address, lines }
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &[], "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or(Value::String(body))
    }

    pub fn parked(&self) -> usize {
        self.get("/api/v1/parked").as_array().unwrap().len()
    }

    fn post(&self, path: &str, body: &Value, token: Option<&str>) -> (u16, Value) {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
        let headers: Vec<&str> = bearer.iter().map(String::as_str).collect();
        let (status, body) = self.ask("POST", path, &headers, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
        ask(&self.address, method, path, headers, body)
    }
}

pub fn ask(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        address,
        body.len()
    );
    for header in headers {
        head += &format!("{header}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        dechunked(body)
    } else {
        body.to_owned()
    };
    (status, body)
}

fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}

/// A shop whose second order is refused until it is mended.
pub fn poisoned(store: &str) -> (Shop, Server, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let accepts = Arc::clone(&mended);
    let receiver = Server::start_with(move |_, request| {
        let poison = request.body.contains(r#""amount":20"#) && !accepts.load(Ordering::Relaxed);
        answer(if poison { 422 } else { 200 })
    });
    let shop = shop_with(&format!("webhook = \"{}\"\nbatch = 1", receiver.address()));
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{store}\""));
    (shop, receiver, mended)
}

fn everything_is_seen_and_done_through_the_page(store: &str) {
    let (shop, _receiver, mended) = poisoned(store);
    let page = Page::start(&shop, "", Some(TOKEN));
    assert_eq!(page.get("/api/v1/status"), json!({"feeds": [], "hosts": []}), "before anything has run");
    let host = Running::start(&shop, "run --host one");
    eventually("the poison order is parked", || page.parked() == 1, || host.log());
    let by_command: Value = serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap();
    let by_page = page.get("/api/v1/status");
    assert_eq!(by_page["feeds"][0]["name"], by_command["feeds"][0]["name"]);
    assert_eq!(by_page["feeds"][0]["parked"], 1);
    assert_eq!(page.get("/api/v1/feeds/totals")["guarantee"], "at-least-once");
    assert_eq!(page.get("/api/v1/hosts")[0]["name"], "one");
    assert_eq!(page.get("/api/v1/leases").as_array().unwrap().len(), 2);
    let waiting = page.get("/api/v1/parked?feed=totals");
    assert_eq!(waiting[0]["key"], json!({"id": 2}));
    let object = page.get("/api/v1/feeds/totals/objects?key=%7B%22id%22%3A2%7D");
    assert_eq!(object["changes"][0]["after"]["amount"], 20);
    assert!(object["changes"][0]["id"].is_string());

    let retry = json!({"feed": "totals", "key": {"id": 2}, "reason": "mended"});
    assert_eq!(page.post("/api/v1/parked/retry", &retry, None).0, 401);
    assert_eq!(page.post("/api/v1/parked/retry", &retry, Some("wrong")).0, 401);
    mended.store(true, Ordering::Relaxed);
    assert_eq!(page.post("/api/v1/parked/retry", &retry, Some(TOKEN)).0, 200);
    eventually("it is handled", || page.get("/api/v1/parked") == json!([]), || host.log());

    let second = Running::start_logged(&shop, "run --host two", "second.log");
    let owner = || {
        let leases = page.get("/api/v1/leases");
        leases.as_array().unwrap().iter().find(|lease| lease["partition"] == 0).unwrap()["owner"].clone()
    };
    eventually(
        "both have a lease",
        || page.get("/api/v1/hosts").as_array().unwrap().iter().all(|host| host["leases"] == 1),
        || second.log(),
    );
    let other = if owner() == "one" { "two" } else { "one" };
    let to_other = json!({"feed": "totals", "partition": 0, "host": other});
    assert_eq!(page.post("/api/v1/leases/move", &to_other, Some(TOKEN)).0, 200);

    assert_eq!(page.post("/api/v1/feeds/totals/pause", &json!({}), Some(TOKEN)).0, 200);
    assert_eq!(page.get("/api/v1/feeds/totals")["paused"], true);
    assert_eq!(
        page.post("/api/v1/feeds/totals/resume", &json!({"reason": "night is over"}), Some(TOKEN)).0,
        200
    );
    let (status, refused) =
        page.post("/api/v1/feeds/totals/rewind", &json!({"to": "beginning"}), Some(TOKEN));
    assert_eq!(status, 409, "while hosts own it: {refused}");
    let actions = page.get("/api/v1/actions");
    let names: Vec<&str> =
        actions.as_array().unwrap().iter().map(|done| done["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["rewind", "resume", "pause", "move", "retry"]);
    assert_eq!(actions[1]["reason"], "night is over");
    assert_eq!(actions[4]["by"], "operator");
    for path in [
        "/",
        "/feeds/totals",
        "/parked",
        "/hosts",
        "/queues",
        "/once",
        "/actions",
        "/feeds/totals/object?key=2",
    ] {
        assert!(page.get(path).as_str().unwrap().contains("Seriatim"), "{path}");
    }
}

#[test]
fn everything_is_seen_and_done_on_sqlite() {
    everything_is_seen_and_done_through_the_page("sqlite:shop.db");
}

#[test]
fn everything_is_seen_and_done_on_postgres() {
    let server = Postgres::shared();
    everything_is_seen_and_done_through_the_page(&server.url_of(&server.database().unwrap()));
}

#[test]
fn a_parked_change_is_discarded_with_a_reason_that_is_kept() {
    let (shop, _receiver, _) = poisoned("sqlite:shop.db");
    let host = Running::start(&shop, "run");
    let page = Page::start(&shop, "", Some(TOKEN));
    eventually("the poison order is parked", || page.parked() == 1, || host.log());
    let discard = json!({"feed": "totals", "key": {"id": 2}});
    assert_eq!(page.post("/api/v1/parked/discard", &discard, Some(TOKEN)).0, 400, "without a reason");
    let discard = json!({"feed": "totals", "key": {"id": 2}, "reason": "a test order"});
    assert_eq!(page.post("/api/v1/parked/discard", &discard, Some(TOKEN)).1["dropped"], 1);
    assert_eq!(page.get("/api/v1/parked"), json!([]));
    drop(page);
    let again = Page::start(&shop, "", Some(TOKEN));
    assert_eq!(again.get("/api/v1/actions")[0]["reason"], "a test order", "also after a restart");
}

#[test]
fn without_a_token_one_is_made_up_and_told_once() {
    let shop = Shop::open();
    shop.run("run --once").expect(0, &[]);
    let page = Page::start(&shop, "", None);
    let token = page.lines[1].strip_prefix("token: ").unwrap();
    let retry = json!({"feed": "totals", "all": true});
    assert_eq!(page.post("/api/v1/parked/retry", &retry, None).0, 401);
    assert_eq!(page.post("/api/v1/parked/retry", &retry, Some(token)).0, 200);
    let (status, _) = page.ask("GET", "/api/v1/status", &["Sec-Fetch-Site: cross-site"], "");
    assert_eq!(status, 403);
}

#[test]
fn a_page_that_only_shows_lets_nobody_act_and_a_base_path_is_before_everything() {
    let shop = Shop::open();
    shop.run("run --once").expect(0, &[]);
    let page = Page::start(&shop, "--read-only --base-path /changes", Some(TOKEN));
    let retry = json!({"feed": "totals", "all": true});
    assert_eq!(page.post("/changes/api/v1/parked/retry", &retry, Some(TOKEN)).0, 403);
    assert_eq!(page.get("/changes/api/v1/status")["feeds"][0]["name"], "totals");
    assert_eq!(page.ask("GET", "/api/v1/status", &[], "").0, 404);
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_a_token() {
    let shop = Shop::open();
    shop.run("serve --listen 0.0.0.0:0").expect(2, &["SERIATIM_TOKEN"]);
}

#[test]
fn a_host_serves_the_page_too() {
    let shop = Shop::open();
    let host = Running::start(&shop, "run --host one --serve 127.0.0.1:0");
    eventually("it says where", || host.log().contains("page at http://"), || host.log());
    let log = host.log();
    let address = log.split("page at http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let answered = || ask(&address, "GET", "/api/v1/hosts", &[], "").1;
    eventually("the host is shown", || answered().contains(r#""name":"one""#), || host.log());
}

fn hosts_of(demo: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{demo}/task/{demo}/children")).unwrap();
    children.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Whether the process runs. One that has ended may stay in the list until somebody has asked for its end.
fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[test]
fn the_demo_is_shown_on_the_page() {
    let shop = Shop::empty();
    let mut command = program(&shop, "demo --seconds 8 --serve 0");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It is read to its end: a program whose output nobody reads ends.
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = output.find(|line| line.contains("page at http://")).unwrap();
    let reading = std::thread::spawn(move || output.count());
    let address = told.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let status = || ask(&address, "GET", "/api/v1/status", &[], "").1;
    eventually("its hosts are shown", || status().contains(r#""name":"host-3""#), status);
    let hosts = hosts_of(child.id());
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    drop(child.kill());
    drop(child.wait());
    reading.join().unwrap();
    let left = || hosts.iter().filter(|host| is_alive(**host)).count();
    eventually("its hosts die with it", || left() == 0, || format!("{} are left", left()));
}
