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

#[tokio::test]
async fn a_host_of_an_older_version_is_taken_out_once_it_is_silent_and_cannot_look_any_more() {
    let server = support::single();
    let harness = on(server.clone(), server.url()).await;
    let store = harness.open().await;
    let key = |name: &str| harness.prefix.key(name);
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let (old, hosts) = (key("host:old"), key("hosts"));
    let mut joins = redis::pipe();
    joins.cmd("HSET").arg(&old).arg("session").arg("s").arg("feeds").arg("[]").arg("beat").arg(7);
    joins.arg("seen").arg(0).arg("troubles").arg("[]").ignore().cmd("SADD").arg(&hosts).arg("old").ignore();
    joins.exec_async(&mut connection).await.unwrap();
    let older = store.older_hosts(&[]).await.unwrap();
    let [host] = older.as_slice() else { panic!("{older:?}") };
    assert_eq!((host.name.as_str(), host.beat), ("old", 7));
    assert_eq!(
        store.older_hosts(&[(host.session.clone(), 6)]).await.unwrap().len(),
        1,
        "it has beaten since"
    );
    assert_eq!(store.older_hosts(&[(host.session.clone(), 7)]).await.unwrap(), []);
    let expire = std::time::Duration::from_secs(10);
    store.join(&seriatim::HostName::new("new").unwrap(), &[], expire, None).await.unwrap();
    let looks: redis::RedisResult<Vec<String>> =
        redis::cmd("SMEMBERS").arg(&hosts).query_async(&mut connection).await;
    assert!(looks.unwrap_err().to_string().contains("WRONGTYPE"), "what older versions do with each look");
}

/// The server was emptied: what hosts remember brings the store's identity back, and nothing else.
#[tokio::test]
async fn an_emptied_store_is_given_its_identity_back() {
    let server = support::single();
    let harness = on(server.clone(), server.url()).await;
    let store = harness.open().await;
    let id = seriatim::name::StoreId::random();
    assert_eq!(store.adopt(&id).await.unwrap(), id);
    assert_eq!(store.identity().await.unwrap(), id);
    assert_eq!(store.adopt(&seriatim::name::StoreId::random()).await.unwrap(), id, "one that it has stays");
}
