//! How often to tick. Nothing here asks for the time.

use std::time::Duration;

/// While things happen.
pub(crate) const BUSY: Duration = Duration::from_millis(5);

/// While nothing does, at most.
const IDLE: Duration = Duration::from_millis(200);

/// While another process is at it: how often to see whether it still is.
pub(super) const ELSEWHERE: Duration = Duration::from_millis(300);

/// After an error, at most.
const FAILING: Duration = Duration::from_secs(2);

/// What came of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Something was committed.
    Moved,
    /// Nothing was.
    Still,
    /// Another process is at it.
    Elsewhere,
    /// The database did not answer.
    Failed,
}

/// How long to pause after this, when the last pause was that long: twice as long each time that nothing happens.
pub(super) fn pause(last: Duration, outcome: Outcome) -> Duration {
    match outcome {
        Outcome::Moved => BUSY,
        Outcome::Still => (last * 2).clamp(BUSY, IDLE),
        Outcome::Elsewhere => ELSEWHERE,
        Outcome::Failed => (last * 2).clamp(ELSEWHERE, FAILING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_sequencer_ticks_a_few_times_a_second_and_a_busy_one_at_once() {
        let mut last = BUSY;
        for _ in 0..10 {
            last = pause(last, Outcome::Still);
        }
        assert_eq!(last, IDLE);
        assert_eq!(pause(last, Outcome::Moved), BUSY);
    }
}
