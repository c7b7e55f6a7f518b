//! Draining a journal on SQLite, checkpointed, with a handler that does nothing, against a bare prepared select of the same
//! rows that reads every column.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use seriatim::Host;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim_sqlite::{Source, SqliteStore};

use crate::{Nothing, Row, machine};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

/// How many changes there are to drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog(u64);

impl Default for Backlog {
    fn default() -> Self {
        Backlog(1_000_000)
    }
}

impl Backlog {
    /// Roughly so many changes: the table is written four times.
    pub fn of(changes: u64) -> Self {
        Backlog((changes / 4).max(1) * 4)
    }

    pub(crate) fn changes(self) -> u64 {
        self.0
    }

    pub(crate) fn tenth(self) -> Self {
        Backlog::of(self.0 / 10)
    }
}

/// Measures it.
pub(crate) async fn journal_drain(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir()?;
    progress(&format!("writing {} changes", backlog.0));
    let master = folder.path().join("master.db");
    prepare(&master, backlog).await?;
    let (mut limit, mut value, mut peak) = (0.0, 0.0, None);
    for round in 1..=ROUNDS {
        progress(&format!("{} changes, round {round} of {ROUNDS}", backlog.0));
        let copy = folder.path().join(format!("round-{round}.db"));
        std::fs::copy(&master, &copy)?;
        limit = f64::max(limit, bare_select(&copy, backlog)?);
        machine::forget_peak();
        value = f64::max(value, drain(&copy, backlog).await?);
        peak = machine::peak_mib();
    }
    let row = Row::new("journal-drain-sqlite", value.round(), "changes/s", limit.round(), 0.5);
    Ok(Row { peak_mib: peak, ..row })
}

/// How much more memory ten times the backlog takes.
pub(crate) fn growth(small: &Row, large: &Row) -> Row {
    let peak = |row: &Row| row.peak_mib.unwrap_or(f64::NAN);
    Row::new("growth-backlog-sqlite", peak(large).round(), "MiB", peak(small).round(), 1.5)
}

/// Makes a table, has a feed registered on it, and then changes the table so many times.
pub(crate) async fn prepare(path: &Path, backlog: Backlog) -> anyhow::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch(include_str!("../sql/orders.sql"))?;
    run(path, Start::Now).await?;
    // A quarter inserted, and all of them updated three times.
    connection.execute(include_str!("../sql/insert.sql"), [(backlog.0 / 4) as i64])?;
    for _ in 0..3 {
        connection.execute(include_str!("../sql/update.sql"), [])?;
    }
    connection.execute_batch(include_str!("../sql/flush.sql"))?;
    Ok(())
}

async fn run(path: &Path, start: Start) -> anyhow::Result<u64> {
    let settings = FeedSettings { start, ..FeedSettings::default() };
    run_by(path, Handling::AtLeastOnce(Arc::new(Nothing)), settings).await
}

async fn run_by(path: &Path, handling: Handling, settings: FeedSettings) -> anyhow::Result<u64> {
    let store = SqliteStore::open(path).await?;
    let feed = Arc::new(Source::new(path).journal("orders"));
    let host = Host::new("bench", Arc::new(store)).feed_with(feed, handling, settings);
    let stats = host.stats();
    host.run_once().await?;
    Ok(stats.iter().map(|(_, stats)| stats.handled()).sum())
}

async fn drain(path: &Path, backlog: Backlog) -> anyhow::Result<f64> {
    let settings = FeedSettings { start: Start::Now, ..FeedSettings::default() };
    drain_by(path, backlog, Handling::AtLeastOnce(Arc::new(Nothing)), settings).await
}

/// How many changes a second this handling drains.
pub(crate) async fn drain_by(
    path: &Path,
    backlog: Backlog,
    handling: Handling,
    settings: FeedSettings,
) -> anyhow::Result<f64> {
    let began = clock::now();
    let handled = run_by(path, handling, settings).await?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(handled == backlog.0, "{handled} changes were handled instead of {}", backlog.0);
    Ok(handled as f64 / seconds)
}

fn bare_select(path: &Path, backlog: Backlog) -> anyhow::Result<f64> {
    let connection = Connection::open(path)?;
    let journal: String = connection.query_row(include_str!("../sql/journal.sql"), [], |row| row.get(0))?;
    let mut statement =
        connection.prepare(&format!("select * from \"{journal}\" order by id")).context("the journal")?;
    let columns = statement.column_count();
    let began = clock::now();
    let (mut rows, mut count, mut bytes) = (statement.query([])?, 0, 0);
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            bytes += match row.get_ref(column)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
                ValueRef::Integer(_) | ValueRef::Real(_) => 8,
                ValueRef::Null => 0,
            };
        }
        count += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(count == backlog.0 && bytes > 0, "the journal has {count} rows instead of {}", backlog.0);
    Ok(count as f64 / seconds)
}
