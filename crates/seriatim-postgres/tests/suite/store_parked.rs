//! Parked objects under two hands at once, step by step. What many hands do is in `store_parked_model`.

use std::sync::Arc;
use std::time::Duration;

use seriatim::lease::Lease;
use seriatim::store::{
    Checkpoint, Discard, Discarding, ParkedFailure, ParkedState, Parking, Store, Unparking,
};
use seriatim::{Key, Position, Value};
use seriatim_postgres::PostgresStore;
use seriatim_postgres::tokio_postgres::Client;
use tokio::task::JoinHandle;

use crate::support::{Place, change, feed, own, see, until};

const LOCK: &str = "begin; select 1 from seriatim.lease for update";
const WAITING: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

fn key() -> Key {
    Key::of("id", Value::Integer(1))
}

fn parking(state: ParkedState) -> Checkpoint {
    let failure = ParkedFailure { error: "no".to_owned(), attempts: 5, state, next_try: None };
    let parked = vec![
        Parking { change: change(20, 1, Value::Null), failure: Some(failure) },
        Parking { change: change(21, 1, Value::Null), failure: None },
    ];
    Checkpoint::parking(Position::number(21), parked)
}

/// Ada's lease, with the changes 20 and 21 of object 1 parked in it.
async fn parked(place: &Place, state: ParkedState) -> (Arc<PostgresStore>, Lease) {
    let store = Arc::new(place.store().await);
    let (_, lease) = own(&store, "ada").await;
    store.checkpoint(&lease, &parking(state)).await.unwrap();
    (store, lease)
}

async fn ids(store: &PostgresStore) -> Vec<u64> {
    let kept = store.parked_changes(&feed(), &key(), 10).await.unwrap();
    kept.into_iter().map(|change| change.id).collect()
}

fn discarding(store: &Arc<PostgresStore>, what: Discard) -> JoinHandle<Discarding> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.discard_parked(&feed(), &key(), what, "a test").await.unwrap() })
}

fn retrying(store: &Arc<PostgresStore>) -> JoinHandle<u64> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.retry_parked(&feed(), None).await.unwrap() })
}

/// Somebody who has done this much of an operation and not committed it yet.
async fn halfway(place: &Place, sql: &str) -> Client {
    let client = place.client().await;
    client.batch_execute(&format!("{LOCK}; {sql}")).await.unwrap();
    client
}

async fn until_waiting(place: &Place, how_many: i64) {
    until("somebody waits for the lease", || async { place.number(WAITING).await == how_many }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_beside_a_checkpoint_that_takes_the_change_out_drops_nothing() {
    let place = Place::new();
    let (store, _) = parked(&place, ParkedState::Parked).await;
    let owner = halfway(&place, "delete from seriatim.parked_change where change_id = 20").await;
    let discarding = discarding(&store, Discard::First(20));
    until_waiting(&place, 1).await;
    owner.batch_execute("commit").await.unwrap();
    assert_eq!(discarding.await.unwrap(), Discarding::Changed);
    assert_eq!((ids(&store).await, store.discarded(&feed(), 9).await.unwrap().len()), (vec![21], 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_of_all_drops_what_was_parked_while_it_waited() {
    let place = Place::new();
    let (store, _) = parked(&place, ParkedState::Parked).await;
    let more = "insert into seriatim.parked_change (parked, change_id, change) select seq, 22, '{}' from seriatim.parked";
    let owner = halfway(&place, more).await;
    let discarding = discarding(&store, Discard::All(20));
    until_waiting(&place, 1).await;
    owner.batch_execute("commit").await.unwrap();
    assert_eq!(discarding.await.unwrap(), Discarding::Done(3));
    assert_eq!(store.discarded(&feed(), 1).await.unwrap()[0].last, 22);
    assert_eq!(store.parked(&feed(), None).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_beside_somebody_who_takes_the_lease_is_busy() {
    let place = Place::new();
    let (store, lease) = parked(&place, ParkedState::Retrying).await;
    store.release(&lease, None).await.unwrap();
    let taker =
        halfway(&place, "update seriatim.lease set owner = 'bob', session = 'b', epoch = epoch + 1").await;
    let discarding = discarding(&store, Discard::First(20));
    until_waiting(&place, 1).await;
    taker.batch_execute("commit").await.unwrap();
    assert_eq!(discarding.await.unwrap(), Discarding::Busy);
    assert_eq!(ids(&store).await, [20, 21]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_beside_a_retry_finds_the_object_busy() {
    let place = Place::new();
    let (store, _) = parked(&place, ParkedState::Parked).await;
    let asking = halfway(&place, "update seriatim.parked set retrying = true").await;
    let discarding = discarding(&store, Discard::First(20));
    until_waiting(&place, 1).await;
    asking.batch_execute("commit").await.unwrap();
    assert_eq!(discarding.await.unwrap(), Discarding::Busy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_parked_beside_a_discard_of_all_is_kept() {
    let place = Place::new();
    let (store, lease) = parked(&place, ParkedState::Parked).await;
    let discarding = halfway(&place, "delete from seriatim.parked").await;
    let later = Parking { change: change(22, 1, Value::Null), failure: None };
    let (parking, owner) = (Checkpoint::parking(Position::number(22), vec![later]), Arc::clone(&store));
    let checkpoint = tokio::spawn(async move { owner.checkpoint(&lease, &parking).await.unwrap() });
    until_waiting(&place, 1).await;
    discarding.batch_execute("commit").await.unwrap();
    checkpoint.await.unwrap();
    let object = store.parked_object(&feed(), &key()).await.unwrap().unwrap();
    assert_eq!((ids(&store).await, object.failure.state), (vec![22], ParkedState::Retrying));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_beside_the_checkpoint_that_gives_the_object_up_wins_if_it_comes_last() {
    let place = Place::new();
    let (store, _) = parked(&place, ParkedState::Retrying).await;
    let owner = halfway(&place, "update seriatim.parked set retrying = false, attempts = 9").await;
    let retrying = retrying(&store);
    until_waiting(&place, 1).await;
    owner.batch_execute("commit").await.unwrap();
    assert_eq!(retrying.await.unwrap(), 1);
    let failure = store.parked_object(&feed(), &key()).await.unwrap().unwrap().failure;
    assert_eq!((failure.state, failure.attempts), (ParkedState::Retrying, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_beside_the_end_of_the_object_marks_nothing_and_tells_nobody() {
    let place = Place::new();
    let (store, _) = parked(&place, ParkedState::Retrying).await;
    let before = see(&store).await.asked;
    let owner = halfway(&place, "delete from seriatim.parked").await;
    let retrying = retrying(&store);
    until_waiting(&place, 1).await;
    owner.batch_execute("commit").await.unwrap();
    assert_eq!((retrying.await.unwrap(), see(&store).await.asked), (0, before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_out_beside_a_discard_misses_nothing_that_is_not_there() {
    let place = Place::new();
    let (store, lease) = parked(&place, ParkedState::Parked).await;
    let discarding = halfway(&place, "delete from seriatim.parked_change where change_id = 20").await;
    let unparked = vec![Unparking { key: key(), ids: vec![20, 21] }];
    let (done, owner) = (Checkpoint { unparked, ..Checkpoint::at(Position::number(21)) }, Arc::clone(&store));
    let checkpoint = tokio::spawn(async move { owner.checkpoint(&lease, &done).await.unwrap() });
    until_waiting(&place, 1).await;
    discarding.batch_execute("commit").await.unwrap();
    checkpoint.await.unwrap();
    assert_eq!(store.parked(&feed(), None).await.unwrap(), []);
}

/// Waits until there is no more news from setting things up.
async fn until_quiet(store: &PostgresStore) {
    loop {
        see(store).await;
        let news = store.wait(Duration::from_secs(60));
        if tokio::time::timeout(Duration::from_millis(700), news).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_hears_at_once_of_a_retry_and_of_a_discard() {
    let place = Place::new();
    let (store, lease) = parked(&place, ParkedState::Parked).await;
    let person = place.store().await;
    for retry in [true, false] {
        store.checkpoint(&lease, &parking(ParkedState::Parked)).await.unwrap();
        until_quiet(&store).await;
        let before = see(&store).await.asked;
        if retry {
            assert_eq!(person.retry_parked(&feed(), Some(&key())).await.unwrap(), 1);
        } else {
            let dropped = person.discard_parked(&feed(), &key(), Discard::First(20), "a test").await;
            assert_eq!(dropped.unwrap(), Discarding::Done(1));
        }
        let hears = store.wait(Duration::from_secs(60));
        tokio::time::timeout(Duration::from_secs(10), hears).await.expect("the owner hears of it at once");
        assert_ne!(see(&store).await.asked, before);
    }
}
