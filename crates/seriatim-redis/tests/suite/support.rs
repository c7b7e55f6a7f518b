//! A Redis server and a Cluster, shared by the tests that run at the same time; each test has a prefix of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use seriatim_redis::Prefix;
use seriatim_testkit::servers;

static SINGLE: Mutex<Weak<servers::Redis>> = Mutex::new(Weak::new());
static CLUSTER: Mutex<Weak<servers::RedisCluster>> = Mutex::new(Weak::new());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The server that somebody uses already, or a new one. It ends with the last test that uses it.
fn shared<T>(running: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut running = running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(start());
        *running = Arc::downgrade(&server);
        server
    })
}

pub fn single() -> Arc<servers::Redis> {
    shared(&SINGLE, || servers::Redis::start().unwrap())
}

pub fn cluster() -> Arc<servers::RedisCluster> {
    shared(&CLUSTER, || servers::Redis::start_cluster().unwrap())
}

/// A prefix that no other test has.
pub fn fresh_prefix() -> Prefix {
    Prefix::tagged(&format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed))).unwrap()
}
