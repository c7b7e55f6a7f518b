//! What everybody can see.

use std::time::Duration;

use seriatim::queue::Take;

use super::stage::{drain, object};
use super::{QueueHarness, QueueStage};

/// Everything that is known of it.
pub async fn an_object_can_be_looked_at(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    assert_eq!(stage.queue.inspect(&object("work:1")).await.unwrap(), None);
    stage.push("work:1", &["a", "b", "c"]).await;
    let queued = stage.queue.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((queued.waiting, queued.queued, queued.last), (3, true, None));
    let taken = stage.ada_takes(2).await;
    let held = stage.queue.inspect(&object("work:1")).await.unwrap().unwrap();
    let ids: Vec<_> = taken.events.iter().map(|event| event.id()).collect();
    assert_eq!((held.waiting, held.queued, held.sending), (1, false, ids));
    assert_eq!(held.holder, Some(taken.hold));
}

/// Storage may know them; nobody wants to hear of them.
pub async fn objects_at_rest_are_not_listed(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    for name in ["work:2", "work:1"] {
        stage.push(name, &["a"]).await;
    }
    assert_eq!(stage.queue.objects().await.unwrap(), [object("work:1"), object("work:2")]);
    let taken = stage.ada_takes(1).await;
    drain(&*stage.queue, &taken.hold, taken.events, 1).await;
    assert_eq!(stage.queue.objects().await.unwrap(), [object("work:1")]);
}

/// Long before its time is up.
pub async fn a_push_wakes_who_waits(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let far_too_long = Duration::from_secs(300);
    let waiting = async {
        loop {
            stage.queue.wait(far_too_long).await;
            if let Take::Taken(taken) = stage.queue.take(&stage.ada, 1).await.unwrap() {
                return taken;
            }
        }
    };
    let pushing = async {
        tokio::task::yield_now().await;
        stage.push("work:1", &["a"]).await;
    };
    let both = async { tokio::join!(waiting, pushing) };
    let (taken, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("woken");
    assert_eq!(taken.events.len(), 1);
}

/// At every step, also around a crash.
pub async fn invariants_hold_along_the_way(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.all_is_well().await;
    stage.push("work:1", &["a", "b"]).await;
    stage.all_is_well().await;
    let taken = stage.ada_takes(1).await;
    stage.all_is_well().await;
    stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    stage.all_is_well().await;
    stage.ada_is_recovered().await;
    stage.all_is_well().await;
    let taken = stage.bob_takes(1).await;
    drain(&*stage.other, &taken.hold, taken.events, 1).await;
    stage.all_is_well().await;
}
