//! How far everything is done: places are numbered as they come, are done in any order, and are passed in theirs.

use std::collections::VecDeque;

use crate::change::Position;

/// The places that are not passed yet, and the low-water mark before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// For each place that the low-water mark has not passed yet, whether it is done.
    done: VecDeque<bool>,
    /// The ids of the changes at those of them that are handled; zero for all others.
    handled: VecDeque<u64>,
    /// How many of them are handled, and between which ids.
    above: Above,
    /// The positions of the same places.
    positions: Positions,
    /// The number of the first of them.
    first: u64,
    low_water: Option<Position>,
    /// The mark does not pass this number, whatever is done behind it.
    held_back: Option<u64>,
}

/// How much is handled beyond the mark.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Above {
    pub count: u64,
    /// The smallest id among them, or a smaller one.
    first: u64,
    last: u64,
}

impl Above {
    fn add(&mut self, id: u64) {
        (self.first, self.last) = match self.count {
            0 => (id, id),
            _ => (self.first.min(id), self.last.max(id)),
        };
        self.count += 1;
    }

    /// How wide the range of their ids is, at most.
    pub fn width(&self) -> u64 {
        self.last - self.first
    }
}

/// Positions in order. Nearly all are numbers, which take much less room.
#[derive(Clone, Debug)]
enum Positions {
    Numbers(VecDeque<u64>),
    Any(VecDeque<Position>),
}

impl Default for Positions {
    fn default() -> Self {
        Positions::Numbers(VecDeque::new())
    }
}

impl Positions {
    fn push(&mut self, position: Position) {
        match (&mut *self, position.as_number()) {
            (Positions::Numbers(numbers), Some(number)) => numbers.push_back(number),
            (Positions::Numbers(numbers), None) => {
                let numbers = numbers.drain(..).map(Position::number);
                *self = Positions::Any(numbers.chain([position]).collect());
            }
            (Positions::Any(positions), _) => positions.push_back(position),
        }
    }

    fn get(&self, index: usize) -> Option<Position> {
        match self {
            Positions::Numbers(numbers) => numbers.get(index).copied().map(Position::number),
            Positions::Any(positions) => positions.get(index).cloned(),
        }
    }

    /// Forgets the first ones.
    fn pass(&mut self, count: usize) {
        match self {
            Positions::Numbers(numbers) => drop(numbers.drain(..count)),
            Positions::Any(positions) if positions.len() == count => *self = Positions::default(),
            Positions::Any(positions) => drop(positions.drain(..count)),
        }
    }
}

impl Marks {
    /// Places come that are not done.
    pub(super) fn open(&mut self, positions: impl ExactSizeIterator<Item = Position>) {
        self.done.extend(std::iter::repeat_n(false, positions.len()));
        self.handled.extend(std::iter::repeat_n(0, positions.len()));
        positions.for_each(|position| self.positions.push(position));
    }

    /// A place comes at which there is nothing to do: once all before it is done, the mark is there.
    pub(super) fn reach(&mut self, position: Position) {
        self.positions.push(position);
        self.done.push_back(true);
        self.handled.push_back(0);
        self.advance();
    }

    /// The place of this number is done. The mark stays until it is told to advance.
    pub(super) fn done(&mut self, number: u64) {
        self.done[(number - self.first) as usize] = true;
    }

    /// The change at the place of this number, which has this id, is handled.
    pub(super) fn handled(&mut self, number: u64, id: u64) {
        self.done(number);
        self.tell(number, id);
    }

    /// The same, for a change that others of its batch keep from being done. Whether that is new.
    pub(super) fn tell(&mut self, number: u64, id: u64) -> bool {
        let known = &mut self.handled[(number - self.first) as usize];
        let is_new = *known != id;
        if is_new {
            *known = id;
            self.above.add(id);
        }
        is_new
    }

    #[cfg(test)]
    pub(super) fn told_at(&self, number: u64) -> Option<u64> {
        self.handled.get(number.checked_sub(self.first)? as usize).copied().filter(|id| *id != 0)
    }

    /// Moves the mark over all places that are done.
    pub(super) fn advance(&mut self) {
        let may_pass = self.held_back.map_or(usize::MAX, |number| number.saturating_sub(self.first) as usize);
        let passed = self.done_in_a_row().min(may_pass);
        if passed > 0 {
            self.low_water = self.positions.get(passed - 1);
            self.positions.pass(passed);
            self.done.drain(..passed);
            let passed_handled = self.handled.drain(..passed).filter(|id| *id != 0).count();
            self.above.count -= passed_handled as u64;
            self.first += passed as u64;
        }
    }

    fn done_in_a_row(&self) -> usize {
        self.done.iter().take_while(|done| **done).count()
    }

    /// Keeps the mark from passing this number, until it is told otherwise.
    pub(super) fn hold_back(&mut self, number: Option<u64>) {
        self.held_back = number;
        self.advance();
    }

    /// The ids of the changes that are handled beyond the mark.
    pub(super) fn handled_above(&mut self) -> Vec<u64> {
        let ids: Vec<u64> = self.handled.iter().copied().filter(|id| *id != 0).collect();
        self.above = Above::default();
        ids.iter().for_each(|id| self.above.add(*id));
        ids
    }

    /// How much that is.
    pub(super) fn above(&self) -> Above {
        self.above
    }

    /// The number of the first place that is not done, whether or not the mark is held back before it.
    pub(super) fn done_upto(&self) -> u64 {
        self.first + self.done_in_a_row() as u64
    }

    /// The number of the next place that comes.
    pub(super) fn end(&self) -> u64 {
        self.first + self.done.len() as u64
    }

    /// The number of the first place that the mark has not passed.
    pub(super) fn passed(&self) -> u64 {
        self.first
    }

    /// How many places the mark is behind.
    pub(super) fn span(&self) -> usize {
        self.done.len()
    }

    /// Everything up to here is done; `None` before the first such place.
    pub(super) fn low_water(&self) -> Option<&Position> {
        self.low_water.as_ref()
    }

    /// Where the mark will stand once these places, in the order of their numbers, are done too.
    pub(super) fn low_water_after(&self, numbers: &[u64]) -> Option<Position> {
        let mut numbers = numbers.iter().peekable();
        let will_be_done = |(done, number): &(&bool, u64)| numbers.next_if_eq(&number).is_some() || **done;
        let passed = self.done.iter().zip(self.first..).take_while(will_be_done).count();
        passed.checked_sub(1).and_then(|last| self.positions.get(last)).or(self.low_water.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// What can happen to places.
    #[derive(Clone, Debug)]
    enum Step {
        /// Some come whose positions are numbers, or not.
        Open(Vec<bool>),
        Reach(bool),
        /// One of those that are open is done.
        Done(prop::sample::Index),
        HoldBack(Option<u8>),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(prop::bool::weighted(0.9), 1..4).prop_map(Step::Open),
            prop::bool::weighted(0.9).prop_map(Step::Reach),
            any::<prop::sample::Index>().prop_map(Step::Done),
            any::<prop::sample::Index>().prop_map(Step::Done),
            prop::option::of(0..20u8).prop_map(Step::HoldBack),
        ]
    }

    fn position(number: u64, is_number: bool) -> Position {
        if is_number { Position::number(number) } else { Position::text(&format!("at {number}")) }
    }

    proptest! {
        #[test]
        fn the_mark_is_the_last_place_before_which_all_are_done(steps in prop::collection::vec(any_step(), 0..40)) {
            let (mut marks, mut places, mut open) = (Marks::default(), Vec::new(), BTreeSet::new());
            let (mut held_back, mut passed) = (None, 0);
            for step in steps {
                let end = places.len() as u64;
                match step {
                    Step::Open(kinds) => {
                        let new: Vec<Position> = (end..).zip(kinds).map(|(n, kind)| position(n, kind)).collect();
                        open.extend(end..end + new.len() as u64);
                        marks.open(new.clone().into_iter());
                        places.extend(new);
                    }
                    Step::Reach(kind) => {
                        marks.reach(position(end, kind));
                        places.push(position(end, kind));
                    }
                    Step::Done(which) if !open.is_empty() => {
                        let number = *which.get(&open.iter().copied().collect::<Vec<_>>());
                        open.remove(&number);
                        let first_open = open.first().copied().unwrap_or(end);
                        let after = first_open.max(passed).checked_sub(1).map(|last| places[last as usize].clone());
                        prop_assert_eq!(marks.low_water_after(&[number]), after);
                        marks.done(number);
                        marks.advance();
                    }
                    Step::Done(_) => {}
                    Step::HoldBack(number) => {
                        held_back = number.map(u64::from);
                        marks.hold_back(held_back);
                    }
                }
                let first_open = open.first().copied().unwrap_or(places.len() as u64);
                passed = held_back.map_or(first_open, |held_back| first_open.min(held_back)).max(passed);
                let low_water = passed.checked_sub(1).map(|last| places[last as usize].clone());
                prop_assert_eq!(marks.low_water(), low_water.as_ref());
                prop_assert_eq!((marks.passed(), marks.end()), (passed, places.len() as u64));
                prop_assert_eq!((marks.done_upto(), marks.span() as u64), (first_open.max(passed), places.len() as u64 - passed));
            }
        }
    }
}
