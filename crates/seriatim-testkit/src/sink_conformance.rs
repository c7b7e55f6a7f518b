//! The promises of a sink that holds each change once, each as one test that any such sink can be put to.
//!
//! ```text
//! seriatim_testkit::sink_conformance!(Stream::new());
//! ```
//!
//! The expression makes a [`SinkHarness`] on a target that holds nothing; it is evaluated anew for each test.

// A promise that is not kept panics: these functions are tests. Their names say the promises.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::handler::FailureKind;
use seriatim::lease::{Lease, LeaseId};
use seriatim::name::SessionId;
use seriatim::store::DoneAbove;
use seriatim::value::{Columns, Key, Row, Value};
use seriatim::{Change, Context, Epoch, Failure, FeedName, Handler, Op, Partition, Position};

/// How long a sink may take to say that its target is away.
const BOUND: Duration = Duration::from_secs(30);

/// Opens handles on one and the same target.
#[async_trait]
pub trait SinkHarness: Send + Sync {
    /// The sink as one more process would have it, in this generation of its feed.
    async fn open(&self, generation: u64) -> Arc<dyn Handler>;

    /// What a consumer reads, in its order: objects and ids.
    async fn read(&self) -> Vec<(i64, u64)>;

    /// From now on the target cannot be reached.
    fn take_away(&self);

    /// It can be reached again.
    fn bring_back(&self);

    /// The next sending is done, and its answer reaches nobody.
    fn lose_next_answer(&self);

    /// So many bytes the target does not take.
    fn too_large(&self) -> usize;

    /// Whether a sending under an old epoch is refused as such, whatever it brings.
    fn refuses_old_epochs(&self) -> bool;
}

/// Makes one test for each promise of a sink that holds each change once. The tests' crate needs `tokio` with its macros.
#[macro_export]
macro_rules! sink_conformance {
    ($harness:expr) => {
        $crate::sink_promises! { $harness;
            changes_of_an_object_are_held_in_order, a_change_that_is_sent_again_is_held_once,
            a_batch_of_which_a_part_is_held_adds_the_rest, a_late_sending_adds_nothing,
            a_zombie_adds_nothing_that_its_successor_does_not_expect, an_answer_that_is_lost_costs_nothing,
            a_target_that_is_away_is_waited_for, a_change_that_is_too_large_is_parked_and_the_others_go_on,
            what_was_parked_is_held_once_also_from_another_partition, a_rewound_feed_is_held_once_more,
            after_another_number_of_partitions_each_is_held_once, many_hosts_at_once_hold_each_once,
        }
    };
}

/// The list behind [`sink_conformance!`], turned into tests.
#[doc(hidden)]
#[macro_export]
macro_rules! sink_promises {
    ($harness:expr; $($promise:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::sink_conformance::$promise(&$harness).await;
            }
        )*
    };
}

/// The change of this id, of this object.
pub fn change(object: i64, id: u64) -> Change {
    sized(object, id, 10)
}

fn sized(object: i64, id: u64, bytes: usize) -> Change {
    let row = Row::new(
        Columns::new(["id", "note"]),
        [Value::Integer(object), Value::Text("x".repeat(bytes).into())],
    );
    Change {
        feed: feed(),
        partition: Partition(0),
        position: Position::number(id),
        key: Some(Key::of("id", Value::Integer(object))),
        op: Op::Update,
        at: seriatim::jiff::Timestamp::UNIX_EPOCH,
        before: None,
        after: Some(row),
        id,
        prev: None,
    }
}

fn feed() -> FeedName {
    FeedName::new("orders").unwrap()
}

/// The context of a call under this epoch.
pub fn at(partition: u32, epoch: u64) -> Context {
    let lease = Lease {
        id: LeaseId { feed: feed(), partition: Partition(partition) },
        session: SessionId::random(),
        epoch: Epoch(epoch),
        position: Position::number(0),
        done: DoneAbove::default(),
        part: None,
    };
    Context::new(Arc::new(lease), Duration::from_secs(10))
}

async fn send(sink: &Arc<dyn Handler>, changes: &[Change], context: &Context) -> Result<(), Failure> {
    tokio::time::timeout(BOUND, sink.handle(changes, context)).await.expect("an answer within the bound")
}

/// The ids of one object, in the order of the target.
fn of(object: i64, read: &[(i64, u64)]) -> Vec<u64> {
    read.iter().filter(|(of, _)| *of == object).map(|(_, id)| *id).collect()
}

pub async fn changes_of_an_object_are_held_in_order(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    for from in [1u64, 11, 21] {
        let batch: Vec<Change> = (from..from + 10).map(|id| change(id as i64 % 3, id)).collect();
        send(&sink, &batch, &at(0, 2)).await.unwrap();
    }
    let read = harness.read().await;
    for object in 0..3 {
        let expected: Vec<u64> = (1..31).filter(|id| *id as i64 % 3 == object).collect();
        assert_eq!(of(object, &read), expected);
    }
}

pub async fn a_change_that_is_sent_again_is_held_once(harness: &dyn SinkHarness) {
    let batch = [change(1, 1), change(2, 2), change(1, 3)];
    // A host that dies between the sending and its checkpoint, and the one that goes on.
    for epoch in [2, 3] {
        send(&harness.open(1).await, &batch, &at(0, epoch)).await.unwrap();
    }
    let read = harness.read().await;
    assert_eq!((of(1, &read), of(2, &read)), (vec![1, 3], vec![2]));
}

pub async fn a_batch_of_which_a_part_is_held_adds_the_rest(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    send(&sink, &[change(1, 1), change(2, 2)], &at(0, 2)).await.unwrap();
    let batch = [change(1, 1), change(2, 2), change(1, 3), change(3, 4)];
    send(&harness.open(1).await, &batch, &at(0, 3)).await.unwrap();
    let read = harness.read().await;
    assert_eq!((of(1, &read), of(2, &read), of(3, &read)), (vec![1, 3], vec![2], vec![4]));
}

pub async fn a_late_sending_adds_nothing(harness: &dyn SinkHarness) {
    let (late, sink) = (harness.open(1).await, harness.open(1).await);
    for id in 1..4 {
        send(&sink, &[change(1, id)], &at(0, 2)).await.unwrap();
    }
    // It was on its way all the time, under the same epoch.
    drop(send(&late, &[change(1, 1)], &at(0, 2)).await);
    assert_eq!(of(1, &harness.read().await), [1, 2, 3]);
}

pub async fn a_zombie_adds_nothing_that_its_successor_does_not_expect(harness: &dyn SinkHarness) {
    let (zombie, successor) = (harness.open(1).await, harness.open(1).await);
    send(&zombie, &[change(1, 1), change(2, 2)], &at(0, 5)).await.unwrap();
    send(&successor, &[change(1, 1), change(1, 3)], &at(0, 6)).await.unwrap();
    let refused = send(&zombie, &[change(1, 3), change(2, 4)], &at(0, 5)).await;
    if harness.refuses_old_epochs() {
        assert_eq!(refused.unwrap_err().kind, FailureKind::Target);
        assert_eq!(of(2, &harness.read().await), [2]);
    }
    send(&successor, &[change(2, 2), change(2, 4), change(1, 5)], &at(0, 6)).await.unwrap();
    let read = harness.read().await;
    assert_eq!((of(1, &read), of(2, &read)), (vec![1, 3, 5], vec![2, 4]));
}

pub async fn an_answer_that_is_lost_costs_nothing(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    send(&sink, &[change(1, 1)], &at(0, 2)).await.unwrap();
    harness.lose_next_answer();
    // Its outcome is not known: the host sends it again until it has an answer.
    let batch = [change(1, 2), change(1, 3)];
    let mut tries = 0;
    while let Err(failure) = send(&sink, &batch, &at(0, 2)).await {
        assert_eq!(failure.kind, FailureKind::Target, "{failure}");
        tries += 1;
        assert!(tries < 200, "{failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(of(1, &harness.read().await), [1, 2, 3]);
}

pub async fn a_target_that_is_away_is_waited_for(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    send(&sink, &[change(1, 1)], &at(0, 2)).await.unwrap();
    harness.take_away();
    let failure = send(&sink, &[change(1, 2)], &at(0, 2)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Target, "{failure}");
    harness.bring_back();
    let mut tries = 0;
    while let Err(failure) = send(&sink, &[change(1, 2)], &at(0, 2)).await {
        tries += 1;
        assert!(tries < 200, "{failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(of(1, &harness.read().await), [1, 2]);
}

pub async fn a_change_that_is_too_large_is_parked_and_the_others_go_on(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    let batch = [change(1, 1), sized(2, 2, harness.too_large()), change(3, 3)];
    let failure = send(&sink, &batch, &at(0, 2)).await.unwrap_err();
    assert_eq!((failure.kind, failure.culprit), (FailureKind::Poison, Some(1)), "{failure}");
    send(&sink, &[batch[0].clone(), batch[2].clone()], &at(0, 2)).await.unwrap();
    let read = harness.read().await;
    assert_eq!((of(1, &read), of(2, &read), of(3, &read)), (vec![1], vec![], vec![3]));
}

pub async fn what_was_parked_is_held_once_also_from_another_partition(harness: &dyn SinkHarness) {
    let sink = harness.open(1).await;
    // It was tried from partition 0, and its host died before it said so. Then the number of partitions changed.
    send(&sink, &[change(1, 1)], &at(0, 2)).await.unwrap();
    send(&harness.open(1).await, &[change(1, 1), change(1, 2)], &at(7, 2)).await.unwrap();
    assert_eq!(of(1, &harness.read().await), [1, 2]);
}

pub async fn a_rewound_feed_is_held_once_more(harness: &dyn SinkHarness) {
    let (before, after) = (harness.open(1).await, harness.open(2).await);
    let batch = [change(1, 1), change(1, 2), change(2, 3)];
    send(&before, &batch, &at(0, 2)).await.unwrap();
    send(&after, &batch[..1], &at(0, 4)).await.unwrap();
    // Of the life before, nothing comes any more.
    send(&before, &[change(1, 9)], &at(0, 2)).await.unwrap_err();
    send(&after, &batch, &at(0, 4)).await.unwrap();
    let read = harness.read().await;
    assert_eq!((of(1, &read), of(2, &read)), (vec![1, 2, 1, 2], vec![3, 3]));
}

pub async fn after_another_number_of_partitions_each_is_held_once(harness: &dyn SinkHarness) {
    let (before, after) = (harness.open(1).await, harness.open(2).await);
    send(&before, &[change(1, 1)], &at(0, 9)).await.unwrap();
    let later = Change { partition: Partition(7), ..change(1, 2) };
    for epoch in [1, 2] {
        send(&after, std::slice::from_ref(&later), &at(7, epoch)).await.unwrap();
    }
    assert_eq!(of(1, &harness.read().await), [1, 2]);
}

pub async fn many_hosts_at_once_hold_each_once(harness: &dyn SinkHarness) {
    let mut hosts = Vec::new();
    for host in 0..4u64 {
        let sink = harness.open(1).await;
        hosts.push(tokio::spawn(async move {
            for from in (1..41u64).step_by(5 + host as usize) {
                let batch: Vec<Change> =
                    (from..(from + 5 + host).min(41)).map(|id| change(id as i64 % 2, id)).collect();
                // All of them are the owner, or believe so.
                while send(&sink, &batch, &at(0, 2)).await.is_err() {}
            }
        }));
    }
    for host in hosts {
        host.await.unwrap();
    }
    let read = harness.read().await;
    for object in 0..2 {
        let expected: Vec<u64> = (1..41).filter(|id| *id as i64 % 2 == object).collect();
        assert_eq!(of(object, &read), expected);
    }
}
