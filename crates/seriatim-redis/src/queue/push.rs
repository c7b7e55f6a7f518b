//! Pushing events together with the producer's own writes.

use redis::{Arg, Pipeline, ToRedisArgs, Value};
use seriatim::name::{BadName, ObjectName};
use seriatim::queue::{Body, PushError};
use seriatim::store::StoreError;

use super::RedisQueue;
use crate::error::RedisError;
use crate::script::strings;

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

    /// Pushes events and does the producer's own writes, in one script: both, or neither when the object is full or one of the writes
    /// fails. In a Cluster, all keys of `writes` have the queue's hash tag ([`RedisQueue::key`]).
    ///
    /// Redis itself undoes nothing. So the keys of all writes but the last are copied before, and put back when a later one fails; a
    /// key of more than 1 MiB is not copied, and the push refused: put its command last. The same for commands that cannot be
    /// undone because they have no keys, but for `PUBLISH` and `SPUBLISH`, which come after everything else.
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
            (Value::Array(answer), _) => Err(StoreError::from(refused(Value::Array(answer))).into()),
            (other, _) => {
                Err(StoreError::from(RedisError::answer("pushing events", format!("{other:?}"))).into())
            }
        }
    }
}

/// The script's reason, which is the first part after the word for it.
fn refused(answer: Value) -> RedisError {
    let parts = strings(answer).unwrap_or_default();
    let why = parts.get(1).map_or_else(String::new, |why| String::from_utf8_lossy(why).into_owned());
    RedisError::refused(
        "pushing events",
        format!("{why}; nothing was written"),
        "correct the command; or put it last; or push with push_to in a MULTI of your own, where Redis undoes nothing",
    )
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
