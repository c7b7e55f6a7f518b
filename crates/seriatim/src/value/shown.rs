//! Values as users see them in JSON, written without a detour over anything else.

use std::borrow::Cow;

use base64::Engine as _;
use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Row, Value};

/// A value that is looked at where it lies.
pub(super) enum Seen<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    /// A decimal number or a text: both are strings in JSON.
    Text(&'a str),
    Bytes(&'a [u8]),
    Time(Timestamp),
    Json(&'a str),
}

impl Serialize for Seen<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Seen::Null => out.serialize_unit(),
            Seen::Bool(truth) => out.serialize_bool(*truth),
            Seen::Integer(number) => out.serialize_i64(*number),
            Seen::Text(text) => out.serialize_str(text),
            Seen::Bytes(bytes) => out.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes)),
            Seen::Time(time) => out.collect_str(time),
            // The rare one has rules of its own, which are said in one place.
            Seen::Real(real) => Value::Real(*real).to_json().serialize(out),
            Seen::Json(text) => match on_one_line(text) {
                Some(document) => document.serialize(out),
                None => out.serialize_str(text),
            },
        }
    }
}

/// A JSON document on one line, otherwise as it was written, with all digits of its numbers; `None` when it is no JSON.
pub(crate) fn on_one_line(text: &str) -> Option<Cow<'_, RawValue>> {
    let document: &RawValue = serde_json::from_str(text).ok()?;
    if !document.get().contains(['\n', '\r']) {
        return Some(Cow::Borrowed(document));
    }
    // Inside a string an end of line is an escape: one that stands for itself only separates.
    RawValue::from_string(document.get().replace(['\n', '\r'], " ")).ok().map(Cow::Owned)
}

/// Serializes a row the way users see it (see [`Row::to_json`]).
pub(crate) fn serialize_for_users<S: Serializer>(row: &Row, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(row.columns().len()))?;
    let mut seeing = super::packed::Unpacking(row.as_packed());
    for name in row.columns().names() {
        map.serialize_entry(name, &seeing.see().unwrap_or(Seen::Null))?;
    }
    map.end()
}
