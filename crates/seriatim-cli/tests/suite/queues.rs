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
        works.shop.run("status").expect(0, &["works  queue", "nobody"]);
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
        works.shop.run("run --once").expect(1, &["feed works: 1 object is parked"]);
        let ran = works.shop.run("parked list --json").expect(0, &[]);
        let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed[0]["key"], serde_json::json!({"object": "work:1"}));
        assert_eq!((&listed[0]["waiting"], &listed[0]["attempts"]), (&2.into(), &2.into()));
        works.shop.run("parked list works").expect(0, &["bitter", "work:1"]);
        works.shop.run("parked show works --key \"work:1\"").expect(0, &["bitter", "2 events wait"]);
        works.shop.run("status").expect(0, &["parked", "bitter"]);
        works.shop.run("status --json").expect(0, &[r#""parked":1"#]);
        works.shop.run("parked retry works --all").expect(1, &["1 object failed again: bitter"]);
        let key = r#"--key "work:1""#;
        works
            .shop
            .run(&format!("parked discard works {key} --reason spoilt"))
            .expect(0, &["change 2", "1 later change goes on"]);
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
        works.shop.run("run --once").expect(1, &["feed works: 1 object is parked"]);
        works.take_everything();
        works.shop.run("parked retry works --all").expect(0, &["1 object is handled to the end"]);
        works.shop.run("queue inspect works").expect(0, &["nothing is waiting"]);
    }
}

fn redis(server: &Redis, command: &str) -> String {
    let mut client = Command::new("redis-cli");
    let said = client.args(["-u", &server.url()]).args(command.split(' ')).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn a_queue_with_bare_names_goes_on_where_workers_of_another_program_stopped() {
    let server = Redis::start().unwrap();
    let shop = Works::at(&format!("{}?prefix=shop", server.url()));
    shop.reconfigure("limit = 3", "limit = 3\nprefix = \"\"");
    for command in [
        "SET next.event.id 7",
        "SET work:1:event.worker 2",
        "LPUSH event.worker:2:object work:1",
        "LPUSH event.worker:2:event {\"n\":1}",
        "SET event.worker:2:event.id 7",
        "LPUSH work:1:events {\"n\":2}",
    ] {
        redis(&server, command);
    }
    shop.run("queue adopt works").expect(0, &["work:1: event 7 of worker 2 is sent next"]);
    shop.run("queue adopt works").expect(0, &["no worker of another program"]);
    shop.run("queue push works work:1 {\"n\":3}").expect(0, &[]);
    assert_eq!(redis(&server, "LLEN work:1:events").trim(), "2");
    let sent = shop.run("run --once").expect(0, &[]).stdout;
    let ids: Vec<(u64, u64)> = sent
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| (event["id"].as_u64().unwrap(), event["after"]["n"].as_u64().unwrap()))
        .collect();
    assert_eq!(ids, [(7, 1), (8, 2), (9, 3)]);
    shop.run("queue invariants works").expect(0, &[]);
    shop.run("once start --processor mailer --id 1").expect(0, &["run "]);
    assert_ne!(redis(&server, "KEYS {shop}:*").trim(), "", "the store has a prefix of its own");
    assert_eq!(redis(&server, "KEYS {seriatim}:*").trim(), "");
}

#[test]
fn two_queues_with_the_same_keys_are_refused() {
    let shop = Works::at("redis://127.0.0.1:1/");
    let second = "[feed.other]\nsource = \"shop\"\ncapture = \"queue\"\nprefix = \"{works}:\"\nhandler = { stdout = true }\n[feed.works.retry]";
    shop.reconfigure("[feed.works.retry]", second);
    shop.run("check").expect(2, &["has the same keys in Redis"]);
    let shop = Works::at("sqlite:shop.db");
    shop.reconfigure("limit = 3", "prefix = \"x\"");
    shop.run("check").expect(2, &["prefix is for queues in Redis"]);
}
