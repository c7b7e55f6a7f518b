//! One state of one row.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Value;
use super::json_writer::JsonWriter;
use super::packed::{Packed, Packer, Unpacking};

/// The names of a row's columns, shared by all rows of one shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<str>>", into = "Vec<Arc<str>>")]
pub struct Columns(Arc<Names>);

#[derive(Clone, Debug)]
struct Names {
    names: Vec<Arc<str>>,
    /// What values the columns have, where not all are of one type; empty where each column has its own.
    mostly: Vec<Mostly>,
    /// What stands before each value in JSON.
    heads: Vec<Head>,
    /// Columns that the row has as well, whose values are not known.
    unknown: Vec<Arc<str>>,
}

/// What most values of a column are that may have values of any type. In JSON bytes are a string as texts are, so the others
/// are marked there: `{"base64":"MQ=="}` among texts, `{"text":"MQ=="}` among bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mostly {
    /// Texts, or numbers.
    Texts,
    /// Bytes.
    Bytes,
}

/// What stands before a value in JSON: the name, and what separates it from the value before.
#[derive(Clone, Debug)]
pub(super) enum Head {
    /// Copied with all that lies behind it: to copy an exact number of bytes takes longer.
    Short {
        length: u8,
        room: [u8; Head::ROOM],
    },
    Long(Box<[u8]>),
}

impl Head {
    const ROOM: usize = 32;

    fn new(text: &[u8]) -> Self {
        let mut room = [0; Head::ROOM];
        match room.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text);
                Head::Short { length: text.len() as u8, room }
            }
            None => Head::Long(text.into()),
        }
    }

    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Head::Short { length, room } => {
                let end = out.len() + usize::from(*length);
                out.extend_from_slice(room);
                out.truncate(end);
            }
            Head::Long(text) => out.extend_from_slice(text),
        }
    }
}

impl From<Vec<Arc<str>>> for Columns {
    fn from(names: Vec<Arc<str>>) -> Self {
        let head = |(place, name): (usize, &Arc<str>)| {
            let mut head = Vec::from(if place == 0 { "{" } else { "," });
            let mut shown = JsonWriter(&mut head);
            shown.text(name);
            shown.json(":");
            Head::new(&head)
        };
        let heads = names.iter().enumerate().map(head).collect();
        Columns(Arc::new(Names { names, heads, mostly: Vec::new(), unknown: Vec::new() }))
    }
}

impl From<Columns> for Vec<Arc<str>> {
    fn from(columns: Columns) -> Self {
        columns.0.names.clone()
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.0.names == other.0.names && self.0.unknown == other.0.unknown
    }
}

impl Eq for Columns {}

impl Columns {
    /// These names, in this order.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        names.into_iter().map(|name| Arc::from(name.as_ref())).collect::<Vec<_>>().into()
    }

    /// The same columns, where one column may have values of several types: most of them are these. There is one for each.
    pub fn mostly(self, mostly: Vec<Mostly>) -> Self {
        Columns(Arc::new(Names { mostly, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same columns, of rows that have these as well, whose values are not known: the source's log did not carry them.
    pub fn with_unknown<S: AsRef<str>>(self, unknown: impl IntoIterator<Item = S>) -> Self {
        let unknown = unknown.into_iter().map(|name| Arc::from(name.as_ref())).collect();
        Columns(Arc::new(Names { unknown, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Columns that the rows have as well, whose values are not known.
    pub fn unknown(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.unknown.iter().map(AsRef::as_ref)
    }

    /// Whether values that are not of the type of most are marked in JSON.
    pub(super) fn has_marks(&self) -> bool {
        !self.0.mostly.is_empty()
    }

    /// What most values of a column are; `None` where all are of one type.
    pub(super) fn mostly_at(&self, index: usize) -> Option<Mostly> {
        self.0.mostly.get(index).copied()
    }

    /// The names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.names.iter().map(AsRef::as_ref)
    }

    /// What stands before each value in JSON.
    pub(super) fn heads(&self) -> impl Iterator<Item = &Head> {
        self.0.heads.iter()
    }

    /// Where the column of this name stands.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.names.iter().position(|column| column.as_ref() == name)
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    /// Whether there is no column at all.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }

    /// Whether these are not only the same names, but the same memory.
    pub fn is_shared_with(&self, other: &Columns) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One state of one row. Cheap to clone; its values are unpacked when somebody looks at them.
#[derive(Clone)]
pub struct Row {
    packed: Packed,
    shape: u32,
    start: u32,
    end: u32,
    /// A thin pointer: changes are moved a lot.
    values: OnceLock<Arc<Vec<Value>>>,
}

impl Row {
    /// A row of these values; there is one for each column, in the same order.
    ///
    /// # Panics
    /// If the numbers of columns and values differ: that is a fault of the source that builds the row.
    pub fn new(columns: Columns, values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<Value> = values.into_iter().collect();
        assert_eq!(columns.len(), values.len(), "one value for each column");
        let mut packer = Packer::default();
        values.iter().for_each(|value| packer.value(value));
        Row { values: OnceLock::from(Arc::new(values)), ..packer.into_row(columns) }
    }

    #[inline]
    pub(super) fn packed(packed: Packed, shape: u32, start: u32, end: u32) -> Self {
        Row { packed, shape, start, end, values: OnceLock::new() }
    }

    /// The same row in memory of its own: it keeps no others in memory.
    pub(crate) fn apart(&self) -> Self {
        let packed = self.packed.copy(self.start, self.end);
        Row { values: self.values.clone(), ..Row::packed(packed, self.shape, 0, self.end - self.start) }
    }

    /// Where the memory begins that it lies in.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> *const u8 {
        self.packed.bytes(0, 0).as_ptr()
    }

    pub(super) fn as_packed(&self) -> &[u8] {
        self.packed.bytes(self.start, self.end)
    }

    /// The value of the column of this name, `None` when the row has no such column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.columns().index_of(column).and_then(|index| self.values().get(index))
    }

    /// The columns' names.
    pub fn columns(&self) -> &Columns {
        self.packed.columns(self.shape)
    }

    /// The values, in the order of the columns.
    pub fn values(&self) -> &[Value] {
        self.values.get_or_init(|| Arc::new(Unpacking(self.as_packed()).collect()))
    }

    /// Columns and values together, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns().names().zip(self.values())
    }

    /// The row as users see it: a JSON object in the order of the columns.
    pub fn to_json(&self) -> serde_json::Value {
        let shown = |(index, (name, value)): (usize, (&str, &Value))| {
            (name.to_owned(), value.to_json_among(self.columns().mostly_at(index)))
        };
        serde_json::Value::Object(self.iter().enumerate().map(shown).collect())
    }

    /// Roughly how many bytes this row occupies, for limits on memory.
    pub fn weight(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.columns() == other.columns() && self.as_packed() == other.as_packed()
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

/// A row as stores keep it.
#[derive(Serialize, Deserialize)]
struct Stored<V> {
    columns: Columns,
    values: V,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mostly: Vec<Mostly>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Arc<str>>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let columns = self.columns().clone();
        let (mostly, unknown) = (columns.0.mostly.clone(), columns.0.unknown.clone());
        Stored { columns, values: self.values(), mostly, unknown }.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let stored: Stored<Vec<Value>> = Stored::deserialize(from)?;
        if stored.columns.len() != stored.values.len() {
            return Err(serde::de::Error::custom("a row has one value for each column"));
        }
        let Stored { columns, values, mostly, unknown } = stored;
        let columns = if mostly.is_empty() { columns } else { columns.mostly(mostly) };
        Ok(Row::new(if unknown.is_empty() { columns } else { columns.with_unknown(unknown) }, values))
    }
}
