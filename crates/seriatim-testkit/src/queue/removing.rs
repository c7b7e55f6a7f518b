//! The end of a queue.

use seriatim::queue::{IfEventsWait, Removal};

use super::stage::{bodies, drain, object};
use super::{QueueHarness, QueueStage};

/// Objects at rest, workers and discards are no reason to keep it.
pub async fn a_queue_without_events_is_removed(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let taken = stage.ada_takes(1).await;
    drain(&*stage.queue, &taken.hold, taken.events, 1).await;
    assert_eq!(stage.queue.remove(IfEventsWait::Keep).await.unwrap(), Removal::Removed);
    assert_eq!(stage.other.inspect(&object("work:1")).await.unwrap(), None);
    assert_eq!(stage.other.workers().await.unwrap(), []);
    assert_eq!(stage.other.remove(IfEventsWait::Keep).await.unwrap(), Removal::NotThere);
}

/// Those that wait, those that are being sent, and those of parked objects.
pub async fn a_queue_with_events_stays_as_it_is(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    stage.push("work:2", &["c"]).await;
    let taken = stage.ada_takes(1).await;
    for queue in [&stage.queue, &stage.other] {
        let Removal::Waiting(left) = queue.remove(IfEventsWait::Keep).await.unwrap() else {
            panic!("events were lost");
        };
        assert_eq!((left.events, left.objects), (3, 2));
    }
    assert_eq!(bodies(&drain(&*stage.queue, &taken.hold, taken.events, 1).await), ["a", "b"]);
    let taken = stage.bob_takes(1).await;
    assert_eq!(bodies(&taken.events), ["c"]);
    stage.all_is_well().await;
}

/// Whoever sends one of them is told that it holds nothing any more.
pub async fn events_are_dropped_only_when_they_may_be(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    assert_eq!(stage.other.remove(IfEventsWait::Drop).await.unwrap(), Removal::Removed);
    let sent = Some(taken.events[0].id());
    assert_eq!(stage.queue.next(&taken.hold, sent, 1).await.unwrap(), seriatim::queue::Next::Lost);
    assert_eq!(stage.queue.beat(&stage.ada).await.unwrap(), None);
    assert_eq!(stage.other.backlog().await.unwrap().events, 0);
    assert_eq!(stage.other.objects().await.unwrap(), []);
}
