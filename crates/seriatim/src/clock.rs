//! The only place that asks what time it is. Everywhere else, time is an argument.

use jiff::Timestamp;
use tokio::time::Instant;

/// The monotonic time: all that waiting and expiry are judged by. Follows simulated time in tests.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of day on this machine, for people to read; no decision depends on it.
#[allow(clippy::disallowed_methods)]
pub fn wall() -> Timestamp {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = crate::simulation::wall() {
        return simulated;
    }
    let now = Timestamp::now();
    #[cfg(test)]
    let now = now + skew::of_this_thread();
    now
}

/// Clocks that are wrong, for tests.
#[cfg(test)]
pub(crate) mod skew {
    use std::cell::Cell;

    use jiff::SignedDuration;

    thread_local! {
        static SKEW: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
    }

    /// From now on, the time of day on this thread is wrong by so much.
    pub(crate) fn set(skew: SignedDuration) {
        SKEW.set(skew);
    }

    pub(super) fn of_this_thread() -> SignedDuration {
        SKEW.get()
    }
}
