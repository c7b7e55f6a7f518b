//! Protecting an effect that does nothing, nobody else asking, against the two bare writes that it needs.

#[cfg(feature = "dynamodb")]
pub(crate) mod dynamodb;
pub(crate) mod postgres;
pub(crate) mod redis;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use rusqlite::Connection;
use seriatim::clock;
use seriatim::once::{Ledger, Once, Outcome};
use seriatim_sqlite::SqliteLedger;

use crate::Row;

/// How many times each side is measured, in turns: whatever else the machine does hits all sides alike.
const ROUNDS: usize = 40;
/// How many signals in one round.
const SIGNALS: usize = 100;
/// How many signals a full ledger remembers.
const REMEMBERED: i64 = 1_000_000;

/// What the rounds of one side came to, in signals a second.
#[derive(Default)]
struct Rounds(Vec<f64>);

impl Rounds {
    fn add(&mut self, rate: f64) {
        self.0.push(rate);
    }

    /// The one in the middle, which neither a lucky nor an unlucky round moves.
    fn middle(mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(0.0)
    }
}

/// The rows of one store: protected against bare, and full against empty where that was measured.
fn rows(store: &str, limit: Rounds, value: Rounds, full: Rounds) -> Vec<Row> {
    let has_growth = !full.0.is_empty();
    let (limit, value, full) = (limit.middle(), value.middle(), full.middle());
    let name = format!("protect-{store}");
    let mut rows = vec![Row::new(&name, value.round(), "signals/s", limit.round(), 0.8)];
    if has_growth {
        let micros = |per_second: f64| (1e6 / per_second).round();
        rows.push(Row::new(&format!("growth-once-{store}"), micros(full), "µs", micros(value), 1.5));
    }
    rows
}

/// Measures it on an empty SQLite file, and how much slower it is with a million signals in it.
pub(crate) async fn on_sqlite(growth: bool, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    progress("preparing ledgers on SQLite");
    let empty = File::open(&folder.path().join("empty.db"), 0).await?;
    let full = match growth {
        true => Some(File::open(&folder.path().join("full.db"), REMEMBERED).await?),
        false => None,
    };
    let (mut limit, mut value, mut when_full) = (Rounds::default(), Rounds::default(), Rounds::default());
    for round in 0..ROUNDS {
        progress(&format!("protecting effects on SQLite, round {} of {ROUNDS}", round + 1));
        limit.add(bare_writes(&empty.connection, round)?);
        value.add(protect(empty.ledger.clone(), round).await?);
        if let Some(full) = &full {
            when_full.add(protect(full.ledger.clone(), round).await?);
        }
    }
    Ok(rows("sqlite", limit, value, when_full))
}

/// A ledger in a file, and a connection for bare writes to it.
struct File {
    ledger: Arc<SqliteLedger>,
    connection: Connection,
}

impl File {
    /// A file that remembers so many signals.
    async fn open(path: &Path, remembered: i64) -> anyhow::Result<Self> {
        let ledger = Arc::new(SqliteLedger::open(path).await?);
        let connection = Connection::open(path)?;
        // As durable as the ledger's own commits.
        connection.pragma_update(None, "synchronous", "full")?;
        if remembered > 0 {
            connection.execute(include_str!("../sql/once_fill.sql"), [remembered])?;
            connection.execute_batch(include_str!("../sql/flush.sql"))?;
        }
        Ok(File { ledger, connection })
    }
}

fn bare_writes(connection: &Connection, round: usize) -> anyhow::Result<f64> {
    let mut start = connection.prepare(include_str!("../sql/once_start.sql"))?;
    let mut complete = connection.prepare(include_str!("../sql/once_complete.sql"))?;
    let began = clock::now();
    for number in 0..SIGNALS {
        let id = format!("bare {round} {number}");
        start.execute((&id, seriatim::once::AttemptId::random().as_str()))?;
        complete.execute([&id])?;
    }
    Ok(SIGNALS as f64 / began.elapsed().as_secs_f64())
}

pub(crate) async fn protect(ledger: Arc<dyn Ledger>, round: usize) -> anyhow::Result<f64> {
    let once = Once::new(ledger, "bench");
    let began = clock::now();
    for number in 0..SIGNALS {
        let id = format!("signal {round} {number}");
        let done = once.protect(&id, async || Ok::<_, Infallible>("done".to_owned())).await?;
        ensure!(done == Outcome::Ran("done".to_owned()), "a new signal was taken for a duplicate");
    }
    Ok(SIGNALS as f64 / began.elapsed().as_secs_f64())
}
