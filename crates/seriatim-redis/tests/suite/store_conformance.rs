//! The store keeps every promise of the contract, on a single server and on a Cluster of three.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::Store;
use seriatim_redis::{Prefix, Redis, RedisStore};
use seriatim_testkit::conformance::Harness;

use crate::support;

struct OnRedis<S> {
    _server: Arc<S>,
    redis: Redis,
    prefix: Prefix,
}

#[async_trait]
impl<S: Send + Sync> Harness for OnRedis<S> {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(RedisStore::open(self.redis.clone(), self.prefix.clone()).unwrap())
    }

    fn knows_the_dead(&self) -> bool {
        false
    }
}

async fn on<S>(server: Arc<S>, url: String) -> OnRedis<S> {
    OnRedis { _server: server, redis: Redis::connect(&url).await.unwrap(), prefix: support::fresh_prefix() }
}

async fn on_single() -> impl Harness {
    let server = support::single();
    let url = server.url();
    on(server, url).await
}

async fn on_cluster() -> impl Harness {
    let server = support::cluster();
    let url = server.url();
    on(server, url).await
}

mod single {
    use super::*;
    seriatim_testkit::conformance!(on_single().await);
}

mod cluster {
    use super::*;
    seriatim_testkit::conformance!(on_cluster().await);
}

/// Whoever waits hears at once that somebody asks for a lease: a planned hand-over does not wait for a renewal.
async fn is_woken(harness: impl Harness) {
    use seriatim_testkit::conformance::Stage;
    let stage = Stage::set(&harness).await;
    stage.ada_takes(0).await;
    let seen = stage.see(0).await;
    let waiting = stage.store.wait(std::time::Duration::from_secs(300));
    let asking = async {
        tokio::task::yield_now().await;
        assert!(stage.other.request_hand_over(&seen, &stage.bob.host).await.unwrap());
    };
    let both = async { tokio::join!(waiting, asking) };
    tokio::time::timeout(std::time::Duration::from_secs(30), both).await.expect("woken");
    // What a view has seen is no news.
    stage.store.view(&[]).await.unwrap();
    stage.store.wait(std::time::Duration::from_millis(30)).await;
}

#[tokio::test]
async fn who_waits_is_woken_by_a_request() {
    is_woken(on_single().await).await;
    is_woken(on_cluster().await).await;
}
