//! Places in a log, and which cursors one pass over them can serve. Nothing here touches a database.
//!
//! A place is a number. A consumer that also wants the rows that existed before stands at `r:<repairs>:<number>` until all of them
//! are listed and passed: they get numbers like everything else, but only those are told of them who asked. `repairs` is how
//! often triggers were put back before it began: with another, it does not know what it missed.

use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::Cursor;

/// A position, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub number: i64,
    pub rows: Rows,
}

/// Whether rows that are only listed, and did not change, are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rows {
    Wanted { repairs: i32 },
    PassedOver,
}

impl Place {
    /// Understands a position; `None` when it is not one of ours.
    pub(super) fn parse(position: &Position) -> Option<Self> {
        if let Some(number) = position.as_number() {
            return Some(Place { number: i64::try_from(number).ok()?, rows: Rows::PassedOver });
        }
        let text = position.to_string();
        let (repairs, place) = text.strip_prefix("r:")?.split_once(':')?;
        let number =
            |text: &str| Position::text(text).as_number().and_then(|number| i64::try_from(number).ok());
        let repairs = i32::try_from(number(repairs)?).ok()?;
        Some(Place { number: number(place)?, rows: Rows::Wanted { repairs } })
    }

    /// The position that the rest of the world keeps.
    pub(super) fn position(self) -> Position {
        match self.rows {
            Rows::PassedOver => Position::number(self.number as u64),
            Rows::Wanted { repairs } => Position::text(&format!("r:{repairs}:{}", self.number)),
        }
    }
}

/// The cursors that one pass serves: they all stand at the same place.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    /// Where they stand.
    pub at: Place,
    /// How far it may go at most: there another cursor waits, and from there on one pass serves both.
    pub upto: i64,
    /// Their partitions.
    pub members: Vec<Partition>,
}

impl Group {
    /// The cursors that stand furthest behind. An error names the position that is not one of ours.
    pub(super) fn furthest_behind(cursors: &[Cursor]) -> Result<Option<Self>, Position> {
        let place = |cursor: &Cursor| Place::parse(&cursor.after).ok_or_else(|| cursor.after.clone());
        let places: Vec<Place> = cursors.iter().map(place).collect::<Result<_, _>>()?;
        let Some(at) = places.iter().min().copied() else { return Ok(None) };
        let ahead = places.iter().map(|place| place.number).filter(|number| *number > at.number).min();
        let together = cursors.iter().zip(&places).filter(|(_, place)| **place == at);
        let members = together.map(|(cursor, _)| cursor.partition).collect();
        Ok(Some(Group { at, upto: ahead.unwrap_or(i64::MAX), members }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(partition: u32, after: &str) -> Cursor {
        Cursor { partition: Partition(partition), after: Position::text(after) }
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for text in ["0", "42", "r:0:0", "r:3:42"] {
            let position = Position::text(text);
            assert_eq!(Place::parse(&position).expect(text).position(), position);
        }
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in [
            "",
            "x",
            "r:",
            "r:1",
            "r:0:x",
            "r:0:017",
            "r::1",
            "017",
            "18446744073709551615",
            "r:0:1:2",
            "1:2",
        ] {
            assert_eq!(Place::parse(&Position::text(text)), None, "{text}");
        }
    }

    #[test]
    fn cursors_at_one_place_are_read_together_up_to_the_next_one() {
        let cursors =
            [cursor(1, "25"), cursor(3, "10"), cursor(2, "10"), cursor(0, "12"), cursor(4, "r:0:10")];
        let group = Group::furthest_behind(&cursors).unwrap().unwrap();
        assert_eq!((group.members, group.upto), (vec![Partition(4)], 12));
        let group = Group::furthest_behind(&cursors[..4]).unwrap().unwrap();
        assert_eq!((group.members, group.upto), (vec![Partition(3), Partition(2)], 12));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_place_reads_back_as_itself(text in r"\PC{0,30}|(r:-?[0-9]{0,12}:)?-?[0-9]{0,22}") {
            if let Some(place) = Place::parse(&Position::text(&text)) {
                prop_assert_eq!(Place::parse(&place.position()), Some(place));
            }
        }
    }
}
