//! A queue in memory: for tests and simulation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{
    Backlog, Body, Books, DiscardedEvents, Hold, IfEventsWait, Next, ObjectView, PushError, Queue, Removal,
    Take, WorkerEntry, WorkerSession,
};
use crate::clock;
use crate::lease::{HostView, Liveness};
use crate::name::{HostName, ObjectName, SessionId};
use crate::order::EventId;
use crate::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};

/// Keeps everything in memory; clones share it.
#[derive(Clone, Debug)]
pub struct MemoryQueue {
    books: Arc<Mutex<Books>>,
    news: Arc<Notify>,
    discarded: Arc<Mutex<Vec<DiscardedEvents>>>,
    limit: u64,
    /// How late it answers whoever joins, for tests.
    #[cfg(test)]
    pub(super) join_answered_after: Duration,
}

impl Default for MemoryQueue {
    fn default() -> Self {
        MemoryQueue::new()
    }
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new() -> Self {
        MemoryQueue {
            limit: u64::MAX,
            books: Arc::default(),
            news: Arc::default(),
            discarded: Arc::default(),
            #[cfg(test)]
            join_answered_after: Duration::ZERO,
        }
    }

    /// The same queue, for producers who may let no object have more than so many events waiting.
    pub fn limited_to(self, limit: u64) -> Self {
        MemoryQueue { limit, ..self }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Every change of the books is complete before anything can panic, so a poisoned lock is still good.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that may queue objects, and wakes who waits for them.
    fn change<T>(&self, change: impl FnOnce(&mut Books) -> T) -> T {
        let changed = change(&mut self.books());
        self.news.notify_waiters();
        changed
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError> {
        let object = ObjectName::new(object.as_str())?;
        let (limit, pushed) = (self.limit, events.len() as u64);
        let pushing = self.change(|books| books.push(&object, events, limit));
        pushing.map_err(|queued| PushError::Full { object, queued, pushed, limit })
    }

    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError> {
        let joined =
            self.change(|books| books.join(worker, SessionId::random(), expire, replacing, clock::wall()));
        #[cfg(test)]
        tokio::time::sleep(self.join_answered_after).await;
        joined.map_err(|WorkerEntry { session, beat, expire, .. }| JoinError::NameTaken {
            host: worker.clone(),
            session,
            beat,
            expire,
            liveness: Liveness::Unknown,
        })
    }

    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError> {
        self.change(|books| books.leave(session));
        Ok(())
    }

    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError> {
        Ok(self.books().beat(session, clock::wall()))
    }

    async fn workers(&self) -> Result<Vec<HostView>, StoreError> {
        Ok(self.books().workers())
    }

    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError> {
        Ok(self.change(|books| books.recover(&seen.name, &seen.session, seen.beat)))
    }

    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError> {
        Ok(self.books().take(session, limit, clock::wall()))
    }

    async fn wait(&self, timeout: Duration) {
        let news = self.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        if self.books().queued.is_empty() {
            // Either way another look is due.
            drop(tokio::time::timeout(timeout, news).await);
        }
    }

    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError> {
        Ok(self.books().next(hold, sent, limit, clock::wall()))
    }

    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError> {
        self.change(|books| books.release(hold, sent));
        Ok(())
    }

    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError> {
        Ok(self.books().park(hold, sent, failure, clock::wall()))
    }

    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError> {
        Ok(self.change(|books| books.retry(object)))
    }

    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let (answer, gone) = self.change(|books| books.discard(object, what, reason, clock::wall()));
        self.discarded.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
        Ok(answer)
    }

    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError> {
        let discarded = self.discarded.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(discarded.iter().rev().take(limit).cloned().collect())
    }

    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError> {
        Ok(self.books().parked())
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        Ok(self.books().backlog())
    }

    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError> {
        Ok(self.books().inspect(object))
    }

    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError> {
        Ok(self.books().objects())
    }

    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        let removal = self.books().remove(if_events_wait);
        if removal == Removal::Removed {
            self.discarded.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Ok(removal)
    }
}
