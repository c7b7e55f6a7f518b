//! When a failed change is tried again, and what comes after the last try.

use std::time::Duration;

/// The pause between two attempts: doubled each time, with jitter, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The pause after so many failed attempts, for a `jitter` drawn from `0.0..1.0`.
    ///
    /// Between half of the doubled pause and the whole of it: hosts that failed together do not come back together.
    pub fn pause(&self, failed: u32, jitter: f64) -> Duration {
        let doubled =
            self.first.saturating_mul(1u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX));
        doubled.min(self.longest).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

/// What happens to a change after its last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    /// Its object is parked; everything else goes on.
    Park,
    /// It is dropped, counted and logged.
    Skip,
    /// The feed stops, naming the change.
    Stop,
}

/// The rule for failed changes of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// All tries, the first included.
    pub attempts: u32,
    /// The pauses between them.
    pub backoff: Backoff,
    /// What comes after the last.
    pub then: Then,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 5, backoff: Backoff::default(), then: Then::Park }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let pauses: Vec<u128> = (1..=6).map(|failed| backoff.pause(failed, 1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.pause(1, 0.0).as_millis(), 50);
        assert_eq!(backoff.pause(u32::MAX, 1.0).as_millis(), 1000);
    }
}
