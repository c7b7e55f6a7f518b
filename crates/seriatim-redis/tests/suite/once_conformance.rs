//! The ledger keeps every promise of the contract, on a single server and on a Cluster of three.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;
use seriatim_redis::{Prefix, Redis, RedisLedger};
use seriatim_testkit::once_conformance::LedgerHarness;

use crate::support;

struct OnRedis<S> {
    _server: Arc<S>,
    url: String,
    prefix: Prefix,
}

#[async_trait]
impl<S: Send + Sync> LedgerHarness for OnRedis<S> {
    async fn open(&self) -> Arc<dyn Ledger> {
        let redis = Redis::connect(&self.url).await.unwrap();
        Arc::new(RedisLedger::open(redis, self.prefix.clone()).unwrap())
    }
}

fn on_single() -> impl LedgerHarness {
    let server = support::single();
    let url = server.url();
    OnRedis { _server: server, url, prefix: support::fresh_prefix() }
}

fn on_cluster() -> impl LedgerHarness {
    let server = support::cluster();
    let url = server.url();
    OnRedis { _server: server, url, prefix: support::fresh_prefix() }
}

mod single {
    use super::*;
    seriatim_testkit::once_conformance!(on_single());
}

mod cluster {
    use super::*;
    seriatim_testkit::once_conformance!(on_cluster());
}
