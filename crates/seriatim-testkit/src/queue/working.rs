//! Workers and producers at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim::Failure;
use seriatim::order::{Admit, EventId, admit};
use seriatim::queue::{Event, Next, Queue, Take, Worker, WorkerSession};

use super::stage::object;
use super::{QueueHarness, QueueStage};

/// How often a producer tries to slip in. A long run is set by the environment.
fn rounds() -> usize {
    std::env::var("SERIATIM_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500)
}

/// Sends one event after another, until none of so many is missing.
async fn work(queue: Arc<dyn Queue>, session: WorkerSession, sent: Arc<Mutex<Vec<u64>>>, all: usize) {
    while sent.lock().unwrap().len() < all {
        let Take::Taken(taken) = queue.take(&session, 1).await.unwrap() else {
            tokio::task::yield_now().await;
            continue;
        };
        let mut events = taken.events;
        loop {
            let last = events.last().map(Event::id);
            sent.lock().unwrap().extend(events.iter().map(|event| event.id().0));
            match queue.next(&taken.hold, last, 1).await.unwrap() {
                Next::Events(more) => events = more,
                Next::Released => break,
                Next::Lost => panic!("nobody else is there to take it"),
            }
        }
    }
}

/// The producer pushes one event after another, while two workers are always just about to release the object.
pub async fn pushing_between_the_last_pop_and_the_release_strands_nothing(harness: &impl QueueHarness) {
    let stage = QueueStage::set(harness).await;
    let (rounds, sent) = (rounds(), Arc::new(Mutex::new(Vec::new())));
    let mut workers = tokio::task::JoinSet::new();
    for (queue, session) in [(&stage.queue, &stage.ada), (&stage.other, &stage.bob)] {
        workers.spawn(work(queue.clone(), session.clone(), sent.clone(), rounds));
    }
    let producer = harness.open().await;
    for _ in 0..rounds {
        producer.push(&object("work:1"), &["x".into()]).await.unwrap();
    }
    let bound = Duration::from_secs(60) + Duration::from_millis(5) * rounds as u32;
    let ended = tokio::time::timeout(bound, workers.join_all()).await;
    assert!(ended.is_ok(), "stranded: {:?}", stage.queue.inspect(&object("work:1")).await.unwrap());
    stage.all_is_well().await;
    let mut ids = sent.lock().unwrap().clone();
    assert!(ids.is_sorted(), "one object's events are sent in order");
    ids.dedup();
    assert_eq!(ids.len(), rounds);
}

/// Three workers, seven objects; the consumer's gate finds every chain whole and nothing twice.
pub async fn many_workers_send_every_chain_whole(harness: &impl QueueHarness) {
    const OBJECTS: usize = 7;
    let events = 280;
    let sent: Arc<Mutex<Vec<Event>>> = Arc::default();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (queue, seen, sending) = (harness.open().await, sent.clone(), sent.clone());
        let sender = move |event: Event| {
            sending.lock().unwrap().push(event);
            async { Ok::<(), Failure>(()) }
        };
        let all_sent = async move {
            while seen.lock().unwrap().len() < events {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        workers.spawn(Worker::new(&format!("w{number}"), queue).run_until(sender, all_sent));
    }
    let producer = harness.open().await;
    for number in 0..events / 2 {
        let body = format!("{number}");
        let name = object(&format!("work:{}", number % OBJECTS));
        producer.push(&name, &[body.as_str().into(), body.as_str().into()]).await.unwrap();
    }
    for ended in tokio::time::timeout(Duration::from_secs(60), workers.join_all()).await.expect("all sent") {
        ended.unwrap();
    }
    let mut last: BTreeMap<_, EventId> = BTreeMap::new();
    for event in sent.lock().unwrap().iter() {
        let at = last.insert(event.object.clone(), event.id());
        assert_eq!(admit(at, event.link), Ok(Admit::Apply), "{event:?}");
    }
    assert_eq!(sent.lock().unwrap().len(), events);
    assert_eq!(producer.invariants().await.unwrap(), []);
    assert_eq!(producer.objects().await.unwrap(), []);
}
