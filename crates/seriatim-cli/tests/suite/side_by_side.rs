//! Feeds and queues of one host: when some of them end, the end is told at once, and the host does what it should.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seriatim_testkit::servers::Redis;

use crate::shop::{PROGRAM, Shop, finish};

const QUEUE: &str = r#"
[feed.works]
source = "shop"
capture = "queue"
every = "50ms"
[feed.works.handler]
command = ["/bin/sh", "-c", 'while read l; do case "$l" in *poison*) echo "{\"error\":\"bitter\"}";; *) echo "{\"ok\":true}";; esac; done']
[feed.works.retry]
attempts = 1
then = "stop"
[lease]
acquire = "100ms"
renew = "300ms"
expire = "1500ms"
"#;

/// A shop whose orders have a journal, handled to the standard output, and whose works have a queue.
fn shop() -> Shop {
    let shop = Shop::open();
    shop.configure(&(crate::shop::config("journal", "orders") + QUEUE));
    shop
}

fn push(shop: &Shop, event: &str) {
    finish(shop.command_of(PROGRAM.as_ref(), "queue push works work:1").arg(event)).expect(0, &[]);
}

/// A host whose output is read as it comes; killed when the test ends.
struct Running {
    process: Child,
    logs: Arc<Mutex<String>>,
    changes: Arc<Mutex<String>>,
}

impl Running {
    fn start(shop: &Shop, line: &str) -> Self {
        let mut process = shop.start(line);
        let (logs, changes) = (Arc::default(), Arc::default());
        keep(process.stderr.take().unwrap(), &logs);
        keep(process.stdout.take().unwrap(), &changes);
        Running { process, logs, changes }
    }

    fn says(&self, words: &str) -> bool {
        self.logs.lock().unwrap().contains(words)
    }

    fn has_handled(&self, words: &str) -> bool {
        self.changes.lock().unwrap().contains(words)
    }

    #[track_caller]
    fn until(&mut self, what: &str, condition: impl Fn(&Running, Option<ExitStatus>) -> bool) {
        let began = seriatim::clock::now();
        loop {
            let ended = self.process.try_wait().unwrap();
            if condition(self, ended) {
                return;
            }
            let log = self.logs.lock().unwrap().clone();
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "not in time: {what}; ended: {ended:?}\n{log}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end and returns its code.
    #[track_caller]
    fn end(&mut self) -> i32 {
        self.until("its end", |_, ended| ended.is_some());
        self.process.wait().unwrap().code().expect("it was not killed")
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn keep(from: impl std::io::Read + Send + 'static, to: &Arc<Mutex<String>>) {
    let to = Arc::clone(to);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            to.lock().unwrap().push_str(&(line + "\n"));
        }
    });
}

#[test]
fn a_feed_that_is_refused_at_the_start_ends_the_host_although_a_queue_runs() {
    let shop = shop();
    shop.run("run --once").expect(0, &[]);
    shop.reconfigure("table = \"orders\"", "table = \"nowhere\"");
    let mut running = Running::start(&shop, "run");
    assert_eq!(running.end(), 1);
    running.until("it says so", |running, _| running.says("nowhere"));
}

#[test]
fn a_queue_that_stops_says_so_and_the_feeds_go_on() {
    let shop = shop();
    let mut running = Running::start(&shop, "run");
    push(&shop, r#""poison""#);
    running.until("it says so", |running, _| {
        running.says("feed stopped") && running.says("event 1 of work:1 failed 1 times: bitter")
    });
    shop.sql("update orders set amount = 11 where id = 1");
    running.until("the feed goes on", |running, _| running.has_handled(r#""after":{"id":1,"amount":11}"#));
    running.terminate();
    assert_eq!(running.end(), 0, "one of two feeds has stopped");
}

#[test]
fn feeds_that_stop_leave_the_queue_to_go_on_and_the_last_one_ends_the_host() {
    let shop = shop();
    shop.reconfigure("stdout = true", "command = [\"/bin/sh\", \"-c\", 'while read l; do echo \"{\\\"error\\\":\\\"no\\\"}\"; done']\n[feed.totals.retry]\nattempts = 1\nthen = \"stop\"\n");
    let mut running = Running::start(&shop, "run");
    running.until("the feed has stopped", |running, _| running.says("feed stopped"));
    push(&shop, "1");
    running.until("the queue goes on", |_, ended| {
        assert_eq!(ended, None);
        shop.run("queue inspect works work:1 --json").stdout.contains(r#""last":1"#)
    });
    push(&shop, r#""poison""#);
    assert_eq!(running.end(), 1, "every feed has stopped");
    assert!(running.says("event 2 of work:1 failed 1 times: bitter"));
}

#[test]
fn once_does_the_rest_and_fails_when_a_queue_stops() {
    let shop = shop();
    push(&shop, r#""poison""#);
    let ran = shop.run("run --once").expect(1, &["event 1 of work:1 failed 1 times: bitter"]);
    assert_eq!(ran.stdout.lines().count(), 3, "the feed's changes are handled");
}

#[test]
fn a_worker_whose_name_is_taken_ends_the_host_although_feeds_run() {
    let shop = shop();
    let mut first = Running::start(&shop, "run works --host anna");
    first.until("it works", |_, _| shop.run("status --json").stdout.contains("anna"));
    let mut second = Running::start(&shop, "run --host anna");
    assert_eq!(second.end(), 1);
    assert!(second.says("feed works: a worker named anna is already working"));
}

#[test]
fn a_store_that_was_replaced_stops_its_feeds_and_says_so_although_a_queue_runs() {
    let shop = shop();
    shop.reconfigure("store = \"sqlite:shop.db\"", "store = \"sqlite:store.db\"");
    let mut running = Running::start(&shop, "run");
    running.until("it works", |running, _| running.has_handled(r#""after":{"id":3"#));
    std::fs::rename(shop.path("store.db"), shop.path("old.db")).unwrap();
    running.until("it says so", |running, _| running.says("removed or replaced while it was in use"));
    push(&shop, r#""poison""#);
    assert_eq!(running.end(), 1);
}

#[test]
fn a_queue_whose_file_was_replaced_stops_and_says_so() {
    let shop = shop();
    let mut running = Running::start(&shop, "run works --host anna");
    running.until("it works", |_, _| shop.run("status --json").stdout.contains("anna"));
    std::fs::rename(shop.path("shop.db"), shop.path("old.db")).unwrap();
    assert_eq!(running.end(), 1);
    assert!(running.says("removed or replaced while it was in use"));
}

#[test]
fn a_store_that_was_emptied_does_not_leave_its_feeds_silent() {
    let redis = Redis::start().unwrap();
    let shop = shop();
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{}\"", redis.url()));
    let mut running = Running::start(&shop, "run");
    running.until("it works", |running, _| running.has_handled(r#""after":{"id":3"#));
    let port = redis.port().to_string();
    assert!(Command::new("redis-cli").args(["-p", &port, "flushall"]).output().unwrap().status.success());
    running.until("it is back in the store, or it ends and says why", |running, ended| {
        shop.run("lease list --json").stdout.contains(r#""owner":""#)
            || running.says("feed stopped")
            || ended.is_some_and(|ended| ended.code() == Some(1) && running.says("error: "))
    });
}
