//! The shop, and the writers that keep changing its orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::{Error, Result};

const SCHEMA: &str = include_str!("shop.sql");

/// Orders that are there before anybody watches.
const AT_FIRST: u64 = 500;

const CUSTOMERS: u64 = 40;

/// A pause after each transaction: the demo shows correctness, the benchmark shows speed.
const PAUSE: Duration = Duration::from_millis(5);

/// Makes the shop, with some orders in it already. Returns how many.
pub fn open(path: &Path) -> Result<u64> {
    let make = || -> rusqlite::Result<()> {
        let mut connection = connect(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch(SCHEMA)?;
        let transaction = connection.transaction()?;
        for _ in 0..AT_FIRST {
            insert(&transaction)?;
        }
        transaction.commit()
    };
    make().map_err(|cause| Error::failed("the demo's shop cannot be made").caused_by(cause))?;
    Ok(AT_FIRST)
}

/// A connection to the shop that waits for its turn.
pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(connection)
}

/// Writers at work, each on a thread of its own.
pub struct Writers {
    threads: Vec<JoinHandle<rusqlite::Result<()>>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
}

impl Writers {
    /// Starts so many.
    pub fn start(path: &Path, count: usize) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |_| {
            let (path, stop, committed) = (path.to_owned(), Arc::clone(&stop), Arc::clone(&committed));
            std::thread::spawn(move || write(path, &stop, &committed))
        };
        Writers { threads: (0..count).map(start).collect(), stop, committed }
    }

    /// How many changes they have committed.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Ends them, and returns how many changes they committed in all.
    pub fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            let ended = thread.join().map_err(|_| Error::failed("a writer of the demo panicked"))?;
            ended.map_err(|cause| Error::failed("a writer of the demo failed").caused_by(cause))?;
        }
        Ok(self.committed.load(Ordering::Acquire))
    }
}

fn write(path: PathBuf, stop: &AtomicBool, committed: &AtomicU64) -> rusqlite::Result<()> {
    let mut connection = connect(&path)?;
    while !stop.load(Ordering::Acquire) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut changes = 0;
        for _ in 0..fastrand::u64(1..8) {
            changes += match fastrand::u8(0..10) {
                0..3 => insert(&transaction)?,
                3..9 => update(&transaction)?,
                _ => delete(&transaction)?,
            };
        }
        // One in ten thinks better of it: what is rolled back must not be seen by anybody.
        if fastrand::u8(0..10) == 0 {
            transaction.rollback()?;
        } else {
            transaction.commit()?;
            committed.fetch_add(changes, Ordering::AcqRel);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn insert(connection: &Connection) -> rusqlite::Result<u64> {
    let customer = format!("customer {:02}", fastrand::u64(0..CUSTOMERS));
    let amount = fastrand::i64(1..10_000);
    connection.prepare_cached(include_str!("insert.sql"))?.execute((customer, amount)).map(|rows| rows as u64)
}

fn update(connection: &Connection) -> rusqlite::Result<u64> {
    let Some(id) = some_order(connection)? else { return Ok(0) };
    let customer = format!("customer {:02}", fastrand::u64(0..CUSTOMERS));
    let amount = fastrand::i64(1..10_000);
    connection
        .prepare_cached(include_str!("update.sql"))?
        .execute((id, customer, amount))
        .map(|rows| rows as u64)
}

fn delete(connection: &Connection) -> rusqlite::Result<u64> {
    let Some(id) = some_order(connection)? else { return Ok(0) };
    connection.prepare_cached(include_str!("delete.sql"))?.execute([id]).map(|rows| rows as u64)
}

fn some_order(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let share = fastrand::f64();
    connection.prepare_cached(include_str!("some_order.sql"))?.query_row([share], |row| row.get(0)).optional()
}
