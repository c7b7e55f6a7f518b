//! Queues from outside: pushed, run, looked at.

use std::process::Command;

use seriatim_testkit::servers::Redis;

use crate::shop::{PROGRAM, Ran, Shop, finish};

/// A shop whose works have a queue, in a SQLite file or in Redis.
struct Works {
    shop: Shop,
    _redis: Option<Redis>,
}

impl Works {
    fn open(redis: Option<Redis>) -> Self {
        let shop = Shop::empty();
        let url = redis.as_ref().map_or("sqlite:shop.db".to_owned(), Redis::url);
        shop.configure(&format!(
            r#"store = "{url}"
[source.shop]
url = "{url}"
[feed.works]
source = "shop"
capture = "queue"
limit = 3
handler = {{ stdout = true }}
[feed.works.retry]
attempts = 2
"#
        ));
        if redis.is_none() {
            shop.sql("create table work (id integer)");
        }
        Works { shop, _redis: redis }
    }

    fn both() -> [Self; 2] {
        [Works::open(None), Works::open(Some(Redis::start().unwrap()))]
    }

    fn push(&self, object: &str, events: &[&str]) -> Ran {
        let mut push: Command = self.shop.command_of(PROGRAM.as_ref(), "queue push works");
        finish(push.arg(object).args(events))
    }
}

#[test]
fn what_is_pushed_comes_out_in_order_with_its_chain() {
    for works in Works::both() {
        works.push("work:1", &[r#"{"title":"Emma"}"#, r#"{"year":1815}"#]).expect(0, &[]);
        works.push("work:1", &["3"]).expect(0, &[]);
        works
            .shop
            .run("queue inspect works --json")
            .expect(0, &[r#""object":"work:1","waiting":3"#, r#""queued":true"#]);
        let ran = works.shop.run("run --once").expect(0, &[]);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains(r#""key":{"object":"work:1"},"op":"event""#), "{}", lines[0]);
        assert!(lines[0].ends_with(r#""after":{"title":"Emma"},"id":1,"prev":null}"#), "{}", lines[0]);
        assert!(lines[1].ends_with(r#""after":{"year":1815},"id":2,"prev":1}"#), "{}", lines[1]);
        assert!(lines[2].ends_with(r#""id":3,"prev":2}"#), "{}", lines[2]);
        works.shop.run("queue inspect works").expect(0, &["nothing is waiting"]);
        works.shop.run("queue inspect works work:1 --json").expect(0, &[r#""last":3"#]);
        works.shop.run("queue invariants works").expect(0, &["all invariants hold"]);
        works.shop.run("check").expect(0, &["queue; at-least-once"]);
        works.shop.run("status --json").expect(0, &[r#""feeds""#]);
    }
}

#[test]
fn a_full_object_refuses_with_a_sentence() {
    for works in Works::both() {
        works.push("work:1", &["1", "2", "3"]).expect(0, &[]);
        works.push("work:1", &["4"]).expect(1, &["object work:1 has 3 events waiting and may have 3"]);
        works.push("work:2", &["4"]).expect(0, &[]);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let works = Works::open(None);
    works.push("work:1", &["{title}"]).expect(2, &["is not JSON"]);
    works.push("", &["1"]).expect(2, &["object name"]);
    works.shop.run("queue inspect wroks").expect(2, &["did you mean \"works\"?"]);
    works.shop.run("rewind works --to now").expect(2, &["feed works is a queue"]);
    works.shop.reconfigure("limit = 3", "table = \"work\"");
    works.shop.run("check").expect(2, &["table means nothing for a queue"]);
}

#[test]
fn a_broken_invariant_fails_and_is_named() {
    let works = Works::open(None);
    works.push("work:1", &["1"]).expect(0, &[]);
    works.shop.sql("update seriatim_queue_object set queued = null");
    works
        .shop
        .run("queue invariants works")
        .expect(1, &["work:1: an object with events is queued, held or parked", "1 invariant does not hold"]);
}

#[test]
fn a_missing_server_is_an_error_without_the_password() {
    let works = Works::open(None);
    works.shop.reconfigure(
        "[source.shop]\nurl = \"sqlite:shop.db\"",
        "[source.shop]\nurl = \"redis://me:secret@127.0.0.1:1/\"",
    );
    for line in ["run --once", "queue inspect works", "check"] {
        let ran = works.shop.run(line).expect(1, &["connecting to Redis at 127.0.0.1:1"]);
        assert!(!format!("{ran:?}").contains("secret"));
    }
}

#[test]
fn tables_are_not_watched_in_redis() {
    let shop = Shop::empty();
    shop.configure(
        &crate::shop::config("journal", "orders")
            .replace("url = \"sqlite:shop.db\"", "url = \"redis://localhost/\""),
    );
    shop.run("check").expect(2, &["watches a table, and Redis has none"]);
}

#[test]
fn journals_and_queues_run_side_by_side_with_the_store_in_redis() {
    let redis = Redis::start().unwrap();
    let shop = Shop::open();
    let config = crate::shop::config("journal", "orders").replacen("sqlite:shop.db", &redis.url(), 1);
    shop.configure(&format!(
        "{config}\n[feed.works]\nsource = \"shop\"\ncapture = \"queue\"\nhandler = {{ stdout = true }}\n"
    ));
    shop.run("queue push works work:1 1").expect(0, &[]);
    let ran = shop.run("run --once").expect(0, &[]);
    assert_eq!(ran.stdout.lines().count(), 4, "{}", ran.stdout);
    let again = shop.run("run --once").expect(0, &[]);
    assert_eq!(again.stdout, "", "the store in Redis has the checkpoints");
    shop.run("status").expect(0, &["totals"]);
}
