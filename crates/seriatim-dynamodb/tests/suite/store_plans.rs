//! What is too large or too many for one item or one transaction is kept whole, and happens in one step all the same.

use seriatim::change::{Change, Op, Position};
use seriatim::lease::Lease;
use seriatim::name::{FeedName, HostName, Partition};
use seriatim::once::{Ledger, Listing, Once};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarding, OnRewind, ParkedFailure, ParkedState, Parking, Session,
    Store, StoreError, Unparking,
};
use seriatim::value::{Columns, Key, Row, Value};
use seriatim_dynamodb::aws_sdk_dynamodb::Client;
use seriatim_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use seriatim_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use seriatim_dynamodb::aws_sdk_dynamodb::error::BoxError;
use seriatim_dynamodb::{DynamoDbLedger, DynamoDbStore};

use crate::server::Server;

fn feed() -> FeedName {
    FeedName::new("totals").unwrap()
}

fn change(id: u64, key: &str, bytes: usize) -> Change {
    Change {
        feed: feed(),
        partition: Partition(0),
        position: Position::number(id),
        key: Some(Key::of("id", Value::Text(key.into()))),
        op: Op::Insert,
        at: "2026-11-15T08:00:00Z".parse().unwrap(),
        before: None,
        after: Some(Row::new(Columns::new(["body"]), [Value::Text("ü".repeat(bytes / 2).into())])),
        id,
        prev: None,
    }
}

fn failed(change: Change) -> Parking {
    let failure =
        ParkedFailure { error: "no".to_owned(), attempts: 5, state: ParkedState::Parked, next_try: None };
    Parking { change, failure: Some(failure) }
}

/// A store of its own, with one lease that its host has.
struct Stage {
    server: Server,
    store: DynamoDbStore,
    session: Session,
    lease: Lease,
}

impl Stage {
    async fn set() -> Self {
        let server = Server::share();
        let store = DynamoDbStore::connect(&server.address()).await.unwrap();
        store.ensure(&feed(), 2, &Position::number(0)).await.unwrap();
        let session = store
            .join(&HostName::new("ada").unwrap(), &[feed()], std::time::Duration::from_secs(10), None)
            .await
            .unwrap();
        let lease = take(&store, &session).await;
        Stage { server, store, session, lease }
    }

    /// The keys of all items whose `id` has these words.
    async fn items(&self, words: &str) -> Vec<String> {
        let address = self.server.address();
        let scanned =
            address.client().scan().table_name(address.table()).consistent_read(true).send().await.unwrap();
        let ids = scanned.items().iter().map(|item| item["id"].as_s().unwrap().clone());
        ids.filter(|id| id.contains(words)).collect()
    }

    async fn kept(&self, key: &str) -> Vec<u64> {
        let key = Key::of("id", Value::Text(key.into()));
        let changes = self.store.parked_changes(&feed(), &key, usize::MAX).await.unwrap();
        changes.into_iter().map(|change| change.id).collect()
    }
}

async fn take(store: &DynamoDbStore, session: &Session) -> Lease {
    let view = store.view(&[feed()]).await.unwrap();
    let seen = view.sighting(&view.leases[0]);
    store.acquire(session, &seen).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_change_that_is_larger_than_an_item_comes_back_whole() {
    let stage = Stage::set().await;
    let large = change(1, "a", 1_500_000);
    let all = vec![failed(large.clone()), failed(change(2, "a", 10)), failed(change(3, "a", 900_000))];
    stage.store.checkpoint(&stage.lease, &Checkpoint::parking(Position::number(3), all)).await.unwrap();
    let key = Key::of("id", Value::Text("a".into()));
    let first = stage.store.parked_changes(&feed(), &key, 1).await.unwrap();
    assert_eq!(first, [large]);
    assert_eq!(stage.kept("a").await, [1, 2, 3]);
    stage.store.discard_parked(&feed(), &key, Discard::First(1), "too large").await.unwrap();
    assert_eq!(stage.kept("a").await, [2, 3]);
}

#[tokio::test]
async fn hundreds_of_changes_are_parked_taken_out_and_dropped_in_one_step_each() {
    let stage = Stage::set().await;
    let name = |id: u64| format!("object {}", id % 40);
    let many = (1..=200).map(|id| failed(change(id, &name(id), 100))).collect();
    stage.store.checkpoint(&stage.lease, &Checkpoint::parking(Position::number(200), many)).await.unwrap();
    let objects = stage.store.parked(&feed(), None).await.unwrap();
    assert_eq!((objects.len(), objects[0].waiting), (40, 5));
    assert_eq!(stage.kept("object 7").await, [7, 47, 87, 127, 167]);
    let out = (0..39).map(|object| Unparking {
        key: Key::of("id", Value::Text(name(object).into())),
        ids: (1..=200).filter(|id| id % 40 == object).collect(),
    });
    let done = Checkpoint { unparked: out.collect(), ..Checkpoint::at(Position::number(201)) };
    stage.store.checkpoint(&stage.lease, &done).await.unwrap();
    assert_eq!(stage.store.parked(&feed(), None).await.unwrap().len(), 1);
    let more = (300..400).map(|id| failed(change(id, "object 39", 10))).collect();
    stage.store.checkpoint(&stage.lease, &Checkpoint::parking(Position::number(400), more)).await.unwrap();
    let key = Key::of("id", Value::Text("object 39".into()));
    let dropped = stage.store.discard_parked(&feed(), &key, Discard::All(39), "all of it").await.unwrap();
    assert_eq!(dropped, Discarding::Done(105));
    for words in ["changes/", "ids/", "parked/", "plans/"] {
        assert_eq!(stage.items(words).await, Vec::<String>::new(), "nothing is left of it");
    }
}

#[tokio::test]
async fn keys_that_are_longer_than_dynamodb_takes_are_told_apart() {
    let stage = Stage::set().await;
    let (one, other) = ("k".repeat(5000), format!("{}j", "k".repeat(4999)));
    let both = vec![failed(change(1, &one, 10)), failed(change(2, &other, 10))];
    stage.store.checkpoint(&stage.lease, &Checkpoint::parking(Position::number(2), both)).await.unwrap();
    assert_eq!((stage.kept(&one).await, stage.kept(&other).await), (vec![1], vec![2]));
}

/// Has every transaction fail, as if the process died before it.
#[derive(Debug)]
struct NoTransactions;

impl Intercept for NoTransactions {
    fn name(&self) -> &'static str {
        "no transactions"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match context.request().headers().get("x-amz-target") {
            Some(target) if target.ends_with("TransactWriteItems") => Err("it died".into()),
            _ => Ok(()),
        }
    }
}

/// Has every request with these words in it fail, as if the process died before it.
#[derive(Debug)]
struct NoRequestsWith(&'static str);

impl Intercept for NoRequestsWith {
    fn name(&self) -> &'static str {
        "no requests with some words"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.request().body().bytes().map(String::from_utf8_lossy).unwrap_or_default();
        if body.contains(self.0) { Err("it died".into()) } else { Ok(()) }
    }
}

/// A handle whose process dies before the first request with these words in it.
async fn dying_before(stage: &Stage, words: &'static str) -> DynamoDbStore {
    let address = stage.server.address();
    let config = address.client().config().to_builder().interceptor(NoRequestsWith(words)).build();
    DynamoDbStore::with_client(&Client::from_conf(config), address.table()).await.unwrap().in_steps_of(0)
}

/// A handle whose process dies between writing a plan on the lease and carrying it out.
async fn dying(stage: &Stage) -> DynamoDbStore {
    let address = stage.server.address();
    let config = address.client().config().to_builder().interceptor(NoTransactions).build();
    DynamoDbStore::with_client(&Client::from_conf(config), address.table()).await.unwrap().in_steps_of(0)
}

#[tokio::test]
async fn a_step_whose_maker_died_is_finished_by_whoever_comes_next() {
    let stage = Stage::set().await;
    let dying = dying(&stage).await;
    let parking = Checkpoint::parking(
        Position::number(5),
        vec![failed(change(5, "a", 10)), failed(change(6, "b", 10))],
    );
    let died = dying.checkpoint(&stage.lease, &parking).await;
    assert!(matches!(died, Err(CheckpointError::Store(StoreError::Unavailable { .. }))), "{died:?}");
    let view = stage.store.view(&[feed()]).await.unwrap();
    assert_eq!(view.leases[0].position, Position::number(5), "it has happened");
    assert_eq!(stage.items("changes/").await.len(), 0, "and nothing of it is carried out");
    assert_eq!(stage.store.parked(&feed(), None).await.unwrap().len(), 2);
    assert_eq!(stage.kept("a").await, [5]);
    assert_eq!(stage.items("plans/").await, Vec::<String>::new());
    // Whoever repeats it, as after a lost answer, changes nothing.
    stage.store.checkpoint(&stage.lease, &parking).await.unwrap();
    assert_eq!(stage.kept("a").await, [5]);
}

#[tokio::test]
async fn a_step_that_was_written_down_and_never_happened_is_removed_by_the_next_owner() {
    let stage = Stage::set().await;
    let dying = dying(&stage).await;
    // Its answers are lost from the moment on at which another host has the lease.
    let next = take(&stage.store, &stage.session).await;
    let parking = Checkpoint::parking(Position::number(5), vec![failed(change(5, "a", 10))]);
    let refused = dying.checkpoint(&stage.lease, &parking).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { by }) if by == next.epoch), "{refused:?}");
    assert_eq!(stage.items("plans/").await, Vec::<String>::new());
    // It dies after it has written it down, before it counts; nothing was ever parked here.
    let died = dying_before(&stage, "planPieces").await.checkpoint(&next, &parking).await;
    assert!(matches!(died, Err(CheckpointError::Store(StoreError::Unavailable { .. }))), "{died:?}");
    assert_eq!(stage.items("plans/").await.len(), 1, "it is written down");
    let last = take(&stage.store, &stage.session).await;
    assert_eq!(stage.items("plans/").await, Vec::<String>::new());
    assert_eq!(stage.store.parked(&feed(), None).await.unwrap().len(), 0, "and it never happened");
    stage.store.checkpoint(&last, &parking).await.unwrap();
    assert_eq!(stage.store.parked(&feed(), None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_who_finish_the_same_step_do_it_once() {
    let stage = Stage::set().await;
    let parking = Checkpoint::parking(Position::number(5), vec![failed(change(5, "a", 10))]);
    dying(&stage).await.checkpoint(&stage.lease, &parking).await.unwrap_err();
    let others = futures_util::future::join_all((0..8).map(|_| async {
        let store = DynamoDbStore::connect(&stage.server.address()).await.unwrap();
        store.parked(&feed(), None).await.unwrap().len()
    }));
    assert_eq!(others.await, [1; 8]);
    assert_eq!(stage.kept("a").await, [5]);
}

#[tokio::test]
async fn a_forgotten_feed_whose_rest_was_not_cleaned_up_is_gone_all_the_same() {
    let stage = Stage::set().await;
    let parking = Checkpoint::parking(Position::number(5), vec![failed(change(5, "a", 10))]);
    stage.store.checkpoint(&stage.lease, &parking).await.unwrap();
    stage.store.forget(&feed()).await.unwrap();
    for words in ["leases/", "changes/", "ids/", "parked/", "plans/", "discarded/", "feeds"] {
        assert_eq!(stage.items(words).await, Vec::<String>::new());
    }
    let refused = stage.store.checkpoint(&stage.lease, &Checkpoint::at(Position::number(6))).await;
    assert!(matches!(refused, Err(CheckpointError::Fenced { .. })), "{refused:?}");
    stage.store.ensure(&feed(), 3, &Position::number(7)).await.unwrap();
    let leases = stage.store.view(&[feed()]).await.unwrap().leases;
    assert!(leases.len() == 3 && leases.iter().all(|lease| lease.position == Position::number(7)));
    assert!(stage.store.rewind(&leases[0], &Position::number(1), OnRewind::KeepParked).await.unwrap());
}

#[tokio::test]
async fn a_ledger_and_a_store_share_a_table() {
    let stage = Stage::set().await;
    let ledger = std::sync::Arc::new(DynamoDbLedger::connect(&stage.server.address()).await.unwrap());
    let once = Once::new(ledger.clone(), "store");
    once.protect("identity", || async { Ok::<_, std::io::Error>(1) }).await.unwrap();
    let listed = ledger.list(&Listing::default(), None).await.unwrap().records;
    assert_eq!(listed.len(), 1, "the store's items are no signals");
    assert_eq!(stage.store.feeds().await.unwrap(), [feed()]);
}
