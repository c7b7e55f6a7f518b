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
    Timestamp::now()
}
