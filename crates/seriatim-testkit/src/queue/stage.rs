//! What most promises need: two workers with a handle each.

use std::sync::Arc;
use std::time::Duration;

use seriatim::HostName;
use seriatim::lease::HostView;
use seriatim::name::ObjectName;
use seriatim::queue::{Body, Event, Hold, Next, Queue, Take, Taken, WorkerSession};

use super::QueueHarness;

/// The expiry that they publish.
pub const EXPIRE: Duration = Duration::from_secs(10);

/// Ada and Bob, each with a handle on one queue.
pub struct QueueStage {
    /// Ada's handle.
    pub queue: Arc<dyn Queue>,
    /// Ada, joined.
    pub ada: WorkerSession,
    /// Bob's handle on the same queue.
    pub other: Arc<dyn Queue>,
    /// Bob, joined.
    pub bob: WorkerSession,
}

impl QueueStage {
    /// Sets the stage on an empty queue.
    pub async fn set(harness: &impl QueueHarness) -> Self {
        let (queue, other) = (harness.open().await, harness.open().await);
        let ada = queue.join(&worker("ada"), EXPIRE, None).await.expect("a free name");
        let bob = other.join(&worker("bob"), EXPIRE, None).await.expect("a free name");
        QueueStage { queue, ada, other, bob }
    }

    /// Somebody pushes these to the object.
    pub async fn push(&self, name: &str, events: &[&str]) {
        let events: Vec<Body> = events.iter().map(|event| Body::from(*event)).collect();
        self.other.push(&object(name), &events).await.expect("room");
    }

    /// Ada takes what there is to take.
    pub async fn ada_takes(&self, limit: usize) -> Taken {
        taken(self.queue.take(&self.ada, limit).await.expect("a queue that works"))
    }

    /// Bob takes what there is to take.
    pub async fn bob_takes(&self, limit: usize) -> Taken {
        taken(self.other.take(&self.bob, limit).await.expect("a queue that works"))
    }

    /// A worker as everybody sees it.
    pub async fn see(&self, session: &WorkerSession) -> HostView {
        let workers = self.other.workers().await.expect("a queue that works");
        workers.into_iter().find(|seen| seen.session == session.id).expect("joined")
    }

    /// Ada is found to be silent.
    pub async fn ada_is_recovered(&self) {
        let seen = self.see(&self.ada).await;
        assert!(self.other.recover(&seen).await.expect("a queue that works"));
    }

    /// Nothing is broken.
    pub async fn all_is_well(&self) {
        assert_eq!(self.queue.invariants().await.expect("a queue that works"), []);
    }
}

/// Everything that is to be sent of a held object, one event at a time, until it is released.
pub(super) async fn drain(queue: &dyn Queue, hold: &Hold, events: Vec<Event>, limit: usize) -> Vec<Event> {
    let mut all = events;
    let mut sent = all.last().map(Event::id);
    loop {
        match queue.next(hold, sent, limit).await.expect("a queue that works") {
            Next::Events(events) => {
                sent = events.last().map(Event::id);
                all.extend(events);
            }
            Next::Released => return all,
            Next::Lost => panic!("the hold was lost"),
        }
    }
}

pub(super) fn taken(take: Take) -> Taken {
    match take {
        Take::Taken(taken) => taken,
        other => panic!("an object was there to be taken, but: {other:?}"),
    }
}

pub(super) fn object(name: &str) -> ObjectName {
    ObjectName::new(name).expect("a good name")
}

pub(super) fn worker(name: &str) -> HostName {
    HostName::new(name).expect("a good name")
}

pub(super) fn bodies(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| String::from_utf8_lossy(event.body.as_bytes()).into_owned()).collect()
}
