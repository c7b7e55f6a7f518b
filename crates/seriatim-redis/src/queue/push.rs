//! Pushing events together with the producer's own writes.

use redis::{Arg, Pipeline, ToRedisArgs, Value};
use seriatim::name::{BadName, ObjectName};
use seriatim::source::queue::{Body, PushError};
use seriatim::store::StoreError;

use super::RedisQueue;
use crate::error::RedisError;

impl RedisQueue {
    /// Adds the pushing of these events, the main one first, to the producer's own pipeline or `MULTI`.
    ///
    /// These are two plain commands, so a producer in any language can do the same: `LPUSH OBJ:events main sub …` and
    /// `LPUSH objects.with.events OBJ`, in one `MULTI`. Nothing in a `MULTI` can refuse, so the limit of a queue does not count here:
    /// [`RedisQueue::push_with`] has it.
    pub fn push_to(
        &self,
        pipe: &mut Pipeline,
        object: &str,
        events: &[impl ToRedisArgs],
    ) -> Result<(), BadName> {
        let object = ObjectName::new(object)?;
        if !events.is_empty() {
            pipe.cmd("LPUSH").arg(self.key(&format!("{object}:events")));
            for event in events {
                pipe.arg(event);
            }
            pipe.ignore().cmd("LPUSH").arg(&self.queued).arg(object.as_str()).ignore();
        }
        Ok(())
    }

    /// Pushes events and does the producer's own writes, both or, when the object is full, neither. In a Cluster, all keys of `writes`
    /// have the queue's hash tag ([`RedisQueue::key`]).
    pub async fn push_with(
        &self,
        object: &ObjectName,
        events: &[Body],
        writes: &Pipeline,
    ) -> Result<(), PushError> {
        let object = ObjectName::new(object.as_str())?;
        let limit = self.limit.map_or_else(String::new, |limit| limit.to_string());
        let count = events.len().to_string();
        let mut arguments: Vec<&[u8]> = vec![object.as_str().as_bytes(), limit.as_bytes(), count.as_bytes()];
        arguments.extend(events.iter().map(Body::as_bytes));
        let writes = parts(writes);
        arguments.extend(writes.iter().map(Vec::as_slice));
        let answer =
            self.run("pushing events", &self.scripts.push, &arguments).await.map_err(StoreError::from)?;
        match (answer, self.limit) {
            (Value::Int(-1), _) => Ok(()),
            (Value::Int(queued), Some(limit)) => {
                let (queued, pushed) = (queued.unsigned_abs(), events.len() as u64);
                Err(PushError::Full { object, queued, pushed, limit })
            }
            (other, _) => {
                Err(StoreError::from(RedisError::answer("pushing events", format!("{other:?}"))).into())
            }
        }
    }
}

/// The commands of a pipeline, each as its number of parts and the parts.
fn parts(pipeline: &Pipeline) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for command in pipeline.cmd_iter() {
        parts.push(command.args_iter().len().to_string().into_bytes());
        for part in command.args_iter() {
            parts.push(match part {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => b"0".to_vec(),
            });
        }
    }
    parts
}
