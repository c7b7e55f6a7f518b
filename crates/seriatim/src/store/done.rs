//! What is handled above a checkpoint's position.
//!
//! ```text
//!   position          slow                          how far it was read
//!   ───┴──────────────○────●●●●●●●●●●○●●●●●●●●●●●●●●●┴──▶
//!      all handled         handled: their ids are kept, and they do not come again
//! ```
//!
//! One slow change keeps the position where it is while all others go on. The ids of what is handled beyond it are kept with the
//! position, as ranges, in bounded space: whoever goes on from there after a crash leaves them out.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use thiserror::Error;

use crate::change::Position;

/// The changes that are handled above a checkpoint's position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneAbove {
    /// Ranges of ids, by their first: the last of each. They neither touch nor overlap.
    ranges: BTreeMap<u64, u64>,
    /// How far the source was read, by each of the owners that they are from: none of them lies beyond the furthest.
    upto: Vec<Position>,
}

/// What more owners one after another have left behind half-way is not kept.
const MOST_OWNERS: usize = 4;

impl DoneAbove {
    /// A text of it is never longer.
    pub const MOST_BYTES: usize = 16 * 1024;

    /// These changes, of a source that was read up to here.
    pub fn new(upto: Position, ids: impl IntoIterator<Item = u64>) -> Self {
        let mut ids: Vec<u64> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut done = DoneAbove::default();
        for run in ids.chunk_by(|id, next| id.checked_add(1) == Some(*next)) {
            done.ranges.insert(run[0], run[run.len() - 1]);
        }
        done.upto = if done.is_empty() { Vec::new() } else { vec![upto] };
        done.cut();
        done
    }

    /// Leaves out the last ones if there is no room for all of them: they come again.
    fn cut(&mut self) {
        while self.to_text().is_some_and(|text| text.len() > Self::MOST_BYTES) {
            for _ in 0..self.ranges.len().div_ceil(8) {
                self.ranges.pop_last();
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How far the source was read, by each of the owners that they are from.
    pub fn upto(&self) -> &[Position] {
        &self.upto
    }

    /// Whether the change of this id is among them.
    pub fn contains(&self, id: u64) -> bool {
        self.ranges.range(..=id).next_back().is_some_and(|(_, last)| id <= *last)
    }

    /// Takes a change out, and says whether it was among them.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some((first, last)) = self.ranges.range(..=id).next_back().map(|(first, last)| (*first, *last))
        else {
            return false;
        };
        if last < id {
            return false;
        }
        self.ranges.remove(&first);
        if first < id {
            self.ranges.insert(first, id - 1);
        }
        if id < last {
            self.ranges.insert(id + 1, last);
        }
        true
    }

    /// These and others, if there is room for both; these alone otherwise. What is left out comes again.
    pub fn with(self, others: &DoneAbove) -> Self {
        if others.is_empty() {
            return self;
        }
        let mut both = self.clone();
        both.ranges.extend(others.ranges.iter());
        both.upto.extend(others.upto.iter().filter(|upto| !self.upto.contains(upto)).cloned());
        let fits = both.to_text().is_none_or(|text| text.len() <= Self::MOST_BYTES);
        if fits && both.upto.len() <= MOST_OWNERS { both } else { self }
    }

    /// The form that stores keep; `None` when there are none.
    pub fn to_text(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let upto: Vec<String> = self.upto.iter().map(Position::to_string).collect();
        let mut bytes = Vec::new();
        let mut next = 0;
        for (first, last) in &self.ranges {
            let (gap, more) = (first - next, last - first);
            push_number(&mut bytes, u128::from(gap) << 1 | u128::from(more > 0));
            if more > 0 {
                push_number(&mut bytes, u128::from(more));
            }
            next = last.saturating_add(1);
        }
        Some(format!("{} {}", STANDARD_NO_PAD.encode(bytes), upto.join("\n")))
    }

    /// As many ids, all within a range so wide, never need more bytes than this in a text, whatever they are.
    pub(crate) fn most_bytes(count: u64, width: u64) -> u64 {
        // A gap takes another byte for each seven bits, and only so many gaps can be so wide.
        let longer = (1..=9u32).map(|bytes| (u128::from(width) * 2) >> (7 * bytes));
        let bytes = longer.fold(u128::from(count), |sum, wide| sum + wide.min(u128::from(count)));
        // Base64 takes four letters for three bytes.
        u64::try_from(bytes * 4 / 3 + 2).unwrap_or(u64::MAX)
    }
}

/// A text that does not say what is handled beyond a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a text does not say which changes are handled beyond a checkpoint")]
pub struct NotDoneAbove;

/// Of the form that stores keep. An empty text is none.
impl FromStr for DoneAbove {
    type Err = NotDoneAbove;

    fn from_str(text: &str) -> Result<Self, NotDoneAbove> {
        if text.is_empty() {
            return Ok(DoneAbove::default());
        }
        understood(text).ok_or(NotDoneAbove)
    }
}

fn understood(text: &str) -> Option<DoneAbove> {
    let (ids, upto) = text.split_once(' ')?;
    let bytes = STANDARD_NO_PAD.decode(ids).ok()?;
    let (mut bytes, mut next, mut done) = (bytes.iter(), 0u64, DoneAbove::default());
    while !bytes.as_slice().is_empty() {
        let head = take_number(&mut bytes)?;
        let more = if head & 1 == 1 { u64::try_from(take_number(&mut bytes)?).ok()? } else { 0 };
        let first = next.checked_add(u64::try_from(head >> 1).ok()?)?;
        let last = first.checked_add(more)?;
        done.ranges.insert(first, last);
        next = last.saturating_add(1);
    }
    if !done.is_empty() {
        done.upto = upto.split('\n').map(Position::text).collect();
    }
    Some(done)
}

/// Seven bits in each byte, the lowest first; the highest bit says that more follow.
fn push_number(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u128> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let byte = bytes.next()?;
        number |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn any_ids() -> impl Strategy<Value = BTreeSet<u64>> {
        let near = prop::collection::btree_set(0..200u64, 0..60);
        let far = prop::collection::btree_set(any::<u64>(), 0..8);
        (near, far).prop_map(|(near, far)| near.into_iter().chain(far).collect())
    }

    proptest! {
        #[test]
        fn it_is_kept_as_a_text_and_comes_back(ids in any_ids()) {
            let done = DoneAbove::new(Position::text("7-9:42 and a space"), ids.iter().copied());
            match done.to_text() {
                Some(text) => prop_assert_eq!(text.parse(), Ok(done)),
                None => prop_assert!(ids.is_empty()),
            }
        }

        #[test]
        fn it_is_the_set_of_its_ids(ids in any_ids(), out in prop::collection::vec(any_ids(), 0..3)) {
            let mut left = ids.clone();
            let mut done = DoneAbove::new(Position::number(1), ids);
            for id in out.into_iter().flatten() {
                prop_assert_eq!(done.contains(id), left.contains(&id));
                prop_assert_eq!(done.remove(id), left.remove(&id));
            }
            prop_assert_eq!(&done.ranges, &DoneAbove::new(Position::number(1), left).ranges);
        }

        #[test]
        fn what_two_owners_have_done_is_kept_together(ids in any_ids(), others in any_ids()) {
            let others: BTreeSet<u64> = others.difference(&ids).copied().collect();
            let own = DoneAbove::new(Position::number(7), ids.iter().copied());
            let both = own.with(&DoneAbove::new(Position::number(9), others.iter().copied()));
            prop_assert!(ids.iter().chain(&others).all(|id| both.contains(*id)));
            prop_assert_eq!(both.upto().contains(&Position::number(9)), !others.is_empty());
            let text = both.to_text().unwrap_or_default();
            prop_assert_eq!(text.parse(), Ok(both));
        }

        #[test]
        fn it_never_takes_more_room_than_was_reckoned(ids in any_ids()) {
            let count = ids.len() as u64;
            // The first one is counted from zero.
            let width = ids.last().copied().unwrap_or(0);
            let done = DoneAbove::new(Position::text(""), ids);
            let text = done.to_text().map_or(0, |text| text.len() as u64 - 1);
            prop_assert!(text <= DoneAbove::most_bytes(count, width), "{} for {} in {}", text, count, width);
        }

        #[test]
        fn what_is_no_such_text_is_refused_and_nothing_worse(text in r"[A-Za-z0-9+/]{0,30} ?\PC{0,5}") {
            if let Ok(done) = text.parse::<DoneAbove>() && let Some(again) = done.to_text() {
                prop_assert_eq!(again.parse(), Ok(done));
            }
        }
    }

    #[test]
    fn there_is_an_end_to_its_room() {
        let done = DoneAbove::new(Position::number(1), (0..100_000).map(|id| id * 1_000_000));
        assert!(done.to_text().unwrap().len() <= DoneAbove::MOST_BYTES);
        assert!(done.contains(0) && done.contains(3_000_000_000) && !done.contains(99_999_000_000));
    }

    #[test]
    fn ids_of_a_partition_among_sixteen_take_about_a_letter_and_a_half() {
        let done = DoneAbove::new(Position::number(1), (1_000_000..1_160_000).step_by(16));
        assert!(done.to_text().unwrap().len() < 13_500);
    }
}
