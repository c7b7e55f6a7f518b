//! A fleet of hosts, each a process of the program: how soon it is balanced, what it asks of the server while nothing happens, how many
//! connections it keeps, how long a single insert into an idle table takes to its handler, and how soon a host that joins has its share.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use seriatim::clock;
use tokio::time::Instant;

use super::place::Place;
use crate::Row;

/// A fleet: so many hosts with so many feeds of so many partitions.
#[derive(Clone, Copy)]
pub(super) struct Fleet {
    pub name: &'static str,
    hosts: usize,
    feeds: usize,
    partitions: usize,
    /// In how many seconds all hosts should have their share.
    balance: f64,
}

/// All that are measured.
pub(super) const FLEETS: [Fleet; 4] = [
    Fleet { name: "fleet-postgres-3x1x16", hosts: 3, feeds: 1, partitions: 16, balance: 15.0 },
    Fleet { name: "fleet-postgres-3x10x16", hosts: 3, feeds: 10, partitions: 16, balance: 15.0 },
    Fleet { name: "fleet-postgres-3x100x16", hosts: 3, feeds: 100, partitions: 16, balance: 15.0 },
    Fleet { name: "fleet-postgres-20x10x100", hosts: 20, feeds: 10, partitions: 100, balance: 10.0 },
];

/// Transactions a second of an idle fleet, and connections of a host, at most.
const MOST: (f64, f64) = (150.0, 10.0);

/// In how many seconds a host that joins should have its share.
const JOIN: f64 = 5.0;

/// How many milliseconds half of the inserts, and all but one in a hundred, should take.
const AIM: (f64, f64) = (20.0, 100.0);

const INSERTS: usize = 200;

/// How often an insert is made. The feeds are idle in between.
const EVERY: Duration = Duration::from_millis(120);

/// How long an idle fleet is looked at: longer than the pause after which each reader looks by itself.
const IDLE: Duration = Duration::from_secs(40);

/// How long what came before has to settle. A server's connection that falls idle counts its last transactions up to ten seconds late.
const SETTLE: Duration = Duration::from_secs(15);

const TRANSACTIONS: &str = include_str!("../../sql/postgres/transactions.sql");
const CONNECTIONS: &str = include_str!("../../sql/postgres/connections.sql");
const BALANCE: &str = include_str!("../../sql/postgres/balance.sql");

/// When each order came to a handler.
type Arrivals = Arc<Mutex<HashMap<i64, Instant>>>;

/// The program's hosts. They end with this value.
struct Hosts {
    children: Vec<Child>,
    arrivals: Arrivals,
    folder: PathBuf,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that is gone already needs no more.
            drop(child.kill());
            drop(child.wait());
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Measures one fleet.
pub(super) async fn fleet(
    place: &Place,
    fleet: Fleet,
    program: &Path,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let Fleet { name, hosts, feeds, partitions, .. } = fleet;
    progress(&format!("{hosts} hosts with {feeds} feeds of {partitions} partitions"));
    let session = place.session().await?;
    for feed in 0..feeds {
        session.batch_execute(&format!("create table orders_{feed} (id bigint primary key)")).await?;
    }
    let began = clock::now();
    let mut running = start(place, fleet, program)?;
    let balanced = shared_out(place, fleet, began).await?;
    progress("the fleet is idle");
    let (idle, connections) = idle(place).await?;
    progress("single inserts");
    let (p50, p99) = inserts(place, feeds, &running.arrivals).await?;
    progress("one more host");
    let began = clock::now();
    running.add(place, fleet, program)?;
    let joined = shared_out(place, Fleet { hosts: hosts + 1, ..fleet }, began).await?;
    let row = |what: &str, value, unit, limit| Row::new(&format!("{name}-{what}"), value, unit, limit, 1.0);
    let latency = Row::new(&format!("{name}-latency"), p50, "ms", AIM.0, AIM.0);
    Ok(vec![
        row("balance", rounded(balanced.as_secs_f64()), "s", fleet.balance),
        row("join", rounded(joined.as_secs_f64()), "s", JOIN),
        row("idle", rounded(idle), "transactions/s", MOST.0),
        row("connections", connections, "for a host", MOST.1),
        Row { p50_ms: Some(p50), p99_ms: Some(p99), p99_aim_ms: Some(AIM.1), ..latency },
    ])
}

fn start(place: &Place, fleet: Fleet, program: &Path) -> anyhow::Result<Hosts> {
    let folder = std::env::temp_dir().join(format!("seriatim-fleet-{}-{}", std::process::id(), fleet.name));
    std::fs::create_dir_all(&folder)?;
    let mut hosts = Hosts { children: Vec::new(), arrivals: Arrivals::default(), folder };
    for _ in 0..fleet.hosts {
        hosts.add(place, fleet, program)?;
    }
    Ok(hosts)
}

impl Hosts {
    /// Starts one more.
    fn add(&mut self, place: &Place, fleet: Fleet, program: &Path) -> anyhow::Result<()> {
        let name = format!("host{}", self.children.len());
        let config = self.folder.join(format!("{name}.toml"));
        std::fs::write(&config, settings(&place.url_with(&format!("application_name={name}")), fleet)?)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).args(["run", "--host", &name]);
        let said = std::fs::File::create(self.folder.join(format!("{name}.log")))?;
        let mut child = command.stdout(Stdio::piped()).stderr(said).spawn().context("starting a host")?;
        let stdout = child.stdout.take().context("a host's output")?;
        self.children.push(child);
        let arrivals = Arc::clone(&self.arrivals);
        std::thread::spawn(move || note(stdout, &arrivals));
        Ok(())
    }
}

fn settings(url: &str, fleet: Fleet) -> anyhow::Result<String> {
    let mut text = format!("store = {url:?}\n[source.shop]\nurl = {url:?}\n");
    for feed in 0..fleet.feeds {
        writeln!(
            text,
            "[feed.orders_{feed}]\nsource = \"shop\"\ncapture = \"journal\"\ntable = \"orders_{feed}\"\n\
             partitions = {}\nstart = \"now\"\nhandler = {{ stdout = true }}",
            fleet.partitions
        )?;
    }
    Ok(text)
}

/// Notes when each order comes out of a host.
fn note(stdout: std::process::ChildStdout, arrivals: &Arrivals) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        let now = clock::now();
        let change: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        if let Some(id) = change.and_then(|change| change["key"]["id"].as_i64()) {
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert(now);
        }
    }
}

/// Returns how long it took until each host has its share.
async fn shared_out(place: &Place, fleet: Fleet, began: Instant) -> anyhow::Result<Duration> {
    let session = place.session().await?;
    let leases = (fleet.feeds * fleet.partitions) as i64;
    while began.elapsed() < Duration::from_secs(300) {
        // There are no tables before the first host has made them.
        if let Ok(row) = session.query_one(BALANCE, &[]).await {
            let (all, hosts, least, most): (i64, i64, i64, i64) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            if all == leases && hosts == fleet.hosts as i64 && most - least <= 1 {
                return Ok(began.elapsed());
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the fleet is not balanced after five minutes")
}

/// Transactions a second, and the most connections of a host.
async fn idle(place: &Place) -> anyhow::Result<(f64, f64)> {
    let session = place.session().await?;
    tokio::time::sleep(SETTLE).await;
    let count = async || anyhow::Ok(session.query_one(TRANSACTIONS, &[]).await?.get::<_, i64>(0));
    let (before, began) = (count().await?, clock::now());
    tokio::time::sleep(IDLE).await;
    let each_second = (count().await? - before) as f64 / began.elapsed().as_secs_f64();
    let connections: i64 = session.query_one(CONNECTIONS, &[]).await?.get(0);
    Ok((each_second, connections as f64))
}

/// Inserts one row at a time, into one table after the other, and returns how many milliseconds half of them and all but one in a hundred took.
async fn inserts(place: &Place, feeds: usize, arrivals: &Arrivals) -> anyhow::Result<(f64, f64)> {
    let session = place.session().await?;
    let mut sent = Vec::new();
    for order in 0..INSERTS {
        tokio::time::sleep(EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
        let sql = format!("insert into orders_{} values ({order})", order % feeds);
        sent.push(clock::now());
        session.batch_execute(&sql).await?;
    }
    let deadline = clock::now() + Duration::from_secs(30);
    let count = || arrivals.lock().unwrap_or_else(PoisonError::into_inner).len();
    while count() < INSERTS && clock::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(count() == INSERTS, "{} of {INSERTS} inserts came", count());
    let arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    let took = |(order, sent): (usize, &Instant)| {
        arrivals.get(&(order as i64)).map(|at| at.duration_since(*sent).as_secs_f64() * 1000.0)
    };
    let mut took: Vec<f64> = sent.iter().enumerate().filter_map(took).collect();
    took.sort_by(f64::total_cmp);
    Ok((rounded(took[INSERTS / 2]), rounded(took[INSERTS * 99 / 100])))
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
