//! Objects whose events cannot be sent.

use seriatim::source::queue::Take;
use seriatim::store::{ParkedFailure, ParkedState};

use super::stage::{bodies, drain, object};
use super::{QueueHarness, QueueStage};

fn failure() -> ParkedFailure {
    ParkedFailure { error: "no".to_owned(), attempts: 5, state: ParkedState::Parked }
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
