//! Workers as real processes: killed with -9 at random, stopped beyond their lease and resumed.
//!
//! The test program starts itself again as a worker: a test that finds [`WORKER`] in its environment calls [`work`], which sends events
//! to a file until it is killed. [`chaos`] pushes events meanwhile, and reads from the file what came of them.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use seriatim::Failure;
use seriatim::host::LeaseSettings;
use seriatim::order::{Admit, EventId, Link, admit};
use seriatim::queue::{Body, Event, Queue, Worker, WorkerSettings};

use super::stage::object;

/// The environment variable with the worker's name.
pub const WORKER: &str = "SERIATIM_TEST_WORKER";
const FILE: &str = "SERIATIM_TEST_SENT";

const OBJECTS: usize = 5;
const EVENTS: usize = 1500;

/// Short, so that the dead are replaced often.
fn settings() -> WorkerSettings {
    let leases = LeaseSettings {
        acquire: Duration::from_millis(50),
        renew: Duration::from_millis(100),
        expire: Duration::from_millis(500),
    };
    WorkerSettings { leases, concurrency: 3, batch: 4, ..WorkerSettings::default() }
}

/// What a worker's process does: it sends events to a file until it is killed.
pub async fn work(queue: Arc<dyn Queue>) {
    let file = OpenOptions::new().append(true).open(std::env::var(FILE).unwrap()).unwrap();
    let send = move |event: Event| {
        // One write, so that lines of several processes do not mix.
        let written = (&file).write_all(format!("{}\n", event.to_json()).as_bytes());
        async move { written.map_err(Failure::change) }
    };
    let worker = Worker::new(&std::env::var(WORKER).unwrap(), queue).settings(settings());
    worker.run_until(send, std::future::pending()).await.unwrap();
}

/// This test program again, as a worker: it runs the test of this name, with what that needs in its environment.
#[derive(Clone, Debug)]
pub struct Again {
    /// The test that calls [`work`].
    pub test: &'static str,
    /// What it finds the queue by.
    pub environment: Vec<(&'static str, String)>,
}

impl Again {
    fn start(&self, name: &str, file: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture"])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(WORKER, name)
            .env(FILE, file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// Workers that are gone with this value, whatever the test comes to.
struct Fleet {
    workers: Vec<Child>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.kill());
            drop(worker.wait());
        }
    }
}

fn signal(child: &Child, signal: &str) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

/// Three workers send what is pushed; one after another is killed, or stopped for longer than its lease. In the end the consumer has every
/// object's chain, whole and in order; what came twice was the same, byte for byte; and all invariants hold.
pub async fn chaos(queue: Arc<dyn Queue>, again: Again) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sent");
    std::fs::write(&file, "").unwrap();
    let names = ["w0", "w1", "w2"];
    let mut fleet = Fleet { workers: names.iter().map(|name| again.start(name, &file)).collect() };
    for number in 0..EVENTS {
        let body = Body::from(number.to_string().as_str());
        queue.push(&object(&format!("work:{}", number % OBJECTS)), &[body]).await.unwrap();
        if number % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let chosen = fastrand::usize(0..names.len());
        let worker = &mut fleet.workers[chosen];
        match number % 150 {
            50 => {
                worker.kill().unwrap();
                worker.wait().unwrap();
                *worker = again.start(names[chosen], &file);
            }
            100 => {
                signal(worker, "-STOP");
                tokio::time::sleep(settings().leases.expire * 2).await;
                signal(worker, "-CONT");
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
    drop(fleet);
    assert!(sent.is_ok(), "not all was sent");
    assert_eq!(broken, []);
    let chains = chains(&file);
    for object in 0..OBJECTS {
        let expected: Vec<String> =
            (object..EVENTS).step_by(OBJECTS).map(|number| number.to_string()).collect();
        assert_eq!(chains[&format!("work:{object}")], expected);
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
