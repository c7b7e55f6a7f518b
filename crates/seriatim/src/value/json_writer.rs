//! Values as users see them in JSON, written piece by piece behind what is there: handlers get millions of them a second.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Mostly, Row, Value};

/// Times of changes have all their microseconds, also where those are zero.
static TO_THE_MICROSECOND: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
static AS_IT_IS: DateTimePrinter = DateTimePrinter::new();

/// A value that is looked at where it lies.
pub(super) enum Seen<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    /// A decimal number or a text, in UTF-8: both are strings in JSON.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Time(Timestamp),
    Json(&'a str),
}

impl Seen<'_> {
    /// The mark of a value in a column of which most are of another type.
    fn mark(&self, mostly: Option<Mostly>) -> Option<&'static str> {
        match (mostly?, self) {
            (Mostly::Texts, Seen::Bytes(_)) => Some("base64"),
            (Mostly::Bytes, Seen::Text(_)) => Some("text"),
            (_, Seen::Real(real)) if !real.is_finite() => Some("real"),
            _ => None,
        }
    }
}

/// JSON that is being written.
pub(crate) struct JsonWriter<'a>(pub &'a mut Vec<u8>);

impl JsonWriter<'_> {
    /// Something that is JSON already.
    #[inline]
    pub fn json(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    /// How much is written so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What was written there.
    pub fn again(&mut self, written: &Range<usize>) {
        self.0.extend_from_within(written.clone());
    }

    /// Whatever serde writes.
    #[inline]
    pub fn any(&mut self, value: impl Serialize) {
        serde_json::to_writer(&mut *self.0, &value)
            .expect("strings, numbers and maps with string keys always serialize")
    }

    /// A string.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.utf8(text.as_bytes());
    }

    /// A string, of which it is known that it is UTF-8.
    #[inline]
    fn utf8(&mut self, text: &[u8]) {
        // Most texts have nothing to escape. To find that out for eight letters at once is faster than to look at each.
        let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        let any_special = |text: &[u8]| text.iter().fold(false, |any, byte| any | is_special(*byte));
        let has_special = match text.last_chunk::<8>() {
            Some(last) => any_special(last) || text.as_chunks::<8>().0.iter().any(|chunk| any_special(chunk)),
            None => any_special(text),
        };
        match has_special {
            true => self.any(std::str::from_utf8(text).expect("a Packer takes texts as str")),
            false => self.quoted(text),
        }
    }

    /// A string with nothing to escape.
    #[inline]
    fn quoted(&mut self, text: &[u8]) {
        self.0.push(b'"');
        self.0.extend_from_slice(text);
        self.0.push(b'"');
    }

    /// The time of a change.
    pub fn moment(&mut self, at: Timestamp) {
        self.time(at, &TO_THE_MICROSECOND);
    }

    fn time(&mut self, time: Timestamp, printer: &DateTimePrinter) {
        self.json("\"");
        printer.print_timestamp(&time, &mut *self.0).expect("a Vec takes whatever is written to it");
        self.json("\"");
    }

    /// A row as an object (see [`Row::to_json`]), or null.
    pub fn row(&mut self, row: Option<&Row>) {
        let Some(row) = row else { return self.json("null") };
        let mut seeing = super::packed::Unpacking(row.as_packed());
        let marks = row.columns().has_marks();
        for (index, head) in row.columns().heads().enumerate() {
            head.write(self.0);
            let seen = seeing.see().unwrap_or(Seen::Null);
            match marks.then(|| seen.mark(row.columns().mostly_at(index))).flatten() {
                None => self.value(seen),
                Some(mark) => self.marked(mark, seen),
            }
        }
        self.json(if row.columns().is_empty() { "{}" } else { "}" });
    }

    /// A value that is not of the type that most of its column are.
    fn marked(&mut self, mark: &str, value: Seen<'_>) {
        self.json("{");
        self.text(mark);
        self.json(":");
        self.value(value);
        self.json("}");
    }

    #[inline]
    fn value(&mut self, value: Seen<'_>) {
        match value {
            Seen::Null => self.json("null"),
            Seen::Bool(truth) => self.json(if truth { "true" } else { "false" }),
            Seen::Integer(number) => self.any(number),
            Seen::Text(text) => self.utf8(text),
            Seen::Bytes(bytes) => self.quoted(STANDARD.encode(bytes).as_bytes()),
            Seen::Time(time) => self.time(time, &AS_IT_IS),
            // The rare one has rules of its own, which are said in one place.
            Seen::Real(real) => self.any(Value::Real(real).to_json()),
            Seen::Json(text) => match on_one_line(text) {
                Some(document) => self.json(document.get()),
                None => self.text(text),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_escaped_as_serde_does(text in r#"\PC{0,40}|[\x00-\x7f"\\é]{0,40}"#) {
            let mut written = Vec::new();
            JsonWriter(&mut written).text(&text);
            prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn one_letter_to_escape_is_found_wherever_it_is() {
        for length in 1..40 {
            for (place, special) in
                (0..length).flat_map(|place| [(place, "\""), (place, "\\"), (place, "\n")])
            {
                let text = "x".repeat(place) + special + &"x".repeat(length - place - 1);
                let mut written = Vec::new();
                JsonWriter(&mut written).text(&text);
                assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
