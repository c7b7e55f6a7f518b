//! Values, rows and keys: what a database keeps, without losing a digit of it.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh64::Xxh64;

/// One value of one column, exactly as the database holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number of 64 bits.
    Integer(i64),
    /// A floating-point number; may be infinite or not a number.
    Real(#[serde(with = "real_bits")] f64),
    /// A decimal number of any precision, in its database's own digits.
    Decimal(Arc<str>),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A moment.
    Time(Timestamp),
    /// A JSON document, as the database wrote it.
    Json(Arc<str>),
}

/// Keeps every bit of a float in a store, infinities and NaN included, which JSON numbers cannot.
mod real_bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(real: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(real.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

impl Value {
    /// This value as users see it in JSON: numbers with all their digits, times in RFC 3339, bytes in base64.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Value::Null => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Integer(number) => Json::from(*number),
            Value::Real(real) => match serde_json::Number::from_f64(*real) {
                Some(number) => Json::Number(number),
                None => Json::String(non_finite(*real).to_owned()),
            },
            Value::Decimal(text) | Value::Text(text) => Json::String(text.as_ref().to_owned()),
            Value::Bytes(bytes) => Json::String(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Value::Time(time) => Json::String(time.to_string()),
            Value::Json(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_string()))
            }
        }
    }

    fn hash_into(&self, hasher: &mut Xxh64) {
        // A tag before each value keeps (1, "23") and (12, "3") apart; lengths do the same for texts.
        match self {
            Value::Null => hasher.update(&[0]),
            Value::Bool(truth) => hasher.update(&[1, u8::from(*truth)]),
            Value::Integer(number) => hash_integer(*number, hasher),
            Value::Real(real) => hash_real(*real, hasher),
            Value::Decimal(text) => hash_bytes(4, text.as_bytes(), hasher),
            Value::Text(text) => hash_bytes(5, text.as_bytes(), hasher),
            Value::Bytes(bytes) => hash_bytes(6, bytes, hasher),
            Value::Time(time) => {
                hasher.update(&[7]);
                hasher.update(&time.as_nanosecond().to_le_bytes());
            }
            Value::Json(text) => hash_bytes(8, text.as_bytes(), hasher),
        }
    }
}

fn non_finite(real: f64) -> &'static str {
    if real.is_nan() {
        "NaN"
    } else if real > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn hash_integer(number: i64, hasher: &mut Xxh64) {
    hasher.update(&[2]);
    hasher.update(&number.to_le_bytes());
}

/// 1 and 1.0 are one key to SQLite, so they must land in one partition.
fn hash_real(real: f64, hasher: &mut Xxh64) {
    let whole = real as i64;
    if whole as f64 == real {
        hash_integer(whole, hasher);
    } else {
        hasher.update(&[3]);
        hasher.update(&real.to_bits().to_le_bytes());
    }
}

fn hash_bytes(tag: u8, bytes: &[u8], hasher: &mut Xxh64) {
    hasher.update(&[tag]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// The names of a row's columns, shared by all rows of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns(Arc<[Arc<str>]>);

impl Columns {
    /// These names, in this order.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Columns(names.into_iter().map(|name| Arc::from(name.as_ref())).collect())
    }

    /// The names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Where the column of this name stands.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|column| column.as_ref() == name)
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no column at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One state of one row. Cheap to clone: columns and values are shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    columns: Columns,
    values: Arc<[Value]>,
}

impl Row {
    /// A row of these values; there is one for each column, in the same order.
    ///
    /// # Panics
    /// If the numbers of columns and values differ: that is a fault of the source that builds the row.
    pub fn new(columns: Columns, values: impl IntoIterator<Item = Value>) -> Self {
        let values: Arc<[Value]> = values.into_iter().collect();
        assert_eq!(columns.len(), values.len(), "one value for each column");
        Row { columns, values }
    }

    /// The value of the column of this name, `None` when the row has no such column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.columns.index_of(column).map(|index| &self.values[index])
    }

    /// The columns' names.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The values, in the order of the columns.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Columns and values together, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns.names().zip(self.values.iter())
    }

    /// The row as users see it: a JSON object in the order of the columns.
    pub fn to_json(&self) -> serde_json::Value {
        let object = self.iter().map(|(name, value)| (name.to_owned(), value.to_json()));
        serde_json::Value::Object(object.collect())
    }

    /// Roughly how many bytes this row occupies, for limits on memory.
    pub fn weight(&self) -> usize {
        let payload = |value: &Value| match value {
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.values.iter().map(|value| size_of::<Value>() + payload(value)).sum()
    }
}

/// Serializes a row the way users see it (see [`Row::to_json`]).
pub(crate) fn serialize_for_users<S: Serializer>(row: &Row, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(row.values.len()))?;
    for (name, value) in row.iter() {
        map.serialize_entry(name, &value.to_json())?;
    }
    map.end()
}

/// Which object a change is about: the values of the key columns, with a hash that never changes.
///
/// The hash decides the partition and the lane, so it is the same on every machine and in every version.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Key {
    row: Row,
    hash: u64,
}

impl Key {
    /// The key that these columns and values make.
    pub fn new(row: Row) -> Self {
        let mut hasher = Xxh64::new(0);
        for value in row.values() {
            value.hash_into(&mut hasher);
        }
        let hash = hasher.digest();
        Key { row, hash }
    }

    /// A key of one column.
    pub fn of(column: &str, value: Value) -> Self {
        Key::new(Row::new(Columns::new([column]), [value]))
    }

    /// The stable hash of the key's values.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The key's columns and values.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// The key as users write it, such as `{"id":42}`.
    pub fn to_json(&self) -> serde_json::Value {
        self.row.to_json()
    }
}

impl From<Row> for Key {
    fn from(row: Row) -> Self {
        Key::new(row)
    }
}

impl From<Key> for Row {
    fn from(key: Key) -> Self {
        key.row
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.row.values == other.row.values
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_key_never_changes() {
        // These numbers are on users' disks, as partitions: a change here loses the order of their objects.
        assert_eq!(Key::of("id", Value::Integer(42)).hash(), 4_956_066_600_274_079_096);
        assert_eq!(Key::of("id", Value::Text("Ünï".into())).hash(), 71_225_500_092_186_556);
    }

    #[test]
    fn one_and_one_point_zero_are_one_key() {
        let whole = Key::of("id", Value::Integer(1)).hash();
        assert_eq!(whole, Key::of("id", Value::Real(1.0)).hash());
        assert_ne!(whole, Key::of("id", Value::Real(1.5)).hash());
    }

    #[test]
    fn values_keep_their_digits_in_json() {
        let row = Row::new(
            Columns::new(["big", "real", "never", "bytes", "nothing"]),
            [
                Value::Integer(i64::MAX),
                Value::Real(0.1),
                Value::Real(f64::INFINITY),
                Value::Bytes(Arc::from(*b"\x00\xff")),
                Value::Null,
            ],
        );
        assert_eq!(
            row.to_json().to_string(),
            r#"{"big":9223372036854775807,"real":0.1,"never":"Infinity","bytes":"AP8=","nothing":null}"#
        );
    }

    #[test]
    fn a_stored_row_comes_back_bit_for_bit() {
        let row = Row::new(
            Columns::new(["a", "b", "c"]),
            [Value::Real(f64::NEG_INFINITY), Value::Bytes(Arc::from(*b"\xff")), Value::Text("\0".into())],
        );
        let stored = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&stored).unwrap(), row);
    }
}
