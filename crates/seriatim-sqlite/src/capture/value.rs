//! SQLite's values as Seriatim's, and back again without losing a bit.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use serde_json::{Value as Json, json};

/// A value of a primary key, kept so that SQLite compares it exactly as the stored one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Exact {
    Null,
    Integer(i64),
    Real(f64),
    /// Not always UTF-8: SQLite does not check.
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Exact {
    fn from(stored: ValueRef<'_>) -> Self {
        match stored {
            ValueRef::Null => Exact::Null,
            ValueRef::Integer(number) => Exact::Integer(number),
            ValueRef::Real(real) => Exact::Real(real),
            ValueRef::Text(text) => Exact::Text(text.to_vec()),
            ValueRef::Blob(bytes) => Exact::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for Exact {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.as_value()))
    }
}

impl Exact {
    /// The value as SQLite has it.
    pub(super) fn as_value(&self) -> ValueRef<'_> {
        match self {
            Exact::Null => ValueRef::Null,
            Exact::Integer(number) => ValueRef::Integer(*number),
            Exact::Real(real) => ValueRef::Real(*real),
            Exact::Text(text) => ValueRef::Text(text),
            Exact::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }

    /// Takes another value, in the memory of the last one where that is possible.
    pub(super) fn set(&mut self, stored: ValueRef<'_>) {
        match (&mut *self, stored) {
            (Exact::Text(here), ValueRef::Text(bytes)) | (Exact::Blob(here), ValueRef::Blob(bytes)) => {
                here.clear();
                here.extend_from_slice(bytes);
            }
            (here, stored) => *here = Exact::from(stored),
        }
    }

    /// The form inside positions: one spelling for each value, so that equal positions are equal texts.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Exact::Null => Json::Null,
            Exact::Integer(number) => json!(number),
            Exact::Real(real) => json!({ "real": real.to_bits() }),
            Exact::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => json!(text),
                Err(_) => json!({ "text": hex(text) }),
            },
            Exact::Blob(bytes) => json!({ "blob": hex(bytes) }),
        }
    }

    /// Reads what [`Exact::to_json`] wrote; `None` for anything else.
    pub(super) fn from_json(json: &Json) -> Option<Self> {
        match json {
            Json::Null => Some(Exact::Null),
            Json::Number(number) => number.as_i64().map(Exact::Integer),
            Json::String(text) => Some(Exact::Text(text.clone().into_bytes())),
            Json::Object(tagged) => {
                let (tag, content) = tagged.iter().next()?;
                match tag.as_str() {
                    "real" => content.as_u64().map(|bits| Exact::Real(f64::from_bits(bits))),
                    "text" => unhex(content.as_str()?).map(Exact::Text),
                    "blob" => unhex(content.as_str()?).map(Exact::Blob),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_its_place_in_a_position() {
        let values = [
            Exact::Null,
            Exact::Integer(i64::MIN),
            Exact::Integer(i64::MAX),
            Exact::Real(-0.0),
            Exact::Real(f64::INFINITY),
            Exact::Text("nul \0 and 🦀".into()),
            Exact::Text(vec![0xff, b'a']),
            Exact::Blob(vec![0, 255]),
            Exact::Blob(vec![]),
        ];
        for value in values {
            let text = value.to_json().to_string();
            let back = serde_json::from_str(&text).ok().and_then(|json| Exact::from_json(&json));
            assert_eq!(back, Some(value), "{text}");
        }
    }
}
