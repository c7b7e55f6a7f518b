//! The ledger of signals in Redis.
//!
//! Each operation is one script, so that nobody comes in between. The clock is the server's. What it says about a run counts only in the life of
//! the server that the run's last sign of life was in: after a failover the clock may be another machine's.

mod reply;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use seriatim::once::{
    Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Recorded, Resolution, Run, Signal,
    Started,
};
use seriatim::store::StoreError;

use crate::connection::Redis;
use crate::error::RedisError;
use crate::prefix::Prefix;
use crate::script::Script;
use scripts::Scripts;

/// A server does one thing at a time: everybody waits while it copies a large result.
const LARGEST_RESULT: usize = 16 * 1024 * 1024;

/// The ledger of signals in Redis.
///
/// How much of it survives is up to the server: one that forgets what it acknowledged makes effects happen again. See
/// `docs/redis.md` before you trust it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use seriatim::once::Once;
/// use seriatim_redis::{Prefix, Redis, RedisLedger};
///
/// let server = Redis::connect("redis://127.0.0.1/").await?;
/// let once = Once::new(Arc::new(RedisLedger::open(server, Prefix::tagged("seriatim")?)?), "mailer");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisLedger {
    redis: Redis,
    prefix: Prefix,
    index: String,
    scripts: Arc<Scripts>,
}

impl RedisLedger {
    /// The ledger with this prefix. Nothing has to be made before it is used.
    pub fn open(redis: Redis, prefix: Prefix) -> Result<Self, RedisError> {
        prefix.fits(&redis)?;
        let index = prefix.key("once.index");
        Ok(RedisLedger { redis, prefix, index, scripts: Arc::new(Scripts::new()) })
    }

    async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        signal: &str,
        arguments: &[&[u8]],
    ) -> Result<Value, RedisError> {
        let mut all = vec![self.prefix.as_str().as_bytes(), signal.as_bytes()];
        all.extend(arguments);
        self.redis.run(doing, script, &self.index, &all).await
    }

    async fn is_one(
        &self,
        doing: &'static str,
        script: &Script,
        signal: &Signal,
        arguments: &[&[u8]],
    ) -> Result<bool, StoreError> {
        Ok(self.run(doing, script, &reply::name(signal), arguments).await? == Value::Int(1))
    }
}

/// In whole milliseconds and never less, so that nobody's time is up early.
fn milliseconds(duration: Duration) -> String {
    i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(i64::MAX).to_string()
}

/// As scripts are told; nothing for never.
fn perhaps(duration: Option<Duration>) -> String {
    duration.map(milliseconds).unwrap_or_default()
}

/// Whether a result is kept, and it, or why it is not.
fn recorded(result: &Recorded) -> (&'static [u8], &[u8]) {
    match result {
        Recorded::Kept(bytes) => (b"1", bytes),
        Recorded::NotKept(why) => (b"0", why.as_bytes()),
    }
}

fn held(kept: bool) -> Held {
    if kept { Held::Kept } else { Held::Lost }
}

/// Where a listing begins and ends in the order of names: after its cursor, and with its processor's last signal.
fn range(listing: &Listing, from: Option<&Cursor>) -> (String, String) {
    let (first, last) = match &listing.processor {
        // No name has a letter between these two in it.
        Some(processor) => (format!("[{processor}\n"), format!("({processor}\u{b}")),
        None => ("-".to_owned(), "+".to_owned()),
    };
    (from.map_or(first, |cursor| format!("({}", cursor.0)), last)
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        let limit = milliseconds(claim.max_processing_time);
        let removable = perhaps(claim.removable_after());
        let seen = replacing.map_or("", |run| run.attempt.as_str());
        let beat = replacing.map(|run| run.beat.to_string()).unwrap_or_default();
        let arguments = [claim.attempt.as_str(), &limit, &removable, seen, &beat].map(str::as_bytes);
        let signal = reply::name(&claim.signal);
        let answer = self.run("claiming a signal in Redis", &self.scripts.start, &signal, &arguments).await?;
        Ok(reply::started(answer)?)
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let removable = perhaps(claim.removable_after());
        let arguments = [claim.attempt.as_str().as_bytes(), removable.as_bytes()];
        let extended =
            self.is_one("extending a claim in Redis", &self.scripts.extend, &claim.signal, &arguments);
        extended.await.map(held)
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let expires = perhaps(completion.expires_after);
        let (kept, result) = recorded(&completion.result);
        let arguments = [claim.attempt.as_str().as_bytes(), expires.as_bytes(), kept, result];
        let completed =
            self.is_one("completing a signal in Redis", &self.scripts.complete, &claim.signal, &arguments);
        completed.await.map(held)
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let arguments = [claim.attempt.as_str().as_bytes()];
        self.is_one("giving a claim back in Redis", &self.scripts.fail, &claim.signal, &arguments)
            .await
            .map(drop)
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let beat = seen.beat.to_string();
        let arguments = [seen.attempt.as_str().as_bytes(), beat.as_bytes()];
        self.is_one("doubting a run in Redis", &self.scripts.doubt, signal, &arguments).await
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        let (beat, next) = (seen.beat.to_string(), (seen.beat + 1).to_string());
        let attempt = seen.attempt.as_str().as_bytes();
        let mut arguments = vec![attempt, beat.as_bytes()];
        let expires;
        match resolution {
            Resolution::RunAgain => arguments.push(b"again"),
            Resolution::Completed(completion) => {
                expires = perhaps(completion.expires_after);
                let (kept, result) = recorded(&completion.result);
                arguments.extend([b"completed", next.as_bytes(), expires.as_bytes(), kept, result]);
            }
        }
        self.is_one("resolving a run in Redis", &self.scripts.resolve, signal, &arguments).await
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let arguments = [seen.attempt.as_str().as_bytes()];
        self.is_one("forgetting a signal in Redis", &self.scripts.forget, signal, &arguments).await
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let doing = "looking at a signal in Redis";
        let answer = self.run(doing, &self.scripts.show, &reply::name(signal), &[]).await?;
        Ok(reply::record(answer)?)
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let ((first, last), page) = (range(listing, from), listing.page.to_string());
        let arguments = [first.as_bytes(), last.as_bytes(), page.as_bytes()];
        let answer = self.run("listing signals in Redis", &self.scripts.list, "", &arguments).await?;
        let (next, records) = reply::page(answer)?;
        let wanted = |record: &Record| listing.state.is_none_or(|state| record.state == state);
        Ok(Page { records: records.into_iter().filter(wanted).collect(), next: next.map(Cursor) })
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        let at_most = at_most.to_string();
        let doing = "sweeping signals in Redis";
        match self.run(doing, &self.scripts.sweep, "", &[at_most.as_bytes()]).await? {
            Value::Int(removed) => Ok(usize::try_from(removed).unwrap_or(0)),
            other => Err(crate::parts::strange(other).into()),
        }
    }

    fn largest_result(&self) -> usize {
        LARGEST_RESULT
    }
}

impl std::fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLedger").field("redis", &self.redis).field("prefix", &self.prefix).finish()
    }
}
