//! A queue's events, handed to a handler of changes.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use seriatim::handler::Handler;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::SessionId;
use seriatim::queue::{Event, Sender};
use seriatim::store::DoneAbove;
use seriatim::value::{Columns, Key, Row, Value};
use seriatim::{Change, Context, Epoch, Failure, FeedName, Op, Partition, Position};

use crate::config::QueueConfig;

/// Hands each event to a handler, as a change of op `event`.
#[derive(Clone)]
pub struct HandledEvents {
    feed: FeedName,
    handler: Arc<dyn Handler>,
    timeout: Duration,
}

impl HandledEvents {
    /// The events of this queue, for this handler.
    pub fn new(queue: &QueueConfig, handler: Arc<dyn Handler>) -> Self {
        HandledEvents { feed: queue.name.clone(), handler, timeout: queue.handler.timeout }
    }

    fn context(&self, position: Position) -> Context {
        let id = LeaseId { feed: self.feed.clone(), partition: Partition(0) };
        let lease = Lease {
            id,
            session: SessionId::random(),
            epoch: Epoch(0),
            position,
            done: DoneAbove::default(),
            part: None,
        };
        Context::new(Arc::new(lease), self.timeout)
    }
}

#[async_trait]
impl Sender for HandledEvents {
    async fn send(&self, event: Event) -> Result<(), Failure> {
        let change = change(&self.feed, &event);
        let context = self.context(change.position.clone());
        self.handler.handle(&[change], &context).await
    }
}

fn change(feed: &FeedName, event: &Event) -> Change {
    Change {
        feed: feed.clone(),
        partition: Partition(0),
        position: Position::number(event.id().0),
        key: Some(Key::of("object", Value::Text(event.object.as_str().into()))),
        op: Op::Event,
        at: event.at,
        before: None,
        after: Some(row(&event.body.to_json())),
        id: event.id().0,
        prev: event.prev().map(|prev| prev.0),
    }
}

/// The event as a row of its fields; one that has no fields is the field `event`.
fn row(json: &str) -> Row {
    match serde_json::from_str(json) {
        Ok(Fields(fields)) => {
            let columns = Columns::new(fields.iter().map(|(name, _)| name));
            Row::new(columns, fields.iter().map(|(_, field)| value(field)))
        }
        Err(_) => Row::new(Columns::new(["event"]), [Value::Json(json.into())]),
    }
}

/// Texts and whole numbers as themselves, for SQL's sake; of the rest every digit as it was written.
fn value(field: &RawValue) -> Value {
    match serde_json::from_str(field.get()) {
        Ok(serde_json::Value::Null) => Value::Null,
        Ok(serde_json::Value::Bool(truth)) => Value::Bool(truth),
        Ok(serde_json::Value::String(text)) => Value::Text(text.into()),
        Ok(other) if other.is_i64() => Value::Integer(other.as_i64().unwrap_or_default()),
        _ => Value::Json(field.get().into()),
    }
}

/// The fields of an object in their order, each as it was written; of a name that is there twice the last.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
        while let Some((name, field)) = members.next_entry::<String, &'de RawValue>()? {
            fields.push((name, field));
        }
        let mut seen = HashSet::new();
        let mut last: Vec<_> =
            fields.into_iter().rev().filter(|(name, _)| seen.insert(name.clone())).collect();
        last.reverse();
        Ok(Fields(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_shown_as_it_is() {
        let shown = |json| row(json).to_json().to_string();
        for json in [r#"{"title":"Emma","year":1815,"tags":["a"],"none":null,"price":1.5}"#, "{}"] {
            assert_eq!(shown(json), json);
        }
        assert_eq!(shown(r#"{"a":1,"b":2,"a":3}"#), r#"{"b":2,"a":3}"#);
        assert_eq!(shown("[1]"), r#"{"event":[1]}"#);
    }

    #[test]
    fn an_event_keeps_all_its_digits() {
        let row = row(r#"{"n":123456789012345678901234567890,"price":1.10,"far":1e400}"#);
        let digits = ["123456789012345678901234567890", "1.10", "1e400"].map(|text| Value::Json(text.into()));
        assert_eq!(row.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>(), digits);
    }
}
