//! The event queue: one Lua script for each operation, in `scripts/queue`.

mod name;
mod push;
mod remove;
mod reply;
mod scripts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{HostName, ObjectName, SessionId};
use seriatim::order::EventId;
use seriatim::queue::{
    Backlog, Body, Broken, DiscardedEvents, Hold, IfEventsWait, Next, ObjectView, PushError, Queue, Removal,
    Take, Taken, Worker, WorkerSession,
};
use seriatim::store::{Discard, Discarding, JoinError, ParkedFailure, StoreError};

use crate::connection::Redis;
use crate::error::RedisError;
use crate::parts::holder;
use crate::prefix::Prefix;
use crate::script::Script;
use scripts::Scripts;

/// No more events than this are taken at once, whatever is asked for: a script's stack is finite.
const MOST_AT_ONCE: usize = 1000;

/// The event queue in Redis.
///
/// All keys of a queue share one hash tag: a push is atomic over the object's events and the list of objects with events, and taking
/// over the object, its events and the counter, so all of them must be in one slot. In a Cluster a queue therefore lives on one node;
/// several queues (with other prefixes) spread over several.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::queue::Event;
/// use seriatim::Failure;
/// use seriatim_redis::{Prefix, Redis, RedisQueue, redis};
///
/// let server = Redis::connect("redis://127.0.0.1/").await?;
/// let queue = RedisQueue::open(server, Prefix::tagged("works")?)?;
///
/// // A producer adds to its own transaction.
/// let mut connection = redis::Client::open("redis://127.0.0.1/")?.get_multiplexed_async_connection().await?;
/// let mut pipe = redis::pipe();
/// pipe.atomic().set(queue.key("work:1:data"), r#"{"title":"Emma"}"#).ignore();
/// queue.push_to(&mut pipe, "work:1", &[r#"{"titled":"Emma"}"#, r#"{"sub":"event"}"#])?;
/// pipe.exec_async(&mut connection).await?;
///
/// // A worker sends what comes, in order for each object.
/// let send = |event: Event| async move { println!("{}", event.to_json()); Ok::<(), Failure>(()) };
/// queue.worker("w1").run_until(send, std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisQueue {
    redis: Redis,
    prefix: Prefix,
    queued: String,
    limit: Option<u64>,
    replicas: Option<Replicas>,
    scripts: Arc<Scripts>,
}

/// How many replicas must have an id before an event leaves with it.
#[derive(Clone, Copy, Debug)]
struct Replicas {
    count: u32,
    within: Duration,
}

/// An object that a worker of the algorithm's description had, and that this program's workers take now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The worker.
    pub worker: String,
    /// The object.
    pub object: ObjectName,
    /// The id of the event that the worker was sending, if it was.
    pub id: Option<EventId>,
}

/// The next cursor, and what a step found.
type Step<T> = (String, Vec<T>);

impl RedisQueue {
    /// The queue with this prefix. Nothing has to be made before it is used.
    pub fn open(redis: Redis, prefix: Prefix) -> Result<Self, RedisError> {
        prefix.fits(&redis)?;
        let queued = prefix.key("objects.with.events");
        Ok(RedisQueue {
            redis,
            prefix,
            queued,
            limit: None,
            replicas: None,
            scripts: Arc::new(Scripts::new()),
        })
    }

    /// Lets no object have more than so many events waiting: pushes beyond that are refused.
    pub fn limited_to(self, events: u64) -> Self {
        RedisQueue { limit: Some(events), ..self }
    }

    /// Has every id on so many replicas before an event leaves with it, so that a failover does not give it to another event.
    /// Not for a Cluster: there, `min-replicas-to-write` is the nearest that Redis has.
    pub fn confirmed_by(self, replicas: u32, within: Duration) -> Result<Self, RedisError> {
        if self.redis.is_cluster() {
            return Err(RedisError::settings(
                "in a Cluster, waiting for replicas is not possible",
                "leave it out, and set min-replicas-to-write on the servers",
            ));
        }
        Ok(RedisQueue { replicas: Some(Replicas { count: replicas, within }), ..self })
    }

    /// A worker of this name on the queue.
    pub fn worker(&self, name: &str) -> Worker {
        Worker::new(name, Arc::new(self.clone()))
    }

    /// A key in the queue's slot, for what a producer writes together with its events.
    pub fn key(&self, name: &str) -> String {
        self.prefix.key(name)
    }

    /// Takes over what workers of the algorithm's description left in the keys `event.worker:W:object` and `event.worker:W:event`: each
    /// event that was being sent comes first of its object, with its id. Workers of this program have a state and are left alone.
    ///
    /// Those workers must have ended: they give no sign of life, and one that runs would send its event beside this program's workers.
    pub async fn adopt(&self) -> Result<Vec<Adopted>, StoreError> {
        self.over_all("taking over from workers of before", &self.scripts.adopt, reply::adopted).await
    }

    async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[&[u8]],
    ) -> Result<Value, RedisError> {
        let mut all: Vec<&[u8]> = vec![self.prefix.as_str().as_bytes()];
        all.extend(arguments);
        self.redis.run(doing, script, &self.queued, &all).await
    }

    async fn is_one(
        &self,
        doing: &'static str,
        script: &Script,
        arguments: &[&[u8]],
    ) -> Result<bool, StoreError> {
        Ok(self.run(doing, script, arguments).await? == Value::Int(1))
    }

    /// Goes over all keys of the queue in steps of a script, which returns the next cursor and what it found.
    async fn over_all<T>(
        &self,
        doing: &'static str,
        script: &Script,
        read: fn(Value) -> Result<Step<T>, RedisError>,
    ) -> Result<Vec<T>, StoreError> {
        let (pattern, mut cursor) = (self.prefix.pattern(), "0".to_owned());
        let mut all = Vec::new();
        loop {
            let answer = self.run(doing, script, &[pattern.as_bytes(), cursor.as_bytes()]).await?;
            let found;
            (cursor, found) = read(answer)?;
            all.extend(found);
            if cursor == "0" {
                return Ok(all);
            }
        }
    }

    async fn names(&self, doing: &'static str, script: &Script) -> Result<Vec<ObjectName>, StoreError> {
        let mut names = self.over_all(doing, script, reply::names).await?;
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns when the replicas have what was written last, if they are to.
    async fn confirm(&self) -> Result<(), RedisError> {
        let Some(Replicas { count, within }) = self.replicas else { return Ok(()) };
        let mut wait = redis::cmd("WAIT");
        wait.arg(count).arg(within.as_millis() as u64);
        let doing = "waiting for replicas";
        match self.redis.query(&wait).await.map_err(|cause| RedisError::new(doing, cause))? {
            Value::Int(confirmed) if confirmed >= i64::from(count) => Ok(()),
            other => Err(RedisError::for_now(
                doing,
                format!("{other:?} of {count} have confirmed within {within:?}"),
            )),
        }
    }
}

/// For measurements: the calls that a worker makes most, without anything around them; and the end of a queue.
#[doc(hidden)]
impl RedisQueue {
    pub async fn bare_take(&self, arguments: &[&str]) -> Result<Value, RedisError> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        self.run("taking an object", &self.scripts.take, &arguments).await
    }

    pub async fn bare_next(&self, arguments: &[&str]) -> Result<Value, RedisError> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        self.run("recording what was sent", &self.scripts.next, &arguments).await
    }

    /// Deletes every key with the queue's prefix, as far as they are on one node.
    pub async fn forget(&self) -> Result<(), RedisError> {
        let pattern = format!("{}*", self.prefix.pattern());
        self.run("forgetting a queue", &self.scripts.forget, &[pattern.as_bytes()]).await.map(drop)
    }
}

/// Such an object is set aside, and a person has to see to it.
fn name_is_not_text(view: &ObjectView) -> Broken {
    let events = view.waiting + view.sending.len() as u64;
    let found =
        format!("it is not, and its {events} events cannot be sent: rename its keys, or discard them");
    Broken { object: view.object.clone(), invariant: "an object's name is UTF-8 text", found }
}

/// How a hold is written.
fn token(hold: &Hold) -> String {
    format!("{}:{}", hold.epoch, hold.session.id)
}

fn number(id: Option<EventId>) -> String {
    id.map_or_else(String::new, |id| id.to_string())
}

fn at_most(limit: usize) -> String {
    limit.clamp(1, MOST_AT_ONCE).to_string()
}

#[async_trait]
impl Queue for RedisQueue {
    async fn push(&self, object: &ObjectName, events: &[Body]) -> Result<(), PushError> {
        self.push_with(object, events, &redis::pipe()).await
    }

    async fn join(
        &self,
        worker: &HostName,
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<WorkerSession, JoinError> {
        let id = SessionId::random();
        let beat = replacing.map_or_else(String::new, |(_, beat)| beat.to_string());
        let replacing = replacing.map_or("", |(session, _)| session.as_str());
        let expire = expire.as_millis().to_string();
        let arguments = [worker.as_str(), id.as_str(), replacing, &beat, &expire].map(str::as_bytes);
        let answer = self.run("joining", &self.scripts.join, &arguments).await.map_err(StoreError::from)?;
        match holder(answer).map_err(StoreError::from)? {
            None => Ok(WorkerSession { worker: worker.clone(), id }),
            Some((session, beat, expire)) => {
                let (host, liveness) = (worker.clone(), Liveness::Unknown);
                Err(JoinError::NameTaken { host, session, beat, expire, liveness })
            }
        }
    }

    async fn leave(&self, session: &WorkerSession) -> Result<(), StoreError> {
        let arguments = [session.worker.as_str(), session.id.as_str()].map(str::as_bytes);
        self.run("leaving", &self.scripts.leave, &arguments).await?;
        Ok(())
    }

    async fn beat(&self, session: &WorkerSession) -> Result<Option<Vec<Hold>>, StoreError> {
        let arguments = [session.worker.as_str(), session.id.as_str()].map(str::as_bytes);
        let answer = self.run("giving a sign of life", &self.scripts.beat, &arguments).await?;
        Ok(reply::holds(answer, session)?)
    }

    async fn workers(&self) -> Result<Vec<HostView>, StoreError> {
        let answer = self.run("looking at the workers", &self.scripts.workers, &[]).await?;
        Ok(reply::workers(answer)?)
    }

    async fn recover(&self, seen: &HostView) -> Result<bool, StoreError> {
        let beat = seen.beat.to_string();
        let arguments = [seen.name.as_str(), seen.session.as_str(), &beat].map(str::as_bytes);
        self.is_one("taking over from a silent worker", &self.scripts.recover, &arguments).await
    }

    async fn take(&self, session: &WorkerSession, limit: usize) -> Result<Take, StoreError> {
        let limit = at_most(limit);
        let arguments = [session.worker.as_str(), session.id.as_str(), &limit].map(str::as_bytes);
        loop {
            let answer = self.run("taking an object", &self.scripts.take, &arguments).await?;
            match reply::take(answer, session)? {
                reply::Taking::Again => {}
                reply::Taking::Refused { object, why } => {
                    tracing::error!(%object, "{why}; it is parked, and its events wait");
                }
                reply::Taking::Done(take) => {
                    if let Take::Taken(Taken { .. }) = take {
                        self.confirm().await?;
                    }
                    return Ok(take);
                }
            }
        }
    }

    async fn wait(&self, timeout: Duration) {
        // From one end of the list to the same end: it moves nothing, and waits until there is something to move.
        let mut wait = redis::cmd("BLMOVE");
        wait.arg(&self.queued).arg(&self.queued).arg("LEFT").arg("LEFT").arg(timeout.as_secs_f64().max(0.01));
        if let Err(error) = self.redis.block(&wait, timeout).await {
            // What is wrong, the caller's next operation will tell better.
            tracing::debug!("{error}");
            tokio::time::sleep(timeout.min(Duration::from_millis(200))).await;
        }
    }

    async fn next(&self, hold: &Hold, sent: Option<EventId>, limit: usize) -> Result<Next, StoreError> {
        let (token, sent, limit) = (token(hold), number(sent), at_most(limit));
        let arguments =
            [hold.object.as_str(), hold.session.worker.as_str(), &token, &sent, &limit].map(str::as_bytes);
        let answer = self.run("recording what was sent", &self.scripts.next, &arguments).await?;
        let next = reply::next(answer, &hold.object)?;
        if let Next::Events(_) = next {
            self.confirm().await?;
        }
        Ok(next)
    }

    async fn release(&self, hold: &Hold, sent: Option<EventId>) -> Result<(), StoreError> {
        let (token, sent) = (token(hold), number(sent));
        let arguments =
            [hold.object.as_str(), hold.session.worker.as_str(), &token, &sent].map(str::as_bytes);
        self.run("releasing an object", &self.scripts.release, &arguments).await?;
        Ok(())
    }

    async fn park(
        &self,
        hold: &Hold,
        sent: Option<EventId>,
        failure: &ParkedFailure,
    ) -> Result<bool, StoreError> {
        let (token, sent, attempts) = (token(hold), number(sent), failure.attempts.to_string());
        let (object, worker) = (hold.object.as_str(), hold.session.worker.as_str());
        let arguments = [object, worker, &token, &sent, &failure.error, &attempts].map(str::as_bytes);
        self.is_one("parking an object", &self.scripts.park, &arguments).await
    }

    async fn retry(&self, object: &ObjectName) -> Result<bool, StoreError> {
        self.is_one("retrying an object", &self.scripts.retry, &[&name::bytes(object)]).await
    }

    async fn inspect(&self, object: &ObjectName) -> Result<Option<ObjectView>, StoreError> {
        let answer = self.run("looking at an object", &self.scripts.inspect, &[&name::bytes(object)]).await?;
        Ok(reply::view(answer, object)?)
    }

    async fn objects(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.names("listing objects", &self.scripts.objects).await
    }

    async fn invariants(&self) -> Result<Vec<Broken>, StoreError> {
        let mut broken = Vec::new();
        for object in self.objects().await? {
            let Some(view) = self.inspect(&object).await? else { continue };
            let is_text = name::bytes(&object) == object.as_str().as_bytes();
            broken.extend((!is_text).then(|| name_is_not_text(&view)));
            broken.extend(view.broken());
        }
        Ok(broken)
    }

    async fn discard(
        &self,
        object: &ObjectName,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let first = what.first().to_string();
        let all = if matches!(what, Discard::All(_)) { "1" } else { "0" };
        let (raw, shown) = (name::bytes(object), object.as_str());
        let arguments = [&raw, first.as_bytes(), all.as_bytes(), reason.as_bytes(), shown.as_bytes()];
        match self.run("discarding events", &self.scripts.discard, &arguments).await? {
            Value::Int(gone) if gone >= 0 => Ok(Discarding::Done(gone.unsigned_abs())),
            _ => Ok(Discarding::Changed),
        }
    }

    async fn discarded(&self, limit: usize) -> Result<Vec<DiscardedEvents>, StoreError> {
        let limit = limit.min(MOST_AT_ONCE).to_string();
        let answer = self.run("listing discards", &self.scripts.discarded, &[limit.as_bytes()]).await?;
        Ok(reply::discarded(answer)?)
    }

    async fn parked(&self) -> Result<Vec<ObjectName>, StoreError> {
        self.names("listing parked objects", &self.scripts.parked).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let lengths = self.over_all("counting events", &self.scripts.backlog, reply::lengths).await?;
        let lengths: HashMap<_, _> = lengths.into_iter().collect();
        let objects: HashSet<&ObjectName> = lengths.keys().map(|(object, _)| object).collect();
        let events = lengths.values().sum();
        // Redis keeps no time with an event.
        let seconds = (events == 0).then_some(0.0);
        Ok(Backlog { events, objects: objects.len() as u64, seconds })
    }

    async fn remove(&self, if_events_wait: IfEventsWait) -> Result<Removal, StoreError> {
        self.remove_all(if_events_wait).await
    }
}
