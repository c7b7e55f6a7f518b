//! A gate's state in Redis keeps every promise, on a single server and on a Cluster of three.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::order::GateState;
use seriatim_redis::{Prefix, Redis, RedisGateState};
use seriatim_testkit::gate::GateHarness;

use crate::support;

struct OnRedis<S> {
    _server: Arc<S>,
    redis: Redis,
    prefix: Prefix,
}

#[async_trait]
impl<S: Send + Sync> GateHarness for OnRedis<S> {
    async fn open(&self) -> Arc<dyn GateState> {
        Arc::new(RedisGateState::open(self.redis.clone(), self.prefix.clone()).unwrap())
    }
}

async fn on<S>(server: Arc<S>, url: String) -> OnRedis<S> {
    let redis = Redis::connect(&url).await.unwrap();
    OnRedis { _server: server, redis, prefix: support::fresh_prefix() }
}

async fn on_single() -> impl GateHarness {
    let server = support::single();
    let url = server.url();
    on(server, url).await
}

async fn on_cluster() -> impl GateHarness {
    let server = support::cluster();
    let url = server.url();
    on(server, url).await
}

mod single {
    use super::*;
    seriatim_testkit::gate_conformance!(on_single().await);
}

mod cluster {
    use super::*;
    seriatim_testkit::gate_conformance!(on_cluster().await);
}
