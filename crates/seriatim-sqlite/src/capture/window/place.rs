//! Positions of a window, in SQLite's values: `2026-11-15 08:00:00.123 [42]`.

use std::cmp::Ordering;
use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use serde_json::Value as Json;
use seriatim::backend::rows;

use super::super::value::Exact;
use super::moment::{Unit, moment};

pub(super) type Place = rows::Place<PositionCodec>;
pub(super) type RowPlace = rows::RowPlace<PositionCodec>;
pub(super) type WindowPosition = rows::WindowPosition<PositionCodec>;
pub(super) type Group = rows::Group<PositionCodec>;

/// How a column of whole numbers that count these, or of texts, is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PositionCodec(pub Option<Unit>);

impl rows::PositionCodec for PositionCodec {
    type Value = Exact;

    fn read(self, raw: &str, tie: &[Json]) -> Option<RowPlace> {
        let PositionCodec(unit) = self;
        let raw = match unit {
            Some(_) => Exact::Integer(raw.parse().ok()?),
            None => Exact::Text(raw.as_bytes().to_vec()),
        };
        let tie = tie.iter().map(Exact::from_json).collect::<Option<Vec<_>>>()?;
        let at = moment(raw.as_value(), unit).ok()?;
        Some(RowPlace { raw, tie, at })
    }

    fn write_moment(raw: &Exact, text: &mut String) {
        match raw {
            Exact::Integer(number) => write_number(text, *number),
            Exact::Text(raw) => text.push_str(&String::from_utf8_lossy(raw)),
            // Refused before.
            _ => {}
        }
    }

    fn write_tie(value: &Exact, text: &mut String) {
        match value {
            Exact::Integer(number) => write_number(text, *number),
            other => text.push_str(&other.to_json().to_string()),
        }
    }

    fn order_of_moments(here: &Exact, there: &Exact) -> Ordering {
        exact_order(here, there)
    }

    fn order_of_ties(here: &Exact, there: &Exact) -> Ordering {
        exact_order(here, there)
    }
}

fn write_number(text: &mut String, number: i64) {
    write!(text, "{number}").expect("a text takes all that is written to it");
}

/// As SQLite compares, as far as this process needs it: who is read first is a matter of speed alone.
fn exact_order(here: &Exact, there: &Exact) -> Ordering {
    match (here, there) {
        (Exact::Integer(here), Exact::Integer(there)) => here.cmp(there),
        (Exact::Text(here), Exact::Text(there)) | (Exact::Blob(here), Exact::Blob(there)) => here.cmp(there),
        _ => Ordering::Equal,
    }
}

/// Whether it is the place of a row with this moment and tie.
pub(super) fn is_of<'a>(
    place: &RowPlace,
    raw: ValueRef<'_>,
    mut tie: impl Iterator<Item = ValueRef<'a>>,
) -> bool {
    place.raw.as_value() == raw
        && place.tie.iter().all(|here| tie.next().is_some_and(|there| here.as_value() == there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seriatim::change::Position;
    use seriatim::name::Partition;
    use seriatim::source::Cursor;

    fn parse(text: &str, unit: Option<Unit>) -> Option<WindowPosition> {
        WindowPosition::parse(&Position::text(text), PositionCodec(unit))
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for text in [
            "beginning",
            "since 2026-11-15T08:00:00Z dropped=3",
            "2026-11-15 08:00:00 [42]",
            "2026-11-15T08:00:00.123Z [1,\"] dropped=9\",null] dropped=17 early=1763193601000000001:8123,5:6",
        ] {
            assert_eq!(parse(text, None).expect(text).position(), Position::text(text));
        }
        let text = "1763193600123 [42] dropped=1";
        assert_eq!(parse(text, Some(Unit::Milliseconds)).expect(text).position(), Position::text(text));
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in ["", "42", "2026-11-15 08:00:00", "soon [1]", "2026-11-15 08:00:00 [1] x=2"] {
            assert_eq!(parse(text, None), None, "{text}");
        }
        assert_eq!(parse("2026-11-15 08:00:00 [1]", Some(Unit::Seconds)), None);
        assert_eq!(parse("1763193600 [1]", None), None, "nobody said what the number counts");
    }

    #[test]
    fn whole_numbers_are_in_the_order_of_numbers() {
        let cursor =
            |partition, after: &str| Cursor { partition: Partition(partition), after: Position::text(after) };
        let cursors = [cursor(0, "3 [10]"), cursor(1, "3 [9]")];
        let group = Group::furthest_behind(&cursors, PositionCodec(Some(Unit::Seconds))).unwrap().unwrap();
        assert_eq!(group.members, [Partition(1)]);
        assert_eq!(group.until.unwrap().tie, [Exact::Integer(10)]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use seriatim::change::Position;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_place_reads_back_as_itself(
            text in r#"\PC{0,30}|(beginning|since 2026-11-15T08:00:00Z|[0-9]{1,22}|2026-11-15 08:00:00)( \[([0-9]{1,22}|"[a-z]{0,4}"|null)?\])?( (dropped|early)=[0-9:,-]{0,25}){0,2}"#,
            unit in prop::option::of(prop::sample::select(vec![Unit::Seconds, Unit::Milliseconds, Unit::Microseconds])),
        ) {
            let spelling = PositionCodec(unit);
            if let Some(mine) = WindowPosition::parse(&Position::text(&text), spelling) {
                prop_assert_eq!(WindowPosition::parse(&mine.position(), spelling), Some(mine));
            }
        }
    }
}
