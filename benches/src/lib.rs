//! Seriatim's measurements. Each is a ratio to the limit of the machine, taken in the same run: on a slow or busy machine both
//! sides are slow, and the ratio still says something.
//!
//! `seriatim bench` shows them to users, `cargo bench -p seriatim-benches` to developers.

mod echo;
mod journal_drain;
mod machine;
mod poison;
mod protect;
mod queue_redis;
mod window_drain;

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
    /// How much should be; for growth, how much more it may be at most.
    pub aim: f64,
    /// The most memory that the process had while it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<f64>,
}

impl Row {
    fn new(name: &str, value: f64, unit: &'static str, limit: f64, aim: f64) -> Self {
        Row { name: name.to_owned(), value, unit, limit, ratio: value / limit, aim, peak_mib: None }
    }

    /// Whether the aim is reached.
    pub fn reaches_its_aim(&self) -> bool {
        if self.name.starts_with("growth-") { self.ratio <= self.aim } else { self.ratio >= self.aim }
    }
}

/// The names of all measurements, in the order in which they are taken.
pub const NAMES: &[&str] = &[
    "journal-drain-sqlite",
    "growth-backlog-sqlite",
    "window-drain-sqlite",
    "growth-window-sqlite",
    "poison-sqlite",
    "command-echo",
    "webhook-echo",
    "protect-sqlite",
    "growth-once-sqlite",
    #[cfg(feature = "dynamodb")]
    "protect-dynamodb",
    "queue-redis-1",
    "queue-redis-4",
    "queue-redis-8",
];

/// The servers to measure on; where none is given, a throw-away one is started.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The URL of a Redis server.
    pub redis: Option<String>,
}

/// Takes the measurements of these names. `progress` is told what is being done.
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
    let growth = names.contains(&"growth-once-sqlite");
    if names.contains(&"protect-sqlite") || growth {
        let measured = protect::on_sqlite(growth, progress).await?;
        rows.extend(measured.into_iter().filter(|row| names.contains(&row.name.as_str())));
    }
    #[cfg(feature = "dynamodb")]
    if names.contains(&"protect-dynamodb") {
        rows.extend(protect::dynamodb::on_dynamodb(progress).await?);
    }
    let queues =
        [1, 4, 8].into_iter().filter(|workers| names.contains(&format!("queue-redis-{workers}").as_str()));
    let queues: Vec<usize> = queues.collect();
    if !queues.is_empty() {
        match queue_redis::Server::find(servers.redis.as_deref()) {
            Err(error) => progress(&format!("left out queue-redis: {error}")),
            Ok(server) => {
                for workers in queues {
                    rows.push(queue_redis::queue_redis(&server, workers, progress).await?);
                }
            }
        }
    }
    Ok(rows)
}
