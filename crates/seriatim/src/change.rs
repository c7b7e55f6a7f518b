//! A change: one thing that happened to one object.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::name::{FeedName, Partition};
use crate::value::{JsonWriter, Key, Row};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The row came to be.
    Insert,
    /// The row took another state.
    Update,
    /// The row is gone.
    Delete,
    /// The row was inserted or updated; the capture cannot tell which.
    Upsert,
    /// The whole table was emptied.
    Truncate,
    /// A producer pushed an event.
    Event,
}

impl Op {
    /// The word for it in JSON, SQL parameters and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Op::Insert => "insert",
            Op::Update => "update",
            Op::Delete => "delete",
            Op::Upsert => "upsert",
            Op::Truncate => "truncate",
            Op::Event => "event",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in a partition. Only its source knows what it means and which of two comes first.
///
/// Everybody else keeps it, compares it for equality and hands it back.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Position(Place);

/// Most positions are one number, three, or a short text, millions of them a second: those need no memory of their own.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Number(u64),
    /// `from-to:at`.
    Inside {
        from: u64,
        to: u64,
        at: u64,
    },
    Short(Short),
    Long(Arc<str>),
}

/// A text that is short enough to lie where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Short {
    length: u8,
    /// What lies behind the text is always zero: equal texts are equal bytes.
    bytes: [u8; Short::MOST],
}

impl Short {
    /// Room for a moment to the microsecond and a key of two dozen digits.
    const MOST: usize = 46;

    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Short::MOST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Short { length: text.len() as u8, bytes })
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("it was made of a text")
    }
}

impl Position {
    /// The position that is this number.
    pub fn number(number: u64) -> Self {
        Position(Place::Number(number))
    }

    /// The position `from-to:at`: inside what lies between two numbers.
    pub fn inside(from: u64, to: u64, at: u64) -> Self {
        Position(Place::Inside { from, to, at })
    }

    /// The position of this text. A text that is the form of numbers is those numbers.
    pub fn text(text: &str) -> Self {
        // Most texts tell by their last letter that they are no numbers.
        let ends_in_a_digit = text.bytes().last().is_some_and(|letter| letter.is_ascii_digit());
        let of_numbers = ends_in_a_digit.then(|| numbers(text)).flatten();
        let short = || Short::new(text).map(Place::Short);
        Position(of_numbers.or_else(short).unwrap_or_else(|| Place::Long(Arc::from(text))))
    }

    /// The number, when the position is one.
    pub fn as_number(&self) -> Option<u64> {
        match self.0 {
            Place::Number(number) => Some(number),
            Place::Inside { .. } | Place::Short(_) | Place::Long(_) => None,
        }
    }
}

impl Position {
    fn show(&self, shown: &mut JsonWriter<'_>) {
        match &self.0 {
            Place::Number(number) => {
                shown.json("\"");
                shown.any(number);
                shown.json("\"");
            }
            Place::Inside { from, to, at } => {
                shown.json("\"");
                shown.any(from);
                shown.json("-");
                shown.any(to);
                shown.json(":");
                shown.any(at);
                shown.json("\"");
            }
            Place::Short(text) => shown.text(text.as_str()),
            Place::Long(text) => shown.text(text),
        }
    }
}

/// The place that a text is the form of, when it is one of numbers.
fn numbers(text: &str) -> Option<Place> {
    if let Some(number) = decimal(text) {
        return Some(Place::Number(number));
    }
    let (from, rest) = text.split_once('-')?;
    let (to, at) = rest.split_once(':')?;
    Some(Place::Inside { from: decimal(from)?, to: decimal(to)?, at: decimal(at)? })
}

/// The number that this is the decimal form of; there is one form for each.
fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let own = digits && (text.len() == 1 || !text.starts_with('0'));
    if own { text.parse().ok() } else { None }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Number(number) => write!(f, "{number}"),
            Place::Inside { from, to, at } => write!(f, "{from}-{to}:{at}"),
            Place::Short(text) => f.write_str(text.as_str()),
            Place::Long(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({self})")
    }
}

impl FromStr for Position {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Position::text(text))
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Position::text(&text))
    }
}

/// Ids of rows that existed before anything was noticed of their table are at least this where they are not below those of changes.
pub const EXISTING: u64 = 1 << 62;

/// One thing that happened to one object.
///
/// Cheap to clone: rows are shared (see [`Change::apart`]). Its serde form is lossless and for stores;
/// what users see is [`Change::to_json`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The feed it came through.
    pub feed: FeedName,
    /// The partition of the feed it belongs to, by its key.
    pub partition: Partition,
    /// Its place in the partition.
    pub position: Position,
    /// The object it is about; `None` only for [`Op::Truncate`], which is about all of them.
    pub key: Option<Key>,
    /// What happened.
    pub op: Op,
    /// When, by the clock of the database that was written to. Order never depends on it.
    pub at: Timestamp,
    /// The row before, where the capture knows it.
    pub before: Option<Row>,
    /// The row after, where there is one.
    pub after: Option<Row>,
    /// A number that is unique in the feed, and the same on every redelivery.
    pub id: u64,
    /// The `id` of the object's previous change, in feeds that keep a chain.
    pub prev: Option<u64>,
}

/// A change that was shown, and where.
struct Written<'a> {
    change: &'a Change,
    /// Feed and partition.
    place: Range<usize>,
    moment: Range<usize>,
}

impl Change {
    /// The lane it runs in: changes with the same number never overtake each other.
    ///
    /// Two objects whose keys share a hash share a lane, which costs them some speed and nothing else.
    pub fn lane(&self) -> u64 {
        self.key.as_ref().map_or(0, Key::hash)
    }

    /// Its place among the changes of its object in a feed whose ids rise with each: a later change has a greater one.
    pub fn rank(&self) -> u64 {
        // A row that existed comes before all that happened to it.
        if self.id >= EXISTING { 0 } else { self.id + 1 }
    }

    /// The change as one line of JSON, in the form of the user's contract.
    pub fn to_json(&self) -> String {
        let mut line = Vec::with_capacity(256);
        self.write_json(&mut line);
        String::from_utf8(line).expect("JSON is written from texts that are UTF-8")
    }

    /// Writes the line of [`Change::to_json`], without an end of line, behind what is in `out`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.show(&mut JsonWriter(out), None);
    }

    /// Writes the lines of all these changes like [`Change::write_json`], with something between each two of them. Faster than one
    /// by one.
    pub fn write_json_of_all(changes: &[Change], between: &str, out: &mut Vec<u8>) {
        let (start, mut last) = (out.len(), None);
        for (index, change) in changes.iter().enumerate() {
            if index == 1 {
                // Most changes of a feed are about as long as the first: growing would copy them all.
                let first = out.len() - start;
                out.reserve((first + first / 8 + between.len()) * changes.len());
            }
            if index > 0 {
                out.extend_from_slice(between.as_bytes());
            }
            last = Some(change.show(&mut JsonWriter(out), last));
        }
    }

    /// Shows it. What it has in common with the last one is copied from where that was written.
    fn show<'a>(&'a self, shown: &mut JsonWriter<'_>, last: Option<Written<'a>>) -> Written<'a> {
        let start = shown.len();
        match &last {
            Some(last) if last.change.feed == self.feed && last.change.partition == self.partition => {
                shown.again(&last.place);
            }
            _ => {
                shown.json("{\"feed\":");
                shown.text(self.feed.as_str());
                shown.json(",\"partition\":");
                shown.any(self.partition.0);
            }
        }
        let place = start..shown.len();
        shown.json(",\"position\":");
        self.position.show(shown);
        shown.json(",\"key\":");
        shown.row(self.key.as_ref().map(Key::row));
        shown.json(",\"op\":\"");
        shown.json(self.op.as_str());
        shown.json("\",\"at\":");
        let start = shown.len();
        match &last {
            Some(last) if last.change.at == self.at => shown.again(&last.moment),
            _ => shown.moment(self.at),
        }
        let moment = start..shown.len();
        shown.json(",\"before\":");
        shown.row(self.before.as_ref());
        shown.json(",\"after\":");
        shown.row(self.after.as_ref());
        if let Some(row) = self.after.as_ref().filter(|row| row.columns().unknown().len() > 0) {
            shown.json(",\"unknown\":");
            shown.any(row.columns().unknown().collect::<Vec<_>>());
        }
        shown.json(",\"id\":");
        shown.any(self.id);
        shown.json(",\"prev\":");
        shown.any(self.prev);
        shown.json("}");
        Written { change: self, place, moment }
    }

    /// The same change in memory of its own. Changes that were handled together share some: whoever keeps one for long, and not the
    /// others, keeps this.
    pub fn apart(&self) -> Self {
        let row = |row: &Option<Row>| row.as_ref().map(Row::apart);
        let key = self.key.as_ref().map(Key::apart);
        Change { key, before: row(&self.before), after: row(&self.after), ..self.clone() }
    }

    /// Roughly how many bytes the change occupies, for limits on memory.
    pub fn weight(&self) -> usize {
        let row = |row: &Option<Row>| row.as_ref().map_or(0, Row::weight);
        let key = self.key.as_ref().map_or(0, |key| key.row().weight());
        size_of::<Change>() + key + row(&self.before) + row(&self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Columns, Value};

    fn change() -> Change {
        let columns = Columns::new(["id", "amount"]);
        let row = |amount| Row::new(columns.clone(), [Value::Integer(42), Value::Integer(amount)]);
        Change {
            feed: FeedName::new("totals").unwrap(),
            partition: Partition(3),
            position: Position::text("17:4211"),
            key: Some(Key::of("id", Value::Integer(42))),
            op: Op::Update,
            at: "2026-11-15T08:00:00.123456Z".parse().unwrap(),
            before: Some(row(1)),
            after: Some(row(2)),
            id: 4211,
            prev: Some(4017),
        }
    }

    #[test]
    fn a_change_reads_as_the_contract_says() {
        let expected = concat!(
            r#"{"feed":"totals","partition":3,"position":"17:4211","key":{"id":42},"op":"update","#,
            r#""at":"2026-11-15T08:00:00.123456Z","before":{"id":42,"amount":1},"after":{"id":42,"amount":2},"#,
            r#""id":4211,"prev":4017}"#
        );
        assert_eq!(change().to_json(), expected);
    }

    #[test]
    fn changes_that_are_written_together_read_as_each_by_itself() {
        let other = Change { feed: FeedName::new("others").unwrap(), ..change() };
        let elsewhere = Change { partition: Partition(12), ..change() };
        let later = Change { at: "2026-11-15T08:00:01Z".parse().unwrap(), before: None, ..change() };
        let changes =
            [change(), change(), later.clone(), later, other.clone(), other, elsewhere, change(), change()];
        let mut written = b"[".to_vec();
        Change::write_json_of_all(&changes, ", ", &mut written);
        let each: Vec<String> = changes.iter().map(Change::to_json).collect();
        assert_eq!(String::from_utf8(written).unwrap(), format!("[{}", each.join(", ")));
    }

    #[test]
    fn a_position_is_shown_as_it_is_written() {
        let long = "2026-11-15T08:00:00.123456Z a key that is longer than most";
        for text in ["17", "17-19:3", "17:4211", long, "\"ü\"\n"] {
            let shown = Change { position: Position::text(text), ..change() }.to_json();
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(shown["position"], text);
            assert_eq!(Position::text(text).to_string(), text);
        }
    }

    #[test]
    fn a_stored_change_comes_back_whole() {
        let stored = serde_json::to_string(&change()).unwrap();
        assert_eq!(serde_json::from_str::<Change>(&stored).unwrap(), change());
    }

    #[test]
    fn a_position_is_a_number_only_in_its_own_form() {
        assert_eq!(Position::text("17").as_number(), Some(17));
        assert_eq!(Position::text("017").as_number(), None);
        assert_eq!(Position::text("+17").as_number(), None);
        assert_eq!(Position::text("17:1").to_string(), "17:1");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_position_is_the_text_that_it_was_made_of(text in r"\PC{0,60}|[0-9]{1,22}|[0-9]{0,22}-[0-9]{0,22}:[0-9]{0,22}") {
            let position = Position::text(&text);
            prop_assert_eq!(position.to_string(), text.clone());
            prop_assert_eq!(serde_json::from_str::<Position>(&serde_json::to_string(&position).unwrap()).unwrap(), position);
        }

        #[test]
        fn what_is_no_stored_change_is_refused_and_nothing_worse(text in r#"\PC{0,40}|\{"feed":"f","partition":[0-9]{1,12},"position":"\PC{0,5}"(,"key":\PC{0,9})?\}"#) {
            drop(serde_json::from_str::<Change>(&text));
        }
    }
}
