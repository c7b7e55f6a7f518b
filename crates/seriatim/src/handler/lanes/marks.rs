//! How far everything is done: places are numbered as they come, are done in any order, and are passed in theirs.

use std::collections::VecDeque;

use crate::change::Position;

/// The places that are not passed yet, and the low-water mark before them.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Each place that the low-water mark has not passed yet: its position when it is done, `None` while it is open.
    marks: VecDeque<Option<Position>>,
    /// The number of the first mark.
    first: u64,
    low_water: Option<Position>,
    /// The mark does not pass this number, whatever is done behind it.
    held_back: Option<u64>,
}

impl Marks {
    /// So many places come that are not done.
    pub(super) fn open(&mut self, places: usize) {
        self.marks.extend(std::iter::repeat_n(None, places));
    }

    /// A place comes at which there is nothing to do: once all before it is done, the mark is there.
    pub(super) fn reach(&mut self, position: Position) {
        self.marks.push_back(Some(position));
        self.advance();
    }

    /// The place of this number is done. The mark stays until it is told to advance.
    pub(super) fn done(&mut self, number: u64, position: Position) {
        self.marks[(number - self.first) as usize] = Some(position);
    }

    /// Moves the mark over all places that are done.
    pub(super) fn advance(&mut self) {
        let may_pass = |number| self.held_back.is_none_or(|held_back| number < held_back);
        while may_pass(self.first)
            && let Some(Some(position)) = self.marks.pop_front_if(|mark| mark.is_some())
        {
            self.low_water = Some(position);
            self.first += 1;
        }
    }

    /// Keeps the mark from passing this number, until it is told otherwise.
    pub(super) fn hold_back(&mut self, number: Option<u64>) {
        self.held_back = number;
        self.advance();
    }

    /// The number of the first place that is not done, whether or not the mark is held back before it.
    pub(super) fn done_upto(&self) -> u64 {
        self.first + self.marks.iter().take_while(|mark| mark.is_some()).count() as u64
    }

    /// The number of the next place that comes.
    pub(super) fn end(&self) -> u64 {
        self.first + self.marks.len() as u64
    }

    /// The number of the first place that the mark has not passed.
    pub(super) fn passed(&self) -> u64 {
        self.first
    }

    /// How many places the mark is behind.
    pub(super) fn span(&self) -> usize {
        self.marks.len()
    }

    /// Everything up to here is done; `None` before the first such place.
    pub(super) fn low_water(&self) -> Option<&Position> {
        self.low_water.as_ref()
    }

    /// Where the mark will stand once these places, in the order of their numbers, are done too.
    pub(super) fn low_water_after<'a>(
        &'a self,
        done: impl Iterator<Item = (u64, &'a Position)>,
    ) -> Option<&'a Position> {
        let mut done = done.peekable();
        let position =
            |(mark, number): (&'a Option<Position>, u64)| match done.next_if(|(at, _)| *at == number) {
                Some((_, position)) => Some(position),
                None => mark.as_ref(),
            };
        self.marks.iter().zip(self.first..).map_while(position).last().or(self.low_water())
    }
}
