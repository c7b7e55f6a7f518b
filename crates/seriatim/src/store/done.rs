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

/// More ids than these are only written as ranges.
const MOST_AS_GAPS: u64 = 1 << 17;

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
        let upto = if ids.is_empty() { Vec::new() } else { vec![upto] };
        let mut done = DoneAbove { ranges: ranges_of(&ids), upto };
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
        both.join_neighbours();
        both.upto.extend(others.upto.iter().filter(|upto| !self.upto.contains(upto)).cloned());
        let fits = both.to_text().is_none_or(|text| text.len() <= Self::MOST_BYTES);
        if fits && both.upto.len() <= MOST_OWNERS { both } else { self }
    }

    fn join_neighbours(&mut self) {
        let mut joined: BTreeMap<u64, u64> = BTreeMap::new();
        for (first, last) in std::mem::take(&mut self.ranges) {
            match joined.last_entry() {
                Some(mut before) if before.get().checked_add(1) == Some(first) => *before.get_mut() = last,
                _ => drop(joined.insert(first, last)),
            }
        }
        self.ranges = joined;
    }

    /// The form that stores keep; `None` when there are none.
    pub fn to_text(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let upto: Vec<String> = self.upto.iter().map(Position::to_string).collect();
        let (ranges, gaps) = (self.as_ranges(), self.as_gaps());
        let (tag, bytes) = match gaps.filter(|gaps| gaps.len() < ranges.len()) {
            Some(gaps) => ('g', gaps),
            None => ('r', ranges),
        };
        Some(format!("{tag}{} {}", STANDARD_NO_PAD.encode(bytes), upto.join("\n")))
    }

    /// Ranges, one after another: short where most ids follow each other.
    fn as_ranges(&self) -> Vec<u8> {
        let (mut bytes, mut next) = (Vec::new(), 0);
        for (first, last) in &self.ranges {
            let (gap, more) = (first - next, last - first);
            push_number(&mut bytes, u128::from(gap) << 1 | u128::from(more > 0));
            if more > 0 {
                push_number(&mut bytes, u128::from(more));
            }
            next = last.saturating_add(1);
        }
        bytes
    }

    /// The gaps between ids, in Rice's code: a few bits for each id of a partition among others. `None` for very many.
    fn as_gaps(&self) -> Option<Vec<u8>> {
        let (first, last) = (*self.ranges.first_key_value()?.0, *self.ranges.last_key_value()?.1);
        let counts = self.ranges.iter().map(|(first, last)| last - first);
        let count = counts.fold(self.ranges.len() as u64, u64::saturating_add);
        if count > MOST_AS_GAPS {
            return None;
        }
        let low = low_bits(count, last - first);
        let mut bytes = vec![low as u8];
        push_number(&mut bytes, u128::from(first));
        push_number(&mut bytes, u128::from(count));
        let (mut bits, mut before) = (Bits { bytes, free: 0 }, first);
        let ids = self.ranges.iter().flat_map(|(first, last)| *first..=*last);
        for id in ids.skip(1) {
            let gap = id - before - 1;
            (0..gap >> low).for_each(|_| bits.push(true));
            bits.push(false);
            (0..low).for_each(|bit| bits.push(gap >> bit & 1 == 1));
            before = id;
        }
        Some(bits.bytes)
    }

    /// As many ids, all within a range so wide, never need more bytes than this in a text, whatever they are.
    pub(crate) fn most_bytes(count: u64, width: u64) -> u64 {
        // A gap takes another byte for each seven bits, and only so many gaps can be so wide.
        let longer = (1..=9u32).map(|bytes| (u128::from(width) * 2) >> (7 * bytes));
        let bytes = longer.fold(u128::from(count), |sum, wide| sum + wide.min(u128::from(count)));
        let low = low_bits(count, width);
        let bits = u128::from(count) * u128::from(low + 1) + u128::from(width >> low);
        // With the numbers before them.
        let bytes = if count > MOST_AS_GAPS { bytes } else { bytes.min(bits / 8 + 24) };
        // Base64 takes four letters for three bytes.
        u64::try_from(bytes * 4 / 3 + 3).unwrap_or(u64::MAX)
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
    let (tag, ids) = ids.split_at_checked(1)?;
    let bytes = STANDARD_NO_PAD.decode(ids).ok()?;
    let mut done = match tag {
        "r" => of_ranges(&bytes)?,
        "g" => of_gaps(&bytes)?,
        _ => return None,
    };
    if !done.is_empty() {
        done.upto = upto.split('\n').map(Position::text).collect();
    }
    Some(done)
}

fn of_ranges(bytes: &[u8]) -> Option<DoneAbove> {
    let (mut bytes, mut next, mut done) = (bytes.iter(), 0u64, DoneAbove::default());
    while !bytes.as_slice().is_empty() {
        let head = take_number(&mut bytes)?;
        let more = if head & 1 == 1 { u64::try_from(take_number(&mut bytes)?).ok()? } else { 0 };
        let first = next.checked_add(u64::try_from(head >> 1).ok()?)?;
        let last = first.checked_add(more)?;
        done.ranges.insert(first, last);
        next = last.saturating_add(1);
    }
    Some(done)
}

fn of_gaps(bytes: &[u8]) -> Option<DoneAbove> {
    let mut bytes = bytes.iter();
    let low = u32::from(*bytes.next()?);
    let first = u64::try_from(take_number(&mut bytes)?).ok()?;
    let count = u64::try_from(take_number(&mut bytes)?).ok()?;
    if low > 63 || count == 0 || count > MOST_AS_GAPS {
        return None;
    }
    let mut bits = bytes.flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    let (mut ids, mut before) = (vec![first], first);
    for _ in 1..count {
        let mut high = 0u64;
        while bits.next()? {
            high += 1;
        }
        let mut gap = high.checked_mul(1 << low)?;
        for bit in 0..low {
            gap |= u64::from(bits.next()?) << bit;
        }
        before = before.checked_add(gap)?.checked_add(1)?;
        ids.push(before);
    }
    Some(DoneAbove { ranges: ranges_of(&ids), upto: Vec::new() })
}

/// The ranges of ids that are in order.
fn ranges_of(ids: &[u64]) -> BTreeMap<u64, u64> {
    let runs = ids.chunk_by(|id, next| id.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run[run.len() - 1])).collect()
}

/// How many bits of each gap are written as they are: about as many as the usual gap has.
fn low_bits(count: u64, width: u64) -> u32 {
    width.checked_div(count).and_then(u64::checked_ilog2).unwrap_or(0)
}

/// Bytes that are written bit by bit, the lowest first.
struct Bits {
    bytes: Vec<u8>,
    /// How many bits of the last byte are free.
    free: u8,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.free == 0 {
            self.bytes.push(0);
            self.free = 8;
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (8 - self.free);
        }
        self.free -= 1;
    }
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
    fn ids_of_a_partition_among_sixteen_take_about_a_letter() {
        // As they come when objects are drawn to partitions at random.
        let mut draw = fastrand::Rng::with_seed(7);
        let ids: Vec<u64> = (1_000_000..1_160_000).filter(|_| draw.u8(..16) == 0).collect();
        let width = ids[ids.len() - 1] - ids[0];
        let done = DoneAbove::new(Position::number(1), ids.iter().copied());
        let letters = done.to_text().unwrap().len();
        assert!(letters < ids.len() && letters > 8_000, "{letters} for {}", ids.len());
        assert!(DoneAbove::most_bytes(ids.len() as u64, width) < letters as u64 * 5 / 4);
        assert_eq!(done.to_text().unwrap().parse(), Ok(done));
    }
}
