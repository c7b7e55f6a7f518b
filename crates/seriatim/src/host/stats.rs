//! What a host has done, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one feed on one host; they only grow.
#[derive(Debug, Default)]
pub struct Stats {
    handled: AtomicU64,
    failures: AtomicU64,
    parked: AtomicU64,
    skipped: AtomicU64,
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

    /// Changes that were parked.
    pub fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Changes that were dropped after their last attempt, as asked for.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, handled: u64, parked: u64, skipped: u64, failures: u64) {
        self.handled.fetch_add(handled, Ordering::Relaxed);
        self.parked.fetch_add(parked, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.failures.fetch_add(failures, Ordering::Relaxed);
    }
}
