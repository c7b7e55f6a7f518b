//! The ledger of signals in one SQLite file, shared by any number of processes on one machine.
//!
//! Each operation is one statement, or one `BEGIN IMMEDIATE` transaction. Unlike checkpoints, which go back together with the
//! effects in the same file, a completion speaks of an effect elsewhere: commits are flushed to the disk, so that not
//! even a power failure undoes one.

mod clock;
mod rows;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use seriatim::once::{
    Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Recorded, Resolution, Run, Signal,
    Started, State,
};
use seriatim::store::StoreError;

use crate::database::{Access, Database, look};
use crate::error::SqliteError;
use crate::migrate::{Component, migrate, script_of, version};
use clock::Now;

const COMPONENT: Component =
    Component { name: "once", migrations: &[include_str!("../../migrations/once/0001_once.sql")] };
const READ: &str = include_str!("../../queries/once/read.sql");
const START: &str = include_str!("../../queries/once/start.sql");
const EXTEND: &str = include_str!("../../queries/once/extend.sql");
const COMPLETE: &str = include_str!("../../queries/once/complete.sql");
const IS_COMPLETED: &str = include_str!("../../queries/once/is_completed.sql");
const FAIL: &str = include_str!("../../queries/once/fail.sql");
const DOUBT: &str = include_str!("../../queries/once/doubt.sql");
const RESOLVE_COMPLETED: &str = include_str!("../../queries/once/resolve_completed.sql");
const IS_RESOLVED: &str = include_str!("../../queries/once/is_resolved.sql");
const RESOLVE_AGAIN: &str = include_str!("../../queries/once/resolve_again.sql");
const FORGET: &str = include_str!("../../queries/once/forget.sql");
const EXISTS: &str = include_str!("../../queries/once/exists.sql");
const LIST: &str = include_str!("../../queries/once/list.sql");
const SWEEP: &str = include_str!("../../queries/once/sweep.sql");

/// SQLite's own limit is a billion bytes; long before that a file is no place for a result.
const LARGEST_RESULT: usize = 64 * 1024 * 1024;

/// The ledger of signals in one SQLite file, which may also be the store's or the user's own.
///
/// Its clock is the kernel's: processes whose time of day was shifted do not disturb it.
#[derive(Clone, Debug)]
pub struct SqliteLedger {
    database: Database,
    boot: Option<String>,
}

impl SqliteLedger {
    /// Opens the ledger in this file, making the file and the tables that are missing.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        let path = path.as_ref();
        SqliteLedger::on(Database::open_with(path, Access::Create, flush_commits).await?).await
    }

    /// Opens the ledger in this file if there is one; `None` when the file or the ledger's tables in it are missing. Makes
    /// nothing.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>, SqliteError> {
        let path = path.as_ref();
        let looking = |connection: &Connection| version(connection, COMPONENT.name);
        if !path.exists() || look(path, "looking for a ledger in", looking).await? == 0 {
            return Ok(None);
        }
        SqliteLedger::on(Database::open_with(path, Access::Write, flush_commits).await?).await.map(Some)
    }

    async fn on(database: Database) -> Result<Self, SqliteError> {
        database.call("setting up the ledger in", |connection| migrate(connection, &COMPONENT)).await?;
        Ok(SqliteLedger { database, boot: clock::boot() })
    }

    /// The SQL that makes the ledger's tables in a file that has none of Seriatim's yet.
    pub fn script() -> String {
        script_of(&COMPONENT)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Runs one operation, with the time at which it began.
    async fn write<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, &Now) -> rusqlite::Result<T> + Send + 'static,
    {
        let boot = self.boot.clone();
        let answer = self.database.call(doing, move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Asked when nobody else can write any more: time and writes are in the same order.
            let now = Now::ask(boot.as_deref());
            let answer = work(&transaction, &now)?;
            transaction.commit()?;
            Ok(answer)
        });
        Ok(answer.await?)
    }

    async fn read<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Now) -> rusqlite::Result<T> + Send + 'static,
    {
        let boot = self.boot.clone();
        let answer = self.database.call(doing, move |connection| {
            let now = Now::ask(boot.as_deref());
            work(connection, &now)
        });
        Ok(answer.await?)
    }
}

fn flush_commits(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")
}

fn key(signal: &Signal) -> (&str, &str) {
    (signal.processor.as_str(), signal.id.as_str())
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The second from which on something does not count any more that lasts so long from now.
fn expiry(now: &Now, after: Duration) -> i64 {
    now.wall.saturating_add(milliseconds(after)).saturating_add(999).div_euclid(1000)
}

fn find(connection: &Connection, signal: &Signal, now: &Now) -> rusqlite::Result<Option<Record>> {
    let mut statement = connection.prepare_cached(READ)?;
    statement.query_row(key(signal), |row| rows::record(row, now)).optional()
}

fn start(
    connection: &Connection,
    claim: &Claim,
    replacing: Option<&Run>,
    now: &Now,
) -> rusqlite::Result<Started> {
    let (processor, id) = key(&claim.signal);
    let (boot, beat_at) = now.boot.as_ref().map(|(boot, at)| (boot.as_str(), *at)).unzip();
    let removable = claim.removable_after();
    let mut statement = connection.prepare_cached(START)?;
    let claimed = statement.query_row(
        rusqlite::params![
            processor,
            id,
            claim.attempt.as_str(),
            boot,
            beat_at,
            now.wall,
            milliseconds(claim.max_processing_time),
            removable.map(milliseconds),
            removable.map(|after| expiry(now, after)),
            now.second(),
            replacing.map(|run| run.attempt.as_str()),
            replacing.map(|run| run.beat.cast_signed()),
        ],
        |row| row.get::<_, i64>(0),
    );
    if let Some(number) = claimed.optional()? {
        return Ok(Started::Claimed { number: number.cast_unsigned() });
    }
    let found = find(connection, &claim.signal, now)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(match found.state == State::Running && found.run.attempt == claim.attempt {
        true => Started::Claimed { number: found.number },
        false => Started::Found(Box::new(found)),
    })
}

fn extend(connection: &Connection, claim: &Claim, now: &Now) -> rusqlite::Result<Held> {
    let (processor, id) = key(&claim.signal);
    let (boot, beat_at) = now.boot.as_ref().map(|(boot, at)| (boot.as_str(), *at)).unzip();
    let removable_on = claim.removable_after().map(|after| expiry(now, after));
    let mut statement = connection.prepare_cached(EXTEND)?;
    let extended = statement.execute((processor, id, claim.attempt.as_str(), boot, beat_at, removable_on))?;
    Ok(if extended > 0 { Held::Kept } else { Held::Lost })
}

/// The two columns of a result.
fn columns(result: &Recorded) -> (Option<&[u8]>, Option<&str>) {
    match result {
        Recorded::Kept(bytes) => (Some(bytes), None),
        Recorded::NotKept(why) => (None, Some(why)),
    }
}

fn complete(
    connection: &Connection,
    claim: &Claim,
    completion: &Completion,
    now: &Now,
) -> rusqlite::Result<Held> {
    let ((processor, id), attempt) = (key(&claim.signal), claim.attempt.as_str());
    let expires_on = completion.expires_after.map(|after| expiry(now, after));
    let (result, not_kept) = columns(&completion.result);
    let mut statement = connection.prepare_cached(COMPLETE)?;
    let completed = statement.execute((processor, id, attempt, now.wall, expires_on, result, not_kept))? > 0;
    let held = completed || is_so(connection, IS_COMPLETED, (processor, id, attempt))?;
    Ok(if held { Held::Kept } else { Held::Lost })
}

fn is_so(connection: &Connection, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<bool> {
    connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))
}

fn resolve(
    connection: &Connection,
    signal: &Signal,
    seen: &Run,
    resolution: &Resolution,
    now: &Now,
) -> rusqlite::Result<bool> {
    let ((processor, id), attempt, beat) = (key(signal), seen.attempt.as_str(), seen.beat.cast_signed());
    match resolution {
        Resolution::RunAgain => {
            let given_back = connection.execute(RESOLVE_AGAIN, (processor, id, attempt, beat))? > 0;
            Ok(given_back || !is_so(connection, EXISTS, (processor, id))?)
        }
        Resolution::Completed(completion) => {
            let expires_on = completion.expires_after.map(|after| expiry(now, after));
            let (result, not_kept) = columns(&completion.result);
            let completed = connection.execute(
                RESOLVE_COMPLETED,
                (processor, id, attempt, beat, now.wall, expires_on, result, not_kept),
            )?;
            Ok(completed > 0 || is_so(connection, IS_RESOLVED, (processor, id, attempt, beat))?)
        }
    }
}

fn list(
    connection: &Connection,
    listing: &Listing,
    from: Option<&Cursor>,
    now: &Now,
) -> rusqlite::Result<Page> {
    let (processor, id) = from.and_then(|cursor| cursor.0.split_once('\n')).unwrap_or_default();
    let only = listing.processor.as_ref().map(|processor| processor.as_str());
    let page = i64::try_from(listing.page).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(LIST)?;
    let parameters = (processor, id, only, listing.state.map(State::as_str), now.second(), page);
    let records = statement.query_map(parameters, |row| rows::record(row, now))?;
    let records: Vec<Record> = records.collect::<rusqlite::Result<_>>()?;
    let last = records.last().filter(|_| records.len() == listing.page);
    // Neither name has a control character in it.
    let next = last.map(|record| Cursor(format!("{}\n{}", record.signal.processor, record.signal.id)));
    Ok(Page { records, next })
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        let (claim, replacing) = (claim.clone(), replacing.cloned());
        self.write("claiming a signal in", move |transaction, now| {
            start(transaction, &claim, replacing.as_ref(), now)
        })
        .await
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let claim = claim.clone();
        self.write("extending a claim in", move |transaction, now| extend(transaction, &claim, now)).await
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let (claim, completion) = (claim.clone(), completion.clone());
        self.write("completing a signal in", move |transaction, now| {
            complete(transaction, &claim, &completion, now)
        })
        .await
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.write("giving a claim back in", move |transaction, _| {
            let (processor, id) = key(&claim.signal);
            transaction.execute(FAIL, (processor, id, claim.attempt.as_str()))?;
            Ok(())
        })
        .await
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let (signal, seen) = (signal.clone(), seen.clone());
        self.write("doubting a run in", move |transaction, _| {
            let ((processor, id), beat) = (key(&signal), seen.beat.cast_signed());
            Ok(transaction.execute(DOUBT, (processor, id, seen.attempt.as_str(), beat))? > 0)
        })
        .await
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        let (signal, seen, resolution) = (signal.clone(), seen.clone(), resolution.clone());
        self.write("resolving a run in", move |transaction, now| {
            resolve(transaction, &signal, &seen, &resolution, now)
        })
        .await
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let (signal, seen) = (signal.clone(), seen.clone());
        self.write("forgetting a signal in", move |transaction, _| {
            let (processor, id) = key(&signal);
            let forgotten = transaction.execute(FORGET, (processor, id, seen.attempt.as_str()))? > 0;
            Ok(forgotten || !is_so(transaction, EXISTS, (processor, id))?)
        })
        .await
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let signal = signal.clone();
        self.read("looking at a signal in", move |connection, now| find(connection, &signal, now)).await
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let (listing, from) = (listing.clone(), from.cloned());
        self.read("listing signals in", move |connection, now| list(connection, &listing, from.as_ref(), now))
            .await
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        self.write("sweeping", move |transaction, now| transaction.execute(SWEEP, (now.second(), at_most)))
            .await
    }

    fn largest_result(&self) -> usize {
        LARGEST_RESULT
    }
}
