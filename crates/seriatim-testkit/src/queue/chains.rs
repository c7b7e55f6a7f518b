//! Ids and what they hang together by.

use seriatim::queue::{Event, Next};

use super::stage::{bodies, drain};
use super::{QueueHarness, QueueStage};

fn links(events: &[Event]) -> Vec<(u64, Option<u64>)> {
    events.iter().map(|event| (event.id().0, event.prev().map(|prev| prev.0))).collect()
}

/// The first has none.
pub async fn each_event_names_the_one_before_it(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b", "c", "d", "e"]).await;
    let taken = stage.ada_takes(2).await;
    let all = links(&drain(&*stage.queue, &taken.hold, taken.events, 2).await);
    assert_eq!(all[0].1, None);
    assert!(all.windows(2).all(|pair| pair[1].1 == Some(pair[0].0) && pair[1].0 > pair[0].0), "{all:?}");
}

/// One counter for all.
pub async fn ids_rise_over_all_objects(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let mut ids = Vec::new();
    for name in ["work:1", "work:2", "work:1"] {
        stage.push(name, &["x", "y"]).await;
        let taken = stage.ada_takes(1).await;
        ids.extend(drain(&*stage.queue, &taken.hold, taken.events, 1).await.iter().map(Event::id));
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

/// Whoever sends them.
pub async fn the_chain_goes_on_after_a_release(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a"]).await;
    let taken = stage.ada_takes(1).await;
    let first = drain(&*stage.queue, &taken.hold, taken.events, 1).await;
    stage.push("work:1", &["b"]).await;
    let next = stage.bob_takes(1).await.events;
    assert_eq!(next[0].prev(), Some(first[0].id()));
}

/// Byte for byte: the consumer may have seen it already.
pub async fn what_was_stamped_is_the_same_for_who_comes_next(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b", "c"]).await;
    let before = stage.ada_takes(2).await;
    stage.push("work:2", &["x"]).await;
    stage.ada_is_recovered().await;
    let after = stage.bob_takes(10).await;
    assert_eq!(after.events, before.events);
    assert!(after.hold.epoch > before.hold.epoch);
    let rest = drain(&*stage.other, &after.hold, after.events, 10).await;
    assert_eq!(bodies(&rest), ["a", "b", "c"]);
}

/// What was recorded is not sent again; the rest keeps its ids.
pub async fn a_partly_sent_batch_goes_on_where_it_stopped(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    stage.push("work:1", &["a", "b", "c"]).await;
    let before = stage.ada_takes(3).await;
    let answer = stage.queue.next(&before.hold, Some(before.events[0].id()), 3).await.unwrap();
    assert_eq!(answer, Next::Events(before.events[1..].to_vec()));
    stage.queue.release(&before.hold, Some(before.events[1].id())).await.unwrap();
    assert_eq!(stage.bob_takes(3).await.events, before.events[2..]);
}
