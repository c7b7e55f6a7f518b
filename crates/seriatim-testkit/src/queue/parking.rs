//! Objects whose events cannot be sent.

use seriatim::queue::{Backlog, Take};
use seriatim::store::{Discard, Discarding, ParkedFailure, ParkedState};

use super::stage::{bodies, drain, object};
use super::{QueueHarness, QueueStage};

fn failure() -> ParkedFailure {
    ParkedFailure { error: "no".to_owned(), attempts: 5, state: ParkedState::Parked, next_try: None }
}

/// What is pushed waits; everything else flows.
pub async fn a_parked_object_is_left_alone_and_keeps_its_events(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    assert!(stage.queue.park(&taken.hold, None, &failure()).await.unwrap());
    stage.push("work:1", &["c"]).await;
    stage.push("work:2", &["x"]).await;
    assert_eq!(bodies(&stage.bob_takes(1).await.events), ["x"]);
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((view.waiting, view.sending.len(), view.holder), (2, 1, None));
    assert_eq!(view.parked.unwrap().failure, failure());
    stage.all_is_well().await;
}

/// The consumer may have seen the event whose sending failed.
pub async fn a_parked_object_is_retried_with_the_same_ids(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    stage.queue.park(&taken.hold, None, &failure()).await.unwrap();
    stage.push("work:1", &["c"]).await;
    assert!(stage.other.retry(&object("work:1")).await.unwrap());
    let again = stage.bob_takes(1).await;
    assert_eq!(again.events, taken.events);
    let all = drain(&*stage.other, &again.hold, again.events, 1).await;
    assert_eq!(bodies(&all), ["a", "b", "c"]);
    stage.all_is_well().await;
}

/// What was sent before the one that failed is not sent again.
pub async fn parking_records_what_was_sent(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(2).await;
    let sent = taken.events[0].id();
    assert!(stage.queue.park(&taken.hold, Some(sent), &failure()).await.unwrap());
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((view.last, view.sending), (Some(sent), vec![taken.events[1].id()]));
}

/// Otherwise an object would be queued for nothing.
pub async fn retrying_what_is_not_parked_is_refused(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    assert!(!stage.queue.retry(&object("work:1")).await.unwrap());
    stage.push("work:1", &["a"]).await;
    stage.ada_takes(1).await;
    assert!(!stage.queue.retry(&object("work:1")).await.unwrap());
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
}

/// The poison alone; the rest goes on in order, and the next event still names it, so that the consumer knows of the gap.
pub async fn the_failed_event_is_discarded_and_the_rest_goes_on(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b", "c"]).await;
    let taken = stage.ada_takes(2).await;
    stage.queue.park(&taken.hold, None, &failure()).await.unwrap();
    assert_eq!(stage.other.parked().await.unwrap(), [object("work:1")]);
    let first = taken.events[0].id();
    let gone = stage.other.discard(&object("work:1"), Discard::First(first.0), "a test").await.unwrap();
    assert_eq!(gone, Discarding::Done(1));
    let rest = stage.bob_takes(2).await;
    assert_eq!(rest.events, taken.events[1..]);
    assert_eq!(rest.events[0].prev(), Some(first));
    assert_eq!(bodies(&drain(&*stage.other, &rest.hold, rest.events, 2).await), ["b", "c"]);
    let kept = stage.queue.discarded(10).await.unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!((kept[0].first, kept[0].last, kept[0].events), (first, first, 1));
    assert_eq!((kept[0].error.as_str(), kept[0].reason.as_str()), ("no", "a test"));
    assert_eq!(stage.queue.parked().await.unwrap(), []);
    stage.all_is_well().await;
}

/// All that waits, and what is pushed afterwards goes on.
pub async fn all_of_a_parked_object_is_discarded(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b", "c"]).await;
    let taken = stage.ada_takes(2).await;
    stage.queue.park(&taken.hold, None, &failure()).await.unwrap();
    let first = taken.events[0].id();
    let gone = stage.other.discard(&object("work:1"), Discard::All(first.0), "a test").await.unwrap();
    assert_eq!(gone, Discarding::Done(3));
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
    assert_eq!(stage.queue.objects().await.unwrap(), []);
    stage.push("work:1", &["d"]).await;
    let next = stage.bob_takes(1).await.events;
    assert!(next[0].prev() >= Some(taken.events[1].id()) && next[0].id() > taken.events[1].id(), "{next:?}");
    stage.all_is_well().await;
}

/// What the caller has seen is what is dropped: repeated, it drops nothing more.
pub async fn only_what_was_seen_is_discarded(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let name = object("work:1");
    let discard = |first| stage.other.discard(&name, Discard::First(first), "a test");
    stage.push("work:1", &["a", "b"]).await;
    assert_eq!(discard(1).await.unwrap(), Discarding::Changed);
    let taken = stage.ada_takes(2).await;
    let first = taken.events[0].id().0;
    assert_eq!(discard(first).await.unwrap(), Discarding::Changed, "it is held");
    stage.queue.park(&taken.hold, None, &failure()).await.unwrap();
    assert_eq!(discard(first + 1).await.unwrap(), Discarding::Changed);
    assert_eq!(discard(first).await.unwrap(), Discarding::Done(1));
    let again = stage.ada_takes(2).await;
    stage.queue.park(&again.hold, None, &failure()).await.unwrap();
    assert_eq!(discard(first).await.unwrap(), Discarding::Changed, "that one is gone already");
    assert_eq!(stage.queue.inspect(&object("work:1")).await.unwrap().unwrap().sending.len(), 1);
}

/// What status shows.
pub async fn what_waits_is_counted(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let nothing = Backlog { events: 0, objects: 0, seconds: Some(0.0) };
    assert_eq!(stage.queue.backlog().await.unwrap(), nothing);
    stage.push("work:1", &["a", "b", "c"]).await;
    stage.push("work:2", &["d"]).await;
    let taken = stage.ada_takes(2).await;
    let backlog = stage.other.backlog().await.unwrap();
    assert_eq!((backlog.events, backlog.objects), (4, 2), "{backlog:?}");
    assert!(backlog.seconds.is_none_or(|seconds| seconds >= 0.0), "{backlog:?}");
    stage.queue.release(&taken.hold, Some(taken.events[1].id())).await.unwrap();
    assert_eq!(stage.queue.backlog().await.unwrap().events, 2);
}
