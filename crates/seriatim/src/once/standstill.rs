//! For how long a run has stood still, without comparing clocks.

use std::time::Duration;

use tokio::time::Instant;

use super::{Record, Run};

/// Remembers since when one caller has seen a run stand still.
#[derive(Debug, Default)]
pub struct Standstill {
    seen: Option<Sight>,
}

#[derive(Debug)]
struct Sight {
    run: Run,
    /// For how long it had stood still when it was first seen, as the store vouched.
    vouched: Duration,
    /// When the answer that showed it had arrived: the store had read it before.
    since: Instant,
}

impl Standstill {
    /// For how long the run of a record has stood still at least, when the record was `asked` for and arrived at `received`.
    pub fn observe(&mut self, record: &Record, asked: Instant, received: Instant) -> Duration {
        if let Some(sight) = self.seen.as_ref().filter(|sight| sight.run == record.run) {
            let watched = sight.vouched.saturating_add(asked.saturating_duration_since(sight.since));
            return watched.max(record.stood_still);
        }
        let vouched = record.stood_still;
        self.seen = Some(Sight { run: record.run.clone(), vouched, since: received });
        vouched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::once::decide::tests::running;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_vouched_for_and_what_was_seen_add_up() {
        let (mut standstill, start) = (Standstill::default(), clock::now());
        let record = running(SECOND * 3, SECOND * 10);
        assert_eq!(standstill.observe(&record, start, start + SECOND), SECOND * 3);
        // A store without a clock says nothing more: the caller's own eyes count, from when the first answer had arrived.
        let silent = running(Duration::ZERO, SECOND * 10);
        assert_eq!(standstill.observe(&silent, start + SECOND * 5, start + SECOND * 6), SECOND * 7);
        let vouched = running(SECOND * 20, SECOND * 10);
        assert_eq!(standstill.observe(&vouched, start + SECOND * 5, start + SECOND * 6), SECOND * 20);
    }

    #[test]
    fn a_sign_of_life_starts_the_count_anew() {
        let (mut standstill, start) = (Standstill::default(), clock::now());
        let mut record = running(Duration::ZERO, SECOND * 10);
        standstill.observe(&record, start, start);
        record.run.beat += 1;
        assert_eq!(standstill.observe(&record, start + SECOND * 9, start + SECOND * 9), Duration::ZERO);
        assert_eq!(standstill.observe(&record, start + SECOND * 12, start + SECOND * 12), SECOND * 3);
    }
}
