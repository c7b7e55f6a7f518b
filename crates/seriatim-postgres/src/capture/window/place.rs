//! Positions of a window, in PostgreSQL's own texts: `2026-11-15T08:00:00.123456Z [42]`.

use std::cmp::Ordering;

use serde_json::Value as Json;
use seriatim::backend::rows;

use super::moment::Kind;

pub(super) type Place = rows::Place<PositionCodec>;
pub(super) type RowPlace = rows::RowPlace<PositionCodec>;
pub(super) type WindowPosition = rows::WindowPosition<PositionCodec>;
pub(super) type Group = rows::Group<PositionCodec>;

/// How a column of this kind is written, and how many columns order the rows of one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PositionCodec {
    pub kind: Kind,
    pub ties: usize,
}

impl rows::PositionCodec for PositionCodec {
    type Value = String;

    fn read(self, raw: &str, tie: &[Json]) -> Option<RowPlace> {
        let value = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let tie = tie.iter().map(value).collect::<Option<Vec<_>>>()?;
        let at = self.kind.moment(raw).ok().filter(|_| tie.len() == self.ties)?;
        Some(RowPlace { raw: raw.to_owned(), tie, at })
    }

    fn write_moment(raw: &String, text: &mut String) {
        text.push_str(raw);
    }

    /// A whole number as one, everything else as text.
    fn write_tie(value: &String, text: &mut String) {
        match is_whole_number(value) {
            true => text.push_str(value),
            false => text.push_str(&Json::from(value.as_str()).to_string()),
        }
    }

    fn order_of_moments(here: &String, there: &String) -> Ordering {
        here.cmp(there)
    }

    fn order_of_ties(here: &String, there: &String) -> Ordering {
        match (here.parse::<i64>(), there.parse::<i64>()) {
            (Ok(here), Ok(there)) => here.cmp(&there),
            _ => here.cmp(there),
        }
    }
}

/// Whether this is how a whole number is written, and no other way to write one.
fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|letter| letter.is_ascii_digit()) && !digits.starts_with('0');
    text == "0" || plain && text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::moment::Unit;
    use super::*;
    use seriatim::change::Position;
    use seriatim::name::Partition;
    use seriatim::source::Cursor;

    const TIME: Kind = Kind::Time { digits: 6 };

    fn parse(text: &str, kind: Kind, ties: usize) -> Option<WindowPosition> {
        WindowPosition::parse(&Position::text(text), PositionCodec { kind, ties })
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for (text, kind, ties) in [
            ("since 2026-11-15T08:00:00Z dropped=3", TIME, 1),
            ("2026-11-15T08:00:00.123456Z [42]", TIME, 1),
            ("2026-11-15T08:00:00.123456Z [-42]", TIME, 1),
            ("2026-11-15T08:00:00.123456Z [0]", TIME, 1),
            ("2026-11-15 [42]", Kind::Date, 1),
            ("2026-11-15 08:00:00 [42]", Kind::Text, 1),
            (
                "2026-11-15T08:00:00.123Z [1,\"] dropped=9\",\"007\"] dropped=17 early=1763193601000000001:8123,5:6",
                TIME,
                3,
            ),
            ("1763193600123 [42] dropped=1", Kind::Number(Unit::Milliseconds), 1),
        ] {
            assert_eq!(parse(text, kind, ties).expect(text).position(), Position::text(text));
        }
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in ["2026-11-15T08:00:00Z", "soon [1]", "2026-11-15T08:00:00Z [1,2]", "1763193600123 [42]"] {
            assert_eq!(parse(text, TIME, 1), None, "{text}");
        }
        assert_eq!(parse("2026-11-15T08:00:00Z [1]", Kind::Number(Unit::Seconds), 1), None);
    }

    #[test]
    fn whole_numbers_are_in_the_order_of_numbers() {
        let cursor =
            |partition, after: &str| Cursor { partition: Partition(partition), after: Position::text(after) };
        let cursors = [cursor(0, "3 [10]"), cursor(1, "3 [9]")];
        let spelling = PositionCodec { kind: Kind::Number(Unit::Seconds), ties: 1 };
        let group = Group::furthest_behind(&cursors, spelling).unwrap().unwrap();
        assert_eq!(group.members, [Partition(1)]);
        assert_eq!(group.until.unwrap().tie, ["10"]);
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
            text in r#"\PC{0,30}|(beginning|since 2026-11-15T08:00:00Z|[0-9]{1,22}|2026-11-15( 08:00:00)?)( \[([0-9]{1,22}|"[a-z]{0,4}"|null)?\])?( (dropped|early)=[0-9:,-]{0,25}){0,2}"#,
            kind in prop::sample::select(vec![Kind::Time { digits: 6 }, Kind::Date, Kind::Text]),
        ) {
            let spelling = PositionCodec { kind, ties: 1 };
            if let Some(mine) = WindowPosition::parse(&Position::text(&text), spelling) {
                prop_assert_eq!(WindowPosition::parse(&mine.position(), spelling), Some(mine));
            }
        }

        #[test]
        fn a_whole_number_is_what_reads_back_as_itself(text in r"-?[0-9]{0,21}|[0-9+-]{0,5}") {
            let plain = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
            prop_assert_eq!(is_whole_number(&text), plain);
        }
    }
}
