//! The sink `redis_stream`: changes as entries of a Redis Stream, each once.
//!
//! ```text
//!   {orders}  stream             entries with ids of Redis' own, in the order in which they came
//!             …:FEED:held        of each object the last change in the stream: a second sending adds nothing
//!             …:FEED:epochs      of each partition the newest epoch: an owner of before is refused
//! ```
//!
//! One script checks, appends and notes, in one step, so a crash of anybody at any moment leaves all of it or nothing. The books
//! know objects, not positions: lanes, partitions and retried objects interleave in the stream, and the ids of a stream rise.
//! All keys of a stream share its hash tag, so they are in one slot of a Cluster.

mod entry;
mod risks;

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::lease::Lease;
use seriatim::source::Blocker;
use seriatim::value::Key;
use seriatim::{Change, Context, Failure, Handler, Partition};
use seriatim_redis::redis::{Value, cmd};
use seriatim_redis::{Redis, RedisError, Script, strings};
use thiserror::Error;
use tokio::sync::OnceCell;

use crate::generations::Generations;
use crate::memory::{Generation, Mark};
use crate::sink::{Guarantee, Memory, Sink, Unit};
use crate::{Envelope, Template, envelope};
use entry::{Arguments, object};

/// At most so many changes go into one call of the script: Redis does nothing else meanwhile.
const MOST_AT_ONCE: usize = 500;

/// A larger change is not sent: Redis would close the connection.
const MOST_BYTES: usize = 64 << 20;

/// A stream, and how changes go into it.
#[derive(Clone)]
pub struct StreamSettings {
    /// Where Redis is: `redis://…` or `rediss://…`.
    pub url: String,
    /// The key of the stream.
    pub stream: String,
    /// The feed, by whose name the books are kept.
    pub feed: String,
    /// The field `key` of entries; the object's key where there is none.
    pub key: Option<Template>,
    /// About so many entries are kept; older ones are dropped, read or not. `None` keeps all.
    pub most_entries: Option<u64>,
    /// The form of changes.
    pub envelope: Envelope,
    /// In which life the feed's partitions are. `None` where the ids of its changes do not rise: then nothing is remembered.
    pub generations: Option<Arc<dyn Generations>>,
}

/// Why changes cannot go into this stream.
#[derive(Debug, Error)]
pub enum BadStream {
    /// The name cannot be a key beside which books are kept.
    #[error(
        "is {0:?}, in which the braces of a hash tag are missing or empty: write \"orders\" or \"{{shop}}orders\""
    )]
    Name(String),
    /// The address is none.
    #[error(transparent)]
    Url(#[from] RedisError),
}

/// Handles changes by appending them to a stream. See the [module](self).
pub struct RedisStream {
    settings: StreamSettings,
    books: String,
    script: Script,
    redis: OnceCell<Redis>,
}

impl RedisStream {
    /// Connects to nothing yet.
    pub fn new(settings: StreamSettings) -> Result<Self, BadStream> {
        Redis::check_url(&settings.url)?;
        let tag = hash_tag(&settings.stream).ok_or_else(|| BadStream::Name(settings.stream.clone()))?;
        let books = format!("{{{tag}}}:seriatim:{}:", settings.feed);
        let script = Script::new(include_str!("../../scripts/stream_add.lua"));
        Ok(RedisStream { settings, books, script, redis: OnceCell::new() })
    }

    /// The guarantee, where the ids of changes rise for each object, or do not.
    pub fn guarantee_with(ids_rise: bool) -> Guarantee {
        if ids_rise { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce }
    }

    /// Whether Redis is there, and the key can be a stream.
    pub async fn reach(&self) -> Result<(), Failure> {
        let kind = cmd("TYPE").arg(&self.settings.stream).to_owned();
        let kind =
            self.connected().await?.query(&kind).await.map_err(|error| Failure::target(error.to_string()))?;
        match kind {
            Value::SimpleString(kind) if kind != "stream" && kind != "none" => Err(Failure::target(format!(
                "the key {:?} in Redis is a {kind}, not a stream",
                self.settings.stream
            ))),
            _ => Ok(()),
        }
    }

    /// The settings of the server under which acknowledged changes can be lost. A server that does not tell has none here.
    pub async fn risks(&self) -> Vec<Blocker> {
        match self.connected().await {
            Ok(redis) => risks::of(redis).await,
            Err(_) => Vec::new(),
        }
    }

    async fn connected(&self) -> Result<&Redis, Failure> {
        self.redis.get_or_try_init(|| Redis::connect(&self.settings.url)).await.map_err(failure)
    }

    /// Appends these changes in one step, those that are not held.
    async fn append(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let lease = &context.lease;
        let own = self.generation(lease, lease.id.partition).await?;
        let mut arguments =
            Arguments::begin(&self.books, lease, own, self.settings.most_entries, changes.len());
        for (place, change) in changes.iter().enumerate() {
            let mark = match self.generation(lease, change.partition).await? {
                Some(generation) => Mark::of(change, generation).to_string(),
                None => String::new(),
            };
            let bytes = arguments.add(change, &mark, self.key_of(change), &self.settings.envelope);
            if bytes > MOST_BYTES {
                return Err(Failure::poison(format!(
                    "the change has {bytes} bytes; {MOST_BYTES} go into a stream"
                ))
                .at(place));
            }
        }
        let answer = self.run(&arguments).await?;
        refusal(answer, lease, &self.settings.stream).map_or(Ok(()), Err)
    }

    /// The key that consumers route by. A change of everything has none.
    fn key_of(&self, change: &Change) -> Option<String> {
        match &self.settings.key {
            Some(template) => template.render(change, str::to_owned),
            None => envelope::subject(change),
        }
    }

    async fn run(&self, arguments: &Arguments) -> Result<Value, Failure> {
        let redis = self.connected().await?;
        redis
            .run("appending to a stream", &self.script, &self.settings.stream, &arguments.as_slices())
            .await
            .map_err(failure)
    }

    async fn generation(&self, lease: &Lease, partition: Partition) -> Result<Option<Generation>, Failure> {
        match &self.settings.generations {
            Some(generations) => generations.of(lease, partition).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Every change would fail: nothing of this is a change's fault.
fn failure(error: RedisError) -> Failure {
    match error.remedy() {
        Some(remedy) => Failure::target(format!("{error}; {remedy}")),
        None => Failure::target(error),
    }
}

/// The script's refusal, if it is one.
fn refusal(answer: Value, lease: &Lease, stream: &str) -> Option<Failure> {
    let mut words = strings(answer)
        .unwrap_or_default()
        .into_iter()
        .map(|word| String::from_utf8_lossy(&word).into_owned());
    match (words.next().as_deref(), words.next()) {
        (Some("added"), _) => None,
        (Some("fenced"), Some(newest)) => Some(Failure::target(format!(
            "stream {stream} refuses {lease_id} at epoch {epoch}: it has seen {newest}, of a later owner or of a later life of the feed",
            lease_id = lease.id,
            epoch = lease.epoch
        ))),
        (said, _) => Some(Failure::target(format!("stream {stream} answered {said:?}"))),
    }
}

impl Sink for RedisStream {
    fn guarantee() -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn memory(&self) -> Option<&dyn Memory> {
        self.settings.generations.is_some().then_some(self)
    }
}

#[async_trait]
impl Memory for RedisStream {
    fn unit(&self) -> Unit {
        Unit::Object
    }

    async fn last(&self, _: &Lease, key: &Key) -> Result<Option<Mark>, Failure> {
        let asked = cmd("HGET").arg(format!("{}held", self.books)).arg(object(key)).to_owned();
        let held = self
            .connected()
            .await?
            .query(&asked)
            .await
            .map_err(|error| Failure::target(error.to_string()))?;
        let text = seriatim_redis::string(held).and_then(|text| String::from_utf8(text).ok());
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

#[async_trait]
impl Handler for RedisStream {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        for (index, some) in changes.chunks(MOST_AT_ONCE).enumerate() {
            self.append(some, context).await.map_err(|failure| match failure.culprit {
                Some(culprit) => failure.at(index * MOST_AT_ONCE + culprit),
                None => failure,
            })?;
        }
        Ok(())
    }

    fn time_for(&self, _: usize, _: std::time::Duration) -> std::time::Duration {
        // Each step has its own limit, and one that runs out of it is the target's fault, not a change's.
        std::time::Duration::MAX
    }
}

/// The part of a key that decides its slot in a Cluster: the text in its first braces, or all of it.
fn hash_tag(key: &str) -> Option<&str> {
    let Some((_, rest)) = key.split_once('{') else {
        return Some(key).filter(|key| !key.is_empty() && !key.contains('}'));
    };
    let (tag, _) = rest.split_once('}')?;
    Some(tag).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_are_in_the_slot_of_their_stream() {
        assert_eq!(hash_tag("orders"), Some("orders"));
        assert_eq!(hash_tag("{shop}orders"), Some("shop"));
        assert_eq!(hash_tag("a:{shop}:{x}"), Some("shop"));
        for odd in ["", "{}orders", "a{b", "a}b"] {
            assert_eq!(hash_tag(odd), None, "{odd}");
        }
    }
}
