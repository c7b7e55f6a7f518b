//! Places in a journal, and which cursors one pass serves. Nothing here touches a database.
//!
//! `7` is everything that tick 7 saw. `7-9:42` is inside the batch of what tick 9 saw and tick 7 did not, which is in the order
//! of ids, up to the change with id 42; `7-9:42~` is before that change, after the row that it found. While existing rows
//! are still read, `+[…]` follows: how far that is.

use serde_json::{Value as Json, json};
use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::Cursor;

/// A position, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub live: Live,
    /// How far existing rows are read; `None` when they all are, or were never asked for.
    pub filling: Option<Filling>,
}

/// A place among the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Live {
    /// Everything that this tick saw is behind us.
    pub from: i64,
    pub inside: Option<Inside>,
}

/// A place inside a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inside {
    /// The tick that ends the batch.
    pub to: i64,
    /// Changes with lower ids are behind us.
    pub id: i64,
    /// This change itself is, not only the row that it found.
    pub whole: bool,
}

/// How far existing rows are read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filling {
    pub registration: i64,
    /// How many rows were looked at.
    pub done: u64,
    /// The last of them; `None` before the first.
    pub key: Option<RowKey>,
    /// The chunk that was read last, while there are changes before it that are not read yet.
    pub chunk: Option<Chunk>,
}

/// A chunk of existing rows as one tick saw them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chunk {
    /// The tick.
    pub at: i64,
    /// The row after which it began.
    pub after: Option<RowKey>,
}

/// What names a row, as PostgreSQL writes it. Empty after the last row.
pub(super) type RowKey = Vec<String>;

impl Live {
    /// Everything that this tick saw.
    pub(super) fn at(tick: i64) -> Self {
        Live { from: tick, inside: None }
    }

    fn parse(text: &str) -> Option<Self> {
        let Some((from, rest)) = text.split_once('-') else { return Some(Live::at(number(text)?)) };
        let (to, id) = rest.split_once(':')?;
        let (id, whole) = match id.strip_suffix('~') {
            Some(id) => (id, false),
            None => (id, true),
        };
        let (from, inside) = (number(from)?, Inside { to: number(to)?, id: number(id)?, whole });
        (inside.to > from).then_some(Live { from, inside: Some(inside) })
    }
}

impl std::fmt::Display for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.inside {
            None => write!(f, "{}", self.from),
            Some(Inside { to, id, whole }) => {
                write!(f, "{}-{to}:{id}{}", self.from, if whole { "" } else { "~" })
            }
        }
    }
}

/// A number in its own decimal form.
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| *number >= 0 && number.to_string() == text)
}

impl Filling {
    fn to_json(&self) -> Json {
        let chunk = self.chunk.as_ref().map(|chunk| json!([chunk.at, chunk.after]));
        json!([self.registration, self.done, self.key, chunk])
    }

    fn parse(text: &str) -> Option<Self> {
        type Parts = (i64, u64, Option<RowKey>, Option<(i64, Option<RowKey>)>);
        let (registration, done, key, chunk): Parts = serde_json::from_str(text).ok()?;
        let chunk = chunk.map(|(at, after)| Chunk { at, after });
        Some(Filling { registration, done, key, chunk })
    }
}

impl Place {
    /// Understands a position; `None` when it is not one of ours.
    pub(super) fn parse(position: &Position) -> Option<Self> {
        let text = position.to_string();
        match text.split_once('+') {
            None => Some(Place { live: Live::parse(&text)?, filling: None }),
            Some((live, filling)) => {
                Some(Place { live: Live::parse(live)?, filling: Some(Filling::parse(filling)?) })
            }
        }
    }

    /// The position that the rest of the world keeps.
    pub(super) fn position(&self) -> Position {
        Position::text(&format!("{}{}", self.live, self.suffix()))
    }

    /// What follows the live part.
    pub(super) fn suffix(&self) -> String {
        self.filling.as_ref().map_or_else(String::new, |filling| format!("+{}", filling.to_json()))
    }

    /// The same place, without a chunk that the changes have caught up with, and without existing rows when all are read.
    pub(super) fn settled(mut self) -> Self {
        if let Some(filling) = &mut self.filling {
            let behind = |chunk: &Chunk| chunk.at > self.live.from;
            filling.chunk = filling.chunk.take().filter(behind);
            if filling.chunk.is_none() && filling.key.as_ref().is_some_and(Vec::is_empty) {
                self.filling = None;
            }
        }
        self
    }

    /// Where another cursor is further in reading the same existing rows.
    fn rows_to(&self, other: &Place) -> Option<(u64, RowKey)> {
        let (here, there) = (self.filling.as_ref()?, other.filling.as_ref()?);
        let further = here.registration == there.registration && there.done > here.done;
        there.key.clone().filter(|key| further && !key.is_empty()).map(|key| (there.done, key))
    }

    /// What comes first is read first: whoever still reads existing rows, then whoever is furthest behind.
    fn order(&self) -> (bool, u64, Live) {
        let done = self.filling.as_ref().map(|filling| filling.done);
        (done.is_none(), done.unwrap_or(0), self.live)
    }
}

/// The cursors that one pass serves: they all stand at the same place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Where they stand.
    pub at: Place,
    /// How far others are in reading the same existing rows, the nearest first.
    pub ahead: Option<(u64, RowKey)>,
    /// Where the others stand: a pass ends there, so that from there on one pass serves both.
    pub others: Vec<Live>,
    /// Their partitions.
    pub members: Vec<Partition>,
}

impl Group {
    /// The cursors that stand furthest behind. An error names the position that is not one of ours.
    pub(super) fn furthest_behind(cursors: &[Cursor]) -> Result<Option<Self>, Position> {
        let place = |cursor: &Cursor| {
            Place::parse(&cursor.after).map(Place::settled).ok_or_else(|| cursor.after.clone())
        };
        let places: Vec<Place> = cursors.iter().map(place).collect::<Result<_, _>>()?;
        let Some(at) = places.iter().min_by_key(|place| place.order()).cloned() else { return Ok(None) };
        let others = places.iter().map(|place| place.live).filter(|live| *live > at.live).collect();
        let together = cursors.iter().zip(&places).filter(|(_, place)| **place == at);
        let members = together.map(|(cursor, _)| cursor.partition).collect();
        let ahead = places.iter().filter_map(|place| at.rows_to(place)).min();
        Ok(Some(Group { at, ahead, others, members }))
    }

    /// The last tick that a batch from here may end with.
    pub(super) fn furthest_tick(&self) -> i64 {
        let from = self.at.live.from;
        let stops = self.others.iter().map(|live| {
            if live.from > from { live.from } else { live.inside.map_or(i64::MAX, |inside| inside.to) }
        });
        // Before and after a chunk of existing rows, changes are told in different ways.
        let chunk = self.at.filling.as_ref().and_then(|filling| filling.chunk.as_ref()).map(|chunk| chunk.at);
        stops.chain(chunk).min().unwrap_or(i64::MAX)
    }

    /// The last id that a pass through the batch that ends with this tick may read.
    pub(super) fn furthest_id(&self, to: i64) -> i64 {
        let same =
            self.others.iter().filter(|live| live.from == self.at.live.from).filter_map(|live| live.inside);
        same.filter(|inside| inside.to == to && inside.whole)
            .map(|inside| inside.id)
            .min()
            .unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(partition: u32, after: &str) -> Cursor {
        Cursor { partition: Partition(partition), after: Position::text(after) }
    }

    fn group(cursors: &[Cursor]) -> Group {
        Group::furthest_behind(cursors).unwrap().unwrap()
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for text in [
            "0",
            "42",
            "7-9:42",
            "7-9:42~",
            r#"7+[3,0,null,null]"#,
            r#"7-9:42~+[3,12,["5","a:-+b"],[9,["4","x"]]]"#,
        ] {
            let position = Position::text(text);
            assert_eq!(Place::parse(&position).expect(text).position(), position);
        }
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in ["", "x", "7-", "7-9", "9-7:1", "7-9:-1", "07", "7-9:1+", "7+[1]", "7-9:1~~"] {
            assert_eq!(Place::parse(&Position::text(text)), None, "{text}");
        }
    }

    #[test]
    fn cursors_at_one_place_are_read_together_up_to_the_next_one() {
        let all = group(&[cursor(1, "25"), cursor(3, "10"), cursor(2, "10"), cursor(0, "12")]);
        assert_eq!((all.members.clone(), all.furthest_tick()), (vec![Partition(3), Partition(2)], 12));
        let alone = group(&[cursor(1, "25")]);
        assert_eq!((alone.furthest_tick(), alone.furthest_id(30)), (i64::MAX, i64::MAX));
    }

    #[test]
    fn a_cursor_inside_a_batch_is_met_there() {
        let before = group(&[cursor(0, "10"), cursor(1, "10-30:7"), cursor(2, "10-30:9")]);
        assert_eq!((before.furthest_tick(), before.furthest_id(30)), (30, 7));
        let inside = group(&[cursor(0, "10-30:3"), cursor(1, "10-30:7")]);
        assert_eq!(inside.furthest_id(30), 7);
        let behind_another_batch = group(&[cursor(0, "10"), cursor(1, "20-30:7")]);
        assert_eq!(behind_another_batch.furthest_tick(), 20);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_place_reads_back_as_itself(text in r#"\PC{0,30}|[0-9]{1,22}(-[0-9]{1,22}:[0-9]{1,22}~?)?(\+\[-?[0-9]{1,4},[0-9]{1,4},(null|\["[a-z]{0,4}"\]),(null|\[[0-9]{1,4},(null|\[\])\])\])?"#) {
            if let Some(place) = Place::parse(&Position::text(&text)) {
                prop_assert_eq!(Place::parse(&place.position()), Some(place));
            }
        }
    }
}
