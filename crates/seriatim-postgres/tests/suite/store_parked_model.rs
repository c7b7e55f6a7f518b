//! Owners, people who retry and people who discard, all at once on a few objects: no change is lost, doubled or handled out of
//! order, no operation fails, and nobody waits for each other.
//!
//! ```text
//!   live 1, 2, 3, … ──▶ owner (two fight for each lease) ──▶ seen, or parked ──▶ seen again by an owner, or discarded by a person
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seriatim::handler::{CommitError, TransactionalHandler};
use seriatim::lease::{Lease, LeaseView};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarding, ParkedFailure, ParkedObject, ParkedState, Parking,
    Session, Store, Unparking,
};
use seriatim::{Change, Failure, Key, Partition, Position, Value};
use seriatim_postgres::tokio_postgres::Transaction;
use seriatim_postgres::{InTransaction, PostgresStore, in_transaction};
use tokio::task::JoinSet;

use crate::support::{Place, change, context, feed, join};

const PARTITIONS: u32 = 2;
/// How many changes each partition has.
const CHANGES: u64 = 100;
/// How many objects they are of, in each partition.
const OBJECTS: u64 = 2;
/// How many changes people drop at least: until then the later half of all changes fails.
const DROPPED: u64 = 6;

/// What all tasks share.
struct Fleet {
    store: PostgresStore,
    session: Session,
    /// All live changes are passed: from now on nothing fails any more.
    healing: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

/// The number of a change tells its partition, too.
fn live(partition: Partition, number: u64) -> Change {
    let id = u64::from(partition.0) * 1_000_000 + number;
    let key = i64::from(partition.0) * 100 + (number % OBJECTS).cast_signed();
    Change { partition, ..change(id, key, Value::Null) }
}

fn objects() -> Vec<Key> {
    let partitions = (0..PARTITIONS).map(Partition);
    let changes = partitions.flat_map(|partition| (0..OBJECTS).map(move |number| live(partition, number)));
    changes.filter_map(|change| change.key).collect()
}

async fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in changes {
        let key = change.key.as_ref().map(ToString::to_string);
        transaction
            .execute("insert into seen (id, key) values ($1, $2)", &[&change.id.cast_signed(), &key])
            .await?;
    }
    Ok(())
}

fn fails(change: Change) -> Parking {
    let state = if fastrand::u8(..3) == 0 { ParkedState::Retrying } else { ParkedState::Parked };
    Parking {
        change,
        failure: Some(ParkedFailure { error: "no".to_owned(), attempts: 1, state, next_try: None }),
    }
}

/// One owner's hold on a lease.
struct Owner<'f, H> {
    fleet: &'f Fleet,
    handler: &'f H,
    lease: Lease,
    at: u64,
}

/// The lease is somebody else's now.
struct Lost;

impl<H: TransactionalHandler> Owner<'_, H> {
    fn position(&self) -> Position {
        Position::number(self.at)
    }

    async fn parked(&self, key: &Key) -> Option<ParkedObject> {
        self.fleet.store.parked_object(&feed(), key).await.unwrap()
    }

    async fn save(&self, checkpoint: &Checkpoint) -> Result<(), Lost> {
        match self.fleet.store.checkpoint(&self.lease, checkpoint).await {
            Ok(()) => Ok(()),
            Err(CheckpointError::Fenced { .. }) => Err(Lost),
            Err(error) => panic!("{error}"),
        }
    }

    async fn handle(&self, changes: &[Change], checkpoint: &Checkpoint) -> Result<(), Lost> {
        match self.handler.handle_and_checkpoint(changes, checkpoint, &context(&self.lease)).await {
            Ok(()) => Ok(()),
            Err(CommitError::Fenced { .. }) => Err(Lost),
            Err(error) => panic!("{error}"),
        }
    }

    /// Owners can be so fast that people find nothing to drop: then what is left waits for them.
    fn owes_discards(&self) -> bool {
        self.at >= CHANGES / 2 && self.fleet.dropped.load(Ordering::Relaxed) < DROPPED
    }

    /// The next change of the live stream: handled, parked because it fails, or parked behind others.
    async fn pass_one(&mut self) -> Result<(), Lost> {
        let next = live(self.lease.id.partition, self.at + 1);
        let parked = self.parked(next.key.as_ref().unwrap()).await;
        self.at += 1;
        match parked {
            Some(_) => {
                let waits = Parking { change: next, failure: None };
                self.save(&Checkpoint::parking(self.position(), vec![waits])).await
            }
            None if !self.owes_discards() && fastrand::bool() => {
                self.handle(&[next], &Checkpoint::at(self.position())).await
            }
            None => self.save(&Checkpoint::parking(self.position(), vec![fails(next)])).await,
        }
    }

    /// Tries an object again that is there for it; sometimes its next live change is parked in the same step.
    async fn try_again(&mut self, key: &Key) -> Result<(), Lost> {
        let parked = self.parked(key).await;
        let is_left_alone = |object: ParkedObject| object.failure.state == ParkedState::Parked;
        if self.owes_discards() || parked.is_none_or(is_left_alone) {
            return Ok(());
        }
        let changes = self.fleet.store.parked_changes(&feed(), key, fastrand::usize(1..4)).await.unwrap();
        let Some(first) = changes.first() else { panic!("{key} is parked with no change") };
        if !self.fleet.healing.load(Ordering::Relaxed) && fastrand::u8(..4) == 0 {
            let again = fails(first.clone());
            return self.save(&Checkpoint::parking(self.position(), vec![again])).await;
        }
        let ids = changes.iter().map(|change| change.id).collect();
        let mut done = Checkpoint {
            unparked: vec![Unparking { key: key.clone(), ids }],
            ..Checkpoint::at(self.position())
        };
        let next = live(self.lease.id.partition, self.at + 1);
        if self.at < CHANGES && next.key.as_ref() == Some(key) {
            self.at += 1;
            done.position = self.position();
            done.parked.push(Parking { change: next, failure: None });
        }
        self.handle(&changes, &done).await
    }

    async fn step(&mut self) -> Result<(), Lost> {
        if self.at < CHANGES && fastrand::bool() {
            self.pass_one().await
        } else {
            let keys = objects();
            let mine: Vec<&Key> = keys.iter().filter(|key| self.is_mine(key)).collect();
            self.try_again(mine[fastrand::usize(..mine.len())]).await
        }
    }

    fn is_mine(&self, key: &Key) -> bool {
        (0..OBJECTS).any(|number| live(self.lease.id.partition, number).key.as_ref() == Some(key))
    }
}

impl Fleet {
    async fn join(
        place: &Place,
        name: &str,
        healing: &Arc<AtomicBool>,
        dropped: &Arc<AtomicU64>,
    ) -> Arc<Self> {
        let store = place.store().await;
        let session = join(&store, name).await;
        let (healing, dropped) = (Arc::clone(healing), Arc::clone(dropped));
        Arc::new(Fleet { store, session, healing, dropped })
    }

    async fn see(&self) -> Vec<LeaseView> {
        self.store.view(&[feed()]).await.unwrap().leases
    }

    async fn is_done(&self) -> bool {
        let passed = self.see().await.iter().all(|lease| lease.position == Position::number(CHANGES));
        self.healing.fetch_or(passed, Ordering::Relaxed);
        passed && self.store.parked(&feed(), None).await.unwrap().is_empty()
    }

    /// Takes a partition's lease, from whoever has it, works for a while, and again.
    async fn own<E: seriatim_postgres::Effect>(&self, partition: usize, handler: &InTransaction<E>) {
        while !self.is_done().await {
            let view = self.store.view(&[feed()]).await.unwrap();
            let seen = view.sighting(&view.leases[partition]);
            let Some(lease) = self.store.acquire(&self.session, &seen).await.unwrap() else { continue };
            let at = lease.position.to_string().parse().unwrap();
            let mut owner = Owner { fleet: self, handler, lease, at };
            for _ in 0..fastrand::u8(5..40) {
                if owner.step().await.is_err() {
                    break;
                }
            }
            if fastrand::bool() {
                self.store.release(&owner.lease, None).await.unwrap();
            }
        }
    }

    /// Gives its sign of life all the time.
    async fn renew(&self) {
        while !self.is_done().await {
            self.store.renew(&self.session).await.unwrap();
        }
    }

    async fn retry(&self) {
        while !self.is_done().await {
            let keys = objects();
            let key = (fastrand::u8(..3) > 0).then(|| &keys[fastrand::usize(..keys.len())]);
            self.store.retry_parked(&feed(), key).await.unwrap();
        }
    }

    async fn discard(&self) {
        while !self.is_done().await {
            let keys = objects();
            let key = &keys[fastrand::usize(..keys.len())];
            let Some(first) = self.store.parked_changes(&feed(), key, 1).await.unwrap().pop() else {
                continue;
            };
            let what = if fastrand::bool() { Discard::First(first.id) } else { Discard::All(first.id) };
            if let Discarding::Done(dropped) =
                self.store.discard_parked(&feed(), key, what, "a test").await.unwrap()
            {
                self.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
        }
    }

    /// Nobody ever sees an object that nothing is kept of.
    async fn look(&self) {
        while !self.is_done().await {
            for object in self.store.parked(&feed(), None).await.unwrap() {
                assert!(object.waiting > 0, "{object:?}");
            }
        }
    }
}

/// What became of changes of one object: handled, or dropped by one discard.
struct Event {
    /// Microseconds, by the server's clock.
    at: i64,
    ids: Vec<u64>,
}

/// What became of all changes, by object, in the order of time.
async fn account(place: &Place, store: &PostgresStore) -> BTreeMap<String, Vec<Event>> {
    let mut events: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    let seen = "select key, id, (extract(epoch from at) * 1000000)::bigint from seen order by id";
    for row in place.client().await.query(seen, &[]).await.unwrap() {
        let ids = vec![row.get::<_, i64>(1).cast_unsigned()];
        events.entry(row.get(0)).or_default().push(Event { at: row.get(2), ids });
    }
    for discard in store.discarded(&feed(), usize::MAX).await.unwrap() {
        let mut ids = ids_of(&discard.key);
        ids.retain(|id| (discard.first..=discard.last).contains(id));
        assert_eq!(ids.len() as u64, discard.changes, "a tail has no gaps: {discard:?}");
        let at = discard.at.as_microsecond();
        events.entry(discard.key.to_string()).or_default().push(Event { at, ids });
    }
    events.values_mut().for_each(|events| events.sort_by_key(|event| event.at));
    events
}

/// All changes of an object, in order.
fn ids_of(key: &Key) -> Vec<u64> {
    let partitions = (0..PARTITIONS).map(Partition);
    let all = partitions.flat_map(|partition| (1..=CHANGES).map(move |number| live(partition, number)));
    all.filter(|change| change.key.as_ref() == Some(key)).map(|change| change.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_retries_and_discards_at_once_lose_double_and_reorder_nothing() {
    let place = Place::new();
    // No constraint: who lost the lease is to be stopped by the fence alone.
    place
        .run("create table seen (id bigint not null, key text not null, at timestamptz not null default clock_timestamp())")
        .await;
    let first = place.store().await;
    first.ensure(&feed(), PARTITIONS, &Position::number(0)).await.unwrap();
    let (healing, dropped) = (Arc::default(), Arc::default());
    let mut tasks = JoinSet::new();
    for name in ["ada", "bob", "carol"] {
        let host = Fleet::join(&place, name, &healing, &dropped).await;
        for partition in 0..PARTITIONS as usize {
            let owner = Arc::clone(&host);
            let handler = in_transaction(&owner.store, note);
            tasks.spawn(async move { owner.own(partition, &handler).await });
        }
        for role in 0..4 {
            let host = Arc::clone(&host);
            tasks.spawn(async move {
                match role {
                    0 => host.renew().await,
                    1 => host.retry().await,
                    2 => host.discard().await,
                    _ => host.look().await,
                }
            });
        }
    }
    tokio::time::timeout(std::time::Duration::from_secs(120), tasks.join_all())
        .await
        .expect("all come to an end");
    let mut account = account(&place, &first).await;
    for key in objects() {
        let events = account.remove(&key.to_string()).unwrap_or_default();
        let ids: Vec<u64> = events.into_iter().flat_map(|event| event.ids).collect();
        assert_eq!(ids, ids_of(&key), "{key}: each change once, handled or dropped, in order");
    }
    let (seen, dropped) =
        (place.number("select count(*) from seen").await.cast_unsigned(), dropped.load(Ordering::Relaxed));
    assert_eq!(seen + dropped, CHANGES * u64::from(PARTITIONS));
    assert!(seen > 20 && dropped >= DROPPED, "both happened: {seen} seen, {dropped} dropped");
}
