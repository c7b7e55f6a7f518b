//! What a host has done, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// The bounds of the buckets in which times are counted, in seconds. One more bucket counts what took longer.
pub const BOUNDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];

/// Counters of one feed on one host; they only grow.
#[derive(Debug, Default)]
pub struct Stats {
    handled: AtomicU64,
    failures: AtomicU64,
    parked: AtomicU64,
    skipped: AtomicU64,
    redelivered: AtomicU64,
    acquired: AtomicU64,
    lost: AtomicU64,
    checkpoints: AtomicU64,
    times: Times,
}

/// How long changes took, counted by buckets.
#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

/// How long changes took from their commit until they were handled.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// For each of [`BOUNDS`], and for what took longer: how many changes, not cumulated.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All their times together, in seconds.
    pub sum: f64,
}

impl Stats {
    /// Changes that were handled.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Attempts that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Objects that were parked. One that is tried again and fails again counts once.
    pub fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Changes that were dropped after their last attempt, as asked for.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Changes that were given to the handler once more by this host, because a call with them had failed. What a host that died
    /// had handled without a checkpoint is not known to anybody, so it is not in this count.
    pub fn redelivered(&self) -> u64 {
        self.redelivered.load(Ordering::Relaxed)
    }

    /// Leases that this host has taken.
    pub fn acquired(&self) -> u64 {
        self.acquired.load(Ordering::Relaxed)
    }

    /// Leases that this host has lost: not handed over, nor given back.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Checkpoints that this host has written, those of a transactional handler included.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }

    /// How long handled changes took from their commit, by the source's clock, until they were handled, by this host's. Where
    /// the two differ, so does this; a time before the commit counts as none.
    pub fn latency(&self) -> Latency {
        let buckets = self.times.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let microseconds = self.times.microseconds.load(Ordering::Relaxed);
        Latency { buckets, sum: microseconds as f64 / 1e6 }
    }

    pub(crate) fn count(&self, handled: u64, parked: u64, skipped: u64, failures: u64) {
        self.handled.fetch_add(handled, Ordering::Relaxed);
        self.parked.fetch_add(parked, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.failures.fetch_add(failures, Ordering::Relaxed);
    }

    pub(crate) fn count_redelivered(&self, changes: u64) {
        self.redelivered.fetch_add(changes, Ordering::Relaxed);
    }

    pub(crate) fn count_acquired(&self) {
        self.acquired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how long changes took that were committed at these moments and are handled now.
    pub(crate) fn count_times(&self, committed: impl Iterator<Item = Timestamp>, now: Timestamp) {
        let mut buckets = [0; BOUNDS.len() + 1];
        let mut microseconds = 0_u64;
        let mut committed = committed.peekable();
        while let Some(at) = committed.next() {
            // Many were committed at the same moment, by one statement.
            let mut count = 1;
            while committed.next_if_eq(&at).is_some() {
                count += 1;
            }
            let took = now.duration_since(at).max(SignedDuration::ZERO).unsigned_abs();
            let micros =
                took.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(took.subsec_micros()));
            let seconds = micros as f64 / 1e6;
            buckets[BOUNDS.partition_point(|bound| *bound < seconds)] += count;
            microseconds = microseconds.saturating_add(micros.saturating_mul(count));
        }
        for (bucket, count) in self.times.buckets.iter().zip(buckets).filter(|(_, count)| *count > 0) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        self.times.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_the_bucket_whose_bound_they_do_not_exceed() {
        let (stats, now) = (Stats::default(), Timestamp::UNIX_EPOCH);
        let ago = [0, 1, 2, 10_000, 3_600_000].map(|ms| now - SignedDuration::from_millis(ms));
        let ahead = now + SignedDuration::from_hours(1);
        stats.count_times(ago.into_iter().chain([ahead]), now);
        let latency = stats.latency();
        assert_eq!(latency.buckets, [3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert!((latency.sum - 3610.003).abs() < 1e-9, "{}", latency.sum);
    }
}
