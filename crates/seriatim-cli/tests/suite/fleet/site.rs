//! A database to watch, a store beside it, and hosts that are started, told to stop, stopped and killed.

use std::collections::{BTreeMap, HashMap};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use seriatim_testkit::servers::Postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::shop::Shop;

/// Leases that are soon lost by a host that is stopped or cut off; sometimes by one that just waits for the processor too.
pub const SHORT: &str = "[lease]\nacquire = \"100ms\"\nrenew = \"300ms\"\nexpire = \"1500ms\"\n";

/// Leases that nobody loses by accident.
pub const USUAL: &str = "";

/// How many orders there are, and so how many objects.
const ORDERS: u64 = 60;

/// Where things are.
pub struct Site {
    pub shop: Shop,
    pub url: String,
    server: Option<(Runtime, Client)>,
}

impl Site {
    pub fn sqlite(handler: &str, leases: &str) -> Self {
        Site::open("sqlite:shop.db".to_owned(), None, handler, leases)
    }

    pub fn postgres(handler: &str, leases: &str) -> Self {
        let server = Postgres::shared();
        let url = server.url_of(&server.database().unwrap());
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(connect(&url));
        Site::open(url, Some((runtime, client)), handler, leases)
    }

    fn open(url: String, server: Option<(Runtime, Client)>, handler: &str, leases: &str) -> Self {
        let site = Site { shop: Shop::empty(), url, server };
        let url = &site.url;
        site.shop.configure(&format!(
            "store = \"{url}\"\n[source.shop]\nurl = \"{url}\"\n[feed.totals]\nsource = \"shop\"\ncapture = \"journal\"\n\
             table = \"orders\"\npartitions = 12\nstart = \"now\"\n{leases}[feed.totals.handler]\n{handler}\n"
        ));
        if site.server.is_none() {
            site.sql("pragma journal_mode = wal");
        }
        site.sql("create table orders (id integer primary key, amount integer)");
        site.sql("create table handled (change bigint, waited text)");
        for id in 0..ORDERS {
            site.sql(&format!("insert into orders values ({id}, 0)"));
        }
        site.shop.run("watch").expect(0, &[]);
        site
    }

    pub fn sql(&self, sql: &str) {
        match &self.server {
            Some((runtime, client)) => runtime.block_on(client.batch_execute(sql)).unwrap(),
            None => {
                let connection = self.shop.connect();
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
        }
    }

    pub fn number(&self, sql: &str) -> i64 {
        match &self.server {
            Some((runtime, client)) => runtime.block_on(client.query_one(sql, &[])).unwrap().get(0),
            None => self.shop.connect().query_row(sql, [], |row| row.get(0)).unwrap(),
        }
    }

    /// A host whose output and logs go to files of its own.
    pub fn host(&self, name: &str) -> Host {
        self.host_at(name, &self.url)
    }

    /// A host that reaches source and store at this address.
    pub fn host_at(&self, name: &str, url: &str) -> Host {
        let file = |kind: &str| {
            let path = self.shop.path(&format!("{name}.{kind}"));
            Stdio::from(std::fs::File::options().create(true).append(true).open(path).unwrap())
        };
        let mut command = self.shop.command(&format!("run --host {name} --log-format json"));
        command.env("SERIATIM_LOG", "warn,seriatim=debug");
        command.env("SERIATIM_STORE", url).env("SERIATIM_SOURCE_SHOP_URL", url);
        let process = command.stdout(file("out")).stderr(file("log")).spawn().unwrap();
        Host { process }
    }

    /// How many leases each host has; those that nobody has are under "nobody".
    pub fn owners(&self) -> BTreeMap<String, usize> {
        let list = self.shop.run("lease list --json").expect(0, &[]).stdout;
        let leases: Vec<Value> = serde_json::from_str(&list).unwrap();
        let mut owners = BTreeMap::new();
        for lease in leases {
            *owners.entry(lease["owner"].as_str().unwrap_or("nobody").to_owned()).or_default() += 1;
        }
        owners
    }

    /// Waits until the leases are shared like this, and says how long that took.
    #[track_caller]
    pub fn until_shared(&self, expected: &[(&str, usize)]) -> Duration {
        let began = seriatim::clock::now();
        let expected = expected.iter().map(|(host, count)| ((*host).to_owned(), *count)).collect();
        loop {
            let owners = self.owners();
            if owners == expected {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{owners:?} and not {expected:?}");
        }
    }

    /// How often each change was handled, by what the hosts printed.
    pub fn handled(&self, hosts: &[&str]) -> HashMap<u64, usize> {
        let mut handled = HashMap::new();
        for host in hosts {
            let printed = std::fs::read_to_string(self.shop.path(&format!("{host}.out"))).unwrap();
            // A host that was killed may have left half a line.
            let changes = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            for change in changes {
                *handled.entry(change["id"].as_u64().unwrap()).or_default() += 1;
            }
        }
        handled
    }

    #[track_caller]
    pub fn assert_nothing_twice(&self, hosts: &[&str]) {
        let twice = self.handled(hosts).into_iter().filter(|(_, times)| *times > 1).count();
        assert_eq!(twice, 0, "changes were handled twice");
    }

    /// What a host logged, as (when, what, which lease).
    pub fn log(&self, host: &str) -> Vec<(Timestamp, String, String)> {
        let log = std::fs::read_to_string(self.shop.path(&format!("{host}.log"))).unwrap();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |line: Value| {
            let at = text(&line["timestamp"]).parse().ok()?;
            // Many of one kind in one moment are written as one line with their number.
            let times = line["repeated"].as_u64().unwrap_or(1) as usize;
            Some(std::iter::repeat_n((at, text(&line["message"]), text(&line["lease"])), times))
        };
        lines.filter_map(event).flatten().collect()
    }

    /// For each lease that a host asked for and got: how long that took.
    pub fn hand_overs(&self, host: &str) -> Vec<Duration> {
        let mut asked = HashMap::new();
        let mut took = Vec::new();
        for (at, what, lease) in self.log(host) {
            if what == "asked for" {
                asked.insert(lease, at);
            } else if what == "acquired"
                && let Some(began) = asked.remove(&lease)
            {
                took.push(at.duration_since(began).unsigned_abs());
            }
        }
        took.sort();
        took
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A host; killed when the test ends.
pub struct Host {
    process: Child,
}

impl Host {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Tells it to stop, and waits for its end, which is a good one.
    #[track_caller]
    pub fn stop(mut self) -> Duration {
        let began = seriatim::clock::now();
        self.signal(Signal::TERM);
        let mut ended = None;
        until("the process ends", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success());
        began.elapsed()
    }

    /// Ends it with -9.
    pub fn kill(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Changes one order after another until told to stop.
pub struct Writer {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Writer {
    pub fn start(site: &Site) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&committed));
        let beside = Site {
            shop: Shop::empty(),
            url: site.url.clone(),
            server: site.server.as_ref().map(|_| {
                let runtime = Runtime::new().unwrap();
                let client = runtime.block_on(connect(&site.url));
                (runtime, client)
            }),
        };
        let file = site.shop.path("shop.db");
        let thread = std::thread::spawn(move || {
            let connection = beside.server.is_none().then(|| rusqlite::Connection::open(file).unwrap());
            if let Some(connection) = &connection {
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
            }
            while !stopped.load(Ordering::Acquire) {
                let order = counted.load(Ordering::Acquire) % ORDERS;
                let sql = format!("update orders set amount = amount + 1 where id = {order}");
                match &connection {
                    Some(connection) => connection.execute_batch(&sql).unwrap(),
                    None => beside.sql(&sql),
                }
                counted.fetch_add(1, Ordering::AcqRel);
                // Lets the hosts at it: the point is that there is always something, not how much.
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Writer { stop, committed, thread }
    }

    /// Waits until so many more changes are committed: long enough for something to go wrong.
    pub fn goes_on_for(&self, changes: u64) {
        let before = self.committed.load(Ordering::Acquire);
        until("the writer writes", || self.committed.load(Ordering::Acquire) >= before + changes);
    }

    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
        self.committed.load(Ordering::Acquire)
    }
}

#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
