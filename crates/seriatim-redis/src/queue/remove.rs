//! The end of a queue, in small steps: no script looks at all keys of the server at once.
//!
//! ```text
//!   count what waits ──▶ forget the objects at rest, step by step ──▶ forget the rest, if nothing was queued meanwhile
//! ```
//!
//! Each step leaves an object alone that has events, so that an event is never lost that is pushed in the middle of it.

use redis::Value;
use seriatim::queue::{IfEventsWait, Queue, Removal};
use seriatim::store::StoreError;

use super::{RedisQueue, reply};

impl RedisQueue {
    pub(super) async fn remove_all(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        if if_events_wait == IfEventsWait::Keep {
            let waiting = self.backlog().await?;
            if waiting.events > 0 {
                return Ok(Removal::Waiting(waiting));
            }
        }
        let may_be_lost: &[u8] = if if_events_wait == IfEventsWait::Drop { b"1" } else { b"0" };
        let objects = self.forget_objects(may_be_lost).await?;
        match self.run("removing a queue", &self.scripts.remove_rest, &[may_be_lost]).await? {
            Value::Int(-1) => self.backlog().await.map(Removal::Waiting),
            Value::Int(0) if objects == 0 => Ok(Removal::NotThere),
            _ => Ok(Removal::Removed),
        }
    }

    /// Forgets the objects that may be forgotten, and counts the keys that are gone.
    async fn forget_objects(&self, may_be_lost: &[u8]) -> Result<u64, StoreError> {
        let (pattern, mut cursor, mut gone) = (self.prefix.pattern(), "0".to_owned(), 0);
        loop {
            let arguments = [pattern.as_bytes(), cursor.as_bytes(), may_be_lost];
            let answer = self.run("removing objects", &self.scripts.remove, &arguments).await?;
            let keys;
            (cursor, keys) = reply::step(answer)?;
            gone += keys;
            if cursor == "0" {
                return Ok(gone);
            }
        }
    }
}
