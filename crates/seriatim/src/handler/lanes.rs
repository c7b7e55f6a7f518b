//! Lanes: many keys at once, one key in order, and how far everything is done. Pure: no I/O, no clock.
//!
//! ```text
//!   push ──▶ ready ──take──▶ in flight ──complete──▶ done ──▶ low-water mark
//!              ▲    └─ its lane is in flight: waits behind it
//!              └───────── comes back, first in line, when the lane is free
//! ```

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::change::{Change, Position};
use crate::source::{Changes, Slice};
use crate::store::Parking;

/// Lane numbers are good hashes already; hashing them again would only cost time.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only lane numbers are hashed here, and they are u64")
    }

    fn write_u64(&mut self, lane: u64) {
        self.0 = lane;
    }
}

/// The batch of a lane that waits for what is parked of it.
const HELD: u64 = u64::MAX;

type ByLane<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

#[derive(Debug)]
struct Entry {
    number: u64,
    change: Change,
}

/// A lane that has a batch in flight.
#[derive(Debug)]
struct Busy {
    batch: u64,
    waiting: VecDeque<Entry>,
}

/// What one read found, as far as it was not taken yet.
#[derive(Debug)]
struct Incoming {
    changes: Changes,
    /// The number of the next of them.
    next: u64,
}

/// Changes to be handled together. Those of one key are in order.
#[derive(Debug)]
pub struct Batch {
    number: u64,
    entries: Vec<u64>,
    lanes: Vec<u64>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The changes of one partition on their way through the handler.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Changes that waited for their lane and can go on: before all that is incoming.
    ready: VecDeque<Entry>,
    incoming: VecDeque<Incoming>,
    busy: ByLane<Busy>,
    parked: HashSet<u64, BuildHasherDefault<AsIs>>,
    /// Changes to park, by their numbers: each goes into the first checkpoint that passes it, and into none before. Parked
    /// any earlier, a crash could bring an older change of the object back, and it would be parked behind this one.
    aside: BTreeMap<u64, Parking>,
    /// Each place that the low-water mark has not passed yet: its position when it is done, `None` while it is open.
    marks: VecDeque<Option<Position>>,
    /// The number of the first mark.
    first_mark: u64,
    low_water: Option<Position>,
    next_batch: u64,
    /// A change that concerns every object is in flight: nothing else may run.
    barrier: bool,
    held: usize,
    weight: usize,
}

impl Lanes {
    /// Lanes in which these objects are parked already.
    pub fn new(parked: impl IntoIterator<Item = u64>) -> Self {
        Lanes { parked: parked.into_iter().collect(), ..Lanes::default() }
    }

    /// Takes in what a read found.
    pub fn push(&mut self, slice: Slice) {
        if !slice.changes.is_empty() {
            let next = self.first_mark + self.marks.len() as u64;
            self.held += slice.changes.len();
            self.weight += slice.changes.weight();
            self.marks.extend(std::iter::repeat_n(None, slice.changes.len()));
            self.incoming.push_back(Incoming { changes: slice.changes, next });
        }
        // How far the read looked counts too: a partition where nothing happens still moves on.
        self.marks.push_back(Some(slice.upto));
        self.advance();
    }

    /// The next change in line, whether its lane is free or not.
    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.ready.pop_front() {
            return Some(entry);
        }
        loop {
            let incoming = self.incoming.front_mut()?;
            if let Some(change) = incoming.changes.next() {
                let number = incoming.next;
                incoming.next += 1;
                return Some(Entry { number, change });
            }
            self.incoming.pop_front();
        }
    }

    /// The next changes that may run now, at most `max` of them; `None` when there are none.
    pub fn take(&mut self, max: usize) -> Option<Batch> {
        let number = self.next_batch;
        let room = max.min(self.held());
        let mut batch = Batch {
            number,
            entries: Vec::with_capacity(room),
            lanes: Vec::with_capacity(room),
            changes: Vec::with_capacity(room),
        };
        while batch.changes.len() < max && !self.barrier {
            let Some(entry) = self.next() else {
                break;
            };
            if entry.change.key.is_none() {
                if self.busy.is_empty() && self.parked.is_empty() {
                    self.barrier = true;
                    self.start(&mut batch, entry);
                } else {
                    self.ready.push_front(entry);
                }
                break;
            }
            let lane = entry.change.lane();
            match self.busy.get_mut(&lane) {
                Some(busy) if busy.batch != number => busy.waiting.push_back(entry),
                Some(_) => batch.add(entry),
                None if self.parked.contains(&lane) => self.set_aside(entry),
                None => self.start(&mut batch, entry),
            }
        }
        if batch.changes.is_empty() {
            return None;
        }
        self.next_batch += 1;
        Some(batch)
    }

    fn start(&mut self, batch: &mut Batch, entry: Entry) {
        let lane = entry.change.lane();
        self.busy.insert(lane, Busy { batch: batch.number, waiting: VecDeque::new() });
        batch.lanes.push(lane);
        batch.add(entry);
    }

    fn set_aside(&mut self, entry: Entry) {
        self.settle(entry.number, &entry.change);
        self.aside.insert(entry.number, Parking { change: entry.change, failure: None });
        self.advance();
    }

    /// The batch is done: each of its changes is handled, or is to be parked.
    pub fn complete(&mut self, batch: Batch, parked: Vec<Parking>) {
        self.barrier = false;
        let lanes = self.settle_all(&batch, &HashSet::new(), parked);
        lanes.into_iter().for_each(|lane| self.free(lane));
        self.advance();
    }

    /// The batch was given up before it was done; the changes with these ids are not. Their lanes stay closed.
    pub fn abandon(&mut self, batch: Batch, unfinished: &HashSet<u64>, parked: Vec<Parking>) {
        self.settle_all(&batch, unfinished, parked);
        self.advance();
    }

    fn settle_all(&mut self, batch: &Batch, unfinished: &HashSet<u64>, parked: Vec<Parking>) -> Vec<u64> {
        let mut parked: HashMap<u64, Parking> =
            parked.into_iter().map(|parking| (parking.change.id, parking)).collect();
        for (number, change) in batch.entries.iter().zip(&batch.changes) {
            if unfinished.contains(&change.id) {
                continue;
            }
            self.settle(*number, change);
            if let Some(parking) = parked.remove(&change.id) {
                self.parked.insert(change.lane());
                self.aside.insert(*number, parking);
            }
        }
        batch.lanes.clone()
    }

    fn settle(&mut self, number: u64, change: &Change) {
        self.held -= 1;
        self.weight -= change.weight();
        self.marks[(number - self.first_mark) as usize] = Some(change.position.clone());
    }

    fn advance(&mut self) {
        while let Some(Some(position)) = self.marks.pop_front_if(|mark| mark.is_some()) {
            self.low_water = Some(position);
            self.first_mark += 1;
        }
    }

    /// From now on, this object's changes are set aside instead of run, those that wait for it included.
    pub fn park(&mut self, lane: u64) {
        self.parked.insert(lane);
        let held = self.is_held(lane).then(|| self.busy.remove(&lane)).flatten();
        if let Some(held) = held {
            held.waiting.into_iter().for_each(|entry| self.set_aside(entry));
        }
    }

    fn is_held(&self, lane: u64) -> bool {
        self.busy.get(&lane).is_some_and(|busy| busy.batch == HELD)
    }

    /// From now on, changes of this parked object wait in memory: it may be about to come back.
    pub fn hold(&mut self, lane: u64) {
        if self.parked.remove(&lane) {
            self.busy.insert(lane, Busy { batch: HELD, waiting: VecDeque::new() });
        }
    }

    /// Nothing is parked of this object any more: what waits for it goes on.
    pub fn rejoin(&mut self, lane: u64) {
        self.parked.remove(&lane);
        if self.is_held(lane) {
            self.free(lane);
        }
    }

    /// Whether changes of this object are set aside and not in a checkpoint yet.
    pub fn has_aside_of(&self, lane: u64) -> bool {
        self.aside.values().any(|parking| parking.change.lane() == lane)
    }

    /// Whether any change is set aside and not in a checkpoint yet.
    pub fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// How many parked objects a change of all objects waits for: their changes of before it have to come before it.
    pub fn held_up_by_parked(&self) -> Option<usize> {
        let waits = self.ready.front().is_some_and(|entry| entry.change.key.is_none());
        (waits && self.busy.is_empty() && !self.parked.is_empty()).then_some(self.parked.len())
    }

    fn free(&mut self, lane: u64) {
        if let Some(busy) = self.busy.remove(&lane) {
            for entry in busy.waiting.into_iter().rev() {
                self.ready.push_front(entry);
            }
        }
    }

    /// Whether the low-water mark has passed changes that are to be parked.
    pub fn has_passed_aside(&self) -> bool {
        self.aside.first_key_value().is_some_and(|(number, _)| *number < self.first_mark)
    }

    /// The changes to park that the low-water mark has passed, in order. They belong into the checkpoint at the mark.
    pub fn take_passed_aside(&mut self) -> Vec<Parking> {
        let later = self.aside.split_off(&self.first_mark);
        std::mem::replace(&mut self.aside, later).into_values().collect()
    }

    /// All changes to park, by their numbers: for a batch that will pass everything that was taken so far.
    pub fn take_aside(&mut self) -> BTreeMap<u64, Parking> {
        std::mem::take(&mut self.aside)
    }

    /// The number of the next place: all that was pushed so far lies before it.
    pub fn end(&self) -> u64 {
        self.first_mark + self.marks.len() as u64
    }

    /// The number of the first place that the low-water mark has not passed.
    pub fn passed(&self) -> u64 {
        self.first_mark
    }

    /// Everything up to here is handled or set aside; `None` before the first such place.
    pub fn low_water(&self) -> Option<&Position> {
        self.low_water.as_ref()
    }

    /// Where the low-water mark will stand once this batch is complete.
    pub fn low_water_after<'a>(&'a self, batch: &'a Batch) -> Option<&'a Position> {
        let mut inside = batch.entries.iter().zip(&batch.changes).peekable();
        let position =
            |(mark, number): (&'a Option<Position>, u64)| match inside.next_if(|(at, _)| **at == number) {
                Some((_, change)) => Some(&change.position),
                None => mark.as_ref(),
            };
        self.marks.iter().zip(self.first_mark..).map_while(position).last().or(self.low_water())
    }

    /// How many changes are inside: ready, waiting, in flight or set aside.
    pub fn held(&self) -> usize {
        self.held + self.aside.len()
    }

    /// How many places the low-water mark is behind: what one slow change keeps all others from being forgotten.
    pub fn span(&self) -> usize {
        self.marks.len()
    }

    /// Roughly how many bytes they occupy.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

impl Batch {
    /// The numbers of the changes: what was set aside with a lower number came before.
    pub fn numbers(&self) -> &[u64] {
        &self.entries
    }

    fn add(&mut self, entry: Entry) {
        self.entries.push(entry.number);
        self.changes.push(entry.change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Op;
    use crate::name::{FeedName, Partition};
    use crate::value::{Key, Value};
    use proptest::prelude::*;

    fn change(id: u64, key: i64) -> Change {
        Change {
            feed: FeedName::new("f").unwrap(),
            partition: Partition(0),
            position: Position::number(id),
            key: (key >= 0).then(|| Key::of("id", Value::Integer(key))),
            op: if key >= 0 { Op::Update } else { Op::Truncate },
            at: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id,
            prev: None,
        }
    }

    fn slice(changes: Vec<Change>, upto: u64) -> Slice {
        Slice {
            partition: Partition(0),
            changes: changes.into(),
            upto: Position::number(upto),
            caught_up: false,
        }
    }

    fn ids(batch: &Batch) -> Vec<u64> {
        batch.changes.iter().map(|change| change.id).collect()
    }

    #[test]
    fn a_key_in_flight_waits_and_others_pass() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 7), change(2, 7), change(3, 8)], 3));
        let first = lanes.take(1).unwrap();
        let second = lanes.take(10).unwrap();
        assert_eq!((ids(&first), ids(&second)), (vec![1], vec![3]));
        assert!(lanes.take(10).is_none(), "2 waits for 1");
        lanes.complete(first, vec![]);
        assert_eq!(ids(&lanes.take(10).unwrap()), [2]);
    }

    #[test]
    fn the_low_water_mark_waits_for_the_slowest() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 1), change(2, 2)], 9));
        let (slow, fast) = (lanes.take(1).unwrap(), lanes.take(1).unwrap());
        lanes.complete(fast, vec![]);
        assert_eq!(lanes.low_water(), None);
        lanes.complete(slow, vec![]);
        assert_eq!(lanes.low_water(), Some(&Position::number(9)), "up to where the read looked");
    }

    #[test]
    fn where_the_mark_will_be_is_known_before() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 1), change(2, 2), change(3, 3)], 9));
        let first = lanes.take(2).unwrap();
        assert_eq!(lanes.low_water_after(&first), Some(&Position::number(2)));
        lanes.complete(first, vec![]);
        let last = lanes.take(2).unwrap();
        assert_eq!(lanes.low_water_after(&last), Some(&Position::number(9)));
    }

    #[test]
    fn a_read_that_found_nothing_moves_the_mark() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![], 5));
        assert_eq!(lanes.low_water(), Some(&Position::number(5)));
    }

    fn parked(change: &Change) -> Vec<Parking> {
        vec![Parking { change: change.clone(), failure: None }]
    }

    fn parked_ids(parkings: &[Parking]) -> Vec<u64> {
        parkings.iter().map(|parking| parking.change.id).collect()
    }

    #[test]
    fn changes_of_a_parked_object_are_set_aside_in_order() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 7), change(2, 7), change(3, 8), change(4, 7)], 4));
        let poison = lanes.take(1).unwrap();
        let parking = parked(&poison.changes[0]);
        lanes.complete(poison, parking);
        let other = lanes.take(10).unwrap();
        assert_eq!(ids(&other), [3]);
        assert_eq!(parked_ids(&lanes.take_passed_aside()), [1, 2], "4 is not passed before 3 is done");
        lanes.complete(other, vec![]);
        assert_eq!(parked_ids(&lanes.take_passed_aside()), [4]);
        assert!(!lanes.has_passed_aside());
    }

    #[test]
    fn a_change_is_parked_only_when_everything_before_it_is_done() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 1), change(2, 2)], 2));
        let (slow, poison) = (lanes.take(1).unwrap(), lanes.take(1).unwrap());
        let parking = parked(&poison.changes[0]);
        lanes.complete(poison, parking);
        assert_eq!(parked_ids(&lanes.take_passed_aside()), [0u64; 0]);
        lanes.complete(slow, vec![]);
        assert_eq!(parked_ids(&lanes.take_passed_aside()), [2]);
    }

    #[test]
    fn changes_of_a_held_object_wait_and_then_go_on_or_are_set_aside() {
        let mut lanes = Lanes::new([change(0, 7).lane()]);
        let lane = change(0, 7).lane();
        lanes.hold(lane);
        lanes.push(slice(vec![change(1, 7), change(2, 8), change(3, 7)], 3));
        let other = lanes.take(10).unwrap();
        assert_eq!(ids(&other), [2]);
        lanes.complete(other, vec![]);
        lanes.park(lane);
        assert_eq!(parked_ids(&lanes.take_passed_aside()), [1, 3], "it failed again");
        assert_eq!(lanes.low_water(), Some(&Position::number(3)));
        lanes.hold(lane);
        lanes.push(slice(vec![change(4, 7), change(5, 7)], 5));
        assert!(lanes.take(10).is_none());
        lanes.rejoin(lane);
        assert_eq!(ids(&lanes.take(10).unwrap()), [4, 5], "it came back");
    }

    #[test]
    fn a_change_of_everything_waits_for_parked_objects() {
        let (parked, other) = (change(1, 7), change(2, 8));
        let lane = parked.lane();
        let mut lanes = Lanes::new([lane]);
        lanes.push(slice(vec![other, change(3, -1), change(4, 8)], 4));
        let first = lanes.take(10).unwrap();
        assert_eq!(ids(&first), [2]);
        lanes.complete(first, vec![]);
        assert!(lanes.take(10).is_none());
        assert_eq!(lanes.held_up_by_parked(), Some(1));
        lanes.rejoin(lane);
        assert_eq!(lanes.held_up_by_parked(), None);
        assert_eq!(ids(&lanes.take(10).unwrap()), [3]);
    }

    #[test]
    fn a_batch_given_up_halfway_counts_for_what_it_did() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 1), change(2, 2), change(3, 3)], 3));
        let batch = lanes.take(3).unwrap();
        lanes.abandon(batch, &HashSet::from([2]), vec![]);
        assert_eq!(lanes.low_water(), Some(&Position::number(1)));
        assert_eq!(lanes.held(), 1);
    }

    #[test]
    fn a_change_of_everything_runs_alone() {
        let mut lanes = Lanes::default();
        lanes.push(slice(vec![change(1, 1), change(2, -1), change(3, 2)], 3));
        let before = lanes.take(10).unwrap();
        assert_eq!(ids(&before), [1]);
        assert!(lanes.take(10).is_none());
        lanes.complete(before, vec![]);
        let truncate = lanes.take(10).unwrap();
        assert_eq!(ids(&truncate), [2]);
        assert!(lanes.take(10).is_none());
        lanes.complete(truncate, vec![]);
        assert_eq!(ids(&lanes.take(10).unwrap()), [3]);
    }

    proptest! {
        /// Whatever is pushed, taken and completed in whatever order: each change runs once, each key in order and one
        /// batch at a time, and the mark never passes a change that is not done nor goes back.
        #[test]
        fn every_key_in_order_and_the_mark_is_honest(
            keys in prop::collection::vec(-1i64..6, 1..120),
            steps in prop::collection::vec((0usize..4, 1usize..5, any::<usize>()), 1..300),
        ) {
            let mut lanes = Lanes::default();
            let mut incoming = keys.iter().enumerate().map(|(i, key)| change(i as u64 + 1, *key));
            let mut flying: Vec<Batch> = Vec::new();
            let mut started: Vec<u64> = Vec::new();
            let mut done = vec![false; keys.len() + 1];
            done[0] = true;
            let endgame = (0..keys.len() * 4).map(|_| (3, 5, 0usize));
            let steps: Vec<_> = steps.into_iter().chain(endgame).collect();
            let mut mark = 0;
            for (kind, size, which) in steps {
                if kind == 0 || kind == 3 {
                    let changes: Vec<Change> = incoming.by_ref().take(size).collect();
                    if let Some(last) = changes.last().map(|change| change.id) {
                        lanes.push(slice(changes, last));
                    }
                }
                if let Some(batch) = (kind == 1 || kind == 3).then(|| lanes.take(size)).flatten() {
                    for change in &batch.changes {
                        let clash = flying.iter().flat_map(|other| &other.changes).any(|other| {
                            other.key == change.key || other.key.is_none() || change.key.is_none()
                        });
                        prop_assert!(!clash, "two batches of one key in flight");
                        let earlier = started.iter().filter(|id| keys[**id as usize - 1] == keys[change.id as usize - 1]);
                        prop_assert!(earlier.max().is_none_or(|last| *last < change.id), "overtaken");
                        started.push(change.id);
                    }
                    flying.push(batch);
                }
                if (kind == 2 || kind == 3) && !flying.is_empty() {
                    let batch = flying.remove(which % flying.len());
                    batch.changes.iter().for_each(|change| done[change.id as usize] = true);
                    lanes.complete(batch, vec![]);
                }
                let now = lanes.low_water().and_then(Position::as_number).unwrap_or(0);
                prop_assert!(now >= mark, "the mark went back");
                mark = now;
                prop_assert!(done[..=mark as usize].iter().all(|done| *done), "the mark passed an open change");
            }
            prop_assert_eq!(started.len(), keys.len());
            prop_assert_eq!(mark as usize, keys.len());
            prop_assert_eq!((lanes.held(), lanes.weight()), (0, 0));
        }
    }
}
