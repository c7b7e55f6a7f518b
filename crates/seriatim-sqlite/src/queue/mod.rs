//! The event queue in a SQLite file. Producers push inside their own transaction.
//!
//! Every operation is one `BEGIN IMMEDIATE` transaction: SQLite has one writer at a time, so what a transaction reads is still so when it
//! writes. What they do is in `operations`, one statement a file in `queries/queue_*.sql`.

mod operations;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{FeedName, HostName, ObjectName, SessionId};
use seriatim::order::EventId;
use seriatim::queue::{
    Backlog, Body, DiscardedEvents, Hold, IfEventsWait, Next, ObjectView, PushError, Queue, Removal, Take,
    Worker, WorkerSession,
};
use seriatim::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};

use crate::database::{Access, Database, look};
use crate::error::SqliteError;
use crate::migrate::{Component, migrate, version};
use operations::{Holder, Operations};

const COMPONENT: Component = Component {
    name: "queue",
    migrations: &[
        include_str!("../../migrations/queue/0001_queue.sql"),
        include_str!("../../migrations/queue/0002_discarded.sql"),
        include_str!("../../migrations/queue/0003_expire.sql"),
    ],
};
const INSERT: &str = include_str!("../../queries/queue_insert.sql");
const KNOWN: &str = include_str!("../../queries/queue_known.sql");

/// How often a waiting worker looks whether something was pushed.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// An event queue in a SQLite file, shared by any number of processes on one machine.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use seriatim::Failure;
/// use seriatim::name::FeedName;
/// use seriatim::queue::{Body, Event};
/// use seriatim_sqlite::SqliteQueue;
/// use seriatim_sqlite::rusqlite::Connection;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("shop.db");
/// let queue = SqliteQueue::open(&path, &FeedName::new("works")?).await?;
///
/// // A producer pushes in the transaction of its own write: both happen, or neither.
/// let mut connection = Connection::open(&path)?;
/// connection.execute_batch("create table work (id integer primary key, title text)")?;
/// let transaction = connection.transaction()?;
/// transaction.execute("insert into work (title) values ('Emma')", [])?;
/// queue.push_in(&transaction, "work:1", &[Body::from(r#"{"titled":"Emma"}"#)])?;
/// transaction.commit()?;
///
/// let print = |event: Event| async move { println!("{}", event.to_json()); Ok::<(), Failure>(()) };
/// assert_eq!(queue.worker("w1").drain(print).await?.sent, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SqliteQueue {
    database: Database,
    name: FeedName,
    limit: Option<u64>,
}

impl SqliteQueue {
    /// Opens the queue of this name in the file, making the file and the tables that are missing.
    pub async fn open(path: impl AsRef<Path>, name: &FeedName) -> Result<Self, SqliteError> {
        let path = path.as_ref();
        let database = Database::open(path, Access::Create).await?;
        let queue = name.clone();
        let prepare = move |connection: &mut Connection| {
            migrate(connection, &COMPONENT)?;
            connection.execute(INSERT, [queue.as_str()]).map(drop)
        };
        database.call("setting up a queue in", prepare).await?;
        Ok(SqliteQueue { database, name: name.clone(), limit: None })
    }

    /// Opens the queue of this name if the file has it. Makes no file, no tables and no queue.
    pub async fn open_existing(path: impl AsRef<Path>, name: &FeedName) -> Result<Option<Self>, SqliteError> {
        let path = path.as_ref();
        let queue = name.clone();
        let is_known = move |connection: &Connection| {
            Ok(version(connection, COMPONENT.name)? > 0
                && connection.query_row(KNOWN, [queue.as_str()], |row| row.get(0))?)
        };
        if !path.exists() || !look(path, "looking for queues in", is_known).await? {
            return Ok(None);
        }
        SqliteQueue::open(path, name).await.map(Some)
    }

    /// Lets no object have more than so many events waiting: pushes beyond that are refused.
    pub fn limited_to(self, events: u64) -> Self {
        SqliteQueue { limit: Some(events), ..self }
    }

    /// A worker of this name on the queue.
    pub fn worker(&self, name: &str) -> Worker {
        Worker::new(name, Arc::new(self.clone()))
    }

    /// Pushes events, the main one first, in the producer's own transaction on the queue's file. When it is refused, nothing was written;
    /// whether the rest of the transaction is to happen is the producer's decision.
    pub fn push_in(
        &self,
        transaction: &Transaction<'_>,
        object: &str,
        events: &[Body],
    ) -> Result<(), PushError> {
        let object = ObjectName::new(object)?;
        let pushed = Operations::on(transaction, &self.name).push(&object, events, self.limit);
        let pushed = pushed.map_err(|cause| {
            StoreError::from(SqliteError::new(self.database.path(), "pushing events in", cause))
        })?;
        self.pushed(object, events, pushed)
    }

    fn pushed(&self, object: ObjectName, events: &[Body], refused: Option<u64>) -> Result<(), PushError> {
        let (Some(queued), Some(limit)) = (refused, self.limit) else { return Ok(()) };
        Err(PushError::Full { object, queued, pushed: events.len() as u64, limit })
    }

    async fn write<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Operations<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.transact(doing, TransactionBehavior::Immediate, work).await
    }

    async fn read<T, F>(&self, doing: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Operations<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.transact(doing, TransactionBehavior::Deferred, work).await
    }

    async fn transact<T, F>(
        &self,
        doing: &'static str,
        behavior: TransactionBehavior,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Operations<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let name = self.name.clone();
        let answer = self.database.call(doing, move |connection| {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let answer = work(&Operations::on(&transaction, &name))?;
            transaction.commit()?;
            Ok(answer)
        });
        Ok(answer.await?)
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError> {
        let object = ObjectName::new(object.as_str())?;
        let (name, bodies, limit) = (object.clone(), events.to_vec(), self.limit);
        let pushed = self.write("pushing events in", move |queue| queue.push(&name, &bodies, limit)).await?;
        self.pushed(object, events, pushed)
    }

    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError> {
        let session = WorkerSession { worker: worker.clone(), id: SessionId::random() };
        let joining = session.clone();
        let replacing = replacing.map(|(session, beat)| (session.clone(), beat));
        let holder = self
            .write("joining in", move |queue| {
                queue.join(&joining, expire, replacing.as_ref().map(|(session, beat)| (session, *beat)))
            })
            .await?;
        match holder {
            None => Ok(session),
            Some(Holder { session, beat, expire }) => {
                let (host, liveness) = (worker.clone(), Liveness::Unknown);
                Err(JoinError::NameTaken { host, session, beat, expire, liveness })
            }
        }
    }

    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError> {
        let session = session.clone();
        self.write("leaving", move |queue| queue.leave(&session)).await
    }

    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError> {
        let session = session.clone();
        self.write("giving a sign of life in", move |queue| queue.beat(&session)).await
    }

    async fn workers(&self) -> Result<Vec<HostView>, StoreError> {
        self.read("looking at the workers in", |queue| queue.workers()).await
    }

    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError> {
        let seen = seen.clone();
        self.write("taking over in", move |queue| queue.recover(&seen)).await
    }

    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError> {
        let session = session.clone();
        self.write("taking an object in", move |queue| queue.take(&session, limit)).await
    }

    async fn wait(&self, timeout: Duration) {
        let look = async {
            // What is wrong with the file, the caller's next operation will tell better.
            while !self.read("looking for objects in", |queue| queue.is_any_queued()).await.unwrap_or(true) {
                tokio::time::sleep(LOOK_EVERY.min(timeout)).await;
            }
        };
        drop(tokio::time::timeout(timeout, look).await);
    }

    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError> {
        let hold = hold.clone();
        self.write("recording what was sent in", move |queue| queue.next(&hold, sent, limit)).await
    }

    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.write("releasing an object in", move |queue| queue.release(&hold, sent)).await
    }

    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError> {
        let (hold, failure) = (hold.clone(), failure.clone());
        self.write("parking an object in", move |queue| queue.park(&hold, sent, &failure)).await
    }

    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError> {
        let object = object.clone();
        self.write("retrying an object in", move |queue| queue.retry(&object)).await
    }

    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let (object, reason) = (object.clone(), reason.to_owned());
        self.write("discarding events in", move |queue| queue.discard(&object, what, &reason)).await
    }

    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError> {
        self.read("listing discards in", move |queue| queue.discarded(limit)).await
    }

    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.read("listing parked objects in", |queue| queue.parked()).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.read("counting events in", |queue| queue.backlog()).await
    }

    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError> {
        let object = object.clone();
        self.read("looking at an object in", move |queue| queue.inspect(&object)).await
    }

    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.read("listing objects in", |queue| queue.objects()).await
    }

    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        self.write("removing a queue in", move |queue| queue.remove(if_events_wait)).await
    }
}
