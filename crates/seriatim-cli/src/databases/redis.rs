//! Redis as a store, and as the place of queues and ledgers.

use std::sync::Arc;

use seriatim::once::Ledger;
use seriatim::queue::Queue;
use seriatim_redis::{Prefix, Redis, RedisError, RedisLedger, RedisQueue, RedisStore};

use crate::config::QueueConfig;
use crate::error::{Error, Result};

/// What the keys of the program's store begin with.
const STORE: &str = "seriatim";

pub async fn open_store(url: &str) -> Result<Arc<RedisStore>> {
    let redis = Redis::connect(url).await.map_err(unusable)?;
    let prefix = Prefix::tagged(STORE).map_err(unusable)?;
    RedisStore::open(redis, prefix).map(Arc::new).map_err(unusable)
}

pub async fn ledger(url: &str) -> Result<Arc<dyn Ledger>> {
    let redis = Redis::connect(url).await.map_err(unusable)?;
    let prefix = Prefix::tagged(STORE).map_err(unusable)?;
    match RedisLedger::open(redis, prefix) {
        Ok(ledger) => Ok(Arc::new(ledger)),
        Err(error) => Err(unusable(error)),
    }
}

pub async fn queue(url: &str, queue: &QueueConfig) -> Result<Arc<dyn Queue>> {
    let redis = Redis::connect(url).await.map_err(unusable)?;
    let opened = RedisQueue::open(redis, Prefix::tagged(queue.name.as_str()).map_err(unusable)?);
    let opened = opened.map_err(unusable)?;
    Ok(match queue.limit {
        Some(limit) => Arc::new(opened.limited_to(limit)),
        None => Arc::new(opened),
    })
}

fn unusable(error: RedisError) -> Error {
    let failed = Error::failed(error.to_string());
    match error.remedy() {
        Some(remedy) => failed.help(remedy),
        None => failed.passing(),
    }
}
