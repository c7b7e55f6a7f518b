//! Workers as real processes: killed with -9 at random, stopped beyond their lease and resumed.

use std::sync::Arc;

use seriatim_redis::{Prefix, Redis, RedisQueue};
use seriatim_testkit::queue::processes::{Again, WORKER, chaos, work};

use crate::support;

const URL: &str = "SERIATIM_TEST_REDIS";
const PREFIX: &str = "SERIATIM_TEST_PREFIX";

async fn queue(url: &str, prefix: &Prefix) -> Arc<RedisQueue> {
    Arc::new(RedisQueue::open(Redis::connect(url).await.unwrap(), prefix.clone()).unwrap())
}

#[tokio::test]
async fn the_child() {
    if std::env::var(WORKER).is_ok() {
        let variable = |name| std::env::var(name).unwrap();
        work(queue(&variable(URL), &Prefix::exactly(&variable(PREFIX))).await).await;
    }
}

async fn chaos_on(url: String) {
    let prefix = support::fresh_prefix();
    let environment = vec![(URL, url.clone()), (PREFIX, prefix.as_str().to_owned())];
    chaos(queue(&url, &prefix).await, Again { test: "queue_processes::the_child", environment }).await;
}

#[tokio::test]
async fn every_chain_is_whole_whoever_is_killed_or_stopped() {
    let server = support::single();
    chaos_on(server.url()).await;
}

#[tokio::test]
async fn every_chain_is_whole_on_a_cluster_too() {
    let cluster = support::cluster();
    chaos_on(cluster.url()).await;
}
