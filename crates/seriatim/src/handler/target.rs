//! Whether a feed's target is there, as one host sees it.
//!
//! ```text
//!   there ──a handler says it is gone, or too many objects fail in a row──▶ away ──▶ one batch at a time finds out
//!     ▲                                                                      │  ▲         │ after growing pauses
//!     └──────────────────────── something succeeded ─────────────────────────┘  └─────────┘ not yet
//! ```
//!
//! While it is away nothing is given up: what fails then says nothing about the object that failed. Unless something else has
//! succeeded since the object first failed: then it is the object, whatever else is wrong.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Backoff, Failure, FailureKind};
use crate::clock;
use crate::name::FeedName;

/// When so many objects failed one after another and nothing succeeded in between, it is not the objects.
pub(crate) const TOO_MANY_IN_A_ROW: usize = 100;

/// A target that is not there.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    /// Since when, by this host's clock; for people to read.
    pub since: Timestamp,
    /// What the handler said last.
    pub error: String,
    failures: u32,
    next_try: Instant,
    /// Somebody is finding out whether it is back.
    trying: bool,
}

/// What all partitions of a feed on this host know about its target.
pub(crate) struct Target {
    /// Whose it is, for the log.
    feed: FeedName,
    backoff: Backoff,
    outage: watch::Sender<Option<Outage>>,
    /// How often something succeeded.
    successes: AtomicU64,
    /// The objects that failed since anything last succeeded.
    failed_in_a_row: Mutex<HashSet<u64>>,
}

/// The right to call the handler. Given back when dropped.
pub(crate) struct Turn {
    target: Arc<Target>,
    finds_out: bool,
}

impl Target {
    pub fn new(feed: FeedName, backoff: Backoff) -> Self {
        Target {
            feed,
            backoff,
            outage: watch::Sender::new(None),
            successes: AtomicU64::new(0),
            failed_in_a_row: Mutex::default(),
        }
    }

    /// What is wrong with it; `None` when it is there.
    pub fn outage(&self) -> Option<Outage> {
        self.outage.borrow().clone()
    }

    pub fn is_away(&self) -> bool {
        self.outage.borrow().is_some()
    }

    /// How often something succeeded so far.
    pub fn successes(&self) -> u64 {
        self.successes.load(Ordering::Relaxed)
    }

    /// Whether a failure now may be the target's fault, for an object that first failed after so many successes.
    pub fn may_be_to_blame(&self, since: u64) -> bool {
        self.is_away() && self.successes() <= since
    }

    /// Waits until the target is there, or it is the caller's turn to find out. `None` when it is closing.
    pub async fn turn(self: &Arc<Self>, closing: &mut watch::Receiver<bool>) -> Option<Turn> {
        let mut news = self.outage.subscribe();
        loop {
            if *closing.borrow() {
                return None;
            }
            let due = match &*news.borrow_and_update() {
                None => return Some(Turn { target: Arc::clone(self), finds_out: false }),
                Some(outage) => (!outage.trying).then_some(outage.next_try),
            };
            if due.is_some_and(|due| due <= clock::now()) && self.begin_to_find_out() {
                return Some(Turn { target: Arc::clone(self), finds_out: true });
            }
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return None,
                _ = news.changed() => {}
                () = until(due) => {}
            }
        }
    }

    /// A turn for whoever cannot wait; `None` while the target is away.
    pub fn turn_now(self: &Arc<Self>) -> Option<Turn> {
        (!self.is_away()).then(|| Turn { target: Arc::clone(self), finds_out: false })
    }

    fn begin_to_find_out(&self) -> bool {
        self.outage.send_if_modified(|outage| match outage {
            Some(outage) => !std::mem::replace(&mut outage.trying, true),
            None => false,
        })
    }

    /// The handler says that the target is not there.
    pub fn is_gone(&self, failure: &Failure) {
        let wait = failure.retry_after.unwrap_or_default();
        self.note(failure.to_string(), wait, "the target is not there: nothing is handled until it is back");
    }

    /// A change of this object failed, for the first time after so many successes. Many such objects in a row are no accident,
    /// unless they can never succeed.
    pub fn failed_for(&self, lane: u64, since: u64, failure: &Failure) {
        if failure.kind != FailureKind::Change || self.successes() > since {
            return;
        }
        let mut failed = self.failed_in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() < TOO_MANY_IN_A_ROW {
            failed.insert(lane);
        }
        if failed.len() >= TOO_MANY_IN_A_ROW {
            drop(failed);
            let what =
                "everything fails: the target must be ill, and nothing is parked until something succeeds";
            self.note(failure.to_string(), Duration::ZERO, what);
        }
    }

    /// Something was handled: the target is there.
    pub fn is_there(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        self.failed_in_a_row.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.is_away() {
            let was_away = self.outage.send_replace(None).is_some();
            if was_away {
                tracing::info!(feed = %self.feed, "the target is back");
            }
        }
    }

    fn note(&self, error: String, wait: Duration, alarm: &str) {
        let now = clock::now();
        self.outage.send_modify(|outage| match outage {
            Some(outage) => {
                outage.error = error;
                outage.next_try = outage.next_try.max(now + wait);
            }
            None => {
                tracing::error!(feed = %self.feed, %error, "{alarm}");
                let pause = self.backoff.pause(1, fastrand::f64()).max(wait);
                let since = clock::wall();
                *outage = Some(Outage { since, error, failures: 1, next_try: now + pause, trying: false });
            }
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.finds_out {
            return;
        }
        let now = clock::now();
        self.target.outage.send_if_modified(|outage| {
            let Some(outage) = outage else { return false };
            // An outage that began after this turn is not this turn's business; its first pause is as good.
            outage.trying = false;
            outage.failures = outage.failures.saturating_add(1);
            let pause = self.target.backoff.pause(outage.failures, fastrand::f64());
            outage.next_try = outage.next_try.max(now + pause);
            let feed = &self.target.feed;
            tracing::warn!(%feed, error = %outage.error, "the target is still not there; trying again in {pause:?}");
            true
        });
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> (Arc<Target>, watch::Sender<bool>, watch::Receiver<bool>) {
        let (close, closing) = watch::channel(false);
        (Arc::new(Target::new(FeedName::new("f").unwrap(), Backoff::default())), close, closing)
    }

    #[tokio::test(start_paused = true)]
    async fn while_it_is_away_one_finds_out_and_the_pauses_grow() {
        let (target, _close, mut closing) = target();
        target.is_gone(&Failure::target("down"));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let asked = clock::now();
            let turn = target.turn(&mut closing).await.unwrap();
            pauses.push(clock::now() - asked);
            let mut other = closing.clone();
            let second = tokio::time::timeout(Duration::from_secs(60), target.turn(&mut other)).await;
            assert!(second.is_err(), "two find out at once");
            drop(turn);
        }
        assert!(pauses[0] <= Duration::from_millis(100), "{pauses:?}");
        assert!(pauses[11] >= Duration::from_secs(15) && pauses[11] <= Duration::from_secs(30), "{pauses:?}");
        target.is_there();
        let asked = clock::now();
        let (_one, _two) = (target.turn(&mut closing).await, target.turn(&mut closing.clone()).await);
        assert_eq!(clock::now(), asked, "all go on at once");
    }

    #[tokio::test(start_paused = true)]
    async fn the_target_says_when_to_come_back() {
        let (target, _close, mut closing) = target();
        let wait = Duration::from_secs(7);
        target.is_gone(&Failure { retry_after: Some(wait), ..Failure::target("busy") });
        let asked = clock::now();
        target.turn(&mut closing).await.unwrap();
        assert!(clock::now() - asked >= wait);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_wait() {
        let (target, close, mut closing) = target();
        target.is_gone(&Failure { retry_after: Some(Duration::from_secs(3600)), ..Failure::target("down") });
        close.send_replace(true);
        assert!(target.turn(&mut closing).await.is_none());
    }

    #[test]
    fn a_few_bad_objects_are_bad_objects_and_many_in_a_row_are_a_bad_target() {
        let target = Target::new(FeedName::new("f").unwrap(), Backoff::default());
        let fails = |lane| target.failed_for(lane, target.successes(), &Failure::change("no"));
        for _ in 0..3 {
            (1..TOO_MANY_IN_A_ROW as u64).for_each(fails);
            assert!(!target.is_away());
            target.is_there();
        }
        (0..1000).for_each(|_| fails(7));
        assert!(!target.is_away(), "one object, however often");
        (0..1000).for_each(|lane| target.failed_for(lane, 0, &Failure::change("no")));
        assert!(!target.is_away(), "others have succeeded since these first failed");
        (0..TOO_MANY_IN_A_ROW as u64).for_each(fails);
        assert!(target.is_away() && target.may_be_to_blame(target.successes()));
        assert!(!target.may_be_to_blame(0), "it is the object");
        target.is_there();
        assert!(!target.is_away());
    }
}
