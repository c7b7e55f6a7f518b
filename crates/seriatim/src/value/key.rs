//! Which object a change is about.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh64::xxh64;

use super::json_writer::Seen;
use super::packed::{Packer, REAL};
use super::{Columns, Row, Value};

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
        let hash = Key::hash_of(row.as_packed());
        Key { row, hash }
    }

    /// The key of a row whose hash is known already, from [`Key::hash_of`] over the same values.
    pub fn hashed(row: Row, hash: u64) -> Self {
        Key { row, hash }
    }

    /// A key of one column.
    pub fn of(column: &str, value: Value) -> Self {
        Key::new(Row::new(Columns::new([column]), [value]))
    }

    /// The hash of packed values (see [`Packer::since`]).
    pub fn hash_of(packed: &[u8]) -> u64 {
        match packed.contains(&REAL) && has_real(packed) {
            true => xxh64(&with_whole_numbers(packed), 0),
            false => xxh64(packed, 0),
        }
    }

    /// The stable hash of the key's values.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The same key in memory of its own: it keeps no others in memory.
    pub(crate) fn apart(&self) -> Self {
        Key { row: self.row.apart(), hash: self.hash }
    }

    /// The key's columns and values.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// A text that is the same for the same object and for no other, whatever its columns are called.
    pub fn identity(&self) -> String {
        let whole: Vec<Value> = super::packed::Unpacking(&with_whole_numbers(self.row.as_packed())).collect();
        serde_json::to_string(&whole).expect("values always serialize")
    }

    /// The key as users write it, such as `{"id":42}`.
    pub fn to_json(&self) -> serde_json::Value {
        self.row.to_json()
    }
}

/// The byte that announces a real number may be part of something else.
fn has_real(packed: &[u8]) -> bool {
    let mut values = super::packed::Unpacking(packed);
    std::iter::from_fn(|| values.see()).any(|value| matches!(value, Seen::Real(_)))
}

/// 1 and 1.0 are one key to SQLite, so they must land in one partition: whole reals are packed as integers.
fn with_whole_numbers(packed: &[u8]) -> Vec<u8> {
    let mut packer = Packer::default();
    for value in super::packed::Unpacking(packed) {
        match value {
            Value::Real(real) if (real as i64) as f64 == real => packer.integer(real as i64),
            other => packer.value(&other),
        }
    }
    packer.since(0).to_vec()
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
        let (here, there) = (self.row.as_packed(), other.row.as_packed());
        // Equal numbers may be packed differently. Not by their values: a database's NaN is equal to itself.
        self.hash == other.hash && (here == there || with_whole_numbers(here) == with_whole_numbers(there))
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
        let identity = Key::of("id", Value::Integer(1)).identity();
        assert_eq!(identity, Key::of("name", Value::Real(1.0)).identity());
        assert_ne!(identity, Key::of("id", Value::Text("1".into())).identity());
        assert_eq!(Key::of("id", Value::Integer(1)), Key::of("id", Value::Real(1.0)));
    }

    #[test]
    fn a_key_that_is_not_a_number_is_equal_to_itself() {
        assert_eq!(Key::of("id", Value::Real(f64::NAN)), Key::of("id", Value::Real(f64::NAN)));
        assert_ne!(Key::of("id", Value::Real(f64::NAN)), Key::of("id", Value::Real(1.5)));
    }
}
