//! What can be set about a host and its feeds.

use std::time::Duration;

use super::CheckpointPolicy;
use super::partition::machine::HealRules;
use crate::handler::{Backoff, Retry};
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

/// How much may be parked. What is reached is not lost and not passed: the partition waits until there is room again.
///
/// The feed's bounds are shared out evenly among its partitions. What a partition holds in memory when it reaches a bound
/// still comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkLimits {
    /// Changes of one object.
    pub object_changes: u64,
    /// Bytes of one object's changes, roughly.
    pub object_bytes: u64,
    /// Objects of the feed.
    pub objects: u64,
    /// Changes of the feed.
    pub changes: u64,
    /// Bytes of the feed's changes, roughly.
    pub bytes: u64,
}

impl Default for ParkLimits {
    fn default() -> Self {
        ParkLimits {
            object_changes: 100_000,
            object_bytes: 64 << 20,
            objects: 100_000,
            changes: 1_000_000,
            bytes: 1 << 30,
        }
    }
}

impl ParkLimits {
    /// What one of so many partitions may park.
    pub(crate) fn share(self, partitions: u32) -> Self {
        let share = |of: u64| of.div_ceil(u64::from(partitions.max(1)));
        ParkLimits {
            objects: share(self.objects),
            changes: share(self.changes),
            bytes: share(self.bytes),
            ..self
        }
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
    /// How much may be parked.
    pub parked: ParkLimits,
    /// After which pauses a parked object is tried again by itself, doubled each time; `None` to leave it to people. One object
    /// for each kind of error finds out whether it goes well now; the others of its kind follow it.
    pub heal: Option<Backoff>,
    /// When a checkpoint is written. A transactional handler writes its own, with each of its effects.
    pub checkpoint: CheckpointPolicy,
    /// How long an idle feed waits before it looks again, unless the source wakes it.
    pub idle: Duration,
    /// Whether each change names the change of the same object before it ([`Change::prev`](crate::Change::prev)). The store keeps the last
    /// id of each object for it.
    pub chain: bool,
}

/// The usual pauses before a parked object is tried again.
pub const HEAL: Backoff = Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(3600) };

/// So many probes of parked objects a feed makes at most in the first of the pauses, over all hosts: each partition has its share.
const PROBES: u32 = 60;

impl Default for FeedSettings {
    fn default() -> Self {
        FeedSettings {
            start: Start::Beginning,
            batch: 100,
            concurrency: 8,
            timeout: Duration::from_secs(30),
            retry: Retry::default(),
            parked: ParkLimits::default(),
            heal: Some(HEAL),
            checkpoint: CheckpointPolicy::default(),
            idle: Duration::from_millis(50),
            chain: false,
        }
    }
}

impl FeedSettings {
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        match self {
            FeedSettings { batch: 0, .. } => Some("batch must be at least 1"),
            FeedSettings { concurrency: 0, .. } => Some("concurrency must be at least 1"),
            FeedSettings { checkpoint: CheckpointPolicy::Changes(0), .. } => {
                Some("a checkpoint every 0 changes cannot be; say at least 1")
            }
            FeedSettings { retry, .. } if retry.attempts == 0 => Some("retry.attempts must be at least 1"),
            _ => None,
        }
    }

    /// How one of so many partitions tries parked objects again.
    pub(crate) fn heal_rules(&self, partitions: u32) -> HealRules {
        let gap = self.heal.map_or(Duration::ZERO, |pauses| pauses.first * partitions.max(1) / PROBES);
        HealRules { pauses: self.heal, gap }
    }

    /// A partition that holds fewer changes than this asks for more.
    pub(crate) fn enough(&self) -> usize {
        self.batch.saturating_mul(self.concurrency).clamp(1, 10_000)
    }
}
