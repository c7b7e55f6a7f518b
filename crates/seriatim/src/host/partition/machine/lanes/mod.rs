//! Lanes: many keys at once, one key in order, and how far everything is done. Pure: no I/O, no clock.
//!
//! ```text
//!   push ──▶ ready ──take──▶ in flight ──complete──▶ done ──▶ low-water mark
//!              ▲    └─ its lane is in flight: waits behind it
//!              └───────── comes back, first in line, when the lane is free
//! ```

mod marks;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::change::{Change, Position};
use crate::source::{Changes, Slice};
use crate::store::{DoneAbove, Parking};
use marks::Marks;

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
type ParkedLanes = HashSet<u64, BuildHasherDefault<AsIs>>;

fn is_parked(parked: &ParkedLanes, lane: u64) -> bool {
    #[cfg(feature = "simulation")]
    if crate::simulation::has(crate::simulation::Mutant::TailNotHeld) {
        return false;
    }
    parked.contains(&lane)
}

#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    change: Change,
}

/// Changes that an earlier owner has handled, beyond the position where this one began.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Those that were not read again yet.
    ahead: DoneAbove,
    /// The numbers of those that were read and are still in line: they are passed over.
    in_line: BTreeSet<u64>,
}

/// What one read found, as far as it was not taken yet.
#[derive(Clone, Debug)]
struct Incoming {
    changes: Changes,
    /// The number of the next of them.
    next: u64,
}

/// Changes to be handled together. Those of one key are in order.
#[derive(Clone, Debug)]
pub struct Batch {
    number: u64,
    entries: Vec<u64>,
    lanes: Vec<u64>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The changes of one partition on their way through the handler.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Changes that waited for their lane and can go on: before all that is incoming.
    ready: VecDeque<Entry>,
    incoming: VecDeque<Incoming>,
    /// The batch that each lane has in flight.
    busy: ByLane<u64>,
    /// Changes that wait for their lane.
    waiting: ByLane<VecDeque<Entry>>,
    parked: ParkedLanes,
    known: Known,
    /// Changes to park, by their numbers: each goes into the first checkpoint that passes it, and into none before. Parked
    /// any earlier, a crash could bring an older change of the object back, and it would be parked behind this one.
    aside: BTreeMap<u64, Parking>,
    marks: Marks,
    next_batch: u64,
    /// Whatever was begun has a smaller number.
    begun: u64,
    /// A change that concerns every object is in flight: nothing else may run.
    barrier: bool,
    held: usize,
    weight: usize,
    /// The memory of a batch that is done, for the next one: it is still at hand.
    spare: Vec<Change>,
}

/// Batches of up to so many changes leave their memory to others.
const MOST_SPARE: usize = 1000;

impl Lanes {
    /// Lanes in which these objects are parked already, and these changes are handled.
    pub fn new(parked: impl IntoIterator<Item = u64>, done: DoneAbove) -> Self {
        let known = Known { ahead: done, in_line: BTreeSet::new() };
        Lanes { parked: parked.into_iter().collect(), known, ..Lanes::default() }
    }

    /// Takes in what a read found.
    pub fn push(&mut self, slice: Slice) {
        if !slice.changes.is_empty() {
            let next = self.marks.end();
            self.held += slice.changes.len();
            self.weight += slice.changes.weight();
            self.marks.open(slice.changes.positions());
            self.pass_over_known(&slice.changes, next);
            self.incoming.push_back(Incoming { changes: slice.changes, next });
        }
        // How far the read looked counts too: a partition where nothing happens still moves on.
        self.marks.reach(slice.upto);
    }

    /// Those of these changes that are known to be handled are done at once. The first of them has this number.
    fn pass_over_known(&mut self, changes: &Changes, first: u64) {
        if self.known.ahead.is_empty() {
            return;
        }
        for (number, change) in (first..).zip(changes.clone()) {
            if self.known.ahead.remove(change.id) {
                self.known.in_line.insert(number);
                self.handled(number, &change);
            }
        }
    }

    /// All that there is was read: what is known of an earlier owner and did not come will not come any more.
    pub fn forget_known(&mut self) {
        self.known.ahead = DoneAbove::default();
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
                if !self.known.in_line.remove(&number) {
                    return Some(Entry { number, change });
                }
            } else {
                self.incoming.pop_front();
            }
        }
    }

    /// The next changes that may run now, at most `max` of them; `None` when there are none.
    pub fn take(&mut self, max: usize) -> Option<Batch> {
        let number = self.next_batch;
        let room = max.min(self.held());
        let mut changes = std::mem::take(&mut self.spare);
        changes.reserve(room);
        let mut batch =
            Batch { number, entries: Vec::with_capacity(room), lanes: Vec::with_capacity(room), changes };
        while batch.changes.len() < max && !self.barrier {
            if self.ready.is_empty() && self.start_run(&mut batch, max) {
                continue;
            }
            let Some(entry) = self.next() else {
                break;
            };
            if entry.change.key.is_none() {
                if self.all_before_is_done() {
                    self.barrier = true;
                    self.start(&mut batch, entry);
                } else {
                    self.ready.push_front(entry);
                }
                break;
            }
            let lane = entry.change.lane();
            match self.busy.get(&lane) {
                Some(busy) if *busy != number => self.waiting.entry(lane).or_default().push_back(entry),
                Some(_) => batch.add(entry),
                None if is_parked(&self.parked, lane) => self.set_aside(entry),
                None => self.start(&mut batch, entry),
            }
        }
        if batch.changes.is_empty() {
            self.spare = batch.changes;
            return None;
        }
        self.next_batch += 1;
        let last = batch.entries.iter().max().map_or(0, |number| number + 1);
        self.begun = self.begun.max(last);
        Some(batch)
    }

    /// The same, of those alone that lie before one that was begun: they keep the low-water mark from passing what is done.
    pub fn take_behind(&mut self, max: usize) -> Option<Batch> {
        let begun = self.begun;
        let ready = std::mem::take(&mut self.ready).into_iter();
        let (behind, later): (VecDeque<Entry>, VecDeque<Entry>) =
            ready.partition(|entry| entry.number < begun);
        let incoming = std::mem::take(&mut self.incoming);
        self.ready = behind;
        let batch = self.take(max);
        self.ready.extend(later);
        self.incoming = incoming;
        batch
    }

    /// Whether a change of all objects can begin.
    fn all_before_is_done(&self) -> bool {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::EverythingAtOnce) {
            return true;
        }
        self.busy.is_empty() && self.parked.is_empty()
    }

    fn start(&mut self, batch: &mut Batch, entry: Entry) {
        let lane = entry.change.lane();
        self.busy.insert(lane, batch.number);
        batch.lanes.push(lane);
        batch.add(entry);
    }

    /// Has those of one read join the batch that are next and may run: all at once, since moving each by itself costs more than the
    /// rest of its way. Says whether there were any.
    fn start_run(&mut self, batch: &mut Batch, max: usize) -> bool {
        let Some(incoming) = self.incoming.front_mut() else { return false };
        let mut most = (max - batch.changes.len()).min(incoming.changes.len());
        if let Some(known) = self.known.in_line.first() {
            most = most.min((known - incoming.next) as usize);
        }
        let mut run = 0;
        while run < most
            && let Some(lane) = incoming.changes.lane(run)
        {
            match self.busy.entry(lane) {
                Place::Occupied(busy) if *busy.get() != batch.number => break,
                Place::Occupied(_) => {}
                Place::Vacant(_) if is_parked(&self.parked, lane) => break,
                Place::Vacant(free) => {
                    free.insert(batch.number);
                    batch.lanes.push(lane);
                }
            }
            run += 1;
        }
        batch.entries.extend(incoming.next..incoming.next + run as u64);
        incoming.changes.take_into(run, &mut batch.changes);
        incoming.next += run as u64;
        run > 0
    }

    fn set_aside(&mut self, entry: Entry) {
        self.wait_for_mark(entry.number, Parking { change: entry.change, failure: None });
        self.marks.advance();
    }

    /// A change is done here, and goes into the store with the checkpoint that passes it.
    fn wait_for_mark(&mut self, number: u64, parking: Parking) {
        self.leave(&parking.change);
        self.marks.done(number);
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::AsideCountsAsHandled) {
            self.marks.handled(number, parking.change.id);
        }
        self.aside.insert(number, parking);
    }

    /// The batch is done: each of its changes is handled, or is to be parked.
    pub fn complete(&mut self, batch: Batch, parked: Vec<Parking>) {
        self.barrier = false;
        self.settle_all(&batch, &HashSet::new(), parked);
        batch.lanes.iter().for_each(|lane| self.free(*lane));
        self.marks.advance();
        if batch.changes.capacity() <= MOST_SPARE {
            self.spare = batch.changes;
            self.spare.clear();
        }
    }

    /// The change of this number, which has this id, is handled, and its batch still runs. Whether that is new.
    pub fn tell(&mut self, number: u64, id: u64) -> bool {
        self.marks.tell(number, id)
    }

    /// The id of the change of this number, if it is told to be handled.
    #[cfg(test)]
    pub fn told_at(&self, number: u64) -> Option<u64> {
        self.marks.told_at(number)
    }

    /// The batch was given up before it was done; the changes with these ids are not. Their lanes stay closed.
    pub fn abandon(&mut self, batch: Batch, unfinished: &HashSet<u64>, parked: Vec<Parking>) {
        self.settle_all(&batch, unfinished, parked);
        self.marks.advance();
    }

    fn settle_all(&mut self, batch: &Batch, unfinished: &HashSet<u64>, parked: Vec<Parking>) {
        let mut parked: HashMap<u64, Parking> =
            parked.into_iter().map(|parking| (parking.change.id, parking)).collect();
        for (number, change) in batch.entries.iter().zip(&batch.changes) {
            if unfinished.contains(&change.id) {
                continue;
            }
            // Nearly always there is none, and looking costs more than knowing.
            if !parked.is_empty()
                && let Some(parking) = parked.remove(&change.id)
            {
                self.parked.insert(change.lane());
                self.wait_for_mark(*number, parking);
            } else {
                self.handled(*number, change);
            }
        }
    }

    fn handled(&mut self, number: u64, change: &Change) {
        self.leave(change);
        self.marks.handled(number, change.id);
    }

    fn leave(&mut self, change: &Change) {
        self.held -= 1;
        self.weight -= change.weight();
    }

    /// From now on, this object's changes are set aside instead of run, those that wait for it included.
    pub fn park(&mut self, lane: u64) {
        self.parked.insert(lane);
        if self.is_held(lane) {
            self.busy.remove(&lane);
            let waiting = self.waiting.remove(&lane).into_iter().flatten();
            waiting.for_each(|entry| self.set_aside(entry));
        }
    }

    fn is_held(&self, lane: u64) -> bool {
        self.busy.get(&lane) == Some(&HELD)
    }

    /// From now on, changes of this parked object wait in memory: it may be about to come back.
    pub fn hold(&mut self, lane: u64) {
        if self.parked.remove(&lane) {
            self.busy.insert(lane, HELD);
        }
    }

    /// What waits in memory for objects that may be about to come back is set aside after all.
    pub fn park_held(&mut self) {
        let held: Vec<u64> =
            self.busy.iter().filter(|(_, batch)| **batch == HELD).map(|(lane, _)| *lane).collect();
        held.into_iter().for_each(|lane| self.park(lane));
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
        self.busy.remove(&lane);
        // Nearly always nobody waits, and looking costs more than knowing.
        if !self.waiting.is_empty() {
            let waiting = self.waiting.remove(&lane).into_iter().flatten();
            waiting.rev().for_each(|entry| self.ready.push_front(entry));
        }
    }

    /// Whether the low-water mark has passed changes that are to be parked.
    pub fn has_passed_aside(&self) -> bool {
        self.aside.first_key_value().is_some_and(|(number, _)| *number < self.marks.passed())
    }

    /// The changes to park that the low-water mark has passed, in order. They belong into the checkpoint at the mark.
    pub fn take_passed_aside(&mut self) -> Vec<Parking> {
        let later = self.aside.split_off(&self.marks.passed());
        std::mem::replace(&mut self.aside, later).into_values().collect()
    }

    /// All changes to park, by their numbers: for a batch that will pass everything that was taken so far.
    pub fn take_aside(&mut self) -> BTreeMap<u64, Parking> {
        std::mem::take(&mut self.aside)
    }

    /// Keeps the low-water mark from passing this number, until it is told otherwise.
    pub fn hold_back(&mut self, number: Option<u64>) {
        self.marks.hold_back(number);
    }

    /// The number of the first place that is not done, whether or not the low-water mark is held back before it.
    pub fn done_upto(&self) -> u64 {
        self.marks.done_upto()
    }

    /// The number of the next place: all that was pushed so far lies before it.
    pub fn end(&self) -> u64 {
        self.marks.end()
    }

    /// The number of the first place that the low-water mark has not passed.
    pub fn passed(&self) -> u64 {
        self.marks.passed()
    }

    /// Everything up to here is handled or set aside; `None` before the first such place.
    pub fn low_water(&self) -> Option<&Position> {
        self.marks.low_water()
    }

    /// What is handled beyond the low-water mark, of a source that was read up to here.
    pub fn done_above(&mut self, upto: &Position) -> DoneAbove {
        DoneAbove::new(upto.clone(), self.marks.handled_above()).with(&self.known.ahead)
    }

    /// How many bytes that takes at most, without what is known of an earlier owner and was not read again yet.
    pub fn done_above_bytes(&self) -> u64 {
        let above = self.marks.above();
        DoneAbove::most_bytes(above.count, above.width())
    }

    /// Where the low-water mark will stand once this batch is complete.
    pub fn low_water_after(&self, batch: &Batch) -> Option<Position> {
        self.marks.low_water_after(&batch.entries)
    }

    /// How many changes are inside: ready, waiting, in flight or set aside.
    pub fn held(&self) -> usize {
        self.held + self.aside.len()
    }

    /// How many changes can be taken, unless their lanes keep them.
    pub fn in_line(&self) -> usize {
        self.ready.len() + self.incoming.iter().map(|incoming| incoming.changes.len()).sum::<usize>()
    }

    /// How many changes are inside and not set aside.
    pub fn at_work(&self) -> usize {
        self.held
    }

    /// How many places the low-water mark is behind: what one slow change keeps all others from being forgotten.
    pub fn span(&self) -> usize {
        self.marks.span()
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
