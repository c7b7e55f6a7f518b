//! Whether a feed's target is there, as one host sees it. Pure: no I/O, no clock.
//!
//! ```text
//!   there ──a handler says it is gone, or several objects fail in a row, or everything fails for some seconds──▶ away
//!     ▲                                                                                                           │
//!     │                                         one call at a time finds out, after growing pauses ◀──────────────┤
//!     └──────────── something succeeded: what was parked meanwhile is released ───────────────────────────────────┘
//! ```
//!
//! While it is away nothing is given up: a failure says nothing about the object that failed. Unless something else has
//! succeeded since the object first failed: then it is the object, whatever else is wrong.
//!
//! Each call that finds out is one of another object: the one that failed steps aside, and those that were not tried yet have
//! their turn. So a few bad objects in a row hold nobody for long: the first good one shows that the target is there.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::At;
use crate::handler::{Backoff, Failure, FailureKind};
use crate::host::rounded::Rounded;
use crate::name::FeedName;

/// When so many objects failed one after another and nothing succeeded in between, it is not the objects.
pub(crate) const TOO_MANY_IN_A_ROW: usize = 3;

/// When everything failed for longer than this, it is not the objects either.
const TOO_LONG: Duration = Duration::from_secs(5);

/// The longest pause between two calls that find out, unless the first pause is set to be longer. A bad object among them costs one
/// pause more, and everybody waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A target that is not there.
#[derive(Clone, Debug)]
pub struct Outage {
    /// Since when, by this host's clock; for people to read.
    pub since: Timestamp,
    /// What the handler said last.
    pub error: String,
    failures: u32,
    next_try: Instant,
    /// A call is finding out whether it is back.
    probed: bool,
}

/// What all partitions of a feed on this host know about its target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose it is, for the log.
    feed: FeedName,
    backoff: Backoff,
    outage: Option<Outage>,
    /// How often something succeeded.
    successes: u64,
    /// The objects that failed since anything last succeeded.
    failed_in_a_row: BTreeSet<u64>,
    /// When the first call failed since anything last succeeded.
    failing_since: Option<Instant>,
    recovery: Recovery,
    /// Moves when calls that wait for the target should look again.
    version: u64,
}

/// The last outage that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many there were so far.
    pub number: u64,
    /// When its first call failed.
    pub since: Option<Instant>,
}

/// Whether a handler may be called now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The target is there.
    Call,
    /// It is away, and this call finds out whether it is back ([`Target::probe_ended`] follows it).
    Probe,
    /// It is away. At this moment a call may find out; `None` while another one does.
    Wait(Option<Instant>),
}

impl Target {
    pub fn new(feed: FeedName, backoff: Backoff) -> Self {
        Target {
            feed,
            backoff,
            outage: None,
            successes: 0,
            failed_in_a_row: BTreeSet::new(),
            failing_since: None,
            recovery: Recovery::default(),
            version: 0,
        }
    }

    /// What is wrong with it; `None` when it is there.
    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// The last outage that is over.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Moves when calls that wait for the target should look again.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How often something succeeded so far.
    pub fn successes(&self) -> u64 {
        self.successes
    }

    /// Whether anything has succeeded since there were so many successes: what fails since then fails alone.
    pub fn has_succeeded_since(&self, successes: u64) -> bool {
        self.successes > successes
    }

    /// Whether a failure now may be the target's fault, for an object that first failed after so many successes.
    pub fn may_be_to_blame(&self, since: u64) -> bool {
        self.outage.is_some() && !self.has_succeeded_since(since)
    }

    /// Whether a handler may be called now.
    pub fn turn(&mut self, now: Instant) -> Turn {
        match &mut self.outage {
            None => Turn::Call,
            Some(outage) if outage.probed => Turn::Wait(None),
            Some(outage) if outage.next_try > now => Turn::Wait(Some(outage.next_try)),
            Some(outage) => {
                outage.probed = true;
                Turn::Probe
            }
        }
    }

    /// The call that was to find out has ended, whatever came of it.
    pub fn probe_ended(&mut self, at: At) {
        // An outage that began after this probe is not its business; its first pause is as good.
        let Some(outage) = &mut self.outage else { return };
        outage.probed = false;
        self.version += 1;
        outage.failures = outage.failures.saturating_add(1);
        let pause = self.backoff.pause(outage.failures, at.jitter).min(LONGEST_PAUSE.max(self.backoff.first));
        outage.next_try = outage.next_try.max(at.now + pause);
        // What is said is what is done: the target itself may have asked for a longer pause.
        let (feed, pause) = (&self.feed, Rounded(outage.next_try.saturating_duration_since(at.now)));
        tracing::warn!(%feed, error = %outage.error, "the target is still not there; trying again in {pause}");
    }

    /// The handler says that the target is not there, for an object that first failed after so many successes.
    pub fn is_gone(&mut self, since: u64, failure: &Failure, at: At) {
        if self.has_succeeded_since(since) {
            return;
        }
        self.failing_since.get_or_insert(at.now);
        let wait = failure.retry_after.unwrap_or_default();
        self.note(
            failure.to_string(),
            wait,
            at,
            "the target is not there: nothing is handled until it is back",
        );
    }

    /// A change of this object failed, for the first time after so many successes. Several such objects in a row are no accident,
    /// unless they can never succeed.
    pub fn failed_for(&mut self, lane: u64, since: u64, failure: &Failure, at: At) {
        if failure.kind != FailureKind::Change || self.has_succeeded_since(since) {
            return;
        }
        if self.failed_in_a_row.len() < TOO_MANY_IN_A_ROW {
            self.failed_in_a_row.insert(lane);
        }
        self.call_failed(since, failure, at);
    }

    /// A call failed, of changes that first failed after so many successes. Whose fault it is may not be known yet.
    pub fn call_failed(&mut self, since: u64, failure: &Failure, at: At) {
        if failure.kind != FailureKind::Change || self.has_succeeded_since(since) {
            return;
        }
        let began = *self.failing_since.get_or_insert(at.now);
        let fails_for_long = at.now.saturating_duration_since(began) > TOO_LONG;
        if fails_for_long || self.failed_in_a_row.len() >= TOO_MANY_IN_A_ROW {
            let what =
                "everything fails: the target must be ill, and nothing is parked until something succeeds";
            self.note(failure.to_string(), failure.retry_after.unwrap_or_default(), at, what);
        }
    }

    /// Something was handled: the target is there.
    pub fn is_there(&mut self) {
        self.successes += 1;
        self.failed_in_a_row.clear();
        let since = self.failing_since.take();
        if self.outage.take().is_some() {
            self.version += 1;
            self.recovery = Recovery { number: self.recovery.number + 1, since };
            tracing::info!(feed = %self.feed, "the target is back");
        }
    }

    fn note(&mut self, error: String, wait: Duration, at: At, alarm: &str) {
        self.version += 1;
        match &mut self.outage {
            Some(outage) => {
                outage.error = error;
                outage.next_try = outage.next_try.max(at.now + wait);
            }
            None => {
                let pause = self.backoff.pause(1, at.jitter).max(wait);
                tracing::error!(feed = %self.feed, %error, "{alarm}; trying again in {}", Rounded(pause));
                let next_try = at.now + pause;
                self.outage = Some(Outage { since: at.wall, error, failures: 1, next_try, probed: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: Instant) -> At {
        At { now, wall: Timestamp::UNIX_EPOCH, jitter: 1.0 }
    }

    fn target() -> Target {
        Target::new(FeedName::new("f").unwrap(), Backoff::default())
    }

    #[tokio::test(start_paused = true)]
    async fn while_it_is_away_one_call_finds_out_and_the_pauses_grow() {
        let (mut target, mut now) = (target(), crate::clock::now());
        target.is_gone(0, &Failure::target("down"), at(now));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let Turn::Wait(Some(due)) = target.turn(now) else { panic!("{target:?}") };
            pauses.push(due - now);
            now = due;
            assert_eq!(target.turn(now), Turn::Probe);
            assert_eq!(target.turn(now), Turn::Wait(None), "two find out at once");
            target.probe_ended(at(now));
        }
        assert_eq!(pauses[0], Duration::from_millis(100));
        assert_eq!(pauses[11], LONGEST_PAUSE);
        target.is_there();
        assert_eq!((target.turn(now), target.turn(now)), (Turn::Call, Turn::Call), "all go on at once");
    }

    #[tokio::test(start_paused = true)]
    async fn the_target_says_when_to_come_back() {
        let (mut target, now) = (target(), crate::clock::now());
        let wait = Duration::from_secs(7);
        target.is_gone(0, &Failure { retry_after: Some(wait), ..Failure::target("busy") }, at(now));
        assert_eq!(target.turn(now), Turn::Wait(Some(now + wait)));
    }

    fn no() -> Failure {
        Failure::change("no")
    }

    fn fails(target: &mut Target, lane: u64, now: Instant) {
        target.failed_for(lane, target.successes(), &no(), at(now));
    }

    #[tokio::test(start_paused = true)]
    async fn two_bad_objects_are_bad_objects_and_three_in_a_row_are_a_bad_target() {
        let (mut target, now) = (target(), crate::clock::now());
        for _ in 0..3 {
            (1..TOO_MANY_IN_A_ROW as u64).for_each(|lane| fails(&mut target, lane, now));
            assert!(target.outage().is_none());
            target.is_there();
        }
        (0..1000).for_each(|_| fails(&mut target, 7, now));
        assert!(target.outage().is_none(), "one object, however often");
        (0..1000).for_each(|lane| target.failed_for(lane, 0, &no(), at(now)));
        assert!(target.outage().is_none(), "others have succeeded since these first failed");
        (0..1000).for_each(|lane| target.failed_for(lane, 3, &Failure::poison("never"), at(now)));
        assert!(target.outage().is_none(), "these requests are bad themselves");
        (0..TOO_MANY_IN_A_ROW as u64).for_each(|lane| fails(&mut target, lane, now));
        assert!(target.outage().is_some() && target.may_be_to_blame(target.successes()));
        assert!(!target.may_be_to_blame(0), "it is the object");
        target.is_there();
        assert!(target.outage().is_none());
        assert_eq!(target.recovery(), Recovery { number: 1, since: Some(now) });
    }

    #[tokio::test(start_paused = true)]
    async fn everything_that_fails_for_five_seconds_is_a_bad_target() {
        let (mut target, now) = (target(), crate::clock::now());
        fails(&mut target, 7, now);
        fails(&mut target, 7, now + TOO_LONG);
        assert!(target.outage().is_none());
        fails(&mut target, 7, now + TOO_LONG + Duration::from_millis(1));
        assert!(target.outage().is_some());
        // Of calls with many changes it may not be known who is to blame.
        target.is_there();
        target.call_failed(1, &no(), at(now));
        target.call_failed(1, &no(), at(now + TOO_LONG * 2));
        assert!(target.outage().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_for_which_the_target_is_gone_while_others_succeed_is_bad_itself() {
        let (mut target, now) = (target(), crate::clock::now());
        target.is_gone(0, &Failure::target("busy"), at(now));
        target.is_there();
        target.is_gone(0, &Failure::target("busy"), at(now));
        assert!(target.outage().is_none());
    }
}
