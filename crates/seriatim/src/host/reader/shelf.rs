//! What was read for each partition and not asked for yet. Pure: no I/O, no clock.
//!
//! ```text
//!   first                     end
//!     │ slice │ slice │ slice │        of each partition, without gaps: the first is what it asks for next,
//!                                      and the next pass for it goes on after the last
//! ```

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::change::Position;
use crate::name::Partition;
use crate::source::{Cursor, Slice};

/// What was read of one partition.
struct Read {
    slices: VecDeque<Slice>,
    /// Where the first of them begins.
    first: Position,
    /// Where the last of them ends.
    end: Position,
}

impl Read {
    fn nothing_after(position: &Position) -> Self {
        Read { slices: VecDeque::new(), first: position.clone(), end: position.clone() }
    }

    fn weight(&self) -> usize {
        self.slices.iter().map(weight).sum()
    }
}

/// An empty slice takes room too.
fn weight(slice: &Slice) -> usize {
    size_of::<Slice>() + slice.changes.weight()
}

/// What was read and not asked for yet.
#[derive(Default)]
pub(super) struct Shelf {
    /// In order, so that the same history leads to the same passes.
    read: BTreeMap<Partition, Read>,
    weight: usize,
}

impl Shelf {
    /// Takes what comes after this place, if it is there. A partition that goes on elsewhere than where it was read for is read
    /// for anew.
    pub fn take(&mut self, asked: &Cursor) -> Option<Slice> {
        let read = self.read.entry(asked.partition).or_insert_with(|| Read::nothing_after(&asked.after));
        if read.first != asked.after {
            self.weight -= read.weight();
            *read = Read::nothing_after(&asked.after);
        }
        let slice = read.slices.pop_front()?;
        self.weight -= weight(&slice);
        read.first = slice.upto.clone();
        Some(slice)
    }

    /// Keeps what was read after this place, if its partition still goes on there.
    pub fn keep(&mut self, after: &Position, slice: Slice) {
        let Some(read) = self.read.get_mut(&slice.partition) else { return };
        if read.end != *after {
            return;
        }
        read.end = slice.upto.clone();
        match read.slices.back_mut() {
            Some(last) if slice.changes.is_empty() => {
                last.upto = slice.upto;
                last.caught_up = slice.caught_up;
            }
            _ => {
                self.weight += weight(&slice);
                read.slices.push_back(slice);
            }
        }
    }

    /// Whether this partition has ever asked.
    pub fn knows(&self, partition: Partition) -> bool {
        self.read.contains_key(&partition)
    }

    /// How much is there.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Where most partitions are to be read on.
    pub fn where_most_stand(&self) -> Option<&Position> {
        let mut places: HashMap<&Position, usize> = HashMap::new();
        self.read.values().for_each(|read| *places.entry(&read.end).or_default() += 1);
        self.read.values().map(|read| &read.end).max_by_key(|place| places.get(place))
    }

    /// The partitions that are to be read on at one of these places.
    pub fn standing_at(&self, places: &HashSet<Position>) -> Vec<Cursor> {
        let there = self.read.iter().filter(|(_, read)| places.contains(&read.end));
        there.map(|(partition, read)| Cursor { partition: *partition, after: read.end.clone() }).collect()
    }

    /// Forgets what was read for the one for whom most was, so that the others can go on: it is far behind them.
    pub fn make_room(&mut self) {
        if let Some(read) = self.read.values_mut().max_by_key(|read| read.weight()) {
            self.weight -= read.weight();
            *read = Read::nothing_after(&read.first);
        }
    }

    /// Forgets what was read for all others.
    pub fn retain(&mut self, stays: impl Fn(Partition) -> bool) {
        self.read.retain(|partition, _| stays(*partition));
        self.weight = self.read.values().map(Read::weight).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, Op};
    use crate::name::FeedName;

    fn cursor(partition: u32, after: u64) -> Cursor {
        Cursor { partition: Partition(partition), after: Position::number(after) }
    }

    fn slice(partition: u32, upto: u64) -> Slice {
        let (partition, upto) = (Partition(partition), Position::number(upto));
        Slice { partition, changes: Vec::new().into(), upto, caught_up: false }
    }

    /// A shelf on which nothing lies, and that knows these partitions, all at the beginning.
    fn known(partitions: u32) -> Shelf {
        let mut shelf = Shelf::default();
        (0..partitions).for_each(|partition| assert!(shelf.take(&cursor(partition, 0)).is_none()));
        shelf
    }

    fn full(partition: u32, upto: u64) -> Slice {
        let change = Change {
            feed: FeedName::new("f").unwrap(),
            partition: Partition(partition),
            position: Position::number(upto),
            key: None,
            op: Op::Truncate,
            at: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id: upto,
            prev: None,
        };
        Slice { changes: vec![change].into(), ..slice(partition, upto) }
    }

    fn together(shelf: &Shelf) -> Vec<u32> {
        let most = shelf.where_most_stand().into_iter().cloned().collect();
        let mut partitions: Vec<u32> =
            shelf.standing_at(&most).iter().map(|cursor| cursor.partition.0).collect();
        partitions.sort_unstable();
        partitions
    }

    #[test]
    fn what_was_read_is_had_in_order_and_once() {
        let mut shelf = known(1);
        shelf.keep(&Position::number(0), full(0, 5));
        shelf.keep(&Position::number(5), full(0, 9));
        assert_eq!(shelf.take(&cursor(0, 0)).unwrap().upto, Position::number(5));
        assert_eq!(shelf.take(&cursor(0, 5)).unwrap().upto, Position::number(9));
        assert!(shelf.take(&cursor(0, 9)).is_none());
        assert_eq!(shelf.weight(), 0);
    }

    #[test]
    fn who_goes_on_elsewhere_gets_nothing_that_was_read_for_here() {
        let mut shelf = known(1);
        shelf.keep(&Position::number(0), full(0, 5));
        assert!(shelf.take(&cursor(0, 3)).is_none(), "it was set back or forth");
        assert!(shelf.take(&cursor(0, 0)).is_none(), "nothing is left of what was read");
        assert_eq!(shelf.weight(), 0);
        shelf.keep(&Position::number(5), full(0, 9));
        assert_eq!(shelf.weight(), 0, "what was being read meanwhile leaves a gap");
        shelf.keep(&Position::number(0), full(1, 9));
        assert_eq!(shelf.weight(), 0, "nobody has asked for that");
    }

    #[test]
    fn a_partition_for_which_nothing_happens_takes_no_room() {
        let mut shelf = known(1);
        (0..1000).for_each(|upto| shelf.keep(&Position::number(upto), slice(0, upto + 1)));
        assert_eq!(shelf.weight(), size_of::<Slice>());
        assert_eq!(shelf.take(&cursor(0, 0)).unwrap().upto, Position::number(1000));
    }

    #[test]
    fn those_who_stand_together_are_read_for_together() {
        let mut shelf = known(5);
        (0..3).for_each(|partition| shelf.keep(&Position::number(0), full(partition, 5)));
        assert_eq!(together(&shelf), [0, 1, 2]);
        shelf.retain(|partition| partition.0 >= 2);
        assert_eq!(together(&shelf), [3, 4]);
    }

    #[test]
    fn room_is_made_by_forgetting_whoever_is_furthest_behind() {
        let mut shelf = known(2);
        shelf.keep(&Position::number(0), full(0, 5));
        shelf.keep(&Position::number(0), full(1, 5));
        shelf.keep(&Position::number(5), full(1, 9));
        shelf.make_room();
        assert!(shelf.take(&cursor(1, 0)).is_none());
        assert_eq!(shelf.take(&cursor(0, 0)).unwrap().upto, Position::number(5));
        assert_eq!(shelf.weight(), 0);
    }
}
