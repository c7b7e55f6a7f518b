//! The queue keeps every promise of the contract, on a single server and on a Cluster of three.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::queue::Queue;
use seriatim_redis::{Prefix, Redis, RedisQueue};
use seriatim_testkit::queue::QueueHarness;

use crate::support;

struct OnRedis<S> {
    _server: Arc<S>,
    redis: Redis,
    prefix: Prefix,
}

impl<S> OnRedis<S> {
    async fn new(server: Arc<S>, url: String) -> Self {
        OnRedis {
            _server: server,
            redis: Redis::connect(&url).await.unwrap(),
            prefix: support::fresh_prefix(),
        }
    }

    fn queue(&self) -> RedisQueue {
        RedisQueue::open(self.redis.clone(), self.prefix.clone()).unwrap()
    }
}

#[async_trait]
impl<S: Send + Sync> QueueHarness for OnRedis<S> {
    async fn open(&self) -> Arc<dyn Queue> {
        Arc::new(self.queue())
    }

    async fn with_limit(&self, limit: u64) -> Arc<dyn Queue> {
        Arc::new(self.queue().limited_to(limit))
    }
}

async fn on_single() -> impl QueueHarness {
    let server = support::single();
    let url = server.url();
    OnRedis::new(server, url).await
}

async fn on_cluster() -> impl QueueHarness {
    let server = support::cluster();
    let url = server.url();
    OnRedis::new(server, url).await
}

mod single {
    use super::*;
    seriatim_testkit::queue_conformance!(on_single().await);
}

mod cluster {
    use super::*;
    seriatim_testkit::queue_conformance!(on_cluster().await);
}
