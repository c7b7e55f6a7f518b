//! What a handler behind a ledger sees, on simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::{OnceHandler, signal_id};
use crate::change::{Change, Op, Position};
use crate::clock;
use crate::handler::{Context, Failure, FailureKind, Handler};
use crate::lease::{Lease, LeaseId};
use crate::name::{Epoch, FeedName, Partition, SessionId};
use crate::once::{Begun, MemoryLedger, OnTimeout, Once};
use crate::store::DoneAbove;
use crate::value::{Columns, Key, Row, Value};

const LIMIT: Duration = Duration::from_secs(10);

fn change(id: u64) -> Change {
    Change {
        feed: FeedName::new("totals").unwrap(),
        partition: Partition(0),
        position: Position::number(id),
        key: Some(Key::of("id", Value::Integer(id as i64))),
        op: Op::Insert,
        at: jiff::Timestamp::UNIX_EPOCH,
        before: None,
        after: Some(Row::new(Columns::new(["id"]), [Value::Integer(id as i64)])),
        id,
        prev: None,
    }
}

fn changes(ids: impl IntoIterator<Item = u64>) -> Vec<Change> {
    ids.into_iter().map(change).collect()
}

fn context() -> Context {
    let id = LeaseId { feed: FeedName::new("totals").unwrap(), partition: Partition(0) };
    let lease = Lease {
        part: None,
        id,
        session: SessionId::random(),
        epoch: Epoch(1),
        position: Position::number(0),
        done: DoneAbove::default(),
    };
    Context::new(Arc::new(lease), Duration::from_secs(30))
}

/// What each call is to do.
type Script = Box<dyn Fn(&[Change]) -> Result<(), Failure> + Send + Sync>;

/// Notes the ids of each call, then does as it is told.
struct Handling {
    calls: Mutex<Vec<Vec<u64>>>,
    takes: Duration,
    script: Script,
}

#[async_trait]
impl Handler for Handling {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        self.calls.lock().unwrap().push(changes.iter().map(|change| change.id).collect());
        tokio::time::sleep(self.takes).await;
        (self.script)(changes)
    }
}

/// A ledger, and a handler behind it as each host has one.
struct Fleet {
    once: Once,
    handling: Arc<Handling>,
}

impl Fleet {
    fn new(script: impl Fn(&[Change]) -> Result<(), Failure> + Send + Sync + 'static) -> Self {
        let once = Once::new(Arc::new(MemoryLedger::new()), "feed:totals").max_processing_time(LIMIT);
        let (calls, takes) = (Mutex::default(), Duration::ZERO);
        Fleet { once, handling: Arc::new(Handling { calls, takes, script: Box::new(script) }) }
    }

    fn taking(mut self, takes: Duration) -> Self {
        Arc::get_mut(&mut self.handling).unwrap().takes = takes;
        self
    }

    fn unknown(self) -> Self {
        Fleet { once: self.once.on_timeout(OnTimeout::Unknown), ..self }
    }

    fn host(&self) -> OnceHandler {
        OnceHandler::new(self.handling.clone(), self.once.clone())
    }

    async fn handle(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), Failure> {
        self.host().handle(&changes(ids), &context()).await
    }

    /// Somebody claims a change and is never heard of again.
    async fn somebody_dies_over(&self, id: u64) {
        assert!(matches!(self.once.start(&signal_id(&change(id))).await.unwrap(), Begun::Run(_)));
    }

    fn calls(&self) -> Vec<Vec<u64>> {
        self.handling.calls.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_not_handed_on_again() {
    let fleet = Fleet::new(|_| Ok(()));
    fleet.handle(1..4).await.unwrap();
    fleet.handle(1..4).await.unwrap();
    assert_eq!(fleet.calls(), [[1, 2, 3]]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_some_are_done_is_handed_on_without_them() {
    let fleet = Fleet::new(|_| Ok(()));
    fleet.handle([2, 4]).await.unwrap();
    fleet.handle(1..101).await.unwrap();
    let rest: Vec<u64> = (1..101).filter(|id| ![2, 4].contains(id)).collect();
    assert_eq!(fleet.calls(), [vec![2, 4], rest]);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_the_culprit_is_recorded_and_the_rest_is_given_back() {
    let fleet = Fleet::new(|changes| match changes.len() {
        4 => Err(Failure::change("no").at(1).with_done(vec![3])),
        _ => Ok(()),
    });
    let failure = fleet.handle(1..5).await.unwrap_err();
    assert_eq!((failure.culprit, failure.done), (Some(1), vec![3]));
    fleet.handle(1..5).await.unwrap();
    assert_eq!(fleet.calls(), [vec![1, 2, 3, 4], vec![2, 3]], "at once: nobody waits for a claim");
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_places_of_the_whole_batch() {
    let fleet = Fleet::new(|changes| match changes[0].id {
        2 => Err(Failure::change("no").at(1)),
        _ => Ok(()),
    });
    fleet.handle([1, 4]).await.unwrap();
    let failure = fleet.handle(1..6).await.unwrap_err();
    assert_eq!(fleet.calls()[1], [2, 3, 5]);
    assert_eq!((failure.culprit, failure.done), (Some(2), vec![3]), "3 failed, and 4 was done before");
}

#[tokio::test(start_paused = true)]
async fn a_dead_hosts_change_is_waited_for_and_those_before_it_go_first() {
    let fleet = Fleet::new(|_| Ok(()));
    fleet.somebody_dies_over(2).await;
    let began = clock::now();
    fleet.handle(1..4).await.unwrap();
    assert_eq!(fleet.calls(), [vec![1], vec![2, 3]]);
    assert!(began.elapsed() > LIMIT, "strictly after: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_live_hosts_change_is_waited_for_however_long_it_takes() {
    let fleet = Fleet::new(|_| Ok(())).taking(Duration::from_secs(25));
    let (one, other) = tokio::join!(fleet.handle(1..3), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fleet.handle(1..3).await
    });
    one.and(other).unwrap();
    assert_eq!(fleet.calls(), [[1, 2]], "its claims are kept alive for longer than the limit");
}

#[tokio::test(start_paused = true)]
async fn hosts_with_crossing_batches_do_not_wait_for_each_other_for_ever() {
    let fleet = Fleet::new(|_| Ok(())).taking(Duration::from_secs(1));
    let began = clock::now();
    let batches = [vec![1, 2, 3, 4], vec![4, 3, 2, 1], vec![3, 1, 4, 2]];
    let handled = batches.map(|batch| fleet.handle(batch));
    for handled in futures_util::future::join_all(handled).await {
        handled.unwrap();
    }
    let mut seen = fleet.calls().concat();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
    assert!(began.elapsed() < LIMIT, "nobody left a claim to time out: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_has_answered_survives_the_death_of_its_host() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    // The second change takes longer than its host lives.
    let handler = move |change: Change, _: Context| {
        let noted = noted.clone();
        async move {
            noted.lock().unwrap().push(change.id);
            let takes = if change.id == 2 { Duration::from_secs(20) } else { Duration::ZERO };
            tokio::time::sleep(takes).await;
            Ok::<(), std::io::Error>(())
        }
    };
    let once = Once::new(Arc::new(MemoryLedger::new()), "feed:totals").max_processing_time(LIMIT);
    let handler: Arc<dyn Handler> = Arc::new(handler);
    let host = || OnceHandler::new(handler.clone(), once.clone());
    let (batch, cx) = (changes(1..4), context());
    let dies = tokio::time::timeout(Duration::from_secs(5), async { host().handle(&batch, &cx).await }).await;
    assert!(dies.is_err());
    host().handle(&batch, &cx).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_and_never_answered_can_be_left_to_a_person() {
    let fleet = Fleet::new(|changes| match changes.len() {
        3 => Err(Failure::change("no answer").at(1).unanswered_at([1])),
        _ => Ok(()),
    });
    let fleet = fleet.unknown();
    fleet.handle(1..4).await.unwrap_err();
    let failure = fleet.handle(1..4).await.unwrap_err();
    assert_eq!((failure.kind, failure.culprit), (FailureKind::Poison, Some(1)));
    assert!(
        failure.to_string().contains("unknown") && failure.to_string().contains("once resolve"),
        "{failure}"
    );
    assert_eq!(fleet.calls().len(), 1);
    fleet.handle([3]).await.unwrap();
    assert_eq!(fleet.calls()[1], [3], "what was not begun is not doubted");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_has_not_answered() {
    let fleet = Fleet::new(|_| Ok(())).taking(Duration::from_secs(3600));
    let failure = fleet.handle([1]).await.unwrap_err();
    assert_eq!((failure.culprit, &*failure.unanswered), (Some(0), [0].as_slice()));
    let began = clock::now();
    fleet.handle([1]).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(31), "the claim was given back: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_handlers_word_is_about_the_places_of_the_whole_batch() {
    let handler = |change: Change, context: Context| async move {
        if change.id == 4 {
            context.checkpoint();
        }
        Ok::<(), std::io::Error>(())
    };
    let once = Once::new(Arc::new(MemoryLedger::new()), "feed:totals").max_processing_time(LIMIT);
    let host = OnceHandler::new(Arc::new(handler), once);
    let cx = context();
    host.handle(&changes([1, 2]), &cx).await.unwrap();
    assert_eq!(cx.checkpointer.take(), None);
    host.handle(&changes(1..6), &cx).await.unwrap();
    assert_eq!(cx.checkpointer.take(), Some(4), "two were done before, and the word came with the fourth");
}

#[test]
fn the_same_number_with_other_contents_is_another_signal() {
    let (first, mut again) = (change(1), change(1));
    again.position = Position::text("7:1");
    again.prev = Some(9);
    assert_eq!(signal_id(&first), signal_id(&again), "positions and links may differ between deliveries");
    let others = [
        Change { after: None, ..change(1) },
        Change { before: change(1).after, ..change(1) },
        Change { op: Op::Update, ..change(1) },
        Change { at: "2026-11-15T08:00:00Z".parse().unwrap(), ..change(1) },
        Change { partition: Partition(1), ..change(1) },
        Change { key: None, ..change(1) },
    ];
    let mut ids: Vec<String> = others.iter().chain([&first]).map(signal_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), others.len() + 1);
}
