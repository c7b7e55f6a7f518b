//! A ledger in memory: for tests and simulation, and as the plainest reading of the contract.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Recorded, Resolution, Run, Signal,
    Started, State,
};
use crate::clock;
use crate::name::{ProcessorId, SignalId};
use crate::store::StoreError;

/// Remembers signals in memory; clones share it. It dies with the process.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    entries: Arc<Mutex<BTreeMap<Signal, Entry>>>,
    /// What its clock began with: from then on it is monotonic, and follows simulated time.
    epoch: (Instant, Timestamp),
}

#[derive(Clone, Debug)]
struct Entry {
    state: State,
    run: Run,
    number: u64,
    started_at: Timestamp,
    beat_at: Timestamp,
    completed_at: Option<Timestamp>,
    /// In seconds since 1970.
    expires_on: Option<i64>,
    max_processing_time: Duration,
    removable_after: Option<Duration>,
    result: Option<Recorded>,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        MemoryLedger::new()
    }
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        MemoryLedger { entries: Arc::default(), epoch: (clock::now(), clock::wall()) }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Signal, Entry>> {
        // Every change is complete before anything can panic, so a poisoned lock is still good.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        later(self.epoch.1, clock::now() - self.epoch.0)
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The second from which on it does not count any more.
fn expiry(from: Timestamp, after: Duration) -> i64 {
    let at = later(from, after);
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

impl Entry {
    fn claimed(claim: &Claim, number: u64, now: Timestamp) -> Self {
        Entry {
            state: State::Running,
            run: Run { attempt: claim.attempt.clone(), beat: 0 },
            number,
            started_at: now,
            beat_at: now,
            completed_at: None,
            expires_on: None,
            max_processing_time: claim.max_processing_time,
            removable_after: claim.removable_after(),
            result: None,
        }
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.state == State::Completed && self.expires_on.is_some_and(|second| second <= now.as_second())
    }

    fn is_removable(&self, now: Timestamp) -> bool {
        let silent = self.removable_after.is_some_and(|after| later(self.beat_at, after) <= now);
        self.has_expired(now) || (self.state == State::Running && silent)
    }

    fn complete(&mut self, completion: &Completion, now: Timestamp) {
        self.state = State::Completed;
        self.completed_at = Some(now);
        self.expires_on = completion.expires_after.map(|after| expiry(now, after));
        self.result = Some(completion.result.clone());
    }

    fn record(&self, signal: &Signal, now: Timestamp) -> Record {
        let stood_still = Duration::try_from(now.duration_since(self.beat_at)).unwrap_or_default();
        Record {
            signal: signal.clone(),
            state: if self.has_expired(now) { State::Expired } else { self.state },
            run: self.run.clone(),
            number: self.number,
            started_at: self.started_at,
            completed_at: self.completed_at,
            expires_on: self
                .expires_on
                .map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX)),
            max_processing_time: self.max_processing_time,
            stood_still: if self.state == State::Running { stood_still } else { Duration::ZERO },
            result: self.result.clone(),
        }
    }
}

/// Whether the entry is this attempt's, and not completed yet.
fn is_open(entry: &Entry, claim: &Claim) -> bool {
    entry.run.attempt == claim.attempt && matches!(entry.state, State::Running | State::Unknown)
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        let (mut entries, now) = (self.entries(), self.now());
        let number = match entries.get(&claim.signal) {
            None => 1,
            Some(entry) if entry.has_expired(now) => entry.number + 1,
            Some(entry) if entry.state == State::Running && replacing == Some(&entry.run) => entry.number + 1,
            Some(entry) if entry.state == State::Running && entry.run.attempt == claim.attempt => {
                return Ok(Started::Claimed { number: entry.number });
            }
            Some(entry) => return Ok(Started::Found(Box::new(entry.record(&claim.signal, now)))),
        };
        entries.insert(claim.signal.clone(), Entry::claimed(claim, number, now));
        Ok(Started::Claimed { number })
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let (mut entries, now) = (self.entries(), self.now());
        let entry = entries.get_mut(&claim.signal).filter(|entry| is_open(entry, claim));
        let Some(entry) = entry else { return Ok(Held::Lost) };
        (entry.state, entry.beat_at) = (State::Running, now);
        entry.run.beat += 1;
        Ok(Held::Kept)
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let (mut entries, now) = (self.entries(), self.now());
        let entry = entries.get_mut(&claim.signal).filter(|entry| entry.run.attempt == claim.attempt);
        let Some(entry) = entry else { return Ok(Held::Lost) };
        if entry.state != State::Completed {
            entry.complete(completion, now);
        }
        Ok(Held::Kept)
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let mut entries = self.entries();
        if entries.get(&claim.signal).is_some_and(|entry| is_open(entry, claim)) {
            entries.remove(&claim.signal);
        }
        Ok(())
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(signal).filter(|entry| entry.run == *seen) else {
            return Ok(false);
        };
        if entry.state == State::Running {
            entry.state = State::Unknown;
        }
        Ok(entry.state == State::Unknown)
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        let (mut entries, now) = (self.entries(), self.now());
        let Some(entry) = entries.get_mut(signal) else { return Ok(*resolution == Resolution::RunAgain) };
        let as_seen = entry.state == State::Unknown && entry.run == *seen;
        match resolution {
            Resolution::RunAgain if as_seen => drop(entries.remove(signal)),
            Resolution::Completed(completion) if as_seen => {
                entry.complete(completion, now);
                // By this the repetition of a lost answer is told from the run's own late completion.
                entry.run.beat += 1;
            }
            Resolution::Completed(_) => {
                let resolved = Run { beat: seen.beat + 1, ..seen.clone() };
                return Ok(entry.state == State::Completed && entry.run == resolved);
            }
            Resolution::RunAgain => return Ok(false),
        }
        Ok(true)
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let mut entries = self.entries();
        match entries.get(signal) {
            Some(entry) if entry.run.attempt != seen.attempt => return Ok(false),
            Some(_) => drop(entries.remove(signal)),
            None => {}
        }
        Ok(true)
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let (entries, now) = (self.entries(), self.now());
        Ok(entries.get(signal).map(|entry| entry.record(signal, now)))
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let (entries, now) = (self.entries(), self.now());
        let after = from.and_then(|cursor| after(&cursor.0)).map_or(Bound::Unbounded, Bound::Excluded);
        let records = entries.range((after, Bound::Unbounded));
        let records = records.map(|(signal, entry)| Record { result: None, ..entry.record(signal, now) });
        let wanted = |record: &Record| {
            listing.processor.as_ref().is_none_or(|processor| record.signal.processor == *processor)
                && listing.state.is_none_or(|state| record.state == state)
        };
        let records: Vec<Record> = records.filter(wanted).take(listing.page).collect();
        let last = records.last().filter(|_| records.len() == listing.page);
        let next = last.map(|record| Cursor(format!("{}\n{}", record.signal.processor, record.signal.id)));
        Ok(Page { records, next })
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        let (mut entries, now) = (self.entries(), self.now());
        let removable = entries.iter().filter(|(_, entry)| entry.is_removable(now));
        let removable: Vec<Signal> = removable.map(|(signal, _)| signal.clone()).take(at_most).collect();
        for signal in &removable {
            entries.remove(signal);
        }
        Ok(removable.len())
    }
}

/// The signal after which a page begins. Neither name has a control character in it.
fn after(cursor: &str) -> Option<Signal> {
    let (processor, id) = cursor.split_once('\n')?;
    Some(Signal { processor: ProcessorId::new(processor).ok()?, id: SignalId::new(id).ok()? })
}
