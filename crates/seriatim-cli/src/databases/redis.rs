//! Redis as a store, and as the place of queues and ledgers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::once::Ledger;
use seriatim::order::GateState;
use seriatim::queue::Queue;
use seriatim::source::Blocker;
use seriatim_redis::{Adopted, Prefix, RedisError, RedisGateState, RedisLedger, RedisQueue, RedisStore};

use super::backend::BackendStore;
use super::{Address, Backend, Database, Kind, OpenStore, Place, QueueBackend};
use crate::commands::once::Form;
use crate::config::{QueueConfig, redacted};
use crate::error::{Error, Result};

pub const KIND: Kind = Kind { schemes: &["redis", "rediss"], read };

/// What the keys of the program's store begin with.
const STORE: &str = "seriatim";

/// A Redis server or Cluster.
struct Redis {
    /// The address as it was given.
    given: String,
    /// The same without settings of Seriatim's own.
    url: String,
    /// What the keys of the store, its ledger and its gates begin with, as a hash tag.
    store: String,
}

/// Takes the setting `prefix` out of the parameters of an address.
fn without_prefix(url: &str) -> (String, Option<String>) {
    let Some((place, parameters)) = url.split_once('?') else { return (url.to_owned(), None) };
    let prefix = parameters.split('&').find_map(|parameter| parameter.strip_prefix("prefix="));
    let rest: Vec<&str> =
        parameters.split('&').filter(|parameter| !parameter.starts_with("prefix=")).collect();
    match rest.join("&") {
        rest if rest.is_empty() => (place.to_owned(), prefix.map(str::to_owned)),
        rest => (format!("{place}?{rest}"), prefix.map(str::to_owned)),
    }
}

fn read(address: &Address<'_>) -> Result<Database, String> {
    if address.rest.strip_prefix("//").is_none_or(str::is_empty) {
        return Err("names no server: write \"redis://[user:password@]host[:port][/db]\"".to_owned());
    }
    let bad = |error: RedisError| super::refused(address, &error, error.remedy());
    let (url, prefix) = without_prefix(address.url);
    seriatim_redis::Redis::check_url(&url).map_err(bad)?;
    let store = prefix.unwrap_or_else(|| STORE.to_owned());
    Prefix::tagged(&store).map_err(bad)?;
    Ok(Arc::new(Redis { given: address.url.to_owned(), url, store }))
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
        f.write_str(&redacted(&self.given))
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
        self.given.clone()
    }

    async fn open_store(&self) -> Result<OpenStore> {
        let (redis, prefix) = self.connect(&self.store).await?;
        RedisStore::open(redis, prefix).map(OpenStore::new).map_err(unusable)
    }

    async fn existing_store(&self) -> Result<Option<OpenStore>> {
        self.open_store().await.map(Some)
    }

    async fn check_store(&self) -> Result<&'static str> {
        self.open_store().await.map(|_| "is there")
    }

    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>> {
        let (redis, prefix) = self.connect(&self.store).await?;
        Ok(Arc::new(RedisLedger::open(redis, prefix).map_err(unusable)?))
    }

    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>> {
        self.open_ledger().await.map(Some)
    }

    async fn ledger_script(&self, _: Form) -> Result<String> {
        Err(Error::usage("nothing has to be made in Redis: leave `once init` out"))
    }

    async fn gate(&self, name: &FeedName) -> Result<Arc<dyn GateState>> {
        let (redis, prefix) = self.connect(name.as_str()).await?;
        Ok(Arc::new(RedisGateState::open(redis, prefix).map_err(unusable)?))
    }

    async fn purge(&self, _: Place, _: bool) -> Result<Option<String>> {
        let (redis, prefix) = self.connect(STORE).await?;
        let shown = prefix.as_str().to_owned();
        let keys = RedisStore::open(redis, prefix).map_err(unusable)?.purge().await.map_err(unusable)?;
        Ok((keys > 0).then(|| format!("{keys} keys that begin with {shown} removed")))
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
        let opened = self.open_queue(&queue.name, queue.prefix.as_deref()).await?;
        Ok(Arc::new(queue.limit.into_iter().fold(opened, RedisQueue::limited_to)))
    }

    async fn existing_queue(&self, name: &FeedName) -> Result<Option<Arc<dyn Queue>>> {
        Ok(Some(Arc::new(self.open_queue(name, None).await?)))
    }

    async fn existing(&self, queue: &QueueConfig) -> Result<Option<Arc<dyn Queue>>> {
        Ok(Some(Arc::new(self.open_queue(&queue.name, queue.prefix.as_deref()).await?)))
    }

    async fn adopt(&self, queue: &QueueConfig) -> Result<Vec<String>> {
        let adopted = self.open_queue(&queue.name, queue.prefix.as_deref()).await?.adopt().await?;
        let said = |Adopted { worker, object, id }: Adopted| match id {
            Some(id) => format!("{object}: event {id} of worker {worker} is sent next"),
            None => format!("{object}: taken from worker {worker}, which was sending nothing of it"),
        };
        Ok(adopted.into_iter().map(said).collect())
    }
}

impl Redis {
    async fn open_queue(&self, name: &FeedName, prefix: Option<&str>) -> Result<RedisQueue> {
        let (redis, tagged) = self.connect(name.as_str()).await?;
        let prefix = prefix.map_or(tagged, Prefix::exactly);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_the_store_is_no_part_of_the_servers_address() {
        let parted = |url: &str| without_prefix(url);
        assert_eq!(parted("redis://h/2"), ("redis://h/2".to_owned(), None));
        assert_eq!(parted("redis://h/2?prefix=shop"), ("redis://h/2".to_owned(), Some("shop".to_owned())));
        let both = parted("redis://h/?protocol=resp3&prefix=shop");
        assert_eq!(both, ("redis://h/?protocol=resp3".to_owned(), Some("shop".to_owned())));
    }
}
