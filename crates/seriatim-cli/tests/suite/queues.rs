//! Queues from outside: pushed, run, looked at.

use std::process::Command;

use seriatim_testkit::servers::{Postgres, Redis};

use crate::shop::{PROGRAM, Ran, Shop, finish};

/// A shop whose works have a queue, in a SQLite file, in Redis or in PostgreSQL.
pub struct Works {
    pub shop: Shop,
    _redis: Option<Redis>,
}

impl Works {
    pub fn open(redis: Option<Redis>) -> Self {
        let url = redis.as_ref().map_or("sqlite:shop.db".to_owned(), Redis::url);
        let works = Works { shop: Works::at(&url), _redis: redis };
        if works._redis.is_none() {
            works.shop.sql("create table work (id integer)");
        }
        works
    }

    pub fn at(url: &str) -> Shop {
        let shop = Shop::empty();
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
backoff = "1ms..2ms"
"#
        ));
        shop
    }

    pub fn everywhere() -> [Self; 3] {
        let server = Postgres::shared();
        let postgres = Works { shop: Works::at(&server.url_of(&server.database().unwrap())), _redis: None };
        [Works::open(None), Works::open(Some(Redis::start().unwrap())), postgres]
    }

    /// From now on, events with the word `poison` cannot be handled.
    pub fn refuse_poison(&self) {
        let handler = r#"handler = { command = ["/bin/sh", "-c", 'while read l; do case "$l" in *poison*) echo "{\"error\":\"bitter\"}";; *) echo "{\"ok\":true}";; esac; done'] }"#;
        self.shop.reconfigure("handler = { stdout = true }", handler);
    }

    fn take_everything(&self) {
        self.shop.reconfigure("*poison*", "*nothing*");
    }

    pub fn push(&self, object: &str, events: &[&str]) -> Ran {
        let mut push: Command = self.shop.command_of(PROGRAM.as_ref(), "queue push works");
        finish(push.arg(object).args(events))
    }
}

#[test]
fn what_is_pushed_comes_out_in_order_with_its_chain() {
    for works in Works::everywhere() {
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
    }
}

#[test]
fn a_full_object_refuses_with_a_sentence() {
    for works in Works::everywhere() {
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

#[test]
fn status_shows_what_waits_and_who_works() {
    for works in Works::everywhere() {
        works.push("work:1", &["1", "2"]).expect(0, &[]);
        works.push("work:2", &["3"]).expect(0, &[]);
        let ran = works.shop.run("status --json").expect(0, &[]);
        let status: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let feed = &status["feeds"][0];
        assert_eq!((feed["name"].as_str(), feed["capture"].as_str()), (Some("works"), Some("queue")));
        assert_eq!(feed["guarantee"], "at-least-once");
        assert_eq!(feed["partitions"][0]["lag"]["changes"], 3, "{status}");
        works.shop.run("status").expect(0, &["feed works  queue", "nobody"]);
        works.shop.run("run --once").expect(0, &[]);
        works.shop.run("status --json").expect(0, &[r#""lag":{"changes":0,"seconds":0.0}"#]);
    }
}

#[test]
fn a_queue_that_nobody_made_is_not_made_by_looking() {
    let works = Works::open(None);
    works.shop.run("status --json").expect(0, &[r#"{"feeds":[],"hosts":[]}"#]);
    works.shop.run("parked list works --json").expect(0, &["[]"]);
    works.shop.run("parked retry works --all").expect(1, &["feed works has no queue yet"]);
}

#[test]
fn a_parked_object_is_shown_retried_and_discarded() {
    for works in Works::everywhere() {
        works.refuse_poison();
        works.push("work:1", &[r#"{"a":1}"#, r#"{"b":"poison"}"#, r#"{"c":3}"#]).expect(0, &[]);
        works.push("work:2", &["4"]).expect(0, &[]);
        works.shop.run("run --once").expect(0, &[]);
        let ran = works.shop.run("parked list --json").expect(0, &[]);
        let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed[0]["key"], serde_json::json!({"object": "work:1"}));
        assert_eq!((&listed[0]["waiting"], &listed[0]["attempts"]), (&2.into(), &2.into()));
        works.shop.run("parked list works").expect(0, &["bitter", "work:1"]);
        works.shop.run("parked show works --key \"work:1\"").expect(0, &["bitter", "2 events wait"]);
        works.shop.run("status").expect(0, &["parked", "bitter"]);
        works.shop.run("status --json").expect(0, &[r#""parked":1"#]);
        works.shop.run("parked retry works --all").expect(1, &["1 objects failed again: bitter"]);
        let key = r#"--key "work:1""#;
        works
            .shop
            .run(&format!("parked discard works {key} --reason spoilt"))
            .expect(0, &["change 2", "1 later changes go on"]);
        works.shop.run(&format!("parked show works {key}")).expect(0, &["discarded at", "spoilt"]);
        works.shop.run("run --once").expect(0, &[]);
        works.shop.run("parked list").expect(0, &["nothing is parked"]);
        works.shop.run("queue inspect works work:1 --json").expect(0, &[r#""last":3"#]);
        works.shop.run("queue invariants works").expect(0, &[]);
    }
}

#[test]
fn a_retry_without_a_worker_works_here() {
    for works in Works::everywhere() {
        works.refuse_poison();
        works.push("work:1", &[r#""poison""#, "2"]).expect(0, &[]);
        works.shop.run("run --once").expect(0, &[]);
        works.take_everything();
        works.shop.run("parked retry works --all").expect(0, &["1 objects are handled to the end"]);
        works.shop.run("queue inspect works").expect(0, &["nothing is waiting"]);
    }
}
