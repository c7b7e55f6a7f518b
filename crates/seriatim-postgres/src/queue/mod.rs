//! The event queue in a PostgreSQL database. Producers push inside their own transaction, in any language.
//!
//! ```text
//!   producers ──▶ queue_line (locked till the commit) ──▶ queue_event, queue_waiting
//!   workers   ──▶ queue_waiting (skip locked) ──▶ queue_object (locked for one step) ──▶ queue_event
//! ```
//!
//! Every operation is one function in the database (`migrations/queue`), so it is one round trip. Producers and workers lock
//! different rows: a producer that does not commit keeps nobody waiting but who pushes to the same object. An event's id is drawn at the
//! push, behind the lock of its object's line, so that the order of ids is the order of commits.

mod ears;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{Epoch, FeedName, HostName, ObjectName, SessionId};
use seriatim::order::EventId;
use seriatim::queue::{
    Backlog, Body, DiscardedEvents, Hold, IfEventsWait, Next, ObjectView, PushError, Queue, Removal, Take,
    Taken, Worker, WorkerSession,
};
use seriatim::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use crate::database::Database;
use crate::error::PostgresError;
use crate::migrate::{Component, Upgrade, migrate, script, version};
use ears::Ears;

const COMPONENT: Component = Component {
    name: "queue",
    migrations: &[
        include_str!("../../migrations/queue/0001_queue.sql"),
        include_str!("../../migrations/queue/0002_push.sql"),
        include_str!("../../migrations/queue/0003_work.sql"),
        include_str!("../../migrations/queue/0004_pinned.sql"),
        include_str!("../../migrations/queue/0005_expire.sql"),
        include_str!("../../migrations/queue/0006_remove.sql"),
    ],
    upgrade: Upgrade::Rest,
};

/// The SQL of one file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../queries/queue_", $name, ".sql"))
    };
}

/// How often a waiting worker looks whether something was pushed: producers' transactions tell nobody.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long before another try when all that waits was being looked at by others.
const BUSY: Duration = Duration::from_millis(2);

/// An event queue in a PostgreSQL database, for any number of machines.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::Failure;
/// use seriatim::name::FeedName;
/// use seriatim::queue::{Body, Event};
/// use seriatim_postgres::tokio_postgres::{NoTls, connect};
/// use seriatim_postgres::{Database, PostgresQueue};
///
/// let url = "postgres://ada@db.example/shop";
/// let queue = PostgresQueue::open(Database::connect(url)?, &FeedName::new("works")?).await?;
///
/// // A producer pushes in the transaction of its own write: both happen, or neither.
/// let (mut client, connection) = connect(url, NoTls).await?;
/// tokio::spawn(connection);
/// let transaction = client.transaction().await?;
/// transaction.execute("insert into work (title) values ('Emma')", &[]).await?;
/// queue.push_in(&transaction, "work:1", &[Body::from(r#"{"titled":"Emma"}"#)]).await?;
/// transaction.commit().await?;
/// queue.wake().await?;
///
/// let send = |event: Event| async move { println!("{}", event.to_json()); Ok::<(), Failure>(()) };
/// queue.worker("w1").run_until(send, std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresQueue {
    database: Database,
    name: FeedName,
    limit: Option<u64>,
    look_every: Duration,
    ears: Arc<Ears>,
}

impl PostgresQueue {
    /// Opens the queue of this name, making the schema, the tables and functions that are missing.
    pub async fn open(database: Database, name: &FeedName) -> Result<Self, PostgresError> {
        migrate(&database, &COMPONENT).await?;
        database.query("making a queue in", sql!("make"), &[&name.as_str()]).await?;
        let ears = Arc::new(Ears::on(database.clone()));
        Ok(PostgresQueue { database, name: name.clone(), limit: None, look_every: LOOK_EVERY, ears })
    }

    /// Opens the queue of this name if the database has it. Makes neither tables nor a queue.
    pub async fn existing(database: Database, name: &FeedName) -> Result<Option<Self>, PostgresError> {
        if version(&database, &COMPONENT).await? == 0 {
            return Ok(None);
        }
        let found = database.query("looking for a queue in", sql!("known"), &[&name.as_str()]).await?;
        match found.first().is_some_and(|row| row.get(0)) {
            true => PostgresQueue::open(database, name).await.map(Some),
            false => Ok(None),
        }
    }

    /// The SQL that makes what queues still lack in this database. Changes nothing.
    pub async fn script(database: &Database) -> Result<String, PostgresError> {
        script(database, &COMPONENT).await
    }

    /// Lets no object have more than so many events waiting: pushes beyond that are refused.
    pub fn limited_to(self, events: u64) -> Self {
        PostgresQueue { limit: Some(events), ..self }
    }

    /// Has workers that wait look for events so often, beside being woken.
    pub fn looking_every(self, look_every: Duration) -> Self {
        PostgresQueue { look_every, ..self }
    }

    /// A worker of this name on the queue.
    pub fn worker(&self, name: &str) -> Worker {
        Worker::new(name, Arc::new(self.clone()))
    }

    /// Pushes events, the main one first, in the producer's own transaction on the queue's database. When it is refused, nothing was
    /// written; whether the rest of the transaction is to happen is the producer's decision.
    ///
    /// Until the transaction ends, whoever pushes to the same object waits. Two transactions that push to several objects
    /// should do so in one order, lest PostgreSQL has to end one of them.
    pub async fn push_in(
        &self,
        transaction: &Transaction<'_>,
        object: &str,
        events: &[Body],
    ) -> Result<(), PushError> {
        let object = ObjectName::new(object)?;
        let (name, bodies, limit) = (self.name.as_str(), bodies(events), self.room());
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&name, Type::TEXT),
            (&object.as_str(), Type::TEXT),
            (&bodies, Type::BYTEA_ARRAY),
            (&limit, Type::INT8),
        ];
        let pushed = transaction.query_typed(&self.database.sql(sql!("add")), &parameters).await;
        let pushed =
            pushed.map_err(|cause| StoreError::from(self.database.error("pushing events in", cause)))?;
        self.pushed(object, events, &pushed)
    }

    /// Has waiting workers look at once, instead of within some milliseconds. For after the commit of a producer's transaction.
    pub async fn wake(&self) -> Result<(), PostgresError> {
        self.database.query("waking workers in", sql!("wake"), &[&self.name.as_str()]).await.map(drop)
    }

    fn room(&self) -> Option<i64> {
        self.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    fn pushed(&self, object: ObjectName, events: &[Body], answer: &[Row]) -> Result<(), PushError> {
        let refused: Option<i64> = answer.first().map(|row| rows::get(row, 0)).transpose()?.flatten();
        let (Some(queued), Some(limit)) = (refused, self.limit) else { return Ok(()) };
        Err(PushError::Full { object, queued: queued.cast_unsigned(), pushed: events.len() as u64, limit })
    }

    /// Runs a statement whose first parameter is the queue's name.
    async fn query(
        &self,
        doing: &'static str,
        sql: &str,
        rest: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let name = self.name.as_str();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&name];
        parameters.extend(rest);
        Ok(self.database.query(doing, sql, &parameters).await?)
    }

    async fn is_so(
        &self,
        doing: &'static str,
        sql: &str,
        rest: &[&(dyn ToSql + Sync)],
    ) -> Result<bool, StoreError> {
        let rows = self.query(doing, sql, rest).await?;
        Ok(rows.first().map(|row| rows::get(row, 0)).transpose()?.unwrap_or(false))
    }

    /// Whoever waits for objects hears that there may be one. If not, it will see for itself.
    async fn news(&self) {
        if let Err(error) = self.wake().await {
            tracing::debug!("{error}");
        }
    }

    async fn is_any_waiting(&self) -> Result<bool, StoreError> {
        self.is_so("looking for objects in", sql!("is_waiting"), &[]).await
    }
}

fn bodies(events: &[Body]) -> Vec<&[u8]> {
    events.iter().map(Body::as_bytes).collect()
}

fn signed(id: Option<EventId>) -> Option<i64> {
    id.map(|id| id.0.cast_signed())
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit.max(1)).unwrap_or(i64::MAX)
}

#[async_trait]
impl Queue for PostgresQueue {
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError> {
        let object = ObjectName::new(object.as_str())?;
        let (name, bodies, limit) = (object.as_str(), bodies(events), self.room());
        let answer = self.query("pushing events in", sql!("add"), &[&name, &bodies, &limit]).await?;
        self.pushed(object.clone(), events, &answer)?;
        if !events.is_empty() {
            self.news().await;
        }
        Ok(())
    }

    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError> {
        let session = WorkerSession { worker: worker.clone(), id: SessionId::random() };
        let (replaced, beat) =
            replacing.map(|(session, beat)| (session.as_str(), beat.cast_signed())).unzip();
        let (name, id, expire) = (worker.as_str(), session.id.as_str(), expire.as_millis() as i64);
        let holder = self.query("joining", sql!("join"), &[&name, &id, &replaced, &beat, &expire]).await?;
        match holder.first() {
            None => Ok(session),
            Some(row) => Err(JoinError::NameTaken {
                host: worker.clone(),
                session: rows::session_id(row, 0)?,
                beat: rows::number(row, 1)?,
                expire: rows::expire(row, 2)?,
                liveness: Liveness::Unknown,
            }),
        }
    }

    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError> {
        let (worker, id) = (session.worker.as_str(), session.id.as_str());
        self.query("leaving", sql!("remove"), &[&worker, &id, &None::<i64>]).await?;
        self.news().await;
        Ok(())
    }

    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError> {
        let (worker, id) = (session.worker.as_str(), session.id.as_str());
        let doing = "giving a sign of life in";
        if self.query(doing, sql!("beat"), &[&worker, &id]).await?.is_empty() {
            return Ok(None);
        }
        let held = self.query(doing, sql!("held_by"), &[&id]).await?;
        let hold = |row: &Row| {
            let (object, epoch) = (rows::object(row, 0)?, Epoch(rows::number(row, 1)?));
            Ok(Hold { object, session: session.clone(), epoch })
        };
        held.iter().map(hold).collect::<Result<_, _>>().map(Some)
    }

    async fn workers(&self) -> Result<Vec<HostView>, StoreError> {
        let workers = self.query("looking at the workers in", sql!("workers"), &[]).await?;
        workers.iter().map(rows::worker).collect()
    }

    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError> {
        let (worker, session, beat) = (seen.name.as_str(), seen.session.as_str(), seen.beat.cast_signed());
        let doing = "taking over from a silent worker in";
        let removed = self.is_so(doing, sql!("remove"), &[&worker, &session, &Some(beat)]).await?;
        if removed {
            self.news().await;
        }
        Ok(removed)
    }

    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError> {
        let (worker, id, limit) = (session.worker.as_str(), session.id.as_str(), at_most(limit));
        let taken = self.query("taking an object in", sql!("take"), &[&worker, &id, &limit]).await?;
        let Some(first) = taken.first() else { return Ok(Take::Nothing) };
        Ok(match rows::get(first, 0)? {
            "lost" => Take::SessionLost,
            "taken" => {
                let (object, epoch) = (rows::object(first, 1)?, Epoch(rows::number(first, 2)?));
                let events = rows::events(&taken, &object, 3)?;
                Take::Taken(Taken { hold: Hold { object, session: session.clone(), epoch }, events })
            }
            "busy" => {
                // What others look at they take or drop within a moment.
                tokio::time::sleep(BUSY).await;
                Take::Nothing
            }
            _ => Take::Nothing,
        })
    }

    async fn wait(&self, timeout: Duration) {
        let look = async {
            // What is wrong with the database, the caller's next operation will tell better.
            while !self.is_any_waiting().await.unwrap_or(true) {
                self.ears.hear(self.look_every).await;
            }
        };
        drop(tokio::time::timeout(timeout, look).await);
    }

    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError> {
        let (object, session) = (hold.object.as_str(), hold.session.id.as_str());
        let (epoch, sent, limit) = (hold.epoch.0.cast_signed(), signed(sent), at_most(limit));
        let rest: [&(dyn ToSql + Sync); 5] = [&object, &session, &epoch, &sent, &limit];
        let next = self.query("recording what was sent in", sql!("next"), &rest).await?;
        let answer = next.first().map(|row| rows::get(row, 0)).transpose()?;
        Ok(match answer {
            Some("events") => Next::Events(rows::events(&next, &hold.object, 1)?),
            Some("released") => Next::Released,
            _ => Next::Lost,
        })
    }

    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError> {
        let (object, session) = (hold.object.as_str(), hold.session.id.as_str());
        let (epoch, sent) = (hold.epoch.0.cast_signed(), signed(sent));
        let rest: [&(dyn ToSql + Sync); 4] = [&object, &session, &epoch, &sent];
        self.query("releasing an object in", sql!("release"), &rest).await?;
        self.news().await;
        Ok(())
    }

    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError> {
        let (object, session) = (hold.object.as_str(), hold.session.id.as_str());
        let (epoch, sent) = (hold.epoch.0.cast_signed(), signed(sent));
        let (error, attempts) = (rows::text(&failure.error), failure.attempts.cast_signed());
        let rest: [&(dyn ToSql + Sync); 6] = [&object, &session, &epoch, &sent, &error, &attempts];
        self.is_so("parking an object in", sql!("park"), &rest).await
    }

    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError> {
        let retried = self.is_so("retrying an object in", sql!("retry"), &[&object.as_str()]).await?;
        if retried {
            self.news().await;
        }
        Ok(retried)
    }

    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let (first, all) = (what.first().cast_signed(), matches!(what, Discard::All(_)));
        let (object, reason) = (object.as_str(), rows::text(reason));
        let rest: [&(dyn ToSql + Sync); 4] = [&object, &first, &all, &reason];
        let gone = self.query("discarding events in", sql!("discard"), &rest).await?;
        let gone: Option<i64> = gone.first().map(|row| rows::get(row, 0)).transpose()?.flatten();
        self.news().await;
        Ok(gone.map_or(Discarding::Changed, |gone| Discarding::Done(gone.cast_unsigned())))
    }

    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError> {
        let rows = self.query("listing discards in", sql!("discarded"), &[&at_most(limit)]).await?;
        rows.iter().map(rows::discarded).collect()
    }

    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError> {
        let rows = self.query("listing parked objects in", sql!("parked"), &[]).await?;
        rows.iter().map(|row| rows::object(row, 0)).collect()
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let rows = self.query("counting events in", sql!("backlog"), &[]).await?;
        rows.first().map_or_else(|| Ok(Backlog::default()), rows::backlog)
    }

    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError> {
        let rows = self.query("looking at an object in", sql!("inspect"), &[&object.as_str()]).await?;
        rows.first().map(|row| rows::view(row, object)).transpose()
    }

    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError> {
        let rows = self.query("listing objects in", sql!("objects"), &[]).await?;
        rows.iter().map(|row| rows::object(row, 0)).collect()
    }

    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        let with_events = if_events_wait == IfEventsWait::Drop;
        let rows = self.query("removing a queue in", sql!("drop"), &[&with_events]).await?;
        rows.first().map_or(Ok(Removal::NotThere), rows::removal)
    }
}
