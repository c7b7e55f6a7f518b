//! A shop whose orders are handled outside of the program, and hosts that must end within a bound.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::shop::{Ran, Shop};

/// How long anything may take here.
const BOUND: Duration = Duration::from_secs(60);

/// A shop with three orders and this handler, whose retries are quick.
pub fn shop_with(handler: &str) -> Shop {
    let shop = Shop::empty();
    shop.configure(&format!(
        r#"store = "sqlite:shop.db"
[source.shop]
url = "sqlite:shop.db"
[feed.totals]
source = "shop"
capture = "journal"
table = "orders"
partitions = 2
[feed.totals.handler]
{handler}
[feed.totals.retry]
attempts = 3
backoff = "10ms..50ms"
"#
    ));
    shop.sql(
        "create table orders (id integer primary key, amount integer);
         insert into orders (amount) values (10), (20), (30);",
    );
    shop
}

/// The program in the shop's folder, able to find other programs.
pub fn program(shop: &Shop, line: &str) -> Command {
    let mut command = shop.command(line);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A host that runs, with its log in a file. Killed at the end of the test if it is still there.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub fn start(shop: &Shop, line: &str) -> Self {
        Running::start_logged(shop, line, "host.log")
    }

    /// One of several, with a log of its own.
    pub fn start_logged(shop: &Shop, line: &str, log: &str) -> Self {
        let log = shop.path(log);
        let file = fs::File::create(&log).unwrap();
        let child = program(shop, line).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Running { child, log }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How much memory it has, in MiB.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Waits until the log has these words so many times more than now.
    #[track_caller]
    pub fn says_again(&self, words: &str, times: usize) {
        let before = self.log().matches(words).count();
        eventually(words, || self.log().matches(words).count() >= before + times, || self.log());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log has these words.
    #[track_caller]
    pub fn says(&self, words: &str) {
        eventually(words, || self.log().contains(words), || self.log());
    }

    /// Tells it to stop, and waits for its end.
    #[track_caller]
    pub fn stop(mut self) -> Ran {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.end()
    }

    #[track_caller]
    fn end(&mut self) -> Ran {
        let mut code = None;
        eventually(
            "the program ends",
            || {
                code = self.child.try_wait().unwrap();
                code.is_some()
            },
            || fs::read_to_string(&self.log).unwrap(),
        );
        let code = code.unwrap().code().expect("it was not killed");
        Ran { code, stdout: String::new(), stderr: self.log() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Handles what is there, within the bound.
#[track_caller]
pub fn run_once(shop: &Shop) -> Ran {
    Running::start(shop, "run --once").end()
}

/// Waits for something that must become true.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let began = seriatim::clock::now();
    while !holds() {
        assert!(began.elapsed() < BOUND, "never came true: {what}; {}", otherwise());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of a file that a handler wrote, empty while there is none.
pub fn lines(shop: &Shop, file: &str) -> Vec<String> {
    let text = fs::read_to_string(shop.path(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// How many objects of the feed are parked, as `status` says.
#[track_caller]
pub fn parked(shop: &Shop) -> u64 {
    let status = shop.run("status --json").expect(0, &[]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["feeds"][0]["parked"].as_u64().unwrap()
}
