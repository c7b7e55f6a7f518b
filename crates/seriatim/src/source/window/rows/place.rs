//! Positions of a window: the last row that was passed, by its moment and its tie, as text that people can read.
//!
//! ```text
//!   beginning
//!   since 2026-11-15T08:00:00Z
//!   2026-11-15 08:00:00.123 [42]
//!   2026-11-15 08:00:00.123 ["a",7] dropped=17 early=1763193601000000000:8123
//! ```

use std::cmp::Ordering;
use std::fmt::Debug;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::Mark;
use crate::change::Position;
use crate::name::Partition;
use crate::source::Cursor;

const BEGINNING: &str = "beginning";
const SINCE: &str = "since ";

/// How a source writes what orders its rows, and reads it back.
pub trait PositionCodec: Copy + Debug + PartialEq {
    /// A moment, or a value of a tie, exactly as the source has it.
    type Value: Clone + Debug + PartialEq;

    /// The row with the moment that this text says and the tie that this list has; `None` when no row can have them.
    fn read(self, raw: &str, tie: &[Json]) -> Option<RowPlace<Self>>;

    /// Writes a moment.
    fn write_moment(raw: &Self::Value, text: &mut String);

    /// Writes a value of a tie as JSON.
    fn write_tie(value: &Self::Value, text: &mut String);

    /// Which of two forms of one moment comes first. As far as this process needs it: who is read first is a matter of speed
    /// alone.
    fn order_of_moments(here: &Self::Value, there: &Self::Value) -> Ordering;

    /// Which of two values of ties comes first, as far as this process needs it.
    fn order_of_ties(here: &Self::Value, there: &Self::Value) -> Ordering;
}

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Place<S: PositionCodec> {
    /// Before every row.
    Beginning,
    /// Before every row of this moment or a later one.
    Since(Timestamp),
    /// After this row, in the order of moments and ties.
    Row(RowPlace<S>),
}

/// A row by what orders it.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPlace<S: PositionCodec> {
    /// The moment as the table has it.
    pub raw: S::Value,
    /// What orders it among those of its moment.
    pub tie: Vec<S::Value>,
    /// The moment.
    pub at: Timestamp,
}

/// A position, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowPosition<S: PositionCodec> {
    /// Where it is.
    pub place: Place<S>,
    /// What is remembered beside it.
    pub mark: Mark,
}

impl<S: PositionCodec> Place<S> {
    /// Everything before this moment is passed.
    pub fn at(&self) -> Timestamp {
        match self {
            Place::Beginning => Timestamp::MIN,
            Place::Since(at) => *at,
            Place::Row(row) => row.at,
        }
    }

    fn order(&self, other: &Place<S>) -> Ordering {
        let ties = match (self, other) {
            (Place::Row(here), Place::Row(there)) => {
                S::order_of_moments(&here.raw, &there.raw).then_with(|| tie_order::<S>(&here.tie, &there.tie))
            }
            _ => Ordering::Equal,
        };
        self.at().cmp(&other.at()).then(ties)
    }
}

fn tie_order<S: PositionCodec>(here: &[S::Value], there: &[S::Value]) -> Ordering {
    let orders = here.iter().zip(there).map(|(here, there)| S::order_of_ties(here, there));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl<S: PositionCodec> RowPlace<S> {
    /// The position of this row with a mark, written into a text that is used again for the next.
    pub fn position(&self, mark: &Mark, text: &mut String) -> Position {
        text.clear();
        S::write_moment(&self.raw, text);
        text.push_str(" [");
        for (index, value) in self.tie.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            S::write_tie(value, text);
        }
        text.push(']');
        mark.write(text);
        Position::text(text)
    }
}

impl<S: PositionCodec> WindowPosition<S> {
    /// The position of a place, with nothing to remember.
    pub fn at(place: Place<S>) -> Self {
        WindowPosition { place, mark: Mark::default() }
    }

    /// Understands a position; `None` when it is not one of ours.
    pub fn parse(position: &Position, spelling: S) -> Option<Self> {
        let text = position.to_string();
        if let Some(mark) = text.strip_prefix(BEGINNING) {
            return Some(WindowPosition { place: Place::Beginning, mark: Mark::parse(mark)? });
        }
        if let Some(since) = text.strip_prefix(SINCE) {
            let (at, mark) = since.split_at(since.find(' ').unwrap_or(since.len()));
            return Some(WindowPosition { place: Place::Since(at.parse().ok()?), mark: Mark::parse(mark)? });
        }
        let (raw, tie) = text.split_at(text.find(" [")?);
        let mut json = serde_json::Deserializer::from_str(tie).into_iter::<Vec<Json>>();
        let values = json.next()?.ok()?;
        let mark = Mark::parse(&tie[json.byte_offset()..])?;
        Some(WindowPosition { place: Place::Row(spelling.read(raw, &values)?), mark })
    }

    /// The position that the rest of the world keeps.
    pub fn position(&self) -> Position {
        let mut text = match &self.place {
            Place::Beginning => BEGINNING.to_owned(),
            Place::Since(at) => format!("{SINCE}{at}"),
            Place::Row(row) => return row.position(&self.mark, &mut String::new()),
        };
        self.mark.write(&mut text);
        Position::text(&text)
    }
}

/// The cursors that one pass serves: they stand at the same place, with the same versions delivered early.
#[derive(Debug)]
pub struct Group<S: PositionCodec> {
    /// Where they stand.
    pub at: WindowPosition<S>,
    /// Where another cursor waits: there the pass ends, so that both go on together.
    pub until: Option<RowPlace<S>>,
    /// Their partitions.
    pub members: Vec<Partition>,
}

impl<S: PositionCodec> Group<S> {
    /// The cursors that stand furthest behind. An error names the position that is not one of ours.
    pub fn furthest_behind(cursors: &[Cursor], spelling: S) -> Result<Option<Self>, Position> {
        let parse = |cursor: &Cursor| {
            WindowPosition::parse(&cursor.after, spelling).ok_or_else(|| cursor.after.clone())
        };
        let places: Vec<WindowPosition<S>> = cursors.iter().map(parse).collect::<Result<_, _>>()?;
        let first = places.iter().min_by(|one, other| one.place.order(&other.place)).cloned();
        let Some(mut at) = first else { return Ok(None) };
        let together = |mine: &WindowPosition<S>| mine.place == at.place && mine.mark.early == at.mark.early;
        let members = cursors.iter().zip(&places).filter(|(_, mine)| together(mine));
        let (members, dropped): (Vec<Partition>, Vec<u64>) =
            members.map(|(cursor, mine)| (cursor.partition, mine.mark.dropped)).unzip();
        let ahead = places.iter().filter(|mine| at.place.order(&mine.place).is_lt());
        let next = ahead.min_by(|one, other| one.place.order(&other.place));
        let until = next.and_then(|next| match &next.place {
            Place::Row(row) => Some(row.clone()),
            _ => None,
        });
        at.mark.dropped = dropped.into_iter().max().unwrap_or(0);
        Ok(Some(Group { at, until, members }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole seconds, and whole numbers as ties.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Seconds;

    impl PositionCodec for Seconds {
        type Value = i64;

        fn read(self, raw: &str, tie: &[Json]) -> Option<RowPlace<Self>> {
            let raw = raw.parse().ok()?;
            let tie = tie.iter().map(Json::as_i64).collect::<Option<_>>()?;
            Some(RowPlace { raw, tie, at: Timestamp::from_second(raw).ok()? })
        }

        fn write_moment(raw: &i64, text: &mut String) {
            text.push_str(&raw.to_string());
        }

        fn write_tie(value: &i64, text: &mut String) {
            text.push_str(&value.to_string());
        }

        fn order_of_moments(here: &i64, there: &i64) -> Ordering {
            here.cmp(there)
        }

        fn order_of_ties(here: &i64, there: &i64) -> Ordering {
            here.cmp(there)
        }
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for text in [
            "beginning",
            "beginning dropped=3",
            "since 2026-11-15T08:00:00.5Z",
            "since 2026-11-15T08:00:00Z dropped=3",
            "1763193600 [42]",
            "1763193600 [1,-2] dropped=17 early=1763193601000000001:8123,5:6",
        ] {
            let mine = WindowPosition::parse(&Position::text(text), Seconds).expect(text);
            assert_eq!(mine.position(), Position::text(text));
        }
        for text in ["", "42", "beginnings", "since", "since soon", "5 [1] x=2", "5 [\"a\"]", "soon [1]"] {
            assert_eq!(WindowPosition::parse(&Position::text(text), Seconds), None, "{text}");
        }
    }

    #[test]
    fn cursors_at_one_place_are_read_together_up_to_the_next_one() {
        let cursor =
            |partition, after: &str| Cursor { partition: Partition(partition), after: Position::text(after) };
        let cursors = [
            cursor(0, "5 [1]"),
            cursor(1, "3 [9]"),
            cursor(2, "3 [9] dropped=4"),
            cursor(3, "3 [9] early=7000000000:1"),
            cursor(4, "3 [10]"),
        ];
        let group = Group::furthest_behind(&cursors, Seconds).unwrap().unwrap();
        let not_those_with_other_versions_delivered_early = [Partition(1), Partition(2)];
        assert_eq!(group.members, not_those_with_other_versions_delivered_early);
        assert_eq!(group.at.mark.dropped, 4);
        assert_eq!(group.until.unwrap().tie, [10]);
    }
}
