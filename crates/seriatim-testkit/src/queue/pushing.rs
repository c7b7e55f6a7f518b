//! What producers rely on.

use seriatim::name::ObjectName;
use seriatim::queue::{Body, PushError, Take};

use super::stage::{bodies, drain, object};
use super::{QueueHarness, QueueStage};

/// The main event first, then its sub-events, then the next push.
pub async fn events_leave_in_the_order_of_their_push(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["main", "sub-a", "sub-b"]).await;
    stage.push("work:1", &["second"]).await;
    let taken = stage.ada_takes(2).await;
    let all = drain(&*stage.queue, &taken.hold, taken.events, 2).await;
    assert_eq!(bodies(&all), ["main", "sub-a", "sub-b", "second"]);
}

/// Nothing is queued for nothing.
pub async fn an_empty_push_does_nothing(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &[]).await;
    assert_eq!(stage.queue.take(&stage.ada, 1).await.unwrap(), Take::Nothing);
    assert_eq!(stage.queue.objects().await.unwrap(), []);
}

/// Whatever they are, and whatever the object is called.
pub async fn bytes_come_back_as_they_are(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let name = object("wörk:{1}:'events'\n%*");
    let events = [Body::bytes(b"\x00\xff\r\n"), Body::bytes(b""), Body::from(r#"{"a": 1.10}"#)];
    stage.other.push(&name, &events).await.unwrap();
    let taken = stage.ada_takes(10).await;
    assert_eq!(taken.hold.object, name);
    let came: Vec<Body> = taken.events.into_iter().map(|event| event.body).collect();
    assert_eq!(came, events);
    assert_eq!(stage.queue.objects().await.unwrap(), [name]);
    stage.all_is_well().await;
}

/// All of a push or nothing of it, and other objects are not concerned.
pub async fn a_full_object_refuses_and_says_so(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let bounded = harness.with_limit(3).await;
    let events = |count: usize| vec![Body::from("x"); count];
    bounded.push(&object("work:1"), &events(2)).await.unwrap();
    let refused = bounded.push(&object("work:1"), &events(2)).await.unwrap_err();
    let full = matches!(refused, PushError::Full { queued: 2, pushed: 2, limit: 3, .. });
    assert!(full, "{refused}");
    assert!(refused.to_string().contains("work:1 has 2 events waiting and may have 3"), "{refused}");
    bounded.push(&object("work:1"), &events(1)).await.unwrap();
    bounded.push(&object("work:2"), &events(3)).await.unwrap();
    assert_eq!(stage.queue.inspect(&object("work:1")).await.unwrap().unwrap().waiting, 3);
}

/// Before it becomes part of a key.
pub async fn a_name_that_is_no_good_is_refused(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    for name in ["", &"x".repeat(1025)] {
        let refused = stage.queue.push(&ObjectName::found(name), &[Body::from("x")]).await;
        assert!(matches!(refused, Err(PushError::Name(_))), "{refused:?}");
    }
}
