//! The arithmetic against the naive model: whatever the records, their instants, the size of windows, late commits and crashes.
//!
//! Records are stamped when they are written and become visible later, within the buffer. The runner works by the rules; the
//! model knows what was written. Time counts in milliseconds.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Age, Place, Plan, Rules, Tie, Unsettled, Window};

const BUFFER: i64 = 50;

#[derive(Clone, Debug)]
enum Event {
    /// The record of this key is stamped now, and visible so much later.
    Write { key: i64, visible_after: i64 },
    /// Time goes by.
    Pass { ms: i64 },
    /// The runner makes one step, which may end early.
    Step { crash: Crash },
}

/// Where a step of the runner ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    Nowhere,
    AfterFetch,
    AfterProcess,
}

/// What makes processing count.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// First the effect, then the tracker.
    ThenTracker,
    /// Both or neither.
    WithTracker,
}

fn event() -> impl Strategy<Value = Event> {
    let crash =
        prop_oneof![6 => Just(Crash::Nowhere), 1 => Just(Crash::AfterFetch), 1 => Just(Crash::AfterProcess)];
    prop_oneof![
        4 => (0..8i64, 0..BUFFER).prop_map(|(key, visible_after)| Event::Write { key, visible_after }),
        2 => prop_oneof![Just(1), 1..20i64, 1..200i64].prop_map(|ms| Event::Pass { ms }),
        3 => crash.prop_map(|crash| Event::Step { crash }),
    ]
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

/// One version of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    at: i64,
    key: i64,
    visible: i64,
}

struct World {
    rules: Rules,
    tied: bool,
    now: i64,
    /// All that was ever written.
    versions: Vec<Version>,
    tracker: Place,
    /// What was processed, in order, as `(at, key)`.
    processed: Vec<(i64, i64)>,
}

impl World {
    /// The records as a reader sees them now: each key's latest visible version.
    fn visible(&self) -> Vec<Version> {
        let mut latest: BTreeMap<i64, Version> = BTreeMap::new();
        for version in self.versions.iter().filter(|version| version.visible <= self.now) {
            let entry = latest.entry(version.key).or_insert(*version);
            *entry = (*entry).max(*version);
        }
        let mut visible: Vec<Version> = latest.into_values().collect();
        visible.sort();
        visible
    }

    fn fetch(&self, window: &Window) -> Vec<Version> {
        let after = window.after.as_ref().map(|tie| tie.number().unwrap());
        let wanted = |version: &Version| {
            let here = at(version.at);
            let passed = here == window.from && after.is_some_and(|after| version.key <= after);
            here >= window.from && here < window.to && !passed
        };
        self.visible().into_iter().filter(wanted).take(window.limit).collect()
    }

    /// One step of the runner. An error means that it is stuck, with the tracker where it was.
    fn step(&mut self, effect: Effect, crash: Crash) -> Result<Plan, Unsettled> {
        let plan = self.rules.plan(&self.tracker, at(self.now));
        let Plan::Process(window) = &plan else { return Ok(plan) };
        let fetched = self.fetch(window);
        let tie = |version: &Version| self.tied.then(|| Tie::from(version.key));
        let moments: Vec<_> = fetched.iter().map(|version| (at(version.at), tie(version))).collect();
        let settled = window.settle(&moments)?;
        let crashed =
            crash == Crash::AfterFetch || (crash == Crash::AfterProcess && effect == Effect::WithTracker);
        if crashed {
            return Ok(plan);
        }
        self.processed.extend(fetched[..settled.keep].iter().map(|version| (version.at, version.key)));
        if crash == Crash::Nowhere {
            assert!(settled.upto.at >= self.tracker.at, "the tracker never goes backwards");
            assert_ne!(settled.upto, self.tracker, "and always moves");
            self.tracker = settled.upto;
        }
        Ok(plan)
    }

    fn play(&mut self, events: &[Event], effect: Effect) -> Result<(), Unsettled> {
        for event in events {
            match *event {
                Event::Write { key, visible_after } => {
                    // One writer of a record waits for the other, so its versions become visible in their order.
                    let earlier = self.versions.iter().filter(|version| version.key == key);
                    let visible = earlier.map(|version| version.visible).max().unwrap_or(0);
                    let version =
                        Version { at: self.now, key, visible: visible.max(self.now + visible_after) };
                    // Which makes it later than the buffer allows, at times: such a write does not happen here.
                    if version.visible < self.now + BUFFER {
                        self.versions.push(version);
                    }
                }
                Event::Pass { ms } => self.now += ms,
                Event::Step { crash } => drop(self.step(effect, crash)?),
            }
        }
        self.now += 10 * BUFFER;
        while self.step(effect, Crash::Nowhere)? != Plan::Rest {}
        Ok(())
    }
}

fn world(excessive_count: usize, tied: bool) -> World {
    let excessive_count = NonZeroUsize::new(excessive_count).unwrap();
    let rules =
        Rules { buffer: Duration::from_millis(BUFFER as u64), stale_age: Age::Infinite, excessive_count };
    let tracker = rules.beginning(at(1000));
    World { rules, tied, now: 1000, versions: Vec::new(), tracker, processed: Vec::new() }
}

/// What must have been processed: each key's last version. Earlier ones may have been overwritten before anybody looked.
fn last_versions(world: &World) -> BTreeMap<i64, i64> {
    world.versions.iter().map(|version| (version.key, version.at)).collect()
}

proptest! {
    #[test]
    fn every_record_is_processed_in_order_and_once_where_effect_and_tracker_are_one(
        events in prop::collection::vec(event(), 0..120),
        excessive_count in 1..6usize,
    ) {
        let mut world = world(excessive_count, true);
        world.play(&events, Effect::WithTracker).unwrap();
        let processed = &world.processed;
        prop_assert!(processed.is_sorted_by(|one, next| one < next), "in order, and none twice: {processed:?}");
        let last: BTreeMap<i64, i64> = processed.iter().map(|(at, key)| (*key, *at)).collect();
        prop_assert_eq!(last, last_versions(&world));
    }

    #[test]
    fn every_record_is_processed_at_least_once_whatever_crashes(
        events in prop::collection::vec(event(), 0..120),
        excessive_count in 1..6usize,
    ) {
        let mut world = world(excessive_count, true);
        world.play(&events, Effect::ThenTracker).unwrap();
        let last = last_versions(&world);
        for key in 0..8 {
            let of_key: Vec<i64> = world.processed.iter().filter(|(_, k)| *k == key).map(|(at, _)| *at).collect();
            prop_assert!(of_key.is_sorted(), "never an older version after a newer one: {of_key:?}");
            prop_assert_eq!(of_key.last(), last.get(&key));
        }
    }

    #[test]
    fn without_a_tie_it_is_the_same_or_an_error_that_says_the_truth(
        events in prop::collection::vec(event(), 0..120),
        excessive_count in 1..6usize,
    ) {
        let mut world = world(excessive_count, false);
        let before_the_error = match world.play(&events, Effect::WithTracker) {
            Ok(()) => i64::MAX,
            Err(Unsettled::Irreconcilable { at: instant, count }) => {
                let there = world.visible().iter().filter(|version| at(version.at) == instant).count();
                prop_assert!(there >= excessive_count && count == excessive_count);
                prop_assert!(world.tracker.at <= instant, "the tracker has not passed it");
                instant.as_millisecond()
            }
            Err(other) => panic!("{other:?}"),
        };
        prop_assert!(world.processed.is_sorted_by(|one, next| one < next), "{:?}", world.processed);
        for version in world.visible().into_iter().filter(|version| version.at < before_the_error) {
            prop_assert!(world.processed.contains(&(version.at, version.key)), "{version:?} is lost");
        }
    }
}
