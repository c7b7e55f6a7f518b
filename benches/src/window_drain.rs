//! Draining a window on SQLite, checkpointed, with a handler that does nothing, against the bare paged select of the same rows;
//! and how that changes when the table grows behind the tracker.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use rusqlite::types::Value;
use rusqlite::{Connection, Statement};
use seriatim::Host;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::jiff::Timestamp;
use seriatim::source::Start;
use seriatim_sqlite::{Source, SqliteStore, Unit};

use crate::{Backlog, Nothing, Row};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

/// The same page as a window has unless told otherwise.
const PAGE: i64 = 1000;

/// What is drained, and what is there already.
#[derive(Clone, Copy)]
struct Sizes {
    behind: i64,
    drained: i64,
}

/// Measures draining a whole table.
pub(crate) async fn window_drain(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    let sizes = Sizes { behind: 0, drained: backlog.changes() as i64 };
    let (value, limit) = measure(sizes, progress).await?;
    Ok(Row::new("window-drain-sqlite", value.round(), "rows/s", limit.round(), 0.5))
}

/// How many times as long as the bare select it takes with a thousand times as many rows behind the tracker.
pub(crate) async fn growth(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    let drained = (backlog.changes() as i64 / 10).max(1);
    let behind = backlog.changes() as i64 * 10;
    let small = times_bare(Sizes { behind: (behind / 1000).max(1), drained }, progress).await?;
    let large = times_bare(Sizes { behind, drained }, progress).await?;
    Ok(Row::new("growth-window-sqlite", large, "times bare", small, 1.5))
}

async fn times_bare(sizes: Sizes, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<f64> {
    let (value, limit) = measure(sizes, progress).await?;
    Ok((limit / value * 100.0).round() / 100.0)
}

async fn measure(sizes: Sizes, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    progress(&format!("writing {} rows", sizes.behind + sizes.drained));
    let connection = Connection::open(&path)?;
    connection.execute_batch(include_str!("../sql/dated_orders.sql"))?;
    connection.execute(include_str!("../sql/dated_insert.sql"), [sizes.behind + sizes.drained])?;
    connection.execute_batch(include_str!("../sql/flush.sql"))?;
    let (mut value, mut limit) = (0.0, 0.0);
    for round in 1..=ROUNDS {
        progress(&format!("{} rows, round {round} of {ROUNDS}", sizes.drained));
        limit = f64::max(limit, bare_pages(&connection, sizes)?);
        value = f64::max(value, drain(&path, &folder.path().join(format!("store-{round}.db")), sizes).await?);
    }
    Ok((value, limit))
}

async fn drain(path: &Path, store: &Path, sizes: Sizes) -> anyhow::Result<f64> {
    let store = SqliteStore::open(store).await?;
    let window = Source::new(path).window("orders", "updated_at").unit(Unit::Milliseconds);
    let start = Start::Time(Timestamp::from_millisecond(sizes.behind + 1)?);
    let settings = FeedSettings { start, ..FeedSettings::default() };
    let handling = Handling::AtLeastOnce(Arc::new(Nothing));
    let host = Host::new("bench", Arc::new(store)).feed_with(Arc::new(window), handling, settings);
    let stats = host.stats();
    let began = clock::now();
    host.run_once().await?;
    let seconds = began.elapsed().as_secs_f64();
    let handled: u64 = stats.iter().map(|(_, stats)| stats.handled()).sum();
    ensure!(handled == sizes.drained as u64, "{handled} rows were handled instead of {}", sizes.drained);
    Ok(handled as f64 / seconds)
}

/// Reads the same rows page by page, each from the last row of the page before it.
fn bare_pages(connection: &Connection, sizes: Sizes) -> anyhow::Result<f64> {
    let mut statement = connection.prepare(include_str!("../sql/dated_page.sql"))?;
    let began = clock::now();
    let (mut last, mut count) = ((sizes.behind, sizes.behind), 0);
    loop {
        let read = page(&mut statement, &mut last)?;
        count += read;
        if read < PAGE {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(count == sizes.drained, "the table has {count} rows instead of {}", sizes.drained);
    Ok(count as f64 / seconds)
}

/// A page as whoever wants to do something with it needs it: every column of every row, as values that outlive the statement.
fn page(statement: &mut Statement<'_>, last: &mut (i64, i64)) -> anyhow::Result<i64> {
    let columns = statement.column_count();
    let mut rows = statement.query((last.0, last.1, PAGE))?;
    let mut page: Vec<Vec<Value>> = Vec::with_capacity(PAGE as usize);
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        page.push(values);
    }
    if let Some([Value::Integer(id), _, _, _, Value::Integer(at)]) = page.last().map(Vec::as_slice) {
        *last = (*at, *id);
    }
    Ok(black_box(page).len() as i64)
}
