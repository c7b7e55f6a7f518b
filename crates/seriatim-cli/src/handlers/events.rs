//! A queue's events, handed to a handler of changes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::handler::Handler;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::SessionId;
use seriatim::source::queue::{Event, Sender};
use seriatim::value::{Columns, Key, Row, Value};
use seriatim::{Change, Context, Epoch, Failure, FeedName, Op, Partition, Position};

use crate::config::QueueConfig;

/// Hands each event to a handler, as a change of op `event`.
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
        let lease = Lease { id, session: SessionId::random(), epoch: Epoch(0), position };
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
        Ok(serde_json::Value::Object(fields)) => {
            let columns = Columns::new(fields.keys());
            Row::new(columns, fields.values().map(value))
        }
        _ => Row::new(Columns::new(["event"]), [Value::Json(json.into())]),
    }
}

fn value(field: &serde_json::Value) -> Value {
    match field {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::String(text) => Value::Text(text.as_str().into()),
        other => other.as_i64().map_or_else(|| Value::Json(other.to_string().into()), Value::Integer),
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
        assert_eq!(shown("[1]"), r#"{"event":[1]}"#);
    }
}
