//! How long the first to ask waits for the others, so that one pass serves them all. Pure: no I/O, no clock.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::name::Partition;

/// How long the first to ask waits for the others.
const GATHER: Duration = Duration::from_millis(2);

/// How long it waits at most for those whom the last pass served, if that pass took as long: a pass for each of them alone would
/// take longer than the wait.
const GATHER_AGAIN: Duration = Duration::from_millis(50);

/// Since when somebody waits, and what the last pass was like.
#[derive(Default)]
pub(super) struct Gathering {
    since: Option<Instant>,
    served: HashSet<Partition>,
    took: Duration,
}

impl Gathering {
    /// Somebody waits from now on.
    pub fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// A pass for these has ended, which took so long. Whoever still waits does so from now on.
    pub fn passed(&mut self, served: HashSet<Partition>, took: Duration, now: Instant) {
        *self = Gathering { since: Some(now), served, took };
    }

    /// Until when the next pass waits for those who have never asked.
    pub fn first(&self, all_have_asked: bool) -> Option<Instant> {
        self.since.filter(|_| !all_have_asked).map(|since| since + GATHER)
    }

    /// Until when the next pass waits for others than those who are here, when so many are open.
    pub fn again(&self, open: usize, here: &HashSet<Partition>) -> Option<Instant> {
        let since = self.since.filter(|_| here.len() < open)?;
        let those_of_the_last_pass = !self.served.is_subset(here);
        let more = self.took.saturating_sub(GATHER).min(GATHER_AGAIN);
        Some(since + GATHER + if those_of_the_last_pass { more } else { Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(numbers: std::ops::Range<u32>) -> HashSet<Partition> {
        numbers.map(Partition).collect()
    }

    #[test]
    fn others_are_waited_for_as_long_as_a_pass_for_them_alone_would_take() {
        let now = crate::clock::now();
        let mut gathering = Gathering::default();
        gathering.begin(now);
        assert_eq!(gathering.again(4, &partitions(0..1)), Some(now + GATHER));
        assert_eq!(gathering.again(4, &partitions(0..4)), None);
        gathering.passed(partitions(0..3), Duration::from_millis(12), now);
        assert_eq!(gathering.again(4, &partitions(0..2)), Some(now + Duration::from_millis(12)));
        assert_eq!(gathering.again(4, &partitions(0..3)), Some(now + GATHER));
        gathering.passed(partitions(0..3), Duration::from_secs(12), now);
        assert_eq!(gathering.again(4, &partitions(0..2)), Some(now + GATHER + GATHER_AGAIN));
    }

    #[test]
    fn nobody_waits_for_those_who_are_read_for_without_asking() {
        let now = crate::clock::now();
        let mut gathering = Gathering::default();
        gathering.begin(now);
        assert_eq!(gathering.first(false), Some(now + GATHER));
        assert_eq!(gathering.first(true), None);
    }
}
