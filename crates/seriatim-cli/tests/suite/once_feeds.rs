//! `once = true` on feeds: hosts killed with -9 between effect and checkpoint, on every store.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use seriatim_testkit::servers::{Postgres, Redis};

use crate::handling::{Running, eventually, lines, parked, program, run_once, shop_with};
use crate::server::{Answer, Server, answer};
use crate::shop::{PROGRAM, Shop};

/// A handler in Python that notes each change it has handled. When it gets the tenth for the first time, it kills its host: with `once`
/// when the ledger has the nine before it, all in one batch of which nothing is checkpointed.
const HANDLER: &str = r#"
import json, os, signal, subprocess, sys
def completed():
    listed = subprocess.run([sys.argv[1], "once", "list", "--processor", "feed:totals", "--state", "completed", "--json"],
                            stdout=subprocess.PIPE, check=True).stdout
    return len(json.loads(listed))
for place, line in enumerate(sys.stdin):
    change = json.loads(line)
    if change["key"]["id"] == 10 and not os.path.exists("killed"):
        while sys.argv[2] == "once" and completed() < 9: pass
        open("killed", "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit()
    with open("handled", "a") as out: out.write(f"{change['key']['id']}\n")
    print('{"ok":true}', flush=True)
"#;

/// A shop with ten orders in one partition, of which nothing is checkpointed before the end, and leases that are soon taken over.
fn ten_orders(store: &str, handler: &str, once: &str) -> Shop {
    let shop = shop_with(handler);
    shop.reconfigure("partitions = 2", &format!("partitions = 1\ncheckpoint = \"1000 changes\"\n{once}"));
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{store}\""));
    let quick = "[lease]\nacquire = \"100ms\"\nrenew = \"300ms\"\nexpire = \"1500ms\"\n[source.shop]";
    shop.reconfigure("[source.shop]", quick);
    shop.sql("insert into orders (amount) values (4), (5), (6), (7), (8), (9), (10)");
    shop
}

/// What a command has handled after its host was killed between effect and checkpoint, and another one went on.
fn handled_in_spite_of_a_kill(store: &str, once: bool) -> Vec<String> {
    let word = if once { "once" } else { "twice" };
    let command = format!("command = [\"python3\", \"handle.py\", {PROGRAM:?}, {word:?}]");
    let shop = ten_orders(store, &command, if once { "once = true" } else { "" });
    fs::write(shop.path("handle.py"), HANDLER).unwrap();
    let mut killed = program(&shop, "run --host a").spawn().unwrap();
    eventually(
        "the host is killed",
        || killed.try_wait().unwrap().is_some(),
        || format!("{:?}", lines(&shop, "handled")),
    );
    run_once(&shop)
        .expect(0, &[if once { "once: a change that was handled is not" } else { "at-least-once" }]);
    assert_eq!(parked(&shop), 0);
    lines(&shop, "handled")
}

fn each_once() -> Vec<String> {
    (1..11).map(|id| id.to_string()).collect()
}

#[track_caller]
fn assert_a_command_sees_each_change_once(store: &str) {
    assert_eq!(handled_in_spite_of_a_kill(store, true), each_once());
}

#[test]
fn without_once_a_command_sees_changes_twice_after_a_kill() {
    let handled = handled_in_spite_of_a_kill("sqlite:state.db", false);
    assert_eq!(handled.len(), 19, "nine of them twice: {handled:?}");
}

#[test]
fn a_command_sees_each_change_once_with_the_store_in_sqlite() {
    assert_a_command_sees_each_change_once("sqlite:state.db");
}

#[test]
fn a_command_sees_each_change_once_with_the_store_in_postgres() {
    let server = Postgres::shared();
    assert_a_command_sees_each_change_once(&server.url_of(&server.database().unwrap()));
}

#[test]
fn a_command_sees_each_change_once_with_the_store_in_redis() {
    let server = Redis::start().unwrap();
    assert_a_command_sees_each_change_once(&server.url());
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_command_sees_each_change_once_with_the_store_in_dynamodb() {
    let (url, _server) = crate::dynamodb::table();
    assert_a_command_sees_each_change_once(&url);
}

/// How often a webhook got the order 2, which it accepted, while nothing of the request for order 1 before it was answered; the host
/// was killed when order 3 came.
fn posts_of_the_second(store: &str, once: &str) -> usize {
    let victim = Arc::new(AtomicI32::new(0));
    let killer = Arc::clone(&victim);
    let server = Server::start_with(move |_, request| {
        let brings = |id: u32| request.body.contains(&format!("\"key\":{{\"id\":{id}}}"));
        match killer.load(Ordering::SeqCst) {
            0 => answer(200),
            _ if brings(1) => Answer::Never,
            pid if brings(3) => {
                killer.store(0, Ordering::SeqCst);
                _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
                Answer::Never
            }
            _ => answer(200),
        }
    });
    let webhook = format!("webhook = \"{}/in\"\nbatch = 1\nconcurrency = 2", server.address());
    let shop = ten_orders(store, &webhook, once);
    let mut child = program(&shop, "watch").spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let mut child = program(&shop, "run --host a").spawn().unwrap();
    victim.store(child.id() as i32, Ordering::SeqCst);
    eventually(
        "the host is killed",
        || child.try_wait().unwrap().is_some(),
        || format!("{:?}", server.requests()),
    );
    run_once(&shop).expect(0, &[]);
    assert_eq!(parked(&shop), 0);
    let accepted = server.accepted();
    let of = |id: u32| {
        accepted.iter().filter(|request| request.body.contains(&format!("\"key\":{{\"id\":{id}}}"))).count()
    };
    assert!((1..11).all(|id| of(id) > 0), "nothing is lost");
    of(2)
}

#[track_caller]
fn assert_a_webhook_sees_it_once(store: &str) {
    assert_eq!(posts_of_the_second(store, "once = true"), 1);
}

#[test]
fn without_once_a_webhook_sees_a_change_again_that_it_accepted_before_the_kill() {
    assert_eq!(posts_of_the_second("sqlite:state.db", ""), 2);
}

#[test]
fn a_webhook_sees_a_change_once_that_it_accepted_before_the_kill_with_the_store_in_sqlite() {
    assert_a_webhook_sees_it_once("sqlite:state.db");
}

#[test]
fn a_webhook_sees_a_change_once_that_it_accepted_before_the_kill_with_the_store_in_postgres() {
    let server = Postgres::shared();
    assert_a_webhook_sees_it_once(&server.url_of(&server.database().unwrap()));
}

#[test]
fn a_webhook_sees_a_change_once_that_it_accepted_before_the_kill_with_the_store_in_redis() {
    let server = Redis::start().unwrap();
    assert_a_webhook_sees_it_once(&server.url());
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_webhook_sees_a_change_once_that_it_accepted_before_the_kill_with_the_store_in_dynamodb() {
    let (url, _server) = crate::dynamodb::table();
    assert_a_webhook_sees_it_once(&url);
}

#[test]
fn a_rewound_feed_runs_what_it_handled_only_when_asked_to() {
    let server = Server::start(|_| answer(200));
    let webhook = format!("webhook = \"{}/in\"\nbatch = 1", server.address());
    let shop = ten_orders("sqlite:shop.db", &webhook, "once = true");
    // What is in a log stays there; a journal may be pruned by now.
    shop.reconfigure("capture = \"journal\"", "capture = \"log\"");
    let posts = || {
        run_once(&shop).expect(0, &[]);
        server.requests().len()
    };
    assert_eq!(posts(), 10);
    let place = || {
        let status: serde_json::Value = serde_json::from_str(&shop.run("status --json").stdout).unwrap();
        status["feeds"][0]["partitions"][0]["position"].as_str().unwrap().to_owned()
    };
    let earlier = place();
    shop.sql("update orders set amount = 11 where id < 4");
    assert_eq!(posts(), 13);
    let place = place();
    shop.sql("update orders set amount = 12 where id = 9");
    assert_eq!(posts(), 14);
    shop.run(&format!("rewind totals --to {place}")).expect(0, &["do not run again; with --again they do"]);
    assert_eq!(posts(), 14, "all of them are remembered");
    let again = shop.run(&format!("rewind totals --to {place} --again"));
    again.expect(0, &["1 handled changes are forgotten and run again"]);
    assert_eq!(posts(), 15);
    shop.run(&format!("rewind totals --to {earlier}")).expect(0, &["do not run again; with --again they do"]);
    assert_eq!(posts(), 15, "those before the place are remembered still");
    shop.run("rewind totals --to beginning").expect(0, &["handled changes are forgotten and run again"]);
    assert_eq!(posts(), 25, "the beginning is the beginning");
}

#[test]
fn a_source_that_was_replaced_counts_from_one_again_and_nothing_is_taken_for_handled() {
    let server = Server::start(|_| answer(200));
    let shop = ten_orders(
        "sqlite:state.db",
        &format!("webhook = \"{}/in\"\nbatch = 1", server.address()),
        "once = true",
    );
    run_once(&shop).expect(0, &[]);
    for file in ["shop.db", "shop.db-wal", "shop.db-shm"] {
        drop(fs::remove_file(shop.path(file)));
    }
    shop.sql("create table orders (id integer primary key, amount integer); insert into orders (amount) values (10), (20)");
    shop.run("rewind totals --to beginning").expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(server.requests().len(), 12, "the same numbers, other changes");
}

#[test]
fn a_change_that_nobody_answered_for_can_wait_for_a_person() {
    let server =
        Server::start_with(|n, request| match request.body.contains(r#""key":{"id":2}"#) && n < 10 {
            true => Answer::Never,
            false => answer(200),
        });
    let webhook = format!("webhook = \"{}/in\"\nbatch = 1\ntimeout = \"1s\"", server.address());
    let shop = ten_orders("sqlite:state.db", &webhook, "once = true\nonce_on_timeout = \"unknown\"");
    run_once(&shop).expect(1, &["may have taken effect", "once resolve"]);
    assert_eq!(parked(&shop), 1);
    let listed = shop.run("once list --processor feed:totals --state unknown --json").expect(0, &[]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    // Somebody found out that it did happen.
    shop.run(&format!("once resolve --processor feed:totals --id {id} --completed")).expect(0, &[]);
    shop.run("parked retry totals --all").expect(0, &[]);
    assert_eq!(parked(&shop), 0);
    assert_eq!(server.requests().len(), 10, "each was posted once");
}

#[test]
fn an_event_of_a_queue_is_handled_once() {
    let shop = Shop::empty();
    let server = Server::start(|_| answer(200));
    shop.configure(&format!(
        "store = \"sqlite:state.db\"\n[source.q]\nurl = \"sqlite:q.db\"\n[feed.works]\nsource = \"q\"\ncapture = \"queue\"\nonce = true\n\
         [feed.works.handler]\nwebhook = \"{}/in\"\nbatch = 1\n",
        server.address()
    ));
    shop.run("queue push works work:1 {\"n\":1}").expect(0, &[]);
    let host = Running::start(&shop, "run --once");
    host.says("once: a change that was handled is not");
    drop(host.stop());
    shop.run("run --once").expect(0, &[]);
    assert_eq!(server.requests().len(), 1);
    shop.run("once list --processor feed:works --state completed --json").expect(0, &["feed:works"]);
}

#[test]
fn once_is_for_handlers_that_cannot_share_the_checkpoints_transaction() {
    let shop = shop_with("stdout = true");
    shop.reconfigure("partitions = 2", "once = true");
    shop.run("check").expect(2, &["feed.totals.once is for handlers with command or webhook"]);
    shop.reconfigure("once = true", "once_on_timeout = \"unknown\"");
    shop.run("check").expect(2, &["feed.totals.once_on_timeout means nothing without once = true"]);
}
