//! Values, rows and keys: what a database keeps, without losing a digit of it.

mod accessors;
mod key;
pub(crate) mod packed;
pub(crate) mod row;
mod json_writer;

use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use json_writer::{JsonWriter, on_one_line};
pub use key::Key;
pub(crate) use packed::Packer;
pub(crate) use packed::{Packed, Shapes};
pub(crate) use row::Mostly;
pub use row::{Columns, Row};

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
    /// This value as users see it in JSON: numbers with all their digits, times in RFC 3339, bytes in base64. Numbers inside a JSON
    /// document are what `serde_json` makes of them; [`Change::to_json`](crate::Change::to_json) writes documents as they are.
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
}

impl Value {
    /// The same, in a column of which only most values are of one type: the others are marked.
    pub(crate) fn to_json_among(&self, mostly: Option<Mostly>) -> serde_json::Value {
        let mark = match (mostly, self) {
            (Some(Mostly::Texts), Value::Bytes(_)) => "base64",
            (Some(Mostly::Bytes), Value::Text(_)) => "text",
            (Some(_), Value::Real(real)) if !real.is_finite() => "real",
            _ => return self.to_json(),
        };
        serde_json::json!({ mark: self.to_json() })
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_document_keeps_its_digits_and_is_on_one_line() {
        let document = "{\"n\": 12345678901234567890123,\r\n \"d\": 1.10000000000000000001, \"e\": 1e400, \"s\": \"\\n\"}";
        let row = Row::new(Columns::new(["j"]), [Value::Json(document.into())]);
        let mut written = Vec::new();
        JsonWriter(&mut written).row(Some(&row));
        assert_eq!(
            String::from_utf8(written).unwrap(),
            r#"{"j":{"n": 12345678901234567890123,   "d": 1.10000000000000000001, "e": 1e400, "s": "\n"}}"#
        );
    }

    #[test]
    fn what_is_written_for_users_is_what_is_shown_to_them() {
        let moment: Timestamp = "2026-11-15T08:00:00.123456Z".parse().unwrap();
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Integer(i64::MIN),
            Value::Real(0.1),
            Value::Real(f64::NAN),
            Value::Decimal("1.10".into()),
            Value::Text("Ü\"\n\0".into()),
            Value::Bytes(Arc::from(*b"\x00\xff")),
            Value::Time(moment),
            Value::Json(r#"{"a":[1]}"#.into()),
            Value::Json("no json".into()),
        ];
        let names: Vec<String> = (0..values.len()).map(|place| format!("c{place}")).collect();
        let row = Row::new(Columns::new(&names), values);
        let mut written = Vec::new();
        JsonWriter(&mut written).row(Some(&row));
        assert_eq!(String::from_utf8(written).unwrap(), row.to_json().to_string());
    }

    #[test]
    fn values_of_other_types_than_most_are_told_apart_in_json() {
        let shown = |mostly, value: Value| {
            let row = Row::new(Columns::new(["id"]).mostly(vec![mostly]), [value]);
            let mut written = Vec::new();
            JsonWriter(&mut written).row(Some(&row));
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written, row.to_json().to_string(), "however it is written");
            let stored: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
            assert_eq!(stored.to_json(), row.to_json(), "also when it comes back from a store");
            written
        };
        let (bytes, text) = (|| Value::Bytes(Arc::from(*b"1")), || Value::Text("MQ==".into()));
        assert_eq!(shown(Mostly::Texts, bytes()), r#"{"id":{"base64":"MQ=="}}"#);
        assert_eq!(shown(Mostly::Texts, text()), r#"{"id":"MQ=="}"#);
        assert_eq!(shown(Mostly::Bytes, bytes()), r#"{"id":"MQ=="}"#);
        assert_eq!(shown(Mostly::Bytes, text()), r#"{"id":{"text":"MQ=="}}"#);
        assert_eq!(shown(Mostly::Texts, Value::Real(f64::INFINITY)), r#"{"id":{"real":"Infinity"}}"#);
        assert_eq!(shown(Mostly::Texts, Value::Integer(1)), r#"{"id":1}"#);
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
