//! Redis as a store, and as the place of queues and ledgers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::once::Ledger;
use seriatim::queue::Queue;
use seriatim::source::Blocker;
use seriatim_redis::{Prefix, RedisError, RedisLedger, RedisQueue, RedisStore};

use super::backend::BackendStore;
use super::{Address, Backend, Database, Kind, OpenStore, QueueBackend};
use crate::commands::once::Form;
use crate::config::{QueueConfig, redacted};
use crate::error::{Error, Result};

pub const KIND: Kind = Kind { schemes: &["redis", "rediss"], read };

/// What the keys of the program's store begin with.
const STORE: &str = "seriatim";

/// A Redis server or Cluster.
struct Redis {
    url: String,
}

fn read(address: &Address<'_>) -> Result<Database, String> {
    if address.rest.strip_prefix("//").is_none_or(str::is_empty) {
        return Err("names no server: write \"redis://[user:password@]host[:port][/db]\"".to_owned());
    }
    let bad = |error: RedisError| super::refused(address, &error, error.remedy());
    seriatim_redis::Redis::check_url(address.url).map_err(bad)?;
    Ok(Arc::new(Redis { url: address.url.to_owned() }))
}

impl Redis {
    /// A connection, and what the keys begin with.
    async fn connect(&self, tag: &str) -> Result<(seriatim_redis::Redis, Prefix)> {
        let redis = seriatim_redis::Redis::connect(&self.url).await.map_err(unusable)?;
        Ok((redis, Prefix::tagged(tag).map_err(unusable)?))
    }
}

impl fmt::Display for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.url))
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis({self})")
    }
}

#[async_trait]
impl BackendStore for RedisStore {
    async fn risks(&self) -> Vec<Blocker> {
        RedisStore::risks(self).await
    }
}

/// There is nothing to make in Redis: an empty store, ledger or queue is one that nobody has used.
#[async_trait]
impl Backend for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn identity(&self) -> String {
        self.url.clone()
    }

    async fn open_store(&self) -> Result<OpenStore> {
        let (redis, prefix) = self.connect(STORE).await?;
        RedisStore::open(redis, prefix).map(OpenStore::new).map_err(unusable)
    }

    async fn existing_store(&self) -> Result<Option<OpenStore>> {
        self.open_store().await.map(Some)
    }

    async fn check_store(&self) -> Result<&'static str> {
        self.open_store().await.map(|_| "is there")
    }

    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>> {
        let (redis, prefix) = self.connect(STORE).await?;
        Ok(Arc::new(RedisLedger::open(redis, prefix).map_err(unusable)?))
    }

    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>> {
        self.open_ledger().await.map(Some)
    }

    async fn ledger_script(&self, _: Form) -> Result<String> {
        Err(Error::usage("nothing has to be made in Redis: leave `once init` out"))
    }

    async fn check_source(&self) -> Result<()> {
        self.open_store().await.map(drop)
    }

    fn queues(self: Arc<Self>) -> Option<Arc<dyn QueueBackend>> {
        Some(self)
    }
}

#[async_trait]
impl QueueBackend for Redis {
    async fn queue(&self, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
        let opened = self.open_queue(&queue.name).await?;
        Ok(Arc::new(queue.limit.into_iter().fold(opened, RedisQueue::limited_to)))
    }

    async fn existing_queue(&self, name: &FeedName) -> Result<Option<Arc<dyn Queue>>> {
        Ok(Some(Arc::new(self.open_queue(name).await?)))
    }
}

impl Redis {
    async fn open_queue(&self, name: &FeedName) -> Result<RedisQueue> {
        let (redis, prefix) = self.connect(name.as_str()).await?;
        RedisQueue::open(redis, prefix).map_err(unusable)
    }
}

fn unusable(error: RedisError) -> Error {
    let failed = Error::failed(error.to_string());
    match error.remedy() {
        Some(remedy) => failed.help(remedy),
        None => failed.passing(),
    }
}
