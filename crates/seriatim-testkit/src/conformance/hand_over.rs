//! A planned hand-over: asked for, granted, kept for who asked.

use super::stage::{host, take};
use super::{Harness, Stage};

/// The owner sees it with its next look, and asking for many is one call.
pub async fn a_request_reaches_the_owner_with_its_look(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.ada_takes(0).await;
    stage.ada_takes(1).await;
    let early = stage.see(1).await;
    stage.ada_takes(1).await;
    let seen = [stage.see(0).await, early, stage.see(2).await];
    assert_eq!(stage.other.request_all(&seen, &stage.bob.host).await.unwrap(), [true, false, true]);
    let asked = [stage.see(0).await.hand_over_to, stage.see(1).await.hand_over_to];
    assert_eq!(asked, [Some(stage.bob.host.clone()), None]);
}

/// Asking again, as after a lost answer, is fine; somebody else comes too late.
pub async fn the_first_who_asks_is_heard(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.ada_takes(0).await;
    let seen = stage.see(0).await;
    assert!(stage.other.request_hand_over(&seen, &stage.bob.host).await.unwrap());
    assert!(stage.other.request_hand_over(&seen, &stage.bob.host).await.unwrap());
    assert!(!stage.store.request_hand_over(&seen, &host("eve")).await.unwrap());
    assert_eq!(stage.see(0).await.hand_over_to, Some(stage.bob.host.clone()));
}

/// A request is for an owner, not for whoever comes after it.
pub async fn asking_for_a_lease_that_changed_hands_is_refused(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    stage.ada_takes(0).await;
    let early = stage.see(0).await;
    stage.ada_takes(0).await;
    assert!(!stage.other.request_hand_over(&early, &stage.bob.host).await.unwrap());
    assert_eq!(stage.see(0).await.hand_over_to, None);
}

/// Others can see for whom it was set free.
pub async fn a_lease_is_kept_for_who_asked(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    stage.store.release(&lease, Some(&stage.bob.host)).await.unwrap();
    let seen = stage.see(0).await;
    assert_eq!((seen.owner, seen.hand_over_to), (None, Some(stage.bob.host.clone())));
}

/// A new owner starts without a request on its neck.
pub async fn acquiring_answers_the_request(harness: &impl Harness) {
    let stage = Stage::set(harness).await;
    let lease = stage.ada_takes(0).await;
    assert!(stage.other.request_hand_over(&stage.see(0).await, &stage.bob.host).await.unwrap());
    stage.store.release(&lease, Some(&stage.bob.host)).await.unwrap();
    let next = take(&*stage.other, &stage.bob, &stage.sight(0).await).await;
    assert_eq!(next.epoch, lease.epoch.next());
    assert_eq!(stage.see(0).await.hand_over_to, None);
}
