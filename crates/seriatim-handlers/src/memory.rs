//! What a sink remembers of an object, and what follows for a change that comes. Pure.

use std::fmt;
use std::str::FromStr;

use seriatim::Change;

/// Which life of a partition a change belongs to. A rewind, and a feed that is set up anew, begin another one: their changes come
/// again on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The place of a change in the history of its object: a later change has a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The life of the partition.
    pub generation: Generation,
    /// The place within it.
    pub rank: u64,
}

/// What a sink does with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is new.
    Append,
    /// The sink holds it, or a later one of its object.
    Held,
    /// It is of a life that is over: its host does not know yet.
    Outlived,
}

impl Mark {
    /// The mark of a change in this generation.
    pub fn of(change: &Change, generation: Generation) -> Self {
        Mark { generation, rank: change.rank() }
    }

    /// What is to be done with this change where `last` is the last one of its object that the sink holds.
    pub fn judged_by(self, last: Option<Mark>) -> Judgement {
        match last {
            Some(last) if last.generation > self.generation => Judgement::Outlived,
            Some(last) if last >= self => Judgement::Held,
            _ => Judgement::Append,
        }
    }
}

/// Of fixed width: marks compare as their texts do.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}-{:020}", self.generation.0, self.rank)
    }
}

/// A text that is no mark.
#[derive(Debug, PartialEq, Eq)]
pub struct NoMark;

impl FromStr for Mark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let (generation, rank) = text.split_once('-').ok_or(NoMark)?;
        let number = |digits: &str| digits.parse().map_err(|_| NoMark);
        Ok(Mark { generation: Generation(number(generation)?), rank: number(rank)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_mark() -> impl Strategy<Value = Mark> {
        let generation = prop_oneof![0..3u64, 0..10_000_000_000_000_000u64];
        let rank = prop_oneof![0..3u64, any::<u64>()];
        (generation, rank).prop_map(|(generation, rank)| Mark { generation: Generation(generation), rank })
    }

    proptest! {
        #[test]
        fn marks_compare_as_their_texts_do(one in any_mark(), other in any_mark()) {
            prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
            prop_assert_eq!(one.to_string().parse(), Ok(one));
        }

        /// Owners one after another, and zombies beside them, send what they were given, from any place on: the object's history
        /// is held once and in order.
        #[test]
        fn however_often_a_history_is_sent_it_is_held_once(from in prop::collection::vec(0..20u64, 1..12)) {
            let mut held: Vec<u64> = Vec::new();
            let mut last = None;
            for (turn, from) in from.into_iter().enumerate() {
                // An owner begins at or before what is held: its checkpoint is never ahead.
                let from = from.min(held.len() as u64);
                for rank in from..(from + 1 + turn as u64 % 5).min(20) {
                    let mark = Mark { generation: Generation(1), rank };
                    if mark.judged_by(last) == Judgement::Append {
                        held.push(rank);
                        last = Some(mark);
                    }
                }
            }
            prop_assert_eq!(&held, &(0..held.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn another_life_begins_anew_and_refuses_the_one_before() {
        let mark = |generation, rank| Mark { generation: Generation(generation), rank };
        assert_eq!(mark(2, 1).judged_by(Some(mark(1, 9))), Judgement::Append);
        assert_eq!(mark(1, 10).judged_by(Some(mark(2, 1))), Judgement::Outlived);
        assert_eq!(mark(2, 1).judged_by(Some(mark(2, 1))), Judgement::Held);
        assert_eq!(mark(2, 2).judged_by(Some(mark(2, 1))), Judgement::Append);
        assert_eq!(mark(2, 2).judged_by(None), Judgement::Append);
    }
}
