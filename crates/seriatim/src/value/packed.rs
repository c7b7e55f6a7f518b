//! Values packed into bytes: a change's rows are one piece of memory, unpacked only where somebody looks.
//!
//! A value is a tag and its payload; texts and bytes have their length before them. Keys are hashed over this very form,
//! so it must never change.

use std::sync::Arc;

use jiff::Timestamp;

use super::json_writer::Seen;
use super::{Columns, Row, Value};

const NULL: u8 = 0;
const BOOL: u8 = 1;
const INTEGER: u8 = 2;
pub(super) const REAL: u8 = 3;
const DECIMAL: u8 = 4;
const TEXT: u8 = 5;
const BYTES: u8 = 6;
const TIME: u8 = 7;
const JSON: u8 = 8;

/// Packs the values of one change's rows, one row after another. Made once, used for many changes.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// Adds a NULL.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.push(NULL);
    }

    /// Adds a whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        let mut packed = [INTEGER; 9];
        packed[1..].copy_from_slice(&number.to_le_bytes());
        self.bytes.extend_from_slice(&packed);
    }

    /// Adds a floating-point number.
    #[inline]
    pub fn real(&mut self, real: f64) {
        let mut packed = [REAL; 9];
        packed[1..].copy_from_slice(&real.to_bits().to_le_bytes());
        self.bytes.extend_from_slice(&packed);
    }

    /// Adds a text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.sized(TEXT, text.as_bytes());
    }

    /// Adds a text where the bytes are one, in UTF-8, and bytes where not.
    #[inline]
    pub fn text_or_bytes(&mut self, bytes: &[u8]) {
        // Most texts are ASCII, which is faster to see.
        let is_text = bytes.is_ascii() || std::str::from_utf8(bytes).is_ok();
        self.sized(if is_text { TEXT } else { BYTES }, bytes);
    }

    /// Adds bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.sized(BYTES, bytes);
    }

    /// Adds any value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null(),
            Value::Bool(truth) => self.bytes.extend([BOOL, u8::from(*truth)]),
            Value::Integer(number) => self.integer(*number),
            Value::Real(real) => self.real(*real),
            Value::Decimal(digits) => self.sized(DECIMAL, digits.as_bytes()),
            Value::Text(text) => self.text(text),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::Time(time) => {
                self.bytes.push(TIME);
                self.bytes.extend_from_slice(&time.as_nanosecond().to_le_bytes());
            }
            Value::Json(text) => self.sized(JSON, text.as_bytes()),
        }
    }

    /// Adds values that are packed already.
    #[inline]
    pub fn packed(&mut self, values: &[u8]) {
        self.bytes.extend_from_slice(values);
    }

    #[inline]
    fn sized(&mut self, tag: u8, bytes: &[u8]) {
        let mut head = [tag; 9];
        head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes room for so many bytes more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// How many bytes are packed so far: where the next row begins.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is packed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is packed from this place on.
    pub fn since(&self, start: usize) -> &[u8] {
        &self.bytes[start..]
    }

    /// Drops what was packed and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Drops what was packed from this place on.
    pub(crate) fn truncate(&mut self, end: usize) {
        self.bytes.truncate(end);
    }

    /// What was packed, as one row of these columns.
    ///
    /// # Panics
    /// If it is more than 4 GiB, which databases refuse.
    pub fn into_row(self, columns: Columns) -> Row {
        let end = u32::try_from(self.bytes.len()).expect("databases refuse rows of 4 GiB");
        self.finish(&Arc::from([columns])).row(0, 0, end)
    }

    /// What was packed, as rows that have these columns.
    pub(crate) fn finish(mut self, shapes: &Shapes) -> Packed {
        if self.bytes.capacity() / 3 > self.bytes.len() / 2 {
            self.bytes.shrink_to_fit();
        }
        Packed(Arc::new(Pack { bytes: self.bytes, shapes: Arc::clone(shapes) }))
    }
}

/// The columns of rows: each row has one of these.
pub(crate) type Shapes = Arc<[Columns]>;

/// Rows in one piece of memory, and their columns: whoever keeps a row counts one reference, and not one for its columns too.
#[derive(Clone, Debug)]
pub(crate) struct Packed(Arc<Pack>);

#[derive(Debug)]
struct Pack {
    bytes: Vec<u8>,
    shapes: Shapes,
}

impl Packed {
    /// The row that was packed from `start` to `end` and has that shape.
    #[inline]
    pub fn row(&self, shape: u32, start: u32, end: u32) -> Row {
        Row::packed(self.clone(), shape, start, end)
    }

    /// The columns of that shape.
    #[inline]
    pub fn columns(&self, shape: u32) -> &Columns {
        &self.0.shapes[shape as usize]
    }

    /// What was packed from `start` to `end`.
    #[inline]
    pub fn bytes(&self, start: u32, end: u32) -> &[u8] {
        &self.0.bytes[start as usize..end as usize]
    }

    /// A copy of what was packed from `start` to `end`, in memory of its own.
    pub fn copy(&self, start: u32, end: u32) -> Packed {
        let bytes = self.bytes(start, end).to_vec();
        Packed(Arc::new(Pack { bytes, shapes: Arc::clone(&self.0.shapes) }))
    }
}

/// Unpacks as many values as there are bytes for.
pub(super) struct Unpacking<'a>(pub &'a [u8]);

impl<'a> Unpacking<'a> {
    /// Looks at the next value where it lies. Always inlined: what it is is asked once then, and not again by whoever looks.
    #[inline(always)]
    pub fn see(&mut self) -> Option<Seen<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let [tag] = self.take();
        Some(match tag {
            BOOL => Seen::Bool(self.take::<1>() != [0]),
            INTEGER => Seen::Integer(i64::from_le_bytes(self.take())),
            REAL => Seen::Real(f64::from_bits(u64::from_le_bytes(self.take()))),
            DECIMAL | TEXT => Seen::Text(self.sized()),
            BYTES => Seen::Bytes(self.sized()),
            TIME => Seen::Time(time(i128::from_le_bytes(self.take()))),
            JSON => Seen::Json(self.str()),
            _ => Seen::Null,
        })
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("a Packer writes whole values");
        self.0 = rest;
        *head
    }

    fn sized(&mut self) -> &'a [u8] {
        let length = u64::from_le_bytes(self.take()) as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn str(&mut self) -> &'a str {
        std::str::from_utf8(self.sized()).expect("a Packer takes texts as str")
    }

    fn text(&mut self) -> Arc<str> {
        Arc::from(self.str())
    }
}

impl Iterator for Unpacking<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let [tag] = self.take();
        Some(match tag {
            BOOL => Value::Bool(self.take::<1>() != [0]),
            INTEGER => Value::Integer(i64::from_le_bytes(self.take())),
            REAL => Value::Real(f64::from_bits(u64::from_le_bytes(self.take()))),
            DECIMAL => Value::Decimal(self.text()),
            TEXT => Value::Text(self.text()),
            BYTES => Value::Bytes(Arc::from(self.sized())),
            TIME => Value::Time(time(i128::from_le_bytes(self.take()))),
            JSON => Value::Json(self.text()),
            _ => Value::Null,
        })
    }
}

fn time(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds).expect("a Packer takes times as Timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_map(Value::Real),
            ".*".prop_map(|text| Value::Decimal(Arc::from(text))),
            ".*".prop_map(|text| Value::Text(Arc::from(text))),
            ".*".prop_map(|text| Value::Json(Arc::from(text))),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(Arc::from(bytes))),
            (0i64..4_000_000_000).prop_map(|s| Value::Time(Timestamp::from_second(s).unwrap())),
        ]
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_again(values in prop::collection::vec(any_value(), 0..8)) {
            let mut packer = Packer::default();
            values.iter().for_each(|value| packer.value(value));
            let columns = Columns::new((0..values.len()).map(|n| n.to_string()));
            let row = packer.into_row(columns.clone());
            prop_assert_eq!(row.values(), values.as_slice());
            prop_assert_eq!(row, Row::new(columns, values));
        }
    }

    #[test]
    fn what_is_no_text_is_packed_as_bytes() {
        let seen = |bytes: &[u8]| {
            let mut packer = Packer::default();
            packer.text_or_bytes(bytes);
            packer.into_row(Columns::new(["x"])).values()[0].clone()
        };
        assert_eq!(seen(b"plain"), Value::Text("plain".into()));
        assert_eq!(seen("grün".as_bytes()), Value::Text("grün".into()));
        assert_eq!(seen(b"gr\xfcn"), Value::Bytes(Arc::from(b"gr\xfcn".as_slice())));
    }
}
