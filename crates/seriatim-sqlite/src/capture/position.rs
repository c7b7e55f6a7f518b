//! Places in a feed, and which cursors one pass over them can serve. Nothing here touches a database.
//!
//! A live place is a number: the id of a journal row, or a place in the log. A place in the backfill of a journal is
//! `b:<registration>:<ordinal>:<primary key as JSON>`: the row of that ordinal in the table as it was when that consumer
//! registered. All of a backfill comes before all that is live.

use serde_json::Value as Json;
use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::Cursor;

use super::value::Exact;

/// A position, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// Among the rows that existed when the consumer registered.
    Backfill(BackfillPlace),
    /// Among the changes.
    Live(u64),
}

/// A row of the snapshot of one registration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BackfillPlace {
    /// The registration whose snapshot it is.
    pub registration: i64,
    /// How many rows of the snapshot are read.
    pub ordinal: u64,
    /// The primary key of the last of them; empty before the first.
    pub key: Vec<Exact>,
}

impl Place {
    /// Before the first row of a registration's snapshot.
    pub(super) fn before_first_row(registration: i64) -> Self {
        Place::Backfill(BackfillPlace { registration, ordinal: 0, key: Vec::new() })
    }

    /// Understands a position; `None` when it is not one of ours.
    pub(super) fn parse(position: &Position) -> Option<Self> {
        if let Some(number) = position.as_number() {
            return i64::try_from(number).ok().map(|_| Place::Live(number));
        }
        let text = position.to_string();
        let mut parts = text.strip_prefix("b:")?.splitn(3, ':');
        let registration = parts.next()?.parse().ok()?;
        let ordinal = parts.next()?.parse().ok()?;
        let Json::Array(key) = serde_json::from_str(parts.next()?).ok()? else { return None };
        let key = key.iter().map(Exact::from_json).collect::<Option<Vec<_>>>()?;
        Some(Place::Backfill(BackfillPlace { registration, ordinal, key }))
    }

    /// The position that the rest of the world keeps.
    pub(super) fn position(&self) -> Position {
        match self {
            Place::Live(number) => Position::number(*number),
            Place::Backfill(row) => {
                let key = Json::Array(row.key.iter().map(Exact::to_json).collect());
                Position::text(&format!("b:{}:{}:{key}", row.registration, row.ordinal))
            }
        }
    }

    /// What comes first is read first.
    fn order(&self) -> (bool, i64, u64) {
        match self {
            Place::Backfill(row) => (false, row.registration, row.ordinal),
            Place::Live(number) => (true, 0, *number),
        }
    }

    /// How many rows or changes lie between here and a later place of the same pass.
    fn ahead(&self, later: &Place) -> Option<u64> {
        let difference = match (self, later) {
            (Place::Live(here), Place::Live(there)) => there.checked_sub(*here)?,
            (Place::Backfill(here), Place::Backfill(there)) if here.registration == there.registration => {
                there.ordinal.checked_sub(here.ordinal)?
            }
            _ => return None,
        };
        (difference > 0).then_some(difference)
    }
}

/// The cursors that one pass serves: they all stand at the same place.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    /// Where they stand.
    pub at: Place,
    /// How far it may go at most: there another cursor waits, and from there on one pass serves both.
    pub most: Option<u64>,
    /// Their partitions.
    pub members: Vec<Partition>,
}

impl Group {
    /// The cursors that stand furthest behind. An error names the position that is not one of ours.
    pub(super) fn furthest_behind(cursors: &[Cursor]) -> Result<Option<Self>, Position> {
        let place = |cursor: &Cursor| Place::parse(&cursor.after).ok_or_else(|| cursor.after.clone());
        let places: Vec<Place> = cursors.iter().map(place).collect::<Result<_, _>>()?;
        let Some(at) = places.iter().min_by_key(|place| place.order()).cloned() else { return Ok(None) };
        let most = places.iter().filter_map(|place| at.ahead(place)).min();
        let together = cursors.iter().zip(&places).filter(|(_, place)| **place == at);
        let members = together.map(|(cursor, _)| cursor.partition).collect();
        Ok(Some(Group { at, most, members }))
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
        for text in ["0", "42", "b:1:0:[]", r#"b:7:3:[5,"a:b",{"blob":"00ff"},null]"#] {
            let position = Position::text(text);
            assert_eq!(Place::parse(&position).expect(text).position(), position);
        }
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in ["", "x", "b:", "b:1:2", "b:1:2:{}", "b:1:2:[true]", "017", "18446744073709551615"] {
            assert_eq!(Place::parse(&Position::text(text)), None, "{text}");
        }
    }

    #[test]
    fn cursors_at_one_place_are_read_together_up_to_the_next_one() {
        let cursors = [cursor(1, "25"), cursor(3, "10"), cursor(2, "10"), cursor(0, "12")];
        let group = Group::furthest_behind(&cursors).unwrap().unwrap();
        assert_eq!(group.members, [Partition(3), Partition(2)]);
        assert_eq!(group.most, Some(2));
    }

    #[test]
    fn a_backfill_stops_where_another_partition_is_in_the_same_backfill() {
        let cursors =
            [cursor(1, "99"), cursor(0, "b:1:5:[5]"), cursor(2, "b:1:9:[9]"), cursor(3, "b:2:6:[6]")];
        let group = Group::furthest_behind(&cursors).unwrap().unwrap();
        assert_eq!((group.members, group.most), (vec![Partition(0)], Some(4)));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_place_reads_back_as_itself(text in r#"\PC{0,30}|[0-9]{1,22}|b:-?[0-9]{0,22}:[0-9]{0,22}:\[(\PC{0,9}|[0-9]{1,22}|"[a-z]{0,4}"|\{"[a-z]{1,4}":"[0-9a-f]{0,5}"\})\]"#) {
            if let Some(place) = Place::parse(&Position::text(&text)) {
                prop_assert_eq!(Place::parse(&place.position()), Some(place));
            }
        }
    }
}
