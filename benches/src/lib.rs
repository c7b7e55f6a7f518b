//! Seriatim's measurements. Each is a ratio to the limit of the machine, taken in the same run: on a slow or busy machine both
//! sides are slow, and the ratio still says something.
//!
//! `seriatim bench` shows them to users, `cargo bench -p seriatim-benches` to developers.

mod echo;
mod journal_drain;
mod machine;
mod poison;
mod postgres;
mod protect;
mod queue_growth;
mod queue_redis;
mod rounds;
mod window_drain;
mod window_postgres;

use serde::Serialize;
use seriatim::handler::Handler;
use seriatim::{Change, Context, Failure};

pub use journal_drain::Backlog;

/// A handler that does nothing.
struct Nothing;

#[async_trait::async_trait]
impl Handler for Nothing {
    async fn handle(&self, _: &[Change], _: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub value: f64,
    /// In which unit.
    pub unit: &'static str,
    /// The limit of the machine in the same run, in the same unit.
    pub limit: f64,
    /// How much of the limit was reached.
    pub ratio: f64,
    /// How much should be; for growth, fleets and commits, how much it may be at most; for latency, how many milliseconds half of the
    /// changes may take. 0 where nothing is aimed at.
    pub aim: f64,
    /// How many milliseconds half of the changes, or of the commits, took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// How many milliseconds all but one in a hundred took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// How many they should take at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_aim_ms: Option<f64>,
    /// The most memory that the process had while it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<f64>,
}

impl Row {
    fn new(name: &str, value: f64, unit: &'static str, limit: f64, aim: f64) -> Self {
        let ratio = value / limit;
        let (name, peak_mib) = (name.to_owned(), None);
        Row { name, value, unit, limit, ratio, aim, p50_ms: None, p99_ms: None, p99_aim_ms: None, peak_mib }
    }

    /// Whether the aim is reached.
    pub fn reaches_its_aim(&self) -> bool {
        match (self.p50_ms, self.p99_ms, self.p99_aim_ms) {
            (Some(p50), Some(p99), Some(most)) => p50 < self.aim && p99 < most,
            _ if self.aim == 0.0 => true,
            _ if ["growth-", "fleet-", "commit-latency-"].iter().any(|kind| self.name.starts_with(kind)) => {
                self.ratio <= self.aim
            }
            _ => self.ratio >= self.aim,
        }
    }
}

/// The names of all measurements, in the order in which they are taken.
pub const NAMES: &[&str] = &[
    "journal-drain-sqlite",
    "growth-backlog-sqlite",
    "window-drain-sqlite",
    "growth-window-sqlite",
    "window-drain-postgres",
    "growth-window-postgres",
    "poison-sqlite",
    "command-echo",
    "webhook-echo",
    "protect-sqlite",
    "growth-once-sqlite",
    "protect-postgres",
    "growth-once-postgres",
    "protect-redis",
    "growth-once-redis",
    #[cfg(feature = "dynamodb")]
    "protect-dynamodb",
    #[cfg(feature = "dynamodb")]
    "growth-once-dynamodb",
    "journal-drain-postgres",
    "sql-effect-postgres",
    "capture-log-postgres-1",
    "capture-journal-postgres-1",
    "capture-wal-postgres-1",
    "capture-pgq-postgres-1",
    "capture-log-postgres-1000",
    "capture-journal-postgres-1000",
    "capture-wal-postgres-1000",
    "capture-pgq-postgres-1000",
    "commit-latency-off",
    "commit-latency-journal",
    "commit-latency-wal",
    "wal-relay-postgres",
    "latency-journal-postgres",
    "latency-wal-postgres",
    "fleet-postgres-3x1x16",
    "fleet-postgres-3x10x16",
    "fleet-postgres-3x100x16",
    "fleet-postgres-20x10x100",
    "growth-churn-postgres",
    "queue-redis-1",
    "queue-redis-4",
    "queue-redis-8",
    "growth-queue-redis",
];

/// The measurements that are only taken when they are named: they need many processes.
pub const LARGE: &[&str] = &["fleet-postgres-3x100x16", "fleet-postgres-20x10x100"];

/// The names of those that are taken when none is named.
pub fn usual() -> Vec<&'static str> {
    NAMES.iter().copied().filter(|name| !LARGE.contains(name)).collect()
}

/// The servers to measure on; where none is given, a throw-away one is started.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The URL of a PostgreSQL server.
    pub postgres: Option<String>,
    /// The URL of a Redis server.
    pub redis: Option<String>,
}

/// Takes the measurements of these names. `progress` is told what is being done, and what is `left out …`.
pub async fn measure(
    names: &[&str],
    backlog: Backlog,
    servers: &Servers,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Both need the large backlog drained: done once.
    let small = names.contains(&"growth-backlog-sqlite");
    if names.contains(&"journal-drain-sqlite") || small {
        let small = match small {
            true => Some(journal_drain::journal_drain(backlog.tenth(), progress).await?),
            false => None,
        };
        let large = journal_drain::journal_drain(backlog, progress).await?;
        rows.extend(small.map(|small| journal_drain::growth(&small, &large)));
        rows.insert(0, large);
        rows.retain(|row| names.contains(&row.name.as_str()));
    }
    if names.contains(&"poison-sqlite") {
        rows.push(poison::poison(backlog.tenth(), progress).await?);
    }
    if names.contains(&"command-echo") {
        rows.extend(echo::command_echo(backlog, progress).await?);
    }
    if names.contains(&"webhook-echo") {
        rows.push(echo::webhook_echo(backlog, progress).await?);
    }
    if names.contains(&"window-drain-sqlite") {
        rows.push(window_drain::window_drain(backlog, progress).await?);
    }
    if names.contains(&"growth-window-sqlite") {
        rows.push(window_drain::growth(backlog, progress).await?);
    }
    if names.contains(&"window-drain-postgres") {
        rows.extend(window_postgres::window_drain(backlog, progress).await?);
    }
    if names.contains(&"growth-window-postgres") {
        rows.extend(window_postgres::growth(backlog, progress).await?);
    }
    let growth = names.contains(&"growth-once-sqlite");
    if names.contains(&"protect-sqlite") || growth {
        let measured = protect::on_sqlite(growth, progress).await?;
        rows.extend(measured.into_iter().filter(|row| names.contains(&row.name.as_str())));
    }
    let growth = names.contains(&"growth-once-postgres");
    if names.contains(&"protect-postgres") || growth {
        let measured = protect::postgres::on_postgres(growth, progress).await?;
        rows.extend(measured.into_iter().filter(|row| names.contains(&row.name.as_str())));
    }
    let growth = names.contains(&"growth-once-redis");
    if names.contains(&"protect-redis") || growth {
        let measured = protect::redis::on_redis(growth, progress).await?;
        rows.extend(measured.into_iter().filter(|row| names.contains(&row.name.as_str())));
    }
    #[cfg(feature = "dynamodb")]
    {
        let growth = names.contains(&"growth-once-dynamodb");
        if names.contains(&"protect-dynamodb") || growth {
            let measured = protect::dynamodb::on_dynamodb(growth, progress).await?;
            rows.extend(measured.into_iter().filter(|row| names.contains(&row.name.as_str())));
        }
    }
    rows.extend(postgres::measure(names, backlog, servers.postgres.as_deref(), progress).await?);
    let queues =
        [1, 4, 8].into_iter().filter(|workers| names.contains(&format!("queue-redis-{workers}").as_str()));
    let queues: Vec<usize> = queues.collect();
    let growth = names.contains(&"growth-queue-redis");
    if !queues.is_empty() || growth {
        match queue_redis::Server::find(servers.redis.as_deref()) {
            Err(error) => progress(&format!("left out queue-redis and growth-queue-redis: {error}")),
            Ok(server) => {
                for workers in queues {
                    rows.push(queue_redis::queue_redis(&server, workers, progress).await?);
                }
                if growth {
                    rows.push(queue_growth::growth(&server, progress).await?);
                }
            }
        }
    }
    Ok(rows)
}
