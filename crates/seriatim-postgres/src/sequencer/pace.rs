//! How often to look. Nothing here asks for the time.

use std::time::Duration;

/// While things happen.
pub(super) const BUSY: Duration = Duration::from_millis(1);

/// While nothing does, at most. A change in an idle feed waits half of this on average.
pub(super) const IDLE: Duration = Duration::from_millis(16);

/// How often the sequencer shows that it is alive. Every process that listens pays for it with a transaction.
pub(super) const BEAT: Duration = Duration::from_millis(700);

/// How long a sequencer may be silent before another takes over (as in `sequencer_hold.sql`, and a little more: of those who wait, the
/// server's clock decides).
pub(super) const SILENT: Duration = Duration::from_millis(1900);

/// After an error, at first and at most.
const FAILING: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Something was committed.
    Moved,
    /// Nothing was.
    Still,
    /// The database did not answer.
    Failed,
}

/// How long to pause after this, when the last pause was that long: longer each time that nothing happens.
pub(super) fn pause(last: Duration, outcome: Outcome) -> Duration {
    match outcome {
        Outcome::Moved => BUSY,
        Outcome::Still => (last * 3 / 2).clamp(BUSY, IDLE),
        Outcome::Failed => (last * 2).clamp(FAILING.0, FAILING.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_sequencer_looks_sixty_times_a_second_and_a_busy_one_at_once() {
        let mut last = BUSY;
        for _ in 0..10 {
            last = pause(last, Outcome::Still);
        }
        assert_eq!(last, IDLE);
        assert_eq!(pause(last, Outcome::Moved), BUSY);
    }

    #[test]
    fn a_sequencer_is_heard_several_times_before_it_is_taken_for_dead() {
        assert!(SILENT > BEAT * 5 / 2);
    }
}
