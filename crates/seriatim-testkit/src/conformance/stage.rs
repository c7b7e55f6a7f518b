//! What most promises need: two hosts with a handle each, and a feed.

use std::sync::Arc;
use std::time::Duration;

use seriatim::change::{Change, Op, Position};
use seriatim::lease::{Lease, LeaseView, Sighting};
use seriatim::name::{FeedName, HostName, Partition};
use seriatim::store::{Checkpoint, ParkedFailure, ParkedState, Parking, Session, Store};
use seriatim::value::{Columns, Key, Row, Value};

use super::Harness;

/// The expiry that hosts of these tests publish.
pub(super) const EXPIRE: Duration = Duration::from_millis(10_007);

/// Ada and Bob, each with a handle on one store, and the feed `totals` of four partitions at position 10.
pub struct Stage {
    /// Ada's handle.
    pub store: Arc<dyn Store>,
    /// Ada, joined.
    pub ada: Session,
    /// Bob's handle on the same store.
    pub other: Arc<dyn Store>,
    /// Bob, joined.
    pub bob: Session,
    /// The feed.
    pub feed: FeedName,
}

impl Stage {
    /// Sets the stage on an empty store.
    pub async fn set(harness: &impl Harness) -> Self {
        let (store, other) = (harness.open().await, harness.open().await);
        let feed = feed("totals");
        store.ensure(&feed, 4, &at(10)).await.expect("a new feed");
        let feeds = std::slice::from_ref(&feed);
        let ada = store.join(&host("ada"), feeds, EXPIRE, None).await.expect("a free name");
        let bob = other.join(&host("bob"), feeds, EXPIRE, None).await.expect("a free name");
        Stage { store, ada, other, bob, feed }
    }

    /// A lease as everybody sees it now.
    pub async fn see(&self, partition: u32) -> LeaseView {
        let view = self.store.view(std::slice::from_ref(&self.feed)).await.expect("a view");
        let of_partition = |lease: &LeaseView| lease.id.partition == Partition(partition);
        view.leases.into_iter().find(of_partition).expect("a lease for each partition")
    }

    /// A lease as everybody sees it now, with its owner's sign of life.
    pub async fn sight(&self, partition: u32) -> Sighting {
        let view = self.store.view(std::slice::from_ref(&self.feed)).await.expect("a view");
        let of_partition = |lease: &&LeaseView| lease.id.partition == Partition(partition);
        view.sighting(view.leases.iter().find(of_partition).expect("a lease for each partition"))
    }

    /// Ada takes a lease.
    pub async fn ada_takes(&self, partition: u32) -> Lease {
        take(&*self.store, &self.ada, &self.sight(partition).await).await
    }

    /// Bob takes a lease, whoever has it.
    pub async fn bob_takes(&self, partition: u32) -> Lease {
        take(&*self.other, &self.bob, &self.sight(partition).await).await
    }
}

/// Takes a lease that nobody else is after.
pub(super) async fn take(store: &dyn Store, session: &Session, seen: &Sighting) -> Lease {
    store.acquire(session, seen).await.expect("a store that works").expect("nobody was faster")
}

pub(super) fn feed(name: &str) -> FeedName {
    FeedName::new(name).expect("a good name")
}

pub(super) fn host(name: &str) -> HostName {
    HostName::new(name).expect("a good name")
}

pub(super) fn at(position: u64) -> Position {
    Position::number(position)
}

pub(super) fn to(position: u64) -> Checkpoint {
    Checkpoint::at(at(position))
}

/// A change of the object `{"id": key}` in partition 0.
pub(super) fn change(id: u64, key: i64) -> Change {
    let row = |amount| Row::new(Columns::new(["id", "amount"]), [Value::Integer(key), amount]);
    Change {
        feed: feed("totals"),
        partition: Partition(0),
        position: at(id),
        key: Some(Key::of("id", Value::Integer(key))),
        op: Op::Update,
        at: "2026-11-15T08:00:00.123456789Z".parse().expect("a time"),
        before: Some(row(Value::Real(f64::NEG_INFINITY))),
        after: Some(row(Value::Bytes([0, 0xff].into()))),
        id,
        prev: Some(u64::MAX),
    }
}

/// The change fails, for the reason given.
pub(super) fn failed(change: Change, error: &str, attempts: u32) -> Parking {
    let state = ParkedState::Parked;
    Parking {
        change,
        failure: Some(ParkedFailure { error: error.to_owned(), attempts, state, next_try: None }),
    }
}

/// The change fails, and is tried again.
pub(super) fn steps_aside(change: Change, error: &str, attempts: u32) -> Parking {
    let state = ParkedState::Retrying;
    Parking {
        change,
        failure: Some(ParkedFailure { error: error.to_owned(), attempts, state, next_try: None }),
    }
}

/// The change waits behind one that failed.
pub(super) fn waits(change: Change) -> Parking {
    Parking { change, failure: None }
}
