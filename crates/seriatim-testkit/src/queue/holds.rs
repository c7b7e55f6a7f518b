//! Who may send the events of an object, and that nobody else can record.

use seriatim::queue::{Next, Take};
use seriatim::store::{ParkedFailure, ParkedState};

use super::stage::{bodies, drain, object};
use super::{QueueHarness, QueueStage};

/// Others find nothing, also when more is pushed.
pub async fn an_object_has_one_holder(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let taken = stage.ada_takes(1).await;
    stage.push("work:1", &["b"]).await;
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!(view.holder, Some(taken.hold));
    stage.all_is_well().await;
}

/// Taking is atomic.
pub async fn of_many_who_take_one_object_one_gets_it(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let mut taking = tokio::task::JoinSet::new();
    for number in 0..8 {
        let queue = harness.open().await;
        let session = queue
            .join(&super::stage::worker(&format!("w{number}")), super::stage::EXPIRE, None)
            .await
            .unwrap();
        taking.spawn(async move { matches!(queue.take(&session, 1).await.unwrap(), Take::Taken(_)) });
    }
    assert_eq!(taking.join_all().await.into_iter().filter(|got| *got).count(), 1);
}

/// So that whoever pushes afterwards finds it free, and queues it for somebody.
pub async fn the_last_event_releases_in_the_same_step(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let taken = stage.ada_takes(1).await;
    let sent = Some(taken.events[0].id());
    assert_eq!(stage.queue.next(&taken.hold, sent, 1).await.unwrap(), Next::Released);
    assert_eq!(stage.other.inspect(&object("work:1")).await.unwrap().unwrap().holder, None);
    stage.push("work:1", &["b"]).await;
    assert_eq!(bodies(&stage.bob_takes(1).await.events), ["b"]);
}

/// Nobody else has to come for them.
pub async fn events_pushed_while_held_come_to_the_holder(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let taken = stage.ada_takes(1).await;
    stage.push("work:1", &["b"]).await;
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
    let all = drain(&*stage.queue, &taken.hold, taken.events, 1).await;
    assert_eq!(bodies(&all), ["a", "b"]);
}

/// A worker that ends leaves the rest to the others.
pub async fn a_release_queues_what_is_left(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    stage.queue.release(&taken.hold, Some(taken.events[0].id())).await.unwrap();
    stage.all_is_well().await;
    let rest = stage.bob_takes(1).await;
    assert_eq!(bodies(&rest.events), ["b"]);
    assert_eq!(rest.events[0].prev(), Some(taken.events[0].id()));
}

/// Neither what it sent nor what it might send next.
pub async fn a_zombie_cannot_record(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let zombie = stage.ada_takes(1).await;
    stage.ada_is_recovered().await;
    let owner = stage.bob_takes(1).await;
    let sent = Some(zombie.events[0].id());
    assert_eq!(stage.queue.next(&zombie.hold, sent, 1).await.unwrap(), Next::Lost);
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((view.last, view.sending), (None, vec![owner.events[0].id()]));
    let all = drain(&*stage.other, &owner.hold, owner.events, 1).await;
    assert_eq!(bodies(&all), ["a", "b"]);
}

/// Giving up what one has lost is success, and changes nothing.
pub async fn a_zombie_cannot_release_or_park(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let zombie = stage.ada_takes(1).await;
    stage.ada_is_recovered().await;
    let owner = stage.bob_takes(1).await;
    stage.queue.release(&zombie.hold, Some(zombie.events[0].id())).await.unwrap();
    let failure =
        ParkedFailure { error: "no".to_owned(), attempts: 5, state: ParkedState::Parked, next_try: None };
    assert!(!stage.queue.park(&zombie.hold, None, &failure).await.unwrap());
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((view.holder, view.last, view.parked), (Some(owner.hold), None, None));
    stage.all_is_well().await;
}

/// The epoch decides, not the name: what a worker had under way before a lapse does not count after it.
pub async fn ones_own_old_hold_is_refused(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let before = stage.ada_takes(1).await;
    stage.queue.release(&before.hold, None).await.unwrap();
    let after = stage.ada_takes(1).await;
    let sent = Some(before.events[0].id());
    assert_eq!(stage.queue.next(&before.hold, sent, 1).await.unwrap(), Next::Lost);
    stage.queue.release(&before.hold, sent).await.unwrap();
    assert_eq!(stage.queue.next(&after.hold, None, 1).await.unwrap(), Next::Events(after.events));
}

/// The answer to the first time may have been lost.
pub async fn repeating_next_is_harmless(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    let sent = Some(taken.events[0].id());
    let once = stage.queue.next(&taken.hold, sent, 1).await.unwrap();
    let twice = stage.queue.next(&taken.hold, sent, 1).await.unwrap();
    assert!(matches!(&once, Next::Events(events) if bodies(events) == ["b"]), "{once:?}");
    assert_eq!(once, twice);
}

/// The answer to the first time may have been lost; who came next is not disturbed.
pub async fn repeating_a_release_is_harmless(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b"]).await;
    let taken = stage.ada_takes(1).await;
    stage.queue.release(&taken.hold, None).await.unwrap();
    let next = stage.bob_takes(1).await;
    stage.queue.release(&taken.hold, None).await.unwrap();
    let view = stage.other.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!(view.holder, Some(next.hold));
}

/// The answer to a take may have been lost: the worker holds what it does not know of.
pub async fn a_forgotten_hold_is_found_by_the_next_beat(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    stage.push("work:2", &["b"]).await;
    let (one, two) = (stage.ada_takes(1).await, stage.ada_takes(1).await);
    let mut holds = stage.queue.beat(&stage.ada).await.unwrap().unwrap();
    holds.sort_by_key(|hold| hold.epoch);
    assert_eq!(holds, [one.hold.clone(), two.hold]);
    assert_eq!(stage.queue.next(&one.hold, None, 1).await.unwrap(), Next::Events(one.events));
}
