//! What is parked in a partition, as far as its owner has to know: which objects, how much, and when to try which again.
//! Pure: no I/O, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::At;
use super::healing::{HealRules, Healing};
use crate::host::ParkLimits;
use crate::store::{ParkedObject, ParkedState, Parking};
use crate::value::Key;

/// What an object waits for before it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its time.
    Due,
    /// A checkpoint that tells the store what is known of it here.
    Unstored,
    /// The try that is under way.
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Again {
    due: Instant,
    phase: Phase,
}

#[derive(Clone, Debug)]
struct Object {
    key: Key,
    changes: u64,
    bytes: u64,
    /// When it is tried again; `None` while it waits for somebody to ask.
    again: Option<Again>,
    /// How often anything had succeeded when it began to fail.
    since: u64,
    /// When it was parked first: its pauses grow since then.
    parked_since: Option<Instant>,
    /// It was parked, and not only set aside for a moment.
    was_parked: bool,
    /// Changes of it were handled since.
    was_handled: bool,
}

/// What became of an object that is back in the live stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// It had only stepped aside for a moment.
    SteppedAside,
    /// It was parked, and is handled.
    Parked,
    /// It was parked, and somebody has discarded all of it.
    Discarded,
}

/// The parked objects of one partition.
#[derive(Clone, Debug)]
pub(super) struct Retries {
    limits: ParkLimits,
    objects: BTreeMap<String, Object>,
    /// How many objects a lane has: nearly always one.
    lanes: BTreeMap<u64, usize>,
    /// Those that wait for their time, by it.
    due: BTreeSet<(Instant, String)>,
    retrying: usize,
    /// Those of which the store has yet to be told.
    unstored: BTreeSet<String>,
    /// Those that have all they may have.
    large: BTreeSet<String>,
    changes: u64,
    bytes: u64,
    healing: Healing,
}

impl Retries {
    /// What the store has. Objects that are to be tried again are due now.
    pub fn new(limits: ParkLimits, heal: HealRules, parked: &[ParkedObject], at: At) -> Self {
        let mut objects = Retries {
            limits,
            objects: BTreeMap::new(),
            lanes: BTreeMap::new(),
            due: BTreeSet::new(),
            retrying: 0,
            unstored: BTreeSet::new(),
            large: BTreeSet::new(),
            changes: 0,
            bytes: 0,
            healing: Healing::new(heal, at.now),
        };
        for object in parked {
            objects.add(&object.key, object.waiting, object.bytes);
            match object.failure.state {
                ParkedState::Retrying => {
                    objects.set(&object.key, Some(Again { due: at.now, phase: Phase::Due }));
                    // It was parked before, and an earlier owner was trying it.
                    if object.failure.next_try.is_some() {
                        objects.is_parked_now(&object.key);
                    }
                }
                ParkedState::Parked => objects.stays_parked(object, at),
            }
        }
        objects
    }

    pub fn lanes(&self) -> impl Iterator<Item = u64> {
        self.lanes.keys().copied()
    }

    fn add(&mut self, key: &Key, changes: u64, bytes: u64) {
        let (lanes, identity) = (&mut self.lanes, key.identity());
        let object = self.objects.entry(identity.clone()).or_insert_with(|| {
            *lanes.entry(key.hash()).or_default() += 1;
            Object {
                key: key.clone(),
                changes: 0,
                bytes: 0,
                again: None,
                since: 0,
                parked_since: None,
                was_parked: false,
                was_handled: false,
            }
        });
        object.changes += changes;
        object.bytes += bytes;
        self.changes += changes;
        self.bytes += bytes;
        self.measure(&identity);
    }

    fn measure(&mut self, identity: &str) {
        let ParkLimits { object_changes, object_bytes, .. } = self.limits;
        let object = self.objects.get(identity);
        match object.is_some_and(|object| object.changes >= object_changes || object.bytes >= object_bytes) {
            true => self.large.insert(identity.to_owned()),
            false => self.large.remove(identity),
        };
    }

    fn set(&mut self, key: &Key, again: Option<Again>) {
        let identity = key.identity();
        let Some(object) = self.objects.get_mut(&identity) else { return };
        if again.is_some() {
            self.healing.forget_waiting(&identity);
        }
        let before = std::mem::replace(&mut object.again, again);
        self.retrying = self.retrying + usize::from(again.is_some()) - usize::from(before.is_some());
        match before {
            Some(Again { due, phase: Phase::Due }) => self.due.remove(&(due, identity.clone())),
            Some(Again { phase: Phase::Unstored, .. }) => self.unstored.remove(&identity),
            _ => false,
        };
        match again {
            Some(Again { due, phase: Phase::Due }) => self.due.insert((due, identity)),
            Some(Again { phase: Phase::Unstored, .. }) => self.unstored.insert(identity),
            _ => false,
        };
    }

    fn again(&self, key: &Key) -> Option<Again> {
        self.objects.get(&key.identity()).and_then(|object| object.again)
    }

    /// The object is parked from now on.
    pub fn open(&mut self, key: &Key) {
        self.add(key, 0, 0);
    }

    /// A change goes into the store. One whose object was not parked shares its lane with another that is: nothing else keeps
    /// it, so it is tried once it is stored.
    pub fn keeps(&mut self, parking: &Parking, now: Instant) {
        let Some(key) = &parking.change.key else { return };
        let is_new = !self.objects.contains_key(&key.identity());
        self.add(key, 1, parking.change.weight() as u64);
        if is_new && parking.failure.is_none() {
            self.try_again(key, now);
        }
    }

    /// Changes of an object are in the store no more.
    pub fn lets_go(&mut self, key: &Key, changes: u64, bytes: u64) {
        let identity = key.identity();
        let Some(object) = self.objects.get_mut(&identity) else { return };
        let (changes, bytes) = (changes.min(object.changes), bytes.min(object.bytes));
        object.changes -= changes;
        object.bytes -= bytes;
        self.changes -= changes;
        self.bytes -= bytes;
        self.measure(&identity);
    }

    /// The object is to be tried again at this time, once the store knows of it.
    pub fn try_again(&mut self, key: &Key, due: Instant) {
        self.set(key, Some(Again { due, phase: Phase::Unstored }));
    }

    /// The object fails from now on, after so many successes.
    pub fn fails_since(&mut self, key: &Key, successes: u64) {
        if let Some(object) = self.objects.get_mut(&key.identity()) {
            object.since = successes;
        }
    }

    /// How often anything had succeeded when the object began to fail.
    pub fn since(&self, key: &Key) -> u64 {
        self.objects.get(&key.identity()).map_or(0, |object| object.since)
    }

    /// The object is parked for good from now on. Whether that is new.
    pub fn is_parked_now(&mut self, key: &Key) -> bool {
        let object = self.objects.get_mut(&key.identity());
        object.is_some_and(|object| {
            object.was_handled = false;
            !std::mem::replace(&mut object.was_parked, true)
        })
    }

    /// The store has the object as parked.
    pub fn stays_parked(&mut self, object: &ParkedObject, at: At) {
        let (identity, failure) = (object.key.identity(), &object.failure);
        self.set(&object.key, None);
        self.is_parked_now(&object.key);
        let elapsed = Duration::try_from(at.wall.duration_since(object.since)).unwrap_or_default();
        if let Some(kept) = self.objects.get_mut(&identity) {
            kept.parked_since.get_or_insert(at.now.checked_sub(elapsed).unwrap_or(at.now));
        }
        let due = self.healing.pause_left(failure.next_try, at.wall).map(|pause| at.now + pause);
        self.healing.parks(&identity, &failure.error, due, None);
    }

    /// The object is parked with this error. Returns the pause before it is tried again by itself.
    pub fn parks(&mut self, key: &Key, error: &str, at: At) -> Option<Duration> {
        let identity = key.identity();
        self.set(key, None);
        let since = self.objects.get_mut(&identity)?.parked_since.get_or_insert(at.now);
        let pause = self.healing.pause(*since, at.now);
        self.healing.failed(&identity, at.now);
        self.healing.parks(&identity, error, pause.map(|pause| at.now + pause), Some(at.now));
        pause
    }

    /// The next parked object that is tried again by itself, if there is one, with so many at the same time.
    pub fn take_healing(&mut self, now: Instant, most: usize) -> Option<Key> {
        let identity = self.healing.take(now, most)?;
        Some(self.objects.get(&identity)?.key.clone())
    }

    /// When that may be.
    pub fn healing_due(&self, now: Instant, most: usize) -> Option<Instant> {
        self.healing.next_due(now, most)
    }

    /// Whether the object was parked for good before.
    pub fn was_parked(&self, key: &Key) -> bool {
        self.objects.get(&key.identity()).is_some_and(|object| object.was_parked)
    }

    /// So many changes of the object were handled.
    pub fn handles(&mut self, key: &Key, changes: usize) {
        if changes == 0 {
            return;
        }
        self.healing.succeeded(&key.identity());
        if let Some(object) = self.objects.get_mut(&key.identity()) {
            object.was_handled = true;
        }
    }

    /// What became of the object until now.
    pub fn past(&self, key: &Key) -> Past {
        match self.objects.get(&key.identity()) {
            Some(object) if object.was_parked && object.was_handled => Past::Parked,
            Some(object) if object.was_parked => Past::Discarded,
            _ => Past::SteppedAside,
        }
    }

    /// The target is back, which was away since then: what only waits for its time is due now, and what was parked meanwhile is
    /// tried again.
    pub fn release(&mut self, since: Option<Instant>, now: Instant) {
        since.into_iter().for_each(|since| self.healing.release(since));
        let waits = |object: &&Object| object.again.is_some_and(|again| again.due > now);
        let keys: Vec<Key> = self.objects.values().filter(waits).map(|object| object.key.clone()).collect();
        for key in keys {
            let again = self.again(&key);
            self.set(&key, again.map(|again| Again { due: now, ..again }));
        }
    }

    /// What is known of the object is in the store.
    pub fn stored(&mut self, key: &Key) {
        if let Some(Again { due, phase: Phase::Unstored }) = self.again(key) {
            self.set(key, Some(Again { due, phase: Phase::Due }));
        }
    }

    /// All that is known here is in the store.
    pub fn all_stored(&mut self) {
        let keys: Vec<Key> = self
            .unstored
            .iter()
            .filter_map(|identity| Some(self.objects.get(identity)?.key.clone()))
            .collect();
        keys.iter().for_each(|key| self.stored(key));
    }

    /// The next object whose time has come; its try begins now.
    pub fn take_due(&mut self, now: Instant) -> Option<Key> {
        let (due, identity) = self.due.first().filter(|(due, _)| *due <= now)?;
        let (due, key) = (*due, self.objects.get(identity)?.key.clone());
        self.set(&key, Some(Again { due, phase: Phase::Running }));
        Some(key)
    }

    /// When the next try is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Nothing is kept of the object any more. Whether its lane is free of others too.
    pub fn gone(&mut self, key: &Key) -> bool {
        self.set(key, None);
        self.healing.forget(&key.identity());
        let Some(object) = self.objects.remove(&key.identity()) else { return false };
        self.large.remove(&key.identity());
        self.changes -= object.changes;
        self.bytes -= object.bytes;
        let lane = key.hash();
        let left = self.lanes.get(&lane).map_or(0, |objects| objects - 1);
        match left {
            0 => self.lanes.remove(&lane),
            left => self.lanes.insert(lane, left),
        };
        left == 0
    }

    /// Somebody asked for something: this is what the store has. It may be older than what is known here, and the store is yet
    /// to be told of what is `untold`.
    pub fn heard(&mut self, parked: &[ParkedObject], untold: &HashSet<String>, now: Instant) {
        let mut missing: HashMap<String, Key> = self
            .objects
            .iter()
            .filter(|(_, object)| object.again.is_none())
            .map(|(identity, object)| (identity.clone(), object.key.clone()))
            .collect();
        let due = |identity: &str| {
            let phase = if untold.contains(identity) { Phase::Unstored } else { Phase::Due };
            Some(Again { due: now, phase })
        };
        for object in parked {
            let identity = object.key.identity();
            missing.remove(&identity);
            let marked = object.failure.state == ParkedState::Retrying && object.failure.attempts == 0;
            match self.again(&object.key) {
                None if object.failure.state == ParkedState::Retrying => {
                    self.set(&object.key, due(&identity));
                    // Somebody thinks that it may go well now: its pauses begin anew.
                    self.objects.entry(identity.clone()).and_modify(|kept| kept.parked_since = None);
                }
                Some(Again { phase: Phase::Due, .. }) if marked => self.set(&object.key, due(&identity)),
                _ => {}
            }
            if let Some(kept) = self.objects.get(&identity) {
                let (changes, bytes) = (kept.changes, kept.bytes);
                self.lets_go(&object.key, changes, bytes);
                self.add(&object.key, object.waiting, object.bytes);
            }
        }
        // Discarded to the end. The next try finds that out, and what has come since.
        missing.iter().for_each(|(identity, key)| self.set(key, due(identity)));
    }

    /// Whether any object is to be tried again.
    pub fn is_retrying(&self) -> bool {
        self.retrying > 0
    }

    /// How many objects wait for somebody to ask, or for their time.
    pub fn parked(&self) -> u64 {
        (self.objects.len() - self.retrying) as u64
    }

    /// The objects that are to be tried again.
    pub fn retrying(&self) -> impl Iterator<Item = &String> {
        self.objects.iter().filter(|(_, object)| object.again.is_some()).map(|(identity, _)| identity)
    }

    /// Whether this object is to be tried again.
    pub fn is_tried_again(&self, identity: &str) -> bool {
        self.objects.get(identity).is_some_and(|object| object.again.is_some())
    }

    /// Why nothing more may be parked, if that is so.
    pub fn full(&self) -> Option<String> {
        let ParkLimits { objects, changes, bytes, .. } = self.limits;
        if self.objects.len() as u64 >= objects {
            return Some(format!("{} objects are parked, which is the most", self.objects.len()));
        }
        if self.changes >= changes || self.bytes >= bytes {
            let (changes, size) = (self.changes, mebibytes(self.bytes));
            return Some(format!("{changes} changes ({size}) of parked objects are kept, which is the most"));
        }
        let object = self.objects.get(self.large.iter().next()?)?;
        let (key, changes, size) = (&object.key, object.changes, mebibytes(object.bytes));
        Some(format!("{changes} changes ({size}) are kept of the parked object {key}, which is the most"))
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{FeedName, Partition};
    use crate::store::ParkedFailure;
    use crate::value::Value;

    fn key(id: i64) -> Key {
        Key::of("id", Value::Integer(id))
    }

    fn parked(id: i64, waiting: u64, attempts: u32, state: ParkedState) -> ParkedObject {
        ParkedObject {
            feed: FeedName::new("f").unwrap(),
            partition: Partition(0),
            key: key(id),
            waiting,
            bytes: waiting * 100,
            failure: ParkedFailure { error: "no".to_owned(), attempts, state, next_try: None },
            since: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    const NEVER: HealRules = HealRules { pauses: None, gap: Duration::ZERO };

    fn at(now: Instant) -> At {
        At { now, wall: jiff::Timestamp::UNIX_EPOCH, jitter: 0.5 }
    }

    fn limits() -> ParkLimits {
        ParkLimits { object_changes: 5, object_bytes: 1_000_000, objects: 3, changes: 8, bytes: 1_000_000 }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_tried_when_it_is_due_and_stored() {
        let now = crate::clock::now();
        let mut objects = Retries::new(limits(), NEVER, &[parked(1, 1, 5, ParkedState::Parked)], at(now));
        assert_eq!((objects.take_due(now), objects.next_due()), (None, None));
        let due = now + Duration::from_secs(1);
        objects.try_again(&key(1), due);
        assert_eq!(objects.next_due(), None, "the store does not know yet");
        objects.stored(&key(1));
        assert_eq!((objects.take_due(now), objects.next_due()), (None, Some(due)));
        assert_eq!(objects.take_due(due), Some(key(1)));
        assert_eq!(objects.take_due(due), None, "it is being tried");
        assert!(objects.is_retrying());
        assert!(objects.gone(&key(1)));
        assert!(!objects.is_retrying());
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_asked_for_is_due_at_once() {
        let now = crate::clock::now();
        let mut objects = Retries::new(
            limits(),
            NEVER,
            &[parked(1, 1, 5, ParkedState::Parked), parked(2, 1, 5, ParkedState::Parked)],
            at(now),
        );
        objects.heard(
            &[parked(1, 1, 0, ParkedState::Retrying), parked(9, 1, 0, ParkedState::Retrying)],
            &HashSet::new(),
            now,
        );
        let mut due: Vec<String> =
            std::iter::from_fn(|| objects.take_due(now)).map(|key| key.identity()).collect();
        due.sort();
        assert_eq!(
            due,
            [key(1).identity(), key(2).identity()],
            "marked, and discarded; of 9 nothing is known here"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn each_bound_is_told_by_name() {
        let now = crate::clock::now();
        let objects = |parked: &[ParkedObject]| Retries::new(limits(), NEVER, parked, at(now));
        let one = |id, waiting| parked(id, waiting, 5, ParkedState::Parked);
        assert_eq!(objects(&[one(1, 4), one(2, 3)]).full(), None);
        let mut hot = objects(&[one(1, 5)]);
        assert!(
            hot.full().is_some_and(|why| why.contains(r#"the parked object {"id":1}"#)),
            "{:?}",
            hot.full()
        );
        hot.lets_go(&key(1), 1, 100);
        assert_eq!(hot.full(), None);
        assert!(
            objects(&[one(1, 1), one(2, 1), one(3, 1)])
                .full()
                .is_some_and(|why| why.starts_with("3 objects"))
        );
        assert!(objects(&[one(1, 4), one(2, 4)]).full().is_some_and(|why| why.starts_with("8 changes")));
    }
}
