//! An event queue on Redis, drained by workers that send nowhere, against the same Lua calls made bare: as many at the same time over as
//! many connections, with nothing decided, checked or handed on between them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use seriatim::Failure;
use seriatim::clock;
use seriatim::name::{HostName, ObjectName};
use seriatim::queue::{Body, Event, Queue, Worker, WorkerSession, WorkerSettings};
use seriatim_redis::{Prefix, Redis, RedisQueue, redis::Value};
use seriatim_testkit::servers;

use crate::Row;
use crate::rounds::Rounds;

/// How many times each side is measured, by turns.
const ROUNDS: usize = 9;
const OBJECTS: usize = 4_000;
/// Events of each object, pushed at once: a main event and its sub-events.
const EVENTS: usize = 5;
/// Each worker, bare or not, works on so many objects at the same time, over one connection.
const LANES: usize = 8;

/// Where the measurement is taken: on the server of this URL, or on a throw-away one.
pub(crate) enum Server {
    Given(String),
    Own(servers::Redis),
}

impl Server {
    pub(crate) fn find(url: Option<&str>) -> Result<Self, servers::ServerError> {
        url.map_or_else(|| servers::Redis::start().map(Server::Own), |url| Ok(Server::Given(url.to_owned())))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Server::Given(url) => url.clone(),
            Server::Own(server) => server.url(),
        }
    }
}

/// Measures it with so many workers.
pub(crate) async fn queue_redis(
    server: &Server,
    workers: usize,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Row> {
    let mut rounds = Rounds::default();
    for round in 1..=ROUNDS {
        progress(&format!(
            "{} events on Redis, {workers} workers, round {round} of {ROUNDS}",
            OBJECTS * EVENTS
        ));
        // In turns, so that neither is always the first.
        let (value, limit) = match round % 2 {
            0 => {
                let value = timed(server, workers, working).await?;
                (value, timed(server, workers, bare).await?)
            }
            _ => {
                let limit = timed(server, workers, bare).await?;
                (timed(server, workers, working).await?, limit)
            }
        };
        rounds.add(value, limit);
    }
    let (value, limit) = rounds.middle();
    let name = format!("queue-redis-{workers}");
    Ok(Row::new(&name, f64::round(value), "events/s", f64::round(limit), 0.7))
}

/// Fills a queue, has every worker drain it by `drain`, and returns events per second.
async fn timed<F, Fut>(server: &Server, workers: usize, drain: F) -> anyhow::Result<f64>
where
    F: Fn(RedisQueue, usize) -> Fut,
    Fut: Future<Output = anyhow::Result<u64>> + Send + 'static,
{
    let prefix = Prefix::tagged(&format!("bench-{:x}", fastrand::u64(..)))?;
    let mut queues = Vec::new();
    for _ in 0..workers {
        queues.push(RedisQueue::open(Redis::connect(&server.url()).await?, prefix.clone())?);
    }
    fill(queues.first().context("at least one worker")?).await?;
    let began = clock::now();
    let mut draining = tokio::task::JoinSet::new();
    for (number, queue) in queues.iter().cloned().enumerate() {
        draining.spawn(drain(queue, number));
    }
    let mut sent = 0;
    while let Some(drained) = draining.join_next().await {
        sent += drained??;
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(sent == (OBJECTS * EVENTS) as u64, "{sent} events were sent instead of {}", OBJECTS * EVENTS);
    queues[0].forget().await?;
    Ok(sent as f64 / seconds)
}

async fn fill(queue: &RedisQueue) -> anyhow::Result<()> {
    let body = Body::from(r#"{"type":"titled","work":1815,"title":"Emma","by":"Jane Austen"}"#);
    let mut filling = tokio::task::JoinSet::new();
    for part in 0..16 {
        let (queue, body) = (queue.clone(), body.clone());
        filling.spawn(async move {
            for number in (part..OBJECTS).step_by(16) {
                queue.push(&ObjectName::new(&format!("work:{number}"))?, &vec![body.clone(); EVENTS]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(filled) = filling.join_next().await {
        filled??;
    }
    Ok(())
}

/// A worker as users run it.
async fn working(queue: RedisQueue, number: usize) -> anyhow::Result<u64> {
    let settings = WorkerSettings { concurrency: LANES, ..WorkerSettings::default() };
    let nowhere = |_: Event| async { Ok::<(), Failure>(()) };
    let worker = Worker::new(&format!("w{number}"), Arc::new(queue)).settings(settings);
    Ok(worker.drain(nowhere).await?.sent)
}

/// The same calls, with nothing around them.
async fn bare(queue: RedisQueue, number: usize) -> anyhow::Result<u64> {
    let session = queue.join(&HostName::new(&format!("w{number}"))?, Duration::from_secs(10), None).await?;
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..LANES {
        lanes.spawn(bare_lane(queue.clone(), session.clone()));
    }
    let mut sent = 0;
    while let Some(lane) = lanes.join_next().await {
        sent += lane??;
    }
    queue.leave(&session).await?;
    Ok(sent)
}

async fn bare_lane(queue: RedisQueue, session: WorkerSession) -> anyhow::Result<u64> {
    let batch = WorkerSettings::default().batch.to_string();
    let mut sent = 0;
    loop {
        let taken = queue.bare_take(&[session.worker.as_str(), session.id.as_str(), &batch]).await?;
        let Value::Array(parts) = taken else { anyhow::bail!("{taken:?}") };
        // taken, object, epoch, first id, last id, time, events …
        let [
            _,
            Value::BulkString(object),
            Value::BulkString(epoch),
            Value::BulkString(first),
            _,
            _,
            events @ ..,
        ] = parts.as_slice()
        else {
            return Ok(sent);
        };
        sent += events.len() as u64;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let hold = format!("{}:{}", text(epoch), session.id);
        let last = (text(first).parse::<u64>()? + events.len() as u64 - 1).to_string();
        queue.bare_next(&[&text(object), session.worker.as_str(), &hold, &last, &batch]).await?;
    }
}
