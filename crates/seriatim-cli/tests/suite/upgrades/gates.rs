//! Gates of a version of before: what they applied and hold is known to this one.

use std::path::Path;
use std::sync::Arc;

use seriatim::name::{FeedName, ObjectName};
use seriatim::order::{Admit, Arrived, EventId, Gate, GateState, Limits, Link};
use seriatim_postgres::{Database, PostgresGateState};
use seriatim_redis::{Prefix, Redis, RedisGateState};
use seriatim_sqlite::SqliteGateState;

/// The gate of the fixtures, where this URL says.
async fn open(url: &str) -> Gate<Arc<dyn GateState>> {
    let gate = FeedName::new("partner").unwrap();
    let state: Arc<dyn GateState> = if let Some(path) = url.strip_prefix("sqlite:") {
        Arc::new(SqliteGateState::open(Path::new(path), &gate).await.unwrap())
    } else if url.starts_with("redis:") {
        let redis = Redis::connect(url).await.unwrap();
        Arc::new(RedisGateState::open(redis, Prefix::tagged("partner").unwrap()).unwrap())
    } else {
        Arc::new(PostgresGateState::open(Database::connect(url).unwrap(), &gate).await.unwrap())
    };
    Gate::open(state, Limits::default()).await.unwrap()
}

fn event(id: u64, prev: Option<u64>) -> Arrived {
    let link = Link::new(EventId(id), prev.map(EventId)).unwrap();
    Arrived { object: ObjectName::new("work:1").unwrap(), link, body: format!("{{\"id\":{id}}}") }
}

/// Puts a gate where `SERIATIM_GATE_IN` says: for `fixtures/make.sh`.
#[tokio::test]
#[ignore = "makes a fixture"]
async fn make_a_gate() {
    let mut gate = open(&std::env::var("SERIATIM_GATE_IN").unwrap()).await;
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(1, None)).await.unwrap(), None);
    assert_eq!(gate.admit(&event(3, Some(2))).await.unwrap(), Admit::Wait { prev: EventId(2) });
}

/// It knows what was applied, and gives back what is held.
#[tokio::main]
pub async fn goes_on(url: &str) {
    let mut gate = open(url).await;
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Duplicate);
    assert_eq!(gate.admit(&event(2, Some(1))).await.unwrap(), Admit::Apply);
    assert_eq!(gate.applied(&event(2, Some(1))).await.unwrap(), Some(event(3, Some(2))));
}
