//! When parked objects are tried again by themselves. Pure: no I/O, no clock.
//!
//! ```text
//!   parked ──its pause is over, and nobody else of its kind of error is tried──▶ one probe
//!     ▲                                                                          │     │
//!     └──────────────── failed: a longer pause, and one for its kind ────────────┘     │ handled
//!   others of its kind ◀── follow at once, as long as more of them succeed than fail ──┘
//! ```
//!
//! However many objects are parked, a target that is still ill gets one call for each kind of error in the shortest pause, and a
//! partition makes only its share of the probes that a feed makes in that time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::handler::Backoff;
use crate::store::group_of;

/// Kinds of errors that are told apart; all others count as one.
const MOST_GROUPS: usize = 16;

/// So many successes ahead of its failures a group may be: it follows no further once they are used up.
const MOST_CREDIT: u32 = 16;

/// How parked objects of a partition are tried again by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealRules {
    /// The pauses, doubled each time; `None` when they wait for somebody to ask.
    pub pauses: Option<Backoff>,
    /// The time between two probes of this partition.
    pub gap: Duration,
}

#[derive(Clone, Debug)]
struct Waiting {
    /// `None` when it waits for somebody to ask.
    due: Option<Instant>,
    group: String,
    /// When it was parked here; `None` for one that an earlier owner parked.
    parked_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Group {
    due: BTreeSet<(Instant, String)>,
    /// No probe before this.
    not_before: Instant,
    /// It follows a probe that succeeded while this lasts.
    credit: u32,
}

/// What is parked and waits for its time, by the kind of its error.
#[derive(Clone, Debug)]
pub(super) struct Healing {
    rules: HealRules,
    waiting: BTreeMap<String, Waiting>,
    groups: BTreeMap<String, Group>,
    /// Those that were parked while the target was away, which is over.
    released: BTreeSet<String>,
    /// Those that are tried just now, with their groups.
    trying: BTreeMap<String, String>,
    /// No probe of this partition before this.
    next_probe: Instant,
}

impl Healing {
    pub fn new(rules: HealRules, now: Instant) -> Self {
        Healing {
            rules,
            waiting: BTreeMap::new(),
            groups: BTreeMap::new(),
            released: BTreeSet::new(),
            trying: BTreeMap::new(),
            next_probe: now,
        }
    }

    /// The pause before an object is tried again that was parked at this moment: each is as long as all before it and one more, so
    /// they double.
    pub fn pause(&self, parked: Instant, now: Instant) -> Option<Duration> {
        let Backoff { first, longest } = self.rules.pauses?;
        Some(now.saturating_duration_since(parked).saturating_add(first).min(longest))
    }

    /// The pause that is left of an object that an earlier owner parked. Its clock may have been another.
    pub fn pause_left(&self, next_try: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
        let Backoff { first, longest } = self.rules.pauses?;
        let left = next_try.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
        Some(left.unwrap_or(first).min(longest))
    }

    /// The object is parked with this error.
    pub fn parks(&mut self, identity: &str, error: &str, due: Option<Instant>, parked_at: Option<Instant>) {
        self.forget_waiting(identity);
        let name = group_of(error);
        let name = if self.groups.contains_key(&name) || self.groups.len() < MOST_GROUPS {
            name
        } else {
            String::new()
        };
        if let Some(due) = due {
            let fresh = || Group { due: BTreeSet::new(), not_before: due, credit: 0 };
            self.groups.entry(name.clone()).or_insert_with(fresh).due.insert((due, identity.to_owned()));
        }
        self.waiting.insert(identity.to_owned(), Waiting { due, group: name, parked_at });
    }

    /// The object waits no more: it is tried, or gone.
    pub fn forget_waiting(&mut self, identity: &str) {
        self.released.remove(identity);
        let Some(Waiting { due, group, .. }) = self.waiting.remove(identity) else { return };
        let Some((due, kept)) = due.zip(self.groups.get_mut(&group)) else { return };
        kept.due.remove(&(due, identity.to_owned()));
        if kept.due.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// Nothing is kept of the object any more.
    pub fn forget(&mut self, identity: &str) {
        self.forget_waiting(identity);
        self.trying.remove(identity);
    }

    /// Something of an object was handled: its group follows.
    pub fn succeeded(&mut self, identity: &str) {
        let Some(name) = self.trying.remove(identity) else { return };
        if let Some(group) = self.groups.get_mut(&name) {
            group.credit = (group.credit + 2).min(MOST_CREDIT);
        }
    }

    /// An object that was tried is to be parked again.
    pub fn failed(&mut self, identity: &str, now: Instant) {
        let Some(name) = self.trying.remove(identity) else { return };
        let first = self.rules.pauses.map_or(Duration::ZERO, |pauses| pauses.first);
        if let Some(group) = self.groups.get_mut(&name) {
            group.credit = group.credit.saturating_sub(1);
            group.not_before = now + first;
        }
    }

    /// The target was away since then, and is back.
    pub fn release(&mut self, since: Instant) {
        let meanwhile = |waiting: &Waiting| waiting.parked_at.is_some_and(|parked| parked >= since);
        let released = self.waiting.iter().filter(|(_, waiting)| meanwhile(waiting));
        self.released.extend(released.map(|(identity, _)| identity.clone()));
    }

    /// The next object to be tried, if so few are that another may be.
    pub fn take(&mut self, now: Instant, most: usize) -> Option<String> {
        if self.next_due(now, most)? > now {
            return None;
        }
        let identity = self.next_in_line(now)?;
        let group = self.waiting.get(&identity)?.group.clone();
        self.forget_waiting(&identity);
        self.trying.insert(identity.clone(), group);
        Some(identity)
    }

    fn next_in_line(&mut self, now: Instant) -> Option<String> {
        if let Some(identity) = self.released.first() {
            return Some(identity.clone());
        }
        let first_of = |group: &Group| group.due.first().cloned();
        if let Some((_, identity)) = self.groups.values().filter(|group| group.credit > 0).find_map(first_of)
        {
            return Some(identity);
        }
        let free = self.groups.iter().filter(|(name, group)| group.not_before <= now && !self.is_tried(name));
        let (_, identity) =
            free.filter_map(|(_, group)| first_of(group)).min().filter(|(due, _)| *due <= now)?;
        self.next_probe = now + self.rules.gap;
        Some(identity)
    }

    fn is_tried(&self, group: &str) -> bool {
        self.trying.values().any(|tried| tried == group)
    }

    /// When another object may be tried, with so many at the same time.
    pub fn next_due(&self, now: Instant, most: usize) -> Option<Instant> {
        if self.trying.len() >= most {
            return None;
        }
        if !self.released.is_empty() || self.groups.values().any(|group| group.credit > 0) {
            return Some(now);
        }
        let free = self.groups.iter().filter(|(name, _)| !self.is_tried(name));
        let due = free.filter_map(|(_, group)| Some(group.due.first()?.0.max(group.not_before)));
        due.min().map(|due| due.max(self.next_probe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn healing(now: Instant) -> Healing {
        let pauses = Some(Backoff { first: MINUTE, longest: MINUTE * 60 });
        Healing::new(HealRules { pauses, gap: Duration::from_secs(1) }, now)
    }

    fn many(now: Instant, count: usize, error: &str) -> Healing {
        let mut healing = healing(now);
        for n in 0..count {
            healing.parks(&format!("{n:05}"), error, Some(now + MINUTE), Some(now));
        }
        healing
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest() {
        let mut now = crate::clock::now();
        let (healing, parked) = (healing(now), now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = healing.pause(parked, now).unwrap();
            now += pause;
            pauses.push(pause.as_secs() / 60);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_ten_thousand_with_one_error_one_is_tried_in_each_pause() {
        let now = crate::clock::now();
        let mut healing = many(now, 10_000, "answered 500");
        assert_eq!(healing.take(now, 8), None, "none is due");
        let mut tried = Vec::new();
        for minute in 1..=5 {
            let now = now + MINUTE * minute;
            let one = healing.take(now, 8).expect("one is due");
            assert_eq!(healing.take(now, 8), None, "one at a time");
            healing.parks(&one, "answered 500", Some(now + MINUTE * 2), Some(now));
            healing.failed(&one, now);
            assert_eq!(healing.take(now, 8), None, "the others wait as well");
            tried.push(one);
        }
        tried.sort();
        tried.dedup();
        assert_eq!(tried.len(), 5, "each time another one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_follows_a_probe_that_succeeded_and_stops_when_it_fails_again() {
        let begin = crate::clock::now();
        let (mut healing, now) = (many(begin, 1_000, "answered 500"), begin + MINUTE);
        let probe = healing.take(now, 8).unwrap();
        healing.succeeded(&probe);
        let mut followed = 0;
        while let Some(one) = healing.take(now, 8) {
            followed += 1;
            match followed < 100 {
                true => healing.succeeded(&one),
                false => {
                    healing.parks(&one, "answered 500", Some(now + MINUTE), Some(now));
                    healing.failed(&one, now);
                }
            }
        }
        assert!((100..=100 + MOST_CREDIT as usize).contains(&followed), "{followed}");
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_of_errors_are_bounded_and_wait_for_each_other_only_for_the_gap() {
        let (now, mut healing) = (crate::clock::now(), healing(crate::clock::now()));
        let kinds = ["a", "b", "c"];
        (0..1_000).for_each(|n| {
            healing.parks(&format!("{n}"), &"x".repeat(n % 100 + 1), Some(now), None);
        });
        assert!(healing.groups.len() <= MOST_GROUPS + 1);
        let mut healing = super::Healing::new(healing.rules, now);
        kinds.iter().for_each(|kind| healing.parks(kind, kind, Some(now), None));
        assert!(healing.take(now, 8).is_some() && healing.take(now, 8).is_none());
        assert!(healing.take(now + Duration::from_secs(1), 8).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_parked_in_an_outage_is_released_with_it() {
        let now = crate::clock::now();
        let mut healing = many(now, 3, "answered 500");
        healing.parks("before", "no", Some(now + MINUTE), None);
        healing.parks("never", "no", None, Some(now));
        healing.release(now);
        let released: Vec<String> = std::iter::from_fn(|| healing.take(now, 8)).collect();
        assert_eq!(released, ["00000", "00001", "00002", "never"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_wrong_makes_no_pause_longer_than_the_longest() {
        let healing = healing(crate::clock::now());
        let (now, far) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        assert_eq!(healing.pause_left(Some(far), now), Some(MINUTE * 60));
        assert_eq!(healing.pause_left(Some(now), far), Some(Duration::ZERO));
        assert_eq!(healing.pause_left(None, now), Some(MINUTE));
    }
}
