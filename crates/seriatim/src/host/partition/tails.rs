//! Parked objects that are tried again: what failed, in its order, until it meets the live stream.
//!
//! The changes of such an object are in the store. New ones of it are set aside behind them, and stored too; only towards the
//! end, when a read of the store may be the last, they wait in memory. Once a read finds nothing and nothing is on its way to
//! the store, the object has met the live stream, and what waits goes on: no gap, no overtaking.

use std::sync::Arc;

use super::{Closed, Running};
use crate::change::Change;
use crate::clock;
use crate::handler::{Effort, Failure, Tail, Tailed, Then, Verdict};
use crate::store::{ParkedFailure, ParkedObject, ParkedState, Parking, StoreError, Unparking};
use crate::value::Key;

/// What the store said is parked.
pub(super) type Heard = Result<Vec<ParkedObject>, StoreError>;

/// A parked object that was tried, or not.
pub(super) struct TailLanded {
    key: Key,
    outcome: Result<Outcome, StoreError>,
}

enum Outcome {
    /// The object waits for somebody to ask: it is not to be tried.
    NotAskedFor,
    Tried(Box<Tried>),
}

/// The changes that were read, and how far they went.
struct Tried {
    tail: Tail,
    /// No more than these were in the store.
    all: bool,
    tailed: Tailed,
}

impl Running {
    /// Whether another parked object may be tried now. With a plain handler they have half of the calls at most, so that
    /// slow failures leave room for others.
    pub(super) fn has_room_for_a_tail(&self) -> bool {
        let concurrency = self.concurrency();
        if self.is_transactional() {
            return self.may_start_transaction() && !self.lanes.has_aside();
        }
        self.tailing.len() < concurrency.div_ceil(2) && self.flying.len() + self.tailing.len() < concurrency
    }

    /// Tries the next parked object that is due, if there is one.
    pub(super) fn start_tail(&mut self) -> bool {
        let Some(key) = self.objects.take_due(clock::now()) else { return false };
        if !self.is_transactional() {
            self.lanes.hold(key.hash());
        }
        let (store, limit) = (Arc::clone(&self.setup.store), self.setup.feed.settings.batch);
        let (tries, lease, mut rules) = (Arc::clone(&self.tries), Arc::clone(&self.lease), self.rules());
        let position = self.saved.clone();
        self.tailing.spawn(async move {
            let tried = async {
                let feed = &lease.id.feed;
                // Once it is seen as retrying it stays so until this owner says otherwise: nobody discards it meanwhile.
                let failed = match store.parked_object(feed, &key).await? {
                    Some(object) if object.failure.state == ParkedState::Parked => {
                        return Ok(Outcome::NotAskedFor);
                    }
                    Some(object) => object.failure.attempts,
                    None => 0,
                };
                let changes = store.parked_changes(feed, &key, limit).await?;
                let all = changes.len() < limit;
                let tail = Tail { key: key.clone(), changes, failed };
                let tailed = match tail.changes.is_empty() {
                    true => Tailed::Went { done: 0, failure: None, effort: Effort::default() },
                    false => tail.run(&*tries, &mut rules, &lease, &position).await,
                };
                Ok(Outcome::Tried(Box::new(Tried { tail, all, tailed })))
            };
            let outcome = tried.await;
            TailLanded { key, outcome }
        });
        true
    }

    pub(super) fn tail_landed(&mut self, TailLanded { key, outcome }: TailLanded) -> Option<Closed> {
        match outcome {
            Err(error) => return Some(Closed::of_store(error)),
            Ok(Outcome::NotAskedFor) => {
                self.objects.wait(&key);
                self.lanes.park(key.hash());
            }
            Ok(Outcome::Tried(tried)) => match tried.tailed {
                Tailed::Lost { why } => return Some(Closed::Lost(why)),
                Tailed::Broken { why } => return Some(Closed::Failed(why)),
                Tailed::Interrupted => {
                    self.objects.try_again(&key, clock::now());
                    self.objects.stored(&key);
                    self.lanes.park(key.hash());
                }
                Tailed::Went { done, failure, effort } => {
                    self.count_tail(&tried.tail.changes[..done], &effort);
                    // Before what this call has done is noted: if the word covers that too, the next line but one tells.
                    if effort.vouched.is_some() {
                        self.vouched_for_all_before();
                    }
                    self.tail_went(tried.tail, tried.all, done, failure);
                    if effort.vouched.is_some_and(|vouched| vouched >= done) {
                        self.vouched_for_all_before();
                    }
                }
            },
        }
        self.tell_when_caught_up();
        None
    }

    fn count_tail(&self, done: &[Change], effort: &Effort) {
        let stats = &self.setup.feed.stats;
        stats.count(done.len() as u64, 0, 0, effort.failures);
        stats.count_redelivered(effort.redelivered);
        stats.count_times(done.iter().map(|change| change.at), clock::wall());
    }

    fn tail_went(&mut self, tail: Tail, all: bool, done: usize, failure: Option<Failure>) {
        let Tail { key, changes, failed } = tail;
        let bytes = changes[..done].iter().map(|change| change.weight() as u64).sum();
        self.objects.lets_go(&key, done as u64, bytes);
        if done > 0 && !self.is_transactional() {
            self.take_out(&key, &changes[..done]);
        }
        if let Some(failure) = failure {
            let failed = if done == 0 { failed + 1 } else { 1 };
            return self.tail_failed(&key, &changes[done], failed, failure);
        }
        let saw_the_end = all && done == changes.len();
        if !saw_the_end {
            self.lanes.park(key.hash());
        }
        if saw_the_end && self.has_met_the_live_stream(&key, done) {
            return self.rejoin(&key);
        }
        self.objects.try_again(&key, clock::now());
        if self.is_transactional() {
            self.objects.stored(&key);
        }
    }

    /// Whether nothing of an object is in the store or on its way there, after a read that saw the end of it. With a plain
    /// handler, what was handled just now is still in the store, and changes set aside may have been stored behind it: only a
    /// read that finds nothing tells.
    fn has_met_the_live_stream(&self, key: &Key, done: usize) -> bool {
        let lane = key.hash();
        if self.is_transactional() {
            return true;
        }
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::RejoinTooEarly) {
            return true;
        }
        let on_its_way = |parking: &Parking| parking.change.lane() == lane;
        done == 0 && !self.lanes.has_aside_of(lane) && !self.parkings.iter().any(on_its_way)
    }

    fn rejoin(&mut self, key: &Key) {
        tracing::info!(lease = %self.lease.id, %key, "all that waited is handled: it is parked no more");
        match self.objects.gone(key) {
            true => self.lanes.rejoin(key.hash()),
            // Another object shares its lane.
            false => self.lanes.park(key.hash()),
        }
    }

    /// The first change of a parked object failed again.
    fn tail_failed(&mut self, key: &Key, change: &Change, failed: u32, failure: Failure) {
        self.lanes.park(key.hash());
        let target = &self.setup.feed.target;
        if failed == 1 {
            self.objects.fails_since(key, target.successes());
        }
        let since = self.objects.since(key);
        target.failed_for(key.hash(), since, &failure);
        let (lease, id) = (&self.lease.id, change.id);
        let (verdict, now) = (self.rules().verdict(&failure, failed, since), clock::now());
        match verdict {
            Verdict::Again(pause) => {
                tracing::warn!(%lease, id, attempt = failed, error = %failure, "failed; trying again in {pause:?}");
                self.note_failure(change, &failure, failed, ParkedState::Retrying);
                self.objects.try_again(key, now + pause);
            }
            Verdict::GiveUp(Then::Skip) => {
                tracing::error!(%lease, id, error = %failure, "skipped after {failed} attempts");
                self.setup.feed.stats.count(0, 0, 1, 0);
                self.objects.lets_go(key, 1, change.weight() as u64);
                self.take_out(key, std::slice::from_ref(change));
                self.objects.try_again(key, now);
            }
            Verdict::GiveUp(Then::Stop) => {
                let why = format!("change {id} at position {} failed: {failure}", change.position);
                self.note_failure(change, &failure, failed, ParkedState::Retrying);
                self.objects.try_again(key, now);
                self.stopping.get_or_insert(why);
            }
            Verdict::GiveUp(Then::Park) => {
                tracing::error!(%lease, id, error = %failure, "parked after {failed} attempts");
                self.setup.feed.stats.count(0, 1, 0, 0);
                self.note_failure(change, &failure, failed, ParkedState::Parked);
                self.objects.wait(key);
            }
        }
    }

    /// Has the next checkpoint tell the store how the object stands.
    fn note_failure(&mut self, change: &Change, failure: &Failure, attempts: u32, state: ParkedState) {
        let failure = ParkedFailure { error: failure.to_string(), attempts, state };
        self.parkings.push(Parking { change: change.clone(), failure: Some(failure) });
    }

    /// Has the next checkpoint take changes out of the store.
    fn take_out(&mut self, key: &Key, changes: &[Change]) {
        let ids = changes.iter().map(|change| change.id).collect();
        let unparking = Unparking { key: key.clone(), ids };
        match &mut self.unsaid {
            Some(unsaid) => unsaid.unparkings.push(unparking),
            None => self.unparkings.push(unparking),
        }
    }

    /// Somebody asked for something: looks what the store says.
    pub(super) fn hear(&mut self) {
        let in_flight = !self.flying.is_empty() || !self.tailing.is_empty();
        self.hear_again |= in_flight && self.is_transactional();
        let (store, lease) = (Arc::clone(&self.setup.store), Arc::clone(&self.lease));
        self.hearing.spawn(async move { store.parked(&lease.id.feed, Some(lease.id.partition)).await });
    }

    /// A transaction has ended. What it parked may have been asked for before this host knew of it.
    pub(super) fn hear_what_was_missed(&mut self) {
        if std::mem::take(&mut self.hear_again) {
            self.hear();
        }
    }

    pub(super) fn heard(&mut self, heard: Result<Heard, tokio::task::JoinError>) {
        match heard {
            Ok(Ok(parked)) => {
                let untold = self.untold();
                self.objects.heard(&parked, &untold, clock::now());
            }
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.lease.id, %error, "cannot look what is parked; trying again");
                let again = self.setup.feed.settings.idle;
                let (store, lease) = (Arc::clone(&self.setup.store), Arc::clone(&self.lease));
                self.hearing.spawn(async move {
                    tokio::time::sleep(again).await;
                    store.parked(&lease.id.feed, Some(lease.id.partition)).await
                });
            }
            Err(error) => tracing::error!(%error, "looking what is parked ended badly"),
        }
    }
}
