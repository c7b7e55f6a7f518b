//! The arithmetic of windows: where one begins and ends, and what of it counts. Pure; time is an argument.
//!
//! ```text
//!        passed          │        window          │   buffer    │
//!  ──────────────────────┼────────────────────────┼─────────────┼──▶ changed_at
//!                      start                    finish         now
//! ```

use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Tie;

/// From which age on a record is of no interest any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// However old it is, it counts.
    Infinite,
    /// Older ones are dropped, and counted.
    Of(Duration),
}

/// What the windows of one feed are cut by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How far a window's end stays behind the present: a change is visible at most this long after the moment that its
    /// timestamp says.
    pub buffer: Duration,
    /// From which age on a record is dropped.
    pub stale_age: Age,
    /// How many records are too many for one window.
    pub excessive_count: NonZeroUsize,
}

/// The tracker: everything before it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Every record that changed before this moment is done.
    pub at: Timestamp,
    /// And those of this very moment up to and including this tie; none of them without one.
    pub tie: Option<Tie>,
}

impl Place {
    /// Before every record that changed at this moment.
    pub fn before(at: Timestamp) -> Self {
        Place { at, tie: None }
    }
}

/// A span of time whose records are wanted: `from <= changed_at < to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first moment in it.
    pub from: Timestamp,
    /// Of the records at `from`, only those whose tie is greater are wanted. Always `None` for a processor without ties.
    pub after: Option<Tie>,
    /// The first moment after it.
    pub to: Timestamp,
    /// How many records to return at most: the first ones, by `changed_at` and then by tie.
    pub limit: usize,
}

/// What is to be done at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The tracker is as far as it may be.
    Rest,
    /// The records of this window are too old: they are to be counted and dropped.
    Drop(Window),
    /// The records of this window are to be processed.
    Process(Window),
}

/// What counts of the records that were fetched for a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// So many of them, from the first; the rest is for the next window.
    pub keep: usize,
    /// The tracker once they are processed.
    pub upto: Place,
    /// The window was read to its end.
    pub complete: bool,
}

/// Why the records of a window cannot be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// There are too many records at one instant to know that it has been read to its end, and nothing to order them by.
    Irreconcilable {
        /// The instant.
        at: Timestamp,
        /// How many records were fetched.
        count: usize,
    },
    /// A record comes before the one that was returned before it.
    OutOfOrder {
        /// The record's moment.
        at: Timestamp,
    },
    /// A record does not lie in the window that was asked for.
    Outside {
        /// The record's moment.
        at: Timestamp,
    },
}

/// A moment, so much earlier; as early as there is one.
pub fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}

/// The last moment that a clock of this resolution can have written before or at this one: it writes everything that happens
/// until its next tick with the same moment, so only what is before that is complete.
pub fn rounded_down(at: Timestamp, resolution: Duration) -> Timestamp {
    let tick = i128::try_from(resolution.as_nanos()).unwrap_or(i128::MAX).max(1);
    let ticks = at.as_nanosecond().div_euclid(tick);
    Timestamp::from_nanosecond(ticks * tick).unwrap_or(Timestamp::MIN)
}

impl Rules {
    /// Why these rules cannot work, if they cannot.
    pub fn wrong(&self) -> Option<String> {
        if self.buffer.is_zero() {
            return Some("the buffer must be longer than zero".to_owned());
        }
        matches!(self.stale_age, Age::Of(age) if age <= self.buffer).then(|| {
            let buffer = self.buffer;
            format!("the stale age must be longer than the buffer ({buffer:?}), or everything is stale before it is seen")
        })
    }

    /// Where a window ends when it is `now` by the source's clock.
    pub fn finish(&self, now: Timestamp) -> Timestamp {
        earlier(now, self.buffer)
    }

    /// Records before this moment are stale.
    pub fn stale_before(&self, now: Timestamp) -> Timestamp {
        match self.stale_age {
            Age::Infinite => Timestamp::MIN,
            Age::Of(age) => earlier(now, age),
        }
    }

    /// Where a feed begins that has no tracker: with the first moment of the epoch, or the first that is not stale.
    pub fn beginning(&self, now: Timestamp) -> Place {
        Place::before(self.stale_before(now).max(Timestamp::UNIX_EPOCH))
    }

    /// What is to be done for a tracker when it is `now` by the source's clock.
    pub fn plan(&self, tracker: &Place, now: Timestamp) -> Plan {
        let finish = self.finish(now);
        let window = |to| Window {
            from: tracker.at,
            after: tracker.tie.clone(),
            to,
            limit: self.excessive_count.get(),
        };
        if tracker.at >= finish {
            return Plan::Rest;
        }
        match self.stale_before(now).min(finish) {
            stale if stale > tracker.at => Plan::Drop(window(stale)),
            _ => Plan::Process(window(finish)),
        }
    }
}

impl Window {
    /// What counts of the records that were fetched for this window, of which each has its moment and its tie.
    pub fn settle(&self, records: &[(Timestamp, Option<Tie>)]) -> Result<Settled, Unsettled> {
        self.check(records)?;
        let complete = Settled { keep: records.len(), upto: Place::before(self.to), complete: true };
        let Some((at, tie)) = records.last().filter(|_| records.len() >= self.limit) else {
            return Ok(complete);
        };
        if tie.is_some() {
            let upto = Place { at: *at, tie: tie.clone() };
            return Ok(Settled { upto, complete: false, ..complete });
        }
        // There may be more at the last instant than were returned: all of it is left for the next window.
        match records.partition_point(|(earlier, _)| earlier < at) {
            0 => Err(Unsettled::Irreconcilable { at: *at, count: records.len() }),
            keep => Ok(Settled { keep, upto: Place::before(*at), complete: false }),
        }
    }

    fn check(&self, records: &[(Timestamp, Option<Tie>)]) -> Result<(), Unsettled> {
        let outside = |at: &Timestamp| *at < self.from || *at >= self.to;
        if let Some((at, _)) = records.iter().find(|(at, _)| outside(at)) {
            return Err(Unsettled::Outside { at: *at });
        }
        match records.windows(2).find(|pair| pair[0].0 > pair[1].0) {
            Some(pair) => Err(Unsettled::OutOfOrder { at: pair[1].0 }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rules(excessive_count: usize) -> Rules {
        let buffer = Duration::from_secs(5);
        Rules {
            buffer,
            stale_age: Age::Infinite,
            excessive_count: NonZeroUsize::new(excessive_count).unwrap(),
        }
    }

    fn window(limit: usize) -> Window {
        Window { from: at(0), after: None, to: at(100), limit }
    }

    fn untied(seconds: &[i64]) -> Vec<(Timestamp, Option<Tie>)> {
        seconds.iter().map(|second| (at(*second), None)).collect()
    }

    fn tied(records: &[(i64, i64)]) -> Vec<(Timestamp, Option<Tie>)> {
        records.iter().map(|(second, tie)| (at(*second), Some(Tie::from(*tie)))).collect()
    }

    #[test]
    fn a_window_reaches_from_the_tracker_to_the_buffer() {
        let Plan::Process(window) = rules(3).plan(&Place::before(at(10)), at(100)) else { panic!() };
        assert_eq!((window.from, window.to, window.limit), (at(10), at(95), 3));
    }

    #[test]
    fn nothing_is_fetched_while_the_buffer_covers_everything() {
        for now in [0, 10, 14, 15] {
            assert_eq!(rules(3).plan(&Place::before(at(10)), at(now)), Plan::Rest, "{now}");
        }
        assert_ne!(rules(3).plan(&Place::before(at(10)), at(16)), Plan::Rest);
    }

    #[test]
    fn what_is_stale_is_a_window_of_its_own() {
        let rules = Rules { stale_age: Age::Of(Duration::from_secs(50)), ..rules(3) };
        let Plan::Drop(stale) = rules.plan(&Place::before(at(10)), at(100)) else { panic!() };
        assert_eq!((stale.from, stale.to), (at(10), at(50)));
        let Plan::Process(rest) = rules.plan(&Place::before(at(50)), at(100)) else { panic!() };
        assert_eq!((rest.from, rest.to), (at(50), at(95)));
        assert_eq!(rules.beginning(at(100)), Place::before(at(50)));
        assert_eq!(rules.beginning(at(20)), Place::before(at(0)), "never before the epoch");
    }

    #[test]
    fn what_is_younger_than_the_buffer_is_not_dropped_even_if_it_is_stale() {
        let rules = Rules { stale_age: Age::Of(Duration::from_secs(1)), ..rules(3) };
        let Plan::Drop(stale) = rules.plan(&Place::before(at(10)), at(100)) else { panic!() };
        assert_eq!(stale.to, at(95));
    }

    #[test]
    fn one_two_three_three_with_three_is_one_and_two_and_then_both_threes() {
        let settled = window(3).settle(&untied(&[1, 2, 3])).unwrap();
        assert_eq!((settled.keep, settled.upto.clone(), settled.complete), (2, Place::before(at(3)), false));
        let next = Window { from: at(3), ..window(3) };
        let settled = next.settle(&untied(&[3, 3])).unwrap();
        assert_eq!((settled.keep, settled.upto, settled.complete), (2, Place::before(at(100)), true));
    }

    #[test]
    fn exactly_as_many_as_are_too_many_are_too_many() {
        let settled = window(3).settle(&untied(&[1, 2, 3])).unwrap();
        assert_eq!(settled.keep, 2, "one cannot know that there is no fourth at 3");
        assert!(window(4).settle(&untied(&[1, 2, 3])).unwrap().complete);
    }

    #[test]
    fn too_many_at_one_instant_are_irreconcilable_without_a_tie() {
        let error = window(3).settle(&untied(&[7, 7, 7])).unwrap_err();
        assert_eq!(error, Unsettled::Irreconcilable { at: at(7), count: 3 });
        let error = window(1).settle(&untied(&[7])).unwrap_err();
        assert_eq!(error, Unsettled::Irreconcilable { at: at(7), count: 1 });
    }

    #[test]
    fn with_a_tie_an_instant_goes_on_where_the_page_ended() {
        let settled = window(3).settle(&tied(&[(7, 1), (7, 2), (7, 3)])).unwrap();
        let upto = Place { at: at(7), tie: Some(Tie::from(3)) };
        assert_eq!((settled.keep, settled.upto.clone(), settled.complete), (3, upto, false));
        let Plan::Process(next) = rules(3).plan(&settled.upto, at(200)) else { panic!() };
        assert_eq!((next.from, next.after), (at(7), Some(Tie::from(3))));
        assert_eq!(window(1).settle(&tied(&[(7, 1)])).unwrap().keep, 1, "also one at a time");
    }

    #[test]
    fn an_empty_window_moves_the_tracker_to_its_end() {
        let settled = window(3).settle(&[]).unwrap();
        assert_eq!((settled.keep, settled.upto, settled.complete), (0, Place::before(at(100)), true));
    }

    #[test]
    fn records_outside_the_window_or_out_of_order_are_found() {
        assert_eq!(window(9).settle(&untied(&[1, 100])).unwrap_err(), Unsettled::Outside { at: at(100) });
        assert_eq!(window(9).settle(&untied(&[-1])).unwrap_err(), Unsettled::Outside { at: at(-1) });
        assert_eq!(window(9).settle(&untied(&[2, 1])).unwrap_err(), Unsettled::OutOfOrder { at: at(1) });
    }

    #[test]
    fn a_coarse_clock_has_written_nothing_more_before_its_last_tick() {
        let half = "2026-11-15T08:00:10.5Z".parse().unwrap();
        let whole = "2026-11-15T08:00:10Z".parse().unwrap();
        assert_eq!(rounded_down(half, Duration::from_secs(1)), whole);
        assert_eq!(rounded_down(half, Duration::from_millis(1)), half);
        let before_1970 = "1969-12-31T23:59:58.5Z".parse().unwrap();
        assert_eq!(
            rounded_down(before_1970, Duration::from_secs(1)),
            "1969-12-31T23:59:58Z".parse().unwrap()
        );
    }

    #[test]
    fn spans_beyond_the_calendar_do_not_fail() {
        let rules = Rules { buffer: Duration::MAX, stale_age: Age::Of(Duration::MAX), ..rules(3) };
        assert_eq!(rules.plan(&Place::before(at(0)), at(100)), Plan::Rest);
        assert_eq!(rules.stale_before(at(0)), Timestamp::MIN);
    }
}
