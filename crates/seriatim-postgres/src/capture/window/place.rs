//! Positions of a window: the last row that was passed, by its moment and its tie, as text that people can read.
//!
//! ```text
//!   beginning
//!   since 2026-11-15T08:00:00Z
//!   2026-11-15T08:00:00.123456Z [42]
//!   2026-11-15T08:00:00.123456Z ["a",7] dropped=17 early=1763193601000000000:8123
//! ```

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value as Json;
use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::Cursor;

use super::moment::Kind;

const BEGINNING: &str = "beginning";
const SINCE: &str = "since ";

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// Before every row.
    Beginning,
    /// Before every row of this moment or a later one.
    Since(Timestamp),
    /// After this row, in the order of moments and ties.
    Row(RowPlace),
}

/// A row by what orders it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowPlace {
    /// The moment as the table has it.
    pub raw: String,
    /// What orders it among those of its moment, as PostgreSQL writes it.
    pub tie: Vec<String>,
    /// The moment.
    pub at: Timestamp,
}

/// What is remembered beside the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// How many rows were dropped as stale, over the whole feed.
    pub dropped: u64,
    /// The versions of restless rows that were delivered ahead of their time: when, and their ids.
    pub early: Vec<(Timestamp, u64)>,
}

/// A position, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mine {
    pub place: Place,
    pub mark: Mark,
}

impl Place {
    /// Everything before this moment is passed.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Place::Beginning => Timestamp::MIN,
            Place::Since(at) => *at,
            Place::Row(row) => row.at,
        }
    }

    /// As far as this process needs it: who is read first is a matter of speed alone.
    fn order(&self, other: &Place) -> Ordering {
        let ties = match (self, other) {
            (Place::Row(here), Place::Row(there)) => {
                here.raw.cmp(&there.raw).then_with(|| tie_order(&here.tie, &there.tie))
            }
            _ => Ordering::Equal,
        };
        self.at().cmp(&other.at()).then(ties)
    }
}

fn tie_order(here: &[String], there: &[String]) -> Ordering {
    let order = |(here, there): (&String, &String)| match (here.parse::<i64>(), there.parse::<i64>()) {
        (Ok(here), Ok(there)) => here.cmp(&there),
        _ => here.cmp(there),
    };
    here.iter().zip(there).map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Mark {
    /// Forgets what was delivered early and has its place behind everything before this moment.
    pub(super) fn forget_before(&mut self, at: Timestamp) {
        self.early.retain(|(early, _)| *early >= at);
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.early.iter().any(|(_, early)| *early == id)
    }

    fn write(&self, text: &mut String) {
        if self.dropped > 0 {
            text.push_str(&format!(" dropped={}", self.dropped));
        }
        for (index, (at, id)) in self.early.iter().enumerate() {
            let before = if index == 0 { " early=" } else { "," };
            text.push_str(&format!("{before}{}:{id}", at.as_nanosecond()));
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut mark = Mark::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=')? {
                ("dropped", number) => mark.dropped = number.parse().ok()?,
                ("early", list) => {
                    let version = |text: &str| {
                        let (at, id) = text.split_once(':')?;
                        Some((Timestamp::from_nanosecond(at.parse().ok()?).ok()?, id.parse().ok()?))
                    };
                    mark.early = list.split(',').map(version).collect::<Option<_>>()?;
                }
                _ => return None,
            }
        }
        Some(mark)
    }
}

/// A value of a tie as JSON: a whole number as one, everything else as text.
fn push_tie(text: &mut String, value: &str) {
    let number = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    match number {
        true => text.push_str(value),
        false => text.push_str(&Json::from(value).to_string()),
    }
}

impl Mine {
    pub(super) fn at(place: Place) -> Self {
        Mine { place, mark: Mark::default() }
    }

    /// Understands a position of a window by so many columns of a tie; `None` when it is not one of ours.
    pub(super) fn parse(position: &Position, kind: Kind, ties: usize) -> Option<Self> {
        let text = position.to_string();
        if let Some(mark) = text.strip_prefix(BEGINNING) {
            return Some(Mine { place: Place::Beginning, mark: Mark::parse(mark)? });
        }
        if let Some(since) = text.strip_prefix(SINCE) {
            let (at, mark) = since.split_at(since.find(' ').unwrap_or(since.len()));
            return Some(Mine { place: Place::Since(at.parse().ok()?), mark: Mark::parse(mark)? });
        }
        let (raw, tie) = text.split_at(text.find(" [")?);
        let mut json = serde_json::Deserializer::from_str(tie).into_iter::<Vec<Json>>();
        let values = json.next()?.ok()?;
        let mark = Mark::parse(&tie[json.byte_offset()..])?;
        let value = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let tie = values.iter().map(value).collect::<Option<Vec<_>>>()?;
        let at = kind.moment(raw).ok().filter(|_| tie.len() == ties)?;
        Some(Mine { place: Place::Row(RowPlace { raw: raw.to_owned(), tie, at }), mark })
    }

    /// The position that the rest of the world keeps.
    pub(super) fn position(&self) -> Position {
        let mut text = match &self.place {
            Place::Beginning => BEGINNING.to_owned(),
            Place::Since(at) => format!("{SINCE}{at}"),
            Place::Row(row) => {
                let mut text = format!("{} [", row.raw);
                for (index, value) in row.tie.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    push_tie(&mut text, value);
                }
                text.push(']');
                text
            }
        };
        self.mark.write(&mut text);
        Position::text(&text)
    }
}

/// The cursors that one pass serves: they stand at the same place, with the same versions delivered early.
#[derive(Debug)]
pub(super) struct Group {
    pub at: Mine,
    /// Where another cursor waits: there the pass ends, so that both go on together.
    pub until: Option<RowPlace>,
    pub members: Vec<Partition>,
}

impl Group {
    /// The cursors that stand furthest behind. An error names the position that is not one of ours.
    pub(super) fn furthest_behind(
        cursors: &[Cursor],
        kind: Kind,
        ties: usize,
    ) -> Result<Option<Self>, Position> {
        let parse =
            |cursor: &Cursor| Mine::parse(&cursor.after, kind, ties).ok_or_else(|| cursor.after.clone());
        let places: Vec<Mine> = cursors.iter().map(parse).collect::<Result<_, _>>()?;
        let first = places.iter().min_by(|one, other| one.place.order(&other.place)).cloned();
        let Some(mut at) = first else { return Ok(None) };
        let together = |mine: &Mine| mine.place == at.place && mine.mark.early == at.mark.early;
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
    use super::super::moment::Unit;
    use super::*;

    const TIME: Kind = Kind::Time { digits: 6 };

    fn parse(text: &str, kind: Kind, ties: usize) -> Option<Mine> {
        Mine::parse(&Position::text(text), kind, ties)
    }

    #[test]
    fn a_place_reads_back_as_itself() {
        for (text, kind, ties) in [
            ("beginning", TIME, 1),
            ("since 2026-11-15T08:00:00.5Z", TIME, 1),
            ("since 2026-11-15T08:00:00Z dropped=3", TIME, 1),
            ("2026-11-15T08:00:00.123456Z [42]", TIME, 1),
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
        for text in [
            "",
            "42",
            "beginnings",
            "since",
            "since soon",
            "2026-11-15T08:00:00Z",
            "soon [1]",
            "2026-11-15T08:00:00Z [1] x=2",
            "2026-11-15T08:00:00Z [1,2]",
            "1763193600123 [42]",
        ] {
            assert_eq!(parse(text, TIME, 1), None, "{text}");
        }
        assert_eq!(parse("2026-11-15T08:00:00Z [1]", Kind::Number(Unit::Seconds), 1), None);
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
        let group = Group::furthest_behind(&cursors, Kind::Number(Unit::Seconds), 1).unwrap().unwrap();
        assert_eq!(group.members, [Partition(1), Partition(2)]);
        assert_eq!(group.at.mark.dropped, 4);
        assert_eq!(group.until.unwrap().tie, ["10"]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_place_reads_back_as_itself(
            text in r#"\PC{0,30}|(beginning|since 2026-11-15T08:00:00Z|[0-9]{1,22}|2026-11-15( 08:00:00)?)( \[([0-9]{1,22}|"[a-z]{0,4}"|null)?\])?( (dropped|early)=[0-9:,-]{0,25}){0,2}"#,
            kind in prop::sample::select(vec![Kind::Time { digits: 6 }, Kind::Date, Kind::Text]),
        ) {
            if let Some(mine) = Mine::parse(&Position::text(&text), kind, 1) {
                prop_assert_eq!(Mine::parse(&mine.position(), kind, 1), Some(mine));
            }
        }
    }
}
