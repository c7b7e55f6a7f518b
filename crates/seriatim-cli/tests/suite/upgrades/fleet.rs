//! Hosts of this version that start in the same moment on what a version of before has left.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seriatim::clock;

use super::restored::Restored;
use super::{COUNTS, assert_counts};

const BOUND: Duration = Duration::from_secs(120);

/// A host, killed at the end of the test if it is still there.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Three hosts bring everything up to date and handle what waits, once.
pub fn goes_on(restored: &Restored) {
    // No lease may be lost to a busy machine: what was handled would come again.
    restored.reconfigure("expire = \"1500ms\"", "expire = \"5s\"");
    let names = ["one", "two", "three"];
    let log = |name: &str| restored.path(&format!("{name}.log"));
    let start = |name: &str| {
        let mut host =
            restored.program(&format!("run --host {name} totals chained plain states recent mails works"));
        let log = File::create(log(name)).unwrap();
        Host(host.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    };
    let mut hosts = names.map(start);
    let logs = || names.map(|name| fs::read_to_string(log(name)).unwrap()).concat();
    let began = clock::now();
    let is_done = || COUNTS.iter().all(|(feed, counts)| restored.handled(feed).len() >= counts[1]);
    while !is_done() || restored.numbers("select cast(0 as bigint), count(*) from handled") != [(0, 10)] {
        let alive = hosts.iter_mut().all(|host| host.0.try_wait().unwrap().is_none());
        assert!(alive && began.elapsed() < BOUND, "{}", logs());
        std::thread::sleep(Duration::from_millis(20));
    }
    for host in &mut hosts {
        kill_process(Pid::from_child(&host.0), Signal::TERM).unwrap();
        assert!(host.0.wait().unwrap().success(), "{}", logs());
    }
    assert_counts(restored, 1);
    assert!(!logs().contains("ERROR"), "{}", logs());
}
