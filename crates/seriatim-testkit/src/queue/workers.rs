//! Names, signs of life, and taking over.

use std::time::Duration;

use seriatim::name::SessionId;
use seriatim::queue::Take;
use seriatim::store::JoinError;

use super::stage::{EXPIRE, bodies, worker};
use super::{QueueHarness, QueueStage};

/// It counts on keeping what it holds for as long as its beats last.
pub async fn a_holder_that_has_beaten_since_keeps_its_name(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.queue.beat(&stage.ada).await.unwrap();
    let refused = stage.other.join(&stage.ada.worker, EXPIRE, Some((&stage.ada.id, 0))).await;
    assert!(matches!(refused, Err(JoinError::NameTaken { beat: 1, .. })));
    stage.other.join(&stage.ada.worker, EXPIRE, Some((&stage.ada.id, 1))).await.unwrap();
}

/// The second worker of a name is refused and told who holds it.
pub async fn a_name_belongs_to_one_worker(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    for replacing in [None, Some(SessionId::random())] {
        let refused = stage
            .other
            .join(&stage.ada.worker, EXPIRE, replacing.as_ref().map(|session| (session, 0)))
            .await
            .unwrap_err();
        let JoinError::NameTaken { host, session, .. } = refused else { panic!("{refused}") };
        assert_eq!((host, session), (stage.ada.worker.clone(), stage.ada.id.clone()));
    }
}

/// Joining is atomic.
pub async fn of_many_who_join_under_one_name_one_comes_in(harness: &impl QueueHarness) {
    let mut joining = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let queue = harness.open().await;
        joining.spawn(async move { queue.join(&worker("ada"), EXPIRE, None).await.is_ok() });
    }
    assert_eq!(joining.join_all().await.into_iter().filter(|came_in| *came_in).count(), 1);
}

/// Who has seen a session go silent may take its name, and what it held is queued again.
pub async fn a_name_is_taken_over_by_naming_its_session(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let before = stage.ada_takes(1).await;
    let successor = stage.other.join(&stage.ada.worker, EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    assert_ne!(successor.id, stage.ada.id);
    assert_eq!(stage.queue.beat(&stage.ada).await.unwrap(), None);
    let Take::Taken(after) = stage.other.take(&successor, 1).await.unwrap() else {
        panic!("nothing to take")
    };
    assert_eq!(after.events, before.events);
    stage.all_is_well().await;
}

/// Others judge a worker by the expiry that it has published, however different from theirs.
pub async fn a_worker_publishes_its_expiry(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let patient = Duration::from_millis(54_321);
    let eve = stage.queue.join(&worker("eve"), patient, None).await.unwrap();
    stage.queue.beat(&eve).await.unwrap();
    let published: Vec<Duration> =
        stage.other.workers().await.unwrap().iter().map(|worker| worker.expire).collect();
    assert_eq!(published, [EXPIRE, EXPIRE, patient]);
    let refused = stage.other.join(&eve.worker, EXPIRE, None).await.unwrap_err();
    assert!(matches!(refused, JoinError::NameTaken { expire, .. } if expire == patient), "{refused:?}");
}

/// The beat is what others judge a worker by.
pub async fn beats_move(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let mut beats = Vec::new();
    for _ in 0..3 {
        stage.queue.beat(&stage.ada).await.unwrap().unwrap();
        beats.push(stage.see(&stage.ada).await.beat);
    }
    beats.dedup();
    assert_eq!(beats.len(), 3);
}

/// All it held is queued again, and it is gone.
pub async fn a_silent_worker_is_recovered(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    for name in ["work:1", "work:2"] {
        stage.push(name, &["a"]).await;
        stage.ada_takes(1).await;
    }
    let seen = stage.see(&stage.ada).await;
    assert!(stage.other.recover(&seen).await.unwrap());
    assert!(!stage.other.recover(&seen).await.unwrap(), "once is enough");
    stage.all_is_well().await;
    let names: Vec<_> = stage.other.workers().await.unwrap().into_iter().map(|worker| worker.name).collect();
    assert_eq!(names, [worker("bob")]);
    stage.bob_takes(1).await;
    stage.bob_takes(1).await;
}

/// What was seen must still be so.
pub async fn a_sign_of_life_prevents_recovery(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    stage.ada_takes(1).await;
    let seen = stage.see(&stage.ada).await;
    stage.queue.beat(&stage.ada).await.unwrap().unwrap();
    assert!(!stage.other.recover(&seen).await.unwrap());
    assert_eq!(stage.other.take(&stage.bob, 1).await.unwrap(), Take::Nothing);
}

/// It has waited longest.
pub async fn what_was_recovered_comes_first(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    stage.ada_takes(1).await;
    stage.push("work:2", &["b"]).await;
    stage.ada_is_recovered().await;
    assert_eq!(bodies(&stage.bob_takes(1).await.events), ["a"]);
}

/// A planned end makes nobody wait.
pub async fn leaving_gives_back_what_was_held(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let before = stage.ada_takes(1).await;
    stage.queue.leave(&stage.ada).await.unwrap();
    stage.queue.leave(&stage.ada).await.unwrap();
    assert_eq!(stage.bob_takes(1).await.events, before.events);
    stage.all_is_well().await;
}

/// A zombie that shuts down takes nothing with it.
pub async fn leaving_after_being_replaced_leaves_the_successor_alone(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let successor = stage.other.join(&stage.ada.worker, EXPIRE, Some((&stage.ada.id, 0))).await.unwrap();
    stage.push("work:1", &["a"]).await;
    stage.other.take(&successor, 1).await.unwrap();
    stage.queue.leave(&stage.ada).await.unwrap();
    assert_eq!(stage.other.beat(&successor).await.unwrap().map(|holds| holds.len()), Some(1));
}

/// A session that lost its name cannot come back by the side door.
pub async fn a_replaced_session_takes_nothing(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    stage.ada_is_recovered().await;
    assert_eq!(stage.queue.take(&stage.ada, 1).await.unwrap(), Take::SessionLost);
    assert_eq!(bodies(&stage.bob_takes(1).await.events), ["a"]);
}
