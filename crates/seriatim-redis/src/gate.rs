//! A gate's state in Redis: one Lua script for each operation, in `scripts/gate`.

use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;
use seriatim::name::ObjectName;
use seriatim::order::{Arrived, EventId, GateState, Link};
use seriatim::store::StoreError;

use crate::connection::Redis;
use crate::error::RedisError;
use crate::parts::{Parts, strange};
use crate::prefix::Prefix;
use crate::script::{Script, string};

/// A script of a gate, with what all of them share before it.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../scripts/gate/common.lua"),
            include_str!(concat!("../scripts/gate/", $file))
        ))
    };
}

/// Keeps a gate's state in Redis: a consumer that starts again, anywhere, knows what it has applied and what it holds.
///
/// All keys of a gate share one hash tag, so a gate lives on one node of a Cluster. What a failover loses, the gate has not
/// seen: see `docs/redis.md`.
#[derive(Clone)]
pub struct RedisGateState {
    redis: Redis,
    prefix: Prefix,
    last: String,
    scripts: Arc<Scripts>,
}

struct Scripts {
    last: Script,
    advance: Script,
    hold: Script,
    held_after: Script,
    held: Script,
}

impl RedisGateState {
    /// The state of the gate with this prefix. Nothing has to be made before it is used.
    pub fn open(redis: Redis, prefix: Prefix) -> Result<Self, RedisError> {
        prefix.fits(&redis)?;
        let scripts = Scripts {
            last: script!("last.lua"),
            advance: script!("advance.lua"),
            hold: script!("hold.lua"),
            held_after: script!("held_after.lua"),
            held: script!("held.lua"),
        };
        Ok(RedisGateState { last: prefix.key("gate.last"), redis, prefix, scripts: Arc::new(scripts) })
    }

    async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[&str],
    ) -> Result<Value, RedisError> {
        let all = std::iter::once(self.prefix.as_str()).chain(arguments.iter().copied());
        let all: Vec<&[u8]> = all.map(str::as_bytes).collect();
        self.redis.run(doing, script, &self.last, &all).await
    }
}

fn number(id: Option<EventId>) -> String {
    id.map_or_else(String::new, |id| id.to_string())
}

fn event_id(text: &str) -> Option<EventId> {
    text.parse().ok().map(EventId)
}

/// An event of this object from its id and `PREV:BODY`.
fn arrived(object: ObjectName, parts: &mut Parts) -> Result<Arrived, RedisError> {
    let id = EventId(parts.number()?);
    let kept = parts.text()?;
    let (prev, body) = kept.split_once(':').ok_or_else(|| strange(&kept))?;
    let link = Link::new(id, event_id(prev)).map_err(strange)?;
    Ok(Arrived { object, link, body: body.to_owned() })
}

#[async_trait]
impl GateState for RedisGateState {
    async fn last(&self, object: &ObjectName) -> Result<Option<EventId>, StoreError> {
        let answer = self.run("asking a gate", &self.scripts.last, &[object.as_str()]).await?;
        let shown = format!("{answer:?}");
        let text = string(answer).ok_or_else(|| strange(&shown))?;
        match text.is_empty() {
            true => Ok(None),
            false => {
                let id = event_id(&String::from_utf8_lossy(&text));
                Ok(Some(id.ok_or_else(|| strange(&shown))?))
            }
        }
    }

    async fn advance(
        &self,
        object: &ObjectName,
        from: Option<EventId>,
        to: EventId,
    ) -> Result<bool, StoreError> {
        let (from, to) = (number(from), to.to_string());
        let moved = self.run("moving a gate", &self.scripts.advance, &[object.as_str(), &from, &to]).await?;
        Ok(moved == Value::Int(1))
    }

    async fn hold(&self, event: &Arrived) -> Result<(), StoreError> {
        let (id, prev) = (event.link.id().to_string(), number(event.link.prev()));
        let arguments = [event.object.as_str(), &id, &prev, &event.body];
        self.run("holding an event", &self.scripts.hold, &arguments).await?;
        Ok(())
    }

    async fn held_after(
        &self,
        object: &ObjectName,
        prev: Option<EventId>,
    ) -> Result<Option<Arrived>, StoreError> {
        let prev = number(prev);
        let answer = self.run("asking a gate", &self.scripts.held_after, &[object.as_str(), &prev]).await?;
        let mut parts = Parts::of(answer)?;
        match parts.0.len() {
            0 => Ok(None),
            _ => Ok(Some(arrived(object.clone(), &mut parts)?)),
        }
    }

    async fn held(&self) -> Result<Vec<Arrived>, StoreError> {
        let mut parts = Parts::of(self.run("asking a gate", &self.scripts.held, &[]).await?)?;
        let mut held = Vec::new();
        while parts.0.len() > 0 {
            let object = ObjectName::found(&parts.text()?);
            held.push(arrived(object, &mut parts)?);
        }
        held.sort_by(|one: &Arrived, other| {
            (&one.object, one.link.id()).cmp(&(&other.object, other.link.id()))
        });
        Ok(held)
    }
}

impl std::fmt::Debug for RedisGateState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisGateState").field("prefix", &self.prefix.as_str()).finish_non_exhaustive()
    }
}
