//! Envelopes: the form in which a change leaves through a sink. Pure.
//!
//! | format | a change is | for |
//! |---|---|---|
//! | `seriatim` | one JSON object, as everywhere else in Seriatim | new consumers |
//! | `cloudevents` | a CloudEvents 1.0 event with the same object as its `data` | routers and brokers that know CloudEvents |
//! | `debezium` | Debezium's JSON without schemas | consumers of today that were written for Debezium |
//!
//! The same change always has the same bytes, however often it is sent.

mod cloudevents;
mod debezium;
mod field;

use seriatim::Change;
use seriatim::change::Op;
use seriatim::value::Value;

pub use debezium::Origin;

/// The form in which changes leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Seriatim's own.
    #[default]
    Seriatim,
    /// CloudEvents 1.0.
    CloudEvents,
    /// Debezium's JSON without schemas.
    Debezium,
}

impl Format {
    /// The word for it in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Seriatim => "seriatim",
            Format::CloudEvents => "cloudevents",
            Format::Debezium => "debezium",
        }
    }
}

/// Where the attributes of a CloudEvent are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the body, around the data.
    #[default]
    Structured,
    /// In headers beside the body, which is the data alone.
    Binary,
}

/// Puts changes into their form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    format: Format,
    mode: Mode,
    origin: Origin,
}

impl Envelope {
    /// Changes of this origin, in this format.
    pub fn new(format: Format, origin: Origin) -> Self {
        Envelope { format, mode: Mode::Structured, origin }
    }

    /// The same, with the attributes of CloudEvents where `mode` says.
    pub fn in_mode(self, mode: Mode) -> Self {
        Envelope { mode, ..self }
    }

    /// The form.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether attributes go into headers: then each message has one change.
    pub fn is_binary(&self) -> bool {
        self.format == Format::CloudEvents && self.mode == Mode::Binary
    }

    /// Writes a change, on one line and without an end of line, behind what is in `out`.
    pub fn write(&self, change: &Change, out: &mut Vec<u8>) {
        match self.format {
            Format::CloudEvents if !self.is_binary() => cloudevents::write(change, out),
            Format::Seriatim | Format::CloudEvents => change.write_json(out),
            Format::Debezium => debezium::write(change, &self.origin, out),
        }
    }

    /// Writes these changes, with something between each two of them.
    pub fn write_all(&self, changes: &[Change], between: &str, out: &mut Vec<u8>) {
        if self.format == Format::Seriatim {
            return Change::write_json_of_all(changes, between, out);
        }
        for (index, change) in changes.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(between.as_bytes());
            }
            self.write(change, out);
        }
    }

    /// A change as a message of its own.
    pub fn to_bytes(&self, change: &Change) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        self.write(change, &mut bytes);
        bytes
    }

    /// The media type of one change, or of an array of them.
    pub fn content_type(&self, single: bool) -> &'static str {
        match (self.format, single) {
            (Format::CloudEvents, _) if self.is_binary() => "application/json",
            (Format::CloudEvents, true) => "application/cloudevents+json",
            (Format::CloudEvents, false) => "application/cloudevents-batch+json",
            (Format::Seriatim | Format::Debezium, _) => "application/json",
        }
    }

    /// The attributes of a change that go into headers: their names, without the prefix of the protocol, and their values.
    /// Empty but in the binary mode of CloudEvents.
    pub fn attributes(&self, change: &Change) -> Vec<(&'static str, String)> {
        if self.is_binary() { cloudevents::attributes(change) } else { Vec::new() }
    }
}

/// The object as one text: the value where its key has one column, else its key as JSON. `None` for a change of everything.
pub fn subject(change: &Change) -> Option<String> {
    let row = change.key.as_ref()?.row();
    match row.values() {
        [Value::Text(text) | Value::Decimal(text)] => Some(text.to_string()),
        [value @ (Value::Integer(_) | Value::Bool(_))] => Some(value.to_json().to_string()),
        _ => Some(row.to_json().to_string()),
    }
}

/// A text that no other change of the feed has, and that is the same on every redelivery.
pub fn identity(change: &Change) -> String {
    match change.op {
        // A change of everything comes once for each partition.
        Op::Truncate => format!("{}-{}", change.id, change.partition),
        _ => change.id.to_string(),
    }
}

#[cfg(test)]
mod tests;
