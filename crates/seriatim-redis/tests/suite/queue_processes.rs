//! Workers as real processes: killed with -9 at random, stopped beyond their lease and resumed.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seriatim::Failure;
use seriatim::host::LeaseSettings;
use seriatim::name::ObjectName;
use seriatim::order::{Admit, EventId, Link, admit};
use seriatim::source::queue::{Body, Event, Queue, WorkerSettings};
use seriatim_redis::{Prefix, Redis, RedisQueue};

use crate::support;

const URL: &str = "SERIATIM_TEST_REDIS";
const PREFIX: &str = "SERIATIM_TEST_PREFIX";
const NAME: &str = "SERIATIM_TEST_WORKER";
const FILE: &str = "SERIATIM_TEST_SENT";

/// Short, so that the dead are replaced often.
fn settings() -> WorkerSettings {
    let leases = LeaseSettings {
        acquire: Duration::from_millis(50),
        renew: Duration::from_millis(100),
        expire: Duration::from_millis(500),
    };
    WorkerSettings { leases, concurrency: 3, batch: 4, ..WorkerSettings::default() }
}

/// What the child process does: it sends events to a file until it is killed.
async fn work(url: String) {
    let variable = |name| std::env::var(name).unwrap();
    let redis = Redis::connect(&url).await.unwrap();
    let queue = RedisQueue::open(redis, Prefix::exactly(&variable(PREFIX))).unwrap();
    let file = OpenOptions::new().append(true).open(variable(FILE)).unwrap();
    let send = move |event: Event| {
        // One write, so that lines of several processes do not mix.
        let written = (&file).write_all(format!("{}\n", event.to_json()).as_bytes());
        async move { written.map_err(Failure::change) }
    };
    let worker = queue.worker(&variable(NAME)).settings(settings());
    worker.run_until(send, std::future::pending()).await.unwrap();
}

/// This test program again, as a worker.
fn worker(url: &str, prefix: &Prefix, name: &str, file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "queue_processes::the_child", "--nocapture"])
        .env(URL, url)
        .env(PREFIX, prefix.as_str())
        .env(NAME, name)
        .env(FILE, file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: &str) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

#[tokio::test]
async fn the_child() {
    if let Ok(url) = std::env::var(URL) {
        work(url).await;
    }
}

/// The events of each object as they came first; what came again was the same.
fn chains(file: &Path) -> HashMap<String, Vec<String>> {
    let mut seen: HashMap<(String, u64), String> = HashMap::new();
    let mut chains: HashMap<String, Vec<String>> = HashMap::new();
    let mut last: HashMap<String, EventId> = HashMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let object = event["object"].as_str().unwrap().to_owned();
        let id = event["id"].as_u64().unwrap();
        if let Some(before) = seen.insert((object.clone(), id), line.to_owned()) {
            assert_eq!(before, line, "sent again, but not the same");
            continue;
        }
        let link = Link::new(EventId(id), event["prev"].as_u64().map(EventId)).unwrap();
        let before = last.insert(object.clone(), EventId(id));
        assert_eq!(admit(before, link), Ok(Admit::Apply), "the chain is broken at {line}");
        chains.entry(object).or_default().push(event["event"].to_string());
    }
    chains
}

async fn chaos(url: String) {
    const OBJECTS: usize = 5;
    const EVENTS: usize = 1500;
    let folder = tempfile::tempdir().unwrap();
    let (file, prefix) = (folder.path().join("sent"), support::fresh_prefix());
    std::fs::write(&file, "").unwrap();
    let queue = RedisQueue::open(Redis::connect(&url).await.unwrap(), prefix.clone()).unwrap();
    let names = ["w0", "w1", "w2"];
    let mut workers: Vec<Child> = names.iter().map(|name| worker(&url, &prefix, name, &file)).collect();
    for number in 0..EVENTS {
        let object = ObjectName::new(&format!("work:{}", number % OBJECTS)).unwrap();
        queue.push(&object, &[Body::from(number.to_string().as_str())]).await.unwrap();
        if number % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let chosen = fastrand::usize(0..names.len());
        match number % 150 {
            50 => {
                workers[chosen].kill().unwrap();
                workers[chosen].wait().unwrap();
                workers[chosen] = worker(&url, &prefix, names[chosen], &file);
            }
            100 => {
                signal(&workers[chosen], "-STOP");
                tokio::time::sleep(settings().leases.expire * 2).await;
                signal(&workers[chosen], "-CONT");
            }
            _ => {}
        }
    }
    let all_sent = async {
        while !queue.objects().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(60), all_sent).await;
    let broken = queue.invariants().await.unwrap();
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    assert!(sent.is_ok(), "not all was sent");
    assert_eq!(broken, []);
    let chains = chains(&file);
    for object in 0..OBJECTS {
        let expected: Vec<String> =
            (object..EVENTS).step_by(OBJECTS).map(|number| number.to_string()).collect();
        assert_eq!(chains[&format!("work:{object}")], expected);
    }
}

#[tokio::test]
async fn every_chain_is_whole_whoever_is_killed_or_stopped() {
    let server = support::single();
    chaos(server.url()).await;
}

#[tokio::test]
async fn every_chain_is_whole_on_a_cluster_too() {
    let cluster = support::cluster();
    chaos(cluster.url()).await;
}
