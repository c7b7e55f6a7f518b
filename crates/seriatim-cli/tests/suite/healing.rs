//! Targets in trouble, and what is parked over it: nobody has to come and mend it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::handling::{Running, eventually, run_once, shop_with};
use crate::server::{Request, Server, answer};
use crate::shop::Shop;

/// The objects that a writer changes one after another.
const OBJECTS: i64 = 7;

/// The object that the server never accepts, where there is one.
const POISON: i64 = 3;

fn key(request: &Request) -> i64 {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    body["key"]["id"].as_i64().unwrap()
}

/// A server that answers 500 to everybody while it is ill, and always to some.
struct Ill {
    server: Server,
    ill: Arc<AtomicBool>,
}

impl Ill {
    fn start(is_poison: impl Fn(i64) -> bool + Send + Sync + 'static) -> Self {
        let ill = Arc::new(AtomicBool::new(true));
        let now = Arc::clone(&ill);
        let server = Server::start_with(move |_, request| match now.load(Ordering::Relaxed) {
            true => answer(500),
            false if is_poison(key(request)) => answer(500),
            false => answer(200),
        });
        Ill { server, ill }
    }

    fn recovers(&self) {
        self.ill.store(false, Ordering::Relaxed);
    }

    fn shop(&self, settings: &str) -> Shop {
        shop_with(&format!("webhook = \"{}/in\"\nbatch = 1\n{settings}", self.server.address()))
    }

    /// What it has accepted of each object: the amounts, in order.
    fn accepted(&self) -> BTreeMap<i64, Vec<i64>> {
        let mut amounts: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for request in self.server.accepted() {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            amounts.entry(key(&request)).or_default().push(body["after"]["amount"].as_i64().unwrap());
        }
        amounts
    }
}

fn parked(shop: &Shop) -> Vec<Value> {
    serde_json::from_str(&shop.run("parked list --json").expect(0, &[]).stdout).unwrap()
}

/// How long the server is ill: a few seconds, or as long as the environment says.
fn outage() -> Duration {
    let seconds = std::env::var("SERIATIM_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// Writes two changes a second for as long as the server is ill, and says what it wrote of each object.
fn write_while_it_is_ill(shop: &Shop) -> BTreeMap<i64, Vec<i64>> {
    let (mut written, began): (BTreeMap<i64, Vec<i64>>, _) = (BTreeMap::new(), seriatim::clock::now());
    let mut amount = 100;
    while began.elapsed() < outage() {
        amount += 1;
        let id = amount % OBJECTS + 1;
        shop.sql(&format!("insert into orders (id, amount) values ({id}, {amount}) on conflict (id) do update set amount = excluded.amount"));
        written.entry(id).or_default().push(amount);
        std::thread::sleep(Duration::from_millis(500));
    }
    written
}

/// The program's own pauses, and one partition's worth of traffic on sixteen.
fn usual(shop: &Shop) {
    shop.reconfigure("attempts = 3\nbackoff = \"10ms..50ms\"\n", "");
    shop.reconfigure("partitions = 2", "partitions = 16");
    shop.sql("delete from orders");
}

#[test]
fn a_server_that_was_ill_gets_everything_in_order_without_a_person() {
    let ill = Ill::start(|_| false);
    let shop = ill.shop("");
    usual(&shop);
    let host = Running::start(&shop, "run");
    host.says("owns 16 of 16 partitions");
    let written = write_while_it_is_ill(&shop);
    assert_eq!(ill.accepted(), BTreeMap::new());
    ill.recovers();
    let recovered = seriatim::clock::now();
    eventually("all is delivered", || ill.accepted() == written, || host.log());
    assert!(recovered.elapsed() < Duration::from_secs(30), "{:?}", recovered.elapsed());
    eventually("nothing is parked", || parked(&shop).is_empty(), || host.log());
    host.stop().expect(0, &["the target is back"]);
}

#[test]
fn of_a_server_that_was_ill_only_the_poison_stays_parked() {
    let ill = Ill::start(|id| id == POISON);
    let shop = ill.shop("");
    usual(&shop);
    let host = Running::start(&shop, "run");
    host.says("owns 16 of 16 partitions");
    let mut written = write_while_it_is_ill(&shop);
    written.remove(&POISON);
    ill.recovers();
    let recovered = seriatim::clock::now();
    eventually("all others are delivered", || ill.accepted() == written, || host.log());
    assert!(recovered.elapsed() < Duration::from_secs(30), "{:?}", recovered.elapsed());
    let is_poison = |parked: &[Value]| parked.len() == 1 && parked[0]["key"]["id"] == POISON;
    eventually("the poison is parked, and it alone", || is_poison(&parked(&shop)), || host.log());
    assert!(parked(&shop)[0]["next_try"].is_string());
    host.stop().expect(0, &["\"id\":3", "parked after", "seriatim parked show totals --key '{\"id\":3}'"]);
}

#[test]
fn three_bad_objects_in_a_row_hold_nobody_although_one_is_handled_at_a_time() {
    let ill = Ill::start(|id| id <= 3);
    ill.recovers();
    let shop = ill.shop("concurrency = 1");
    shop.reconfigure("partitions = 2", "partitions = 1");
    shop.sql("insert into orders (amount) values (40), (50), (60)");
    run_once(&shop).expect(1, &["feed totals: 3 objects are parked", "seriatim parked list totals"]);
    assert_eq!(ill.accepted().into_keys().collect::<Vec<_>>(), [4, 5, 6]);
    assert_eq!(parked(&shop).len(), 3);
}

#[test]
fn what_is_parked_is_tried_again_by_itself_and_its_kind_follows() {
    let ill = Ill::start(|_| false);
    ill.recovers();
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    // Every other object fails, so that it is their own fault.
    let server = Server::start_with(move |_, request| {
        let fails = is_broken.load(Ordering::Relaxed) && key(request) % 2 == 0;
        answer(if fails { 400 } else { 200 })
    });
    let shop = shop_with(&format!("webhook = \"{}/in\"\nbatch = 1", server.address()));
    shop.reconfigure("[feed.totals.retry]", "[feed.totals.parked]\nretry = \"1s..10s\"\n[feed.totals.retry]");
    shop.sql("insert into orders (amount) select value from json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]')");
    let host = Running::start(&shop, "run");
    eventually("half of them are parked", || parked(&shop).len() == 12, || host.log());
    assert!(parked(&shop).iter().all(|object| object["next_try"].is_string()), "{:?}", parked(&shop));
    let before = server.requests().len();
    broken.store(false, Ordering::Relaxed);
    eventually("all are handled", || parked(&shop).is_empty(), || host.log());
    assert_eq!(server.accepted().len(), 24);
    assert!(server.requests().len() - before <= 12 + 6, "{} more calls", server.requests().len() - before);
    host.stop().expect(0, &["parked no more: all that waited is handled"]);
}

#[test]
fn what_is_to_be_left_to_people_is() {
    let server = Server::start_with(|_, request| answer(if key(request) == 2 { 400 } else { 200 }));
    let shop = shop_with(&format!("webhook = \"{}/in\"\nbatch = 1", server.address()));
    shop.reconfigure("[feed.totals.retry]", "[feed.totals.parked]\nretry = \"never\"\n[feed.totals.retry]");
    run_once(&shop).expect(1, &["feed totals: 1 object is parked"]);
    assert!(parked(&shop)[0]["next_try"].is_null());
    shop.run("parked list").expect(0, &["next try"]);
}

#[test]
fn a_single_run_tells_by_its_exit_code_whether_all_is_handled() {
    let ill = Ill::start(|id| id == 2);
    let shop = ill.shop("");
    let began = seriatim::clock::now();
    shop.run("run --once --within 2s").expect(
        1,
        &[
            "not everything is handled within 2s",
            "feed totals: its target fails since",
            "500 Internal Server Error",
        ],
    );
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    ill.recovers();
    shop.run("run --once").expect(1, &["feed totals: 1 object is parked", "seriatim parked list totals"]);
    shop.run("run --once").expect(1, &["feed totals: 1 object is parked"]);
    shop.run("parked retry totals --all").expect(1, &["1 object failed again"]);
    let discarded = shop.run("parked discard totals --key 2 --reason wrong");
    discarded.expect(0, &["is dropped\n"]);
    shop.run("run --once").expect(0, &["handled=0 parked=0"]);
    shop.run("run --within 2s").expect(2, &["--once"]);
    shop.run("run --once --within soon").expect(2, &["must be a duration"]);
}
