//! The queue as workers reach it: the library's own in memory, behind a network that fails.

use std::time::Duration;

use async_trait::async_trait;
use seriatim::lease::HostView;
use seriatim::name::{HostName, ObjectName, SessionId};
use seriatim::order::EventId;
use seriatim::queue::{
    Backlog, Body, DiscardedEvents, Hold, IfEventsWait, MemoryQueue, Next, ObjectView, PushError, Queue,
    Removal, Take, WorkerSession,
};
use seriatim::simulation::{Mutant, has};
use seriatim::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};

use super::history::What;
use super::scheduler::Machine;
use super::world::{Link, here};

/// The number in the name of an object.
pub fn object_number(object: &ObjectName) -> u32 {
    object.as_str().trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(0)
}

/// The queue as one life of a worker reaches it.
#[derive(Clone)]
pub struct SimQueue {
    /// What all workers share.
    pub inner: MemoryQueue,
    /// The way to it.
    pub link: Link,
}

/// The hold as its present holder has it: for queues that do not look at the epoch.
async fn whoever_holds(queue: &MemoryQueue, hold: &Hold) -> Result<Hold, StoreError> {
    let held = queue.inspect(&hold.object).await?.and_then(|object| object.holder);
    Ok(if has(Mutant::RecordWithoutEpoch) { held.unwrap_or_else(|| hold.clone()) } else { hold.clone() })
}

fn recorded(machine: Machine, hold: &Hold, sent: Option<EventId>) {
    if let Some(upto) = sent {
        let (object, epoch) = (object_number(&hold.object), hold.epoch.0);
        here().record_on(machine, What::Recorded { object, epoch, upto: upto.0 });
    }
}

async fn next(
    queue: &MemoryQueue,
    hold: &Hold,
    sent: Option<EventId>,
    limit: usize,
    machine: Machine,
) -> Result<Next, StoreError> {
    if has(Mutant::ReleaseInTwoSteps)
        && let Some(object) = queue.inspect(&hold.object).await?
        && object.holder.as_ref() == Some(hold)
        && object.waiting == 0
        && object.sending.last().copied() == sent
    {
        recorded(machine, hold, sent);
        tokio::time::sleep(Duration::from_millis(20)).await;
        queue.release(hold, sent).await?;
        return Ok(Next::Released);
    }
    let next = queue.next(&whoever_holds(queue, hold).await?, sent, limit).await?;
    if next != Next::Lost {
        recorded(machine, hold, sent);
    }
    Ok(next)
}

async fn is_held(queue: &MemoryQueue, hold: &Hold) -> Result<bool, StoreError> {
    Ok(queue.inspect(&hold.object).await?.is_some_and(|object| object.holder.as_ref() == Some(hold)))
}

#[async_trait]
impl Queue for SimQueue {
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError> {
        self.inner.push(object, events).await
    }

    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError> {
        let (queue, worker, replacing) =
            (self.inner.clone(), worker.clone(), replacing.map(|(session, beat)| (session.clone(), beat)));
        self.link
            .call("join", async move {
                queue.join(&worker, expire, replacing.as_ref().map(|(session, beat)| (session, *beat))).await
            })
            .await
    }

    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError> {
        let (queue, session) = (self.inner.clone(), session.clone());
        self.link.call("leave", async move { queue.leave(&session).await }).await
    }

    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError> {
        let (queue, session, machine) = (self.inner.clone(), session.clone(), self.link.machine);
        let beat = async move {
            let holds = queue.beat(&session).await?;
            here().record_on(machine, What::Beat { worker: session.id.to_string(), kept: holds.is_some() });
            Ok::<_, StoreError>(holds)
        };
        self.link.call("beat", beat).await
    }

    async fn workers(&self) -> Result<Vec<HostView>, StoreError> {
        let queue = self.inner.clone();
        self.link.call("workers", async move { queue.workers().await }).await
    }

    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError> {
        let (queue, mut seen, machine) = (self.inner.clone(), seen.clone(), self.link.machine);
        let recover = async move {
            if has(Mutant::RecoverWithoutBeat)
                && let Some(now) =
                    queue.workers().await?.into_iter().find(|worker| worker.session == seen.session)
            {
                seen = now;
            }
            let recovered = queue.recover(&seen).await?;
            if recovered {
                here().record_on(machine, What::Recovered { worker: seen.session.to_string() });
            }
            Ok::<_, StoreError>(recovered)
        };
        self.link.call("recover", recover).await
    }

    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError> {
        let (queue, session, machine) = (self.inner.clone(), session.clone(), self.link.machine);
        let take = async move {
            let taken = queue.take(&session, limit).await?;
            if let Take::Taken(taken) = &taken {
                let (object, epoch) = (object_number(&taken.hold.object), taken.hold.epoch.0);
                here().record_on(machine, What::Taken { object, epoch });
            }
            Ok::<_, StoreError>(taken)
        };
        self.link.call("take", take).await
    }

    async fn wait(&self, timeout: Duration) {
        self.inner.wait(timeout).await;
    }

    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError> {
        let (queue, hold, machine) = (self.inner.clone(), hold.clone(), self.link.machine);
        self.link.call("next", async move { next(&queue, &hold, sent, limit, machine).await }).await
    }

    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError> {
        let (queue, hold, machine) = (self.inner.clone(), hold.clone(), self.link.machine);
        let release = async move {
            if is_held(&queue, &hold).await? {
                recorded(machine, &hold, sent);
            }
            queue.release(&whoever_holds(&queue, &hold).await?, sent).await
        };
        self.link.call("release", release).await
    }

    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError> {
        let (queue, hold, machine) = (self.inner.clone(), hold.clone(), self.link.machine);
        let failure = failure.clone();
        let park = async move {
            if is_held(&queue, &hold).await? {
                recorded(machine, &hold, sent);
            }
            queue.park(&whoever_holds(&queue, &hold).await?, sent, &failure).await
        };
        self.link.call("park", park).await
    }

    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError> {
        self.inner.retry(object).await
    }

    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        self.inner.discard(object, what, reason).await
    }

    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError> {
        self.inner.discarded(limit).await
    }

    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.inner.parked().await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.inner.backlog().await
    }

    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError> {
        self.inner.inspect(object).await
    }

    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.inner.objects().await
    }

    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        self.inner.remove(if_events_wait).await
    }
}
