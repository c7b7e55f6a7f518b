//! An event on its way out.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use serde::Serialize;

use crate::name::ObjectName;
use crate::order::{EventId, Link};
use crate::value::on_one_line;

/// What a producer pushed: usually JSON, kept byte for byte whatever it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Body(Arc<[u8]>);

impl Body {
    /// These bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Body(Arc::from(bytes))
    }

    /// This value as JSON.
    pub fn json(event: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Body(Arc::from(serde_json::to_vec(event)?)))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The event as JSON text: as it is when it is JSON, else as a string, in base64 when it is not even text.
    pub fn to_json(&self) -> String {
        match std::str::from_utf8(&self.0) {
            // Lines are how consumers tell events apart: one that is spread over several is put on one.
            Ok(text) => on_one_line(text)
                .map_or_else(|| serde_json::Value::from(text).to_string(), |json| json.get().to_owned()),
            Err(_) => {
                serde_json::Value::from(base64::engine::general_purpose::STANDARD.encode(&self.0)).to_string()
            }
        }
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Body::bytes(text.as_bytes())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0))
    }
}

/// An event with its place in its object's chain. Sent again, by whomever, it is the same, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The object it is about.
    pub object: ObjectName,
    /// Its own number, and that of the event before it.
    pub link: Link,
    /// When it left the queue for the first time, by the store's clock.
    pub at: Timestamp,
    /// What was pushed.
    pub body: Body,
}

impl Event {
    /// Its number.
    pub fn id(&self) -> EventId {
        self.link.id()
    }

    /// The number of the object's event before it.
    pub fn prev(&self) -> Option<EventId> {
        self.link.prev()
    }

    /// The event as one line of JSON: `{"object":"work:1","id":7,"prev":3,"event":{…}}`.
    pub fn to_json(&self) -> String {
        let prev = self.prev().map_or_else(|| "null".to_owned(), |prev| prev.to_string());
        let object = serde_json::Value::from(self.object.as_str());
        format!(r#"{{"object":{object},"id":{},"prev":{prev},"event":{}}}"#, self.id(), self.body.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(body: &[u8]) -> String {
        let link = Link::new(EventId(7), Some(EventId(3))).unwrap();
        let object = ObjectName::new("work:\"1\"").unwrap();
        Event { object, link, at: Timestamp::UNIX_EPOCH, body: Body::bytes(body) }.to_json()
    }

    #[test]
    fn json_is_passed_on_as_it_was_written() {
        assert_eq!(
            line(br#"{"price":1.10,"n":123456789012345678901234567890}"#),
            r#"{"object":"work:\"1\"","id":7,"prev":3,"event":{"price":1.10,"n":123456789012345678901234567890}}"#
        );
    }

    #[test]
    fn what_is_not_json_becomes_a_string_and_stays_on_one_line() {
        assert!(line(b"tea\n").ends_with(r#""event":"tea\n"}"#));
        assert!(line(b"\xff").ends_with(r#""event":"/w=="}"#));
        assert!(line(b"{\n\"a\":1}").ends_with(r#""event":{ "a":1}}"#));
    }
}
