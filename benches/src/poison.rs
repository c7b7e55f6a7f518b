//! One key that fails for ever: how fast all others are handled, exactly once on SQLite, against a run in which nothing fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use rusqlite::Connection;
use seriatim::clock;
use seriatim::handler::{Handling, Retry};
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim::{Change, Failure, Host, Value};
use seriatim_sqlite::rusqlite::Transaction;
use seriatim_sqlite::{Source, SqliteStore, in_transaction};

use crate::rounds::Rounds;
use crate::{Backlog, Row};

/// How many rounds there are.
const ROUNDS: usize = 9;

/// One change in so many is of the key that fails.
const POISON_IN: u64 = 100;

/// The key that fails.
const POISON: i64 = 1;

/// How many times the table is written.
const PASSES: u64 = 4;

/// Measures it.
pub(crate) async fn poison(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir()?;
    progress(&format!("writing {} changes", backlog.changes()));
    let master = folder.path().join("master.db");
    let others = prepare(&master, backlog).await?;
    let mut rounds = Rounds::default();
    for round in 1..=ROUNDS {
        let (mut limit, mut value) = (0.0, 0.0);
        for (fails, rate) in [(true, &mut value), (false, &mut limit)] {
            progress(&format!("{others} changes, round {round} of {ROUNDS}"));
            let copy = folder.path().join(format!("round-{round}-{fails}.db"));
            std::fs::copy(&master, &copy)?;
            *rate = drain(&copy, others, fails).await?;
        }
        rounds.add(value, limit);
    }
    let (value, limit) = rounds.middle();
    Ok(Row::new("poison-sqlite", f64::round(value), "changes/s", f64::round(limit), 0.9))
}

/// Has a feed registered on a table, and then changes the table so many times. Returns how many changes are of other keys.
async fn prepare(path: &Path, backlog: Backlog) -> anyhow::Result<u64> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(include_str!("../sql/orders.sql"))?;
    connection.execute_batch(include_str!("../sql/copies.sql"))?;
    let store = Arc::new(SqliteStore::open(path).await?);
    let nothing = in_transaction(&store, |_: &[Change], _: &Transaction<'_>| Ok(()));
    host(path, &store, Handling::ExactlyOnce(Arc::new(nothing)), Start::Now).run_once().await?;
    let rows = backlog.changes() / PASSES;
    connection.execute(include_str!("../sql/insert.sql"), [rows.cast_signed()])?;
    for _ in 1..PASSES {
        connection.execute(include_str!("../sql/update.sql"), [])?;
        let transaction = connection.transaction()?;
        for _ in 0..rows / POISON_IN {
            transaction.execute(include_str!("../sql/update_one.sql"), [])?;
        }
        transaction.commit()?;
    }
    connection.execute_batch(include_str!("../sql/flush.sql"))?;
    Ok((rows - 1) * PASSES)
}

fn host(path: &Path, store: &Arc<SqliteStore>, handling: Handling, start: Start) -> Host {
    let retry = Retry { attempts: u32::MAX, ..Retry::default() };
    let settings = FeedSettings { start, retry, ..FeedSettings::default() };
    let feed = Arc::new(Source::new(path).journal("orders"));
    Host::new("bench", store.clone()).feed_with(feed, handling, settings)
}

/// How many changes of other keys are handled in a second.
async fn drain(path: &Path, others: u64, fails: bool) -> anyhow::Result<f64> {
    let store = Arc::new(SqliteStore::open(path).await?);
    let handled = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&handled);
    let copying = in_transaction(&store, move |changes: &[Change], transaction: &Transaction<'_>| {
        let copied = copy(changes, transaction, fails)?;
        // A batch that is rolled back after this would be counted twice; nothing here does that.
        counter.fetch_add(copied, Ordering::Relaxed);
        Ok(())
    });
    let host = host(path, &store, Handling::ExactlyOnce(Arc::new(copying)), Start::Now);
    let all_others = Arc::clone(&handled);
    let began = clock::now();
    let done = async move {
        while all_others.load(Ordering::Relaxed) < others {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    host.run_until(done).await?;
    let seconds = began.elapsed().as_secs_f64();
    let count: i64 =
        Connection::open(path)?.query_row("select count(*) from copies", [], |row| row.get(0))?;
    let expected = (others / PASSES + u64::from(!fails)).cast_signed();
    ensure!(count == expected, "{count} orders were copied instead of {expected}");
    Ok(others as f64 / seconds)
}

/// Copies the orders of a batch, and says how many of them were of other keys than the one that fails.
fn copy(changes: &[Change], transaction: &Transaction<'_>, fails: bool) -> Result<u64, Failure> {
    let mut statement = transaction.prepare_cached(include_str!("../sql/copy.sql"))?;
    let mut others = 0;
    for (index, change) in changes.iter().enumerate() {
        let after = change.after.as_ref();
        let integer = |column| match after.and_then(|row| row.get(column)) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        };
        let id = integer("id");
        if id == POISON && fails {
            return Err(Failure::change("this one never works").at(index));
        }
        statement.execute((id, integer("amount")))?;
        others += u64::from(id != POISON);
    }
    Ok(others)
}
