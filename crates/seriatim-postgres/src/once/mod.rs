//! The ledger of signals in a PostgreSQL database, shared by any number of machines.
//!
//! Each write is one statement, whose `where` PostgreSQL looks at again once it has the row's lock: of two who write at once, the
//! second sees what the first did. Where a write changed nothing, a look in a statement of its own says why: it sees
//! everything that the write had to wait for, such as the first sending of a request whose answer was lost.
//!
//! The clock is the server's. What it says about a run counts only in the life of the server that the run's last sign of life was
//! in: after a failover the clock may be another machine's.

mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::once::{
    Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Recorded, Resolution, Run, Signal,
    Started, State,
};
use seriatim::store::StoreError;
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::error::PostgresError;
use crate::migrate::{Component, Upgrade, migrate, offer, script, version};

const COMPONENT: Component = Component {
    name: "once",
    migrations: &[include_str!("../../migrations/once/0001_once.sql")],
    upgrade: Upgrade::Rest,
};
/// The same for callers that speak SQL, in their own transactions.
const FUNCTIONS: Component = Component {
    name: "once functions",
    migrations: &[include_str!("../../migrations/once_functions/0001_once_functions.sql")],
    upgrade: Upgrade::All,
};
const START: &str = include_str!("../../queries/once_start.sql");
const READ: &str = include_str!("../../queries/once_read.sql");
const EXTEND: &str = include_str!("../../queries/once_extend.sql");
const COMPLETE: &str = include_str!("../../queries/once_complete.sql");
const FAIL: &str = include_str!("../../queries/once_fail.sql");
const DOUBT: &str = include_str!("../../queries/once_doubt.sql");
const RESOLVE_COMPLETED: &str = include_str!("../../queries/once_resolve_completed.sql");
const RESOLVE_AGAIN: &str = include_str!("../../queries/once_resolve_again.sql");
const FORGET: &str = include_str!("../../queries/once_forget.sql");
const LIST: &str = include_str!("../../queries/once_list.sql");
const SWEEP: &str = include_str!("../../queries/once_sweep.sql");

/// PostgreSQL's own limit is a billion bytes; long before that a row is no place for a result.
const LARGEST_RESULT: usize = 64 * 1024 * 1024;

/// How often a claim is asked for while others claim and give back at the same moment.
const TRIES: usize = 10;

/// The ledger of signals in a PostgreSQL database, which may also be the store's or the user's own.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use seriatim::once::Once;
/// use seriatim_postgres::PostgresLedger;
///
/// let ledger = PostgresLedger::connect("postgres://ada@db.example/shop?sslmode=require").await?;
/// let once = Once::new(Arc::new(ledger), "mailer");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresLedger {
    database: Database,
    /// Whether its tables are known to be there.
    made: Arc<OnceCell<()>>,
}

impl PostgresLedger {
    /// Connects to the ledger at this URL, making the schema and the tables that are missing.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        PostgresLedger::on(Database::connect(url)?).await
    }

    /// The ledger in a database that is known already, making the schema and the tables that are missing.
    pub async fn on(database: Database) -> Result<Self, PostgresError> {
        let ledger = PostgresLedger::when_needed(database);
        ledger.make().await?;
        Ok(ledger)
    }

    /// The ledger in a database that need not be reachable yet: what is missing is made by the first operation that gets through.
    /// [`Once`](seriatim::Once) is patient with operations, so a server that is busy or away is waited for.
    pub fn when_needed(database: Database) -> Self {
        PostgresLedger { database, made: Arc::default() }
    }

    /// The ledger in a database that is known already, if there is one; `None` when its tables are missing. Makes nothing.
    pub async fn existing(database: Database) -> Result<Option<Self>, PostgresError> {
        if version(&database, &COMPONENT).await? == 0 {
            return Ok(None);
        }
        PostgresLedger::on(database).await.map(Some)
    }

    /// The SQL that makes what the ledger still lacks in this database. Changes nothing.
    pub async fn script(database: &Database) -> Result<String, PostgresError> {
        let (tables, functions) = (script(database, &COMPONENT).await?, script(database, &FUNCTIONS).await?);
        // Both make the schema where there is none.
        Ok(tables + &functions.replace(&format!("create schema {};\n", database.schema()), ""))
    }

    /// The database that the ledger is in.
    pub fn database(&self) -> &Database {
        &self.database
    }

    async fn make(&self) -> Result<(), PostgresError> {
        let made = self.made.get_or_try_init(async || {
            migrate(&self.database, &COMPONENT).await?;
            offer(&self.database, &FUNCTIONS).await
        });
        made.await.map(|_| ())
    }

    async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.make().await?;
        Ok(self.database.query(doing, sql, parameters).await?)
    }

    /// Runs one statement about a signal, whose processor and id are its first parameters.
    async fn about(
        &self,
        doing: &'static str,
        sql: &str,
        signal: &Signal,
        rest: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        let (processor, id) = (signal.processor.as_str(), signal.id.as_str());
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&processor, &id];
        parameters.extend(rest);
        let mut rows = self.query(doing, sql, &parameters).await?;
        Ok(rows.pop())
    }

    async fn try_start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Option<u64>, StoreError> {
        let (seen, beat) = replacing.map(|run| (run.attempt.as_str(), run.beat.cast_signed())).unzip();
        let limit = milliseconds(claim.max_processing_time);
        let removable = claim.removable_after().map(milliseconds);
        let attempt = claim.attempt.as_str();
        let rest: [&(dyn ToSql + Sync); 5] = [&attempt, &limit, &removable, &seen, &beat];
        let claimed = self.about("claiming a signal in", START, &claim.signal, &rest).await?;
        claimed.map(|row| rows::number(&row, 0)).transpose()
    }
}

/// In whole milliseconds and never less, so that nobody's time is up early.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}

/// Whether a claim could be had of a signal that stands so.
fn is_to_be_had(record: &Record, replacing: Option<&Run>) -> bool {
    record.state == State::Expired || (record.state == State::Running && replacing == Some(&record.run))
}

fn is_completed(record: &Record) -> bool {
    matches!(record.state, State::Completed | State::Expired)
}

fn held(kept: bool) -> Held {
    if kept { Held::Kept } else { Held::Lost }
}

/// The two columns of a result. PostgreSQL's text has no zero byte in it.
fn columns(result: &Recorded) -> (Option<&[u8]>, Option<String>) {
    match result {
        Recorded::Kept(bytes) => (Some(bytes), None),
        Recorded::NotKept(why) => (None, Some(why.replace('\0', "\u{fffd}"))),
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        for _ in 0..TRIES {
            if let Some(number) = self.try_start(claim, replacing).await? {
                return Ok(Started::Claimed { number });
            }
            // It may have been given back, or have expired, since the claim was refused: then once more.
            let Some(record) = self.show(&claim.signal).await? else { continue };
            if record.state == State::Running && record.run.attempt == claim.attempt {
                return Ok(Started::Claimed { number: record.number });
            }
            if !is_to_be_had(&record, replacing) {
                return Ok(Started::Found(Box::new(record)));
            }
        }
        let doing = format!("claiming a signal in {}", self.database.name());
        Err(StoreError::unavailable(doing, "it keeps changing"))
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let (attempt, removable) = (claim.attempt.as_str(), claim.removable_after().map(milliseconds));
        let extended =
            self.about("extending a claim in", EXTEND, &claim.signal, &[&attempt, &removable]).await?;
        Ok(held(extended.is_some()))
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let (attempt, expires) = (claim.attempt.as_str(), completion.expires_after.map(milliseconds));
        let (result, not_kept) = columns(&completion.result);
        let rest: [&(dyn ToSql + Sync); 4] = [&attempt, &expires, &result, &not_kept];
        if self.about("completing a signal in", COMPLETE, &claim.signal, &rest).await?.is_some() {
            return Ok(Held::Kept);
        }
        let found = self.show(&claim.signal).await?;
        Ok(held(found.is_some_and(|found| is_completed(&found) && found.run.attempt == claim.attempt)))
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let attempt = claim.attempt.as_str();
        self.about("giving a claim back in", FAIL, &claim.signal, &[&attempt]).await.map(drop)
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let (attempt, beat) = (seen.attempt.as_str(), seen.beat.cast_signed());
        Ok(self.about("doubting a run in", DOUBT, signal, &[&attempt, &beat]).await?.is_some())
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "resolving a run in";
        let (attempt, beat) = (seen.attempt.as_str(), seen.beat.cast_signed());
        match resolution {
            Resolution::RunAgain => {
                let given_back = self.about(DOING, RESOLVE_AGAIN, signal, &[&attempt, &beat]).await?;
                Ok(given_back.is_some() || self.show(signal).await?.is_none())
            }
            Resolution::Completed(completion) => {
                let expires = completion.expires_after.map(milliseconds);
                let (result, not_kept) = columns(&completion.result);
                let rest: [&(dyn ToSql + Sync); 5] = [&attempt, &beat, &expires, &result, &not_kept];
                if self.about(DOING, RESOLVE_COMPLETED, signal, &rest).await?.is_some() {
                    return Ok(true);
                }
                let resolved = Run { beat: seen.beat + 1, ..seen.clone() };
                let found = self.show(signal).await?;
                Ok(found.is_some_and(|found| is_completed(&found) && found.run == resolved))
            }
        }
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let attempt = seen.attempt.as_str();
        let forgotten = self.about("forgetting a signal in", FORGET, signal, &[&attempt]).await?;
        Ok(forgotten.is_some() || self.show(signal).await?.is_none())
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let found = self.about("looking at a signal in", READ, signal, &[]).await?;
        found.map(|row| rows::record(&row)).transpose()
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let (processor, id) = from.and_then(|cursor| cursor.0.split_once('\n')).unwrap_or_default();
        let only = listing.processor.as_ref().map(|processor| processor.as_str());
        let state = listing.state.map(State::as_str);
        let page = i64::try_from(listing.page).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 5] = [&processor, &id, &only, &state, &page];
        let rows = self.query("listing signals in", LIST, &parameters).await?;
        let records: Vec<Record> = rows.iter().map(rows::record).collect::<Result<_, _>>()?;
        let last = records.last().filter(|_| records.len() == listing.page);
        // Neither name has a control character in it.
        let next = last.map(|record| Cursor(format!("{}\n{}", record.signal.processor, record.signal.id)));
        Ok(Page { records, next })
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let swept = self.query("sweeping signals in", SWEEP, &[&at_most]).await?;
        let removed = swept.first().map_or(Ok(0), |row| rows::number(row, 0))?;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    fn largest_result(&self) -> usize {
        LARGEST_RESULT
    }
}
