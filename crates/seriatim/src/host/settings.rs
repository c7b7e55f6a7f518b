//! What can be set about a host and its feeds.

use std::time::Duration;

use crate::handler::Retry;
use crate::source::Start;

/// How leases are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How often a host looks for leases to take.
    pub acquire: Duration,
    /// How often it renews its own.
    pub renew: Duration,
    /// How long a silent owner keeps its leases.
    pub expire: Duration,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        LeaseSettings {
            acquire: Duration::from_secs(1),
            // Renew at less than a third of the expiry: two lost renewals must not cost the lease.
            renew: Duration::from_secs(3),
            expire: Duration::from_secs(10),
        }
    }
}

impl LeaseSettings {
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        (self.renew * 2 > self.expire).then_some("a lease must expire after two renewals at the earliest")
    }

    /// How long after it *sent* its last good renewal an owner still trusts its lease.
    ///
    /// Others count the whole expiry from a moment after that, so the tenth in between is time to stop in.
    pub(crate) fn trust(&self) -> Duration {
        self.expire - self.expire / 10
    }
}

/// How one feed is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSettings {
    /// Where it begins when it has no checkpoint yet.
    pub start: Start,
    /// How many changes a handler gets at most in one call.
    pub batch: usize,
    /// How many calls run at the same time in one partition. A transactional handler always runs one.
    pub concurrency: usize,
    /// How long one call may take. Applies to a transactional handler only where its effect can be given up halfway (PostgreSQL).
    pub timeout: Duration,
    /// What happens to changes that fail.
    pub retry: Retry,
    /// How long done work may stay without a checkpoint: what a crash makes a handler see again.
    pub checkpoint_every: Duration,
    /// How long an idle feed waits before it looks again, unless the source wakes it.
    pub idle: Duration,
}

impl Default for FeedSettings {
    fn default() -> Self {
        FeedSettings {
            start: Start::Beginning,
            batch: 100,
            concurrency: 8,
            timeout: Duration::from_secs(30),
            retry: Retry::default(),
            checkpoint_every: Duration::from_millis(100),
            idle: Duration::from_secs(1),
        }
    }
}

impl FeedSettings {
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        match self {
            FeedSettings { batch: 0, .. } => Some("batch must be at least 1"),
            FeedSettings { concurrency: 0, .. } => Some("concurrency must be at least 1"),
            FeedSettings { retry, .. } if retry.attempts == 0 => Some("retry.attempts must be at least 1"),
            _ => None,
        }
    }

    /// A partition that holds fewer changes than this asks for more.
    pub(crate) fn enough(&self) -> usize {
        self.batch.saturating_mul(self.concurrency).clamp(1, 10_000)
    }
}
