//! A worker's lives, one session each.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::life::{Life, Phase};
use super::{Ended, Sender, Worker, WorkerError, WorkerSettings, keeper};
use crate::clock;
use crate::host::patience::{Seen, of_stats};
use crate::host::{Stats, Unfinished};
use crate::lease::{Holder, Joined, Naming, Step};
use crate::name::HostName;
use crate::queue::{Queue, WorkerSession};
use crate::store::{JoinError, StoreError};
use crate::tasks::JoinSet;

/// How often a name that is taken is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    ShutDown,
    Drained,
}

/// Joins and works; a session that is lost is followed by another one.
pub(super) async fn run(
    worker: Worker,
    sender: Arc<dyn Sender>,
    until: Until,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Ended, WorkerError> {
    let name = HostName::new(&worker.name)?;
    if let Some(wrong) = worker.wrong_settings() {
        return Err(WorkerError::Settings(wrong));
    }
    let Worker { queue, settings, stats, .. } = worker;
    let early = OnceLock::new();
    let shutdown = async {
        let why = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            unfinished = out_of_patience(until, &settings, &stats) => Err(unfinished),
        };
        drop(early.set(why));
    };
    tokio::pin!(shutdown);
    let mut entry = Entry::First;
    loop {
        let joined = tokio::select! {
            biased;
            joined = enter(&*queue, &name, settings.leases.expire, entry) => joined?,
            () = &mut shutdown => return ended(&early, &stats),
        };
        entry = Entry::Again;
        let life = Life::new(Arc::clone(&queue), joined, settings.clone(), until, Arc::clone(&stats));
        let (end, asked_to_end) = live(&life, &sender, &mut shutdown).await;
        match end {
            // What it held is somebody else's business already.
            Phase::Lost if asked_to_end => return ended(&early, &stats),
            Phase::Lost => tracing::warn!(worker = %name, "was replaced after a silence; joining again"),
            Phase::Stopped(why) => return Err(WorkerError::Stopped(why)),
            Phase::Working | Phase::Closing => return ended(&early, &stats),
        }
    }
}

/// Returns when a worker is out of patience that is to send what is queued; never for any other.
async fn out_of_patience(until: Until, settings: &WorkerSettings, stats: &Stats) -> Unfinished {
    if until != Until::Drained {
        return std::future::pending().await;
    }
    let failed = stats.failures();
    let look = || Seen {
        progress: of_stats(stats),
        checkpoints: stats.checkpoints(),
        fails: stats.failures() != failed,
    };
    settings.patience.over(settings.timeout, look).await;
    Unfinished { patience: settings.patience, troubles: Vec::new() }
}

fn ended(early: &OnceLock<Result<(), Unfinished>>, stats: &Stats) -> Result<Ended, WorkerError> {
    if let Some(Err(unfinished)) = early.get() {
        return Err(WorkerError::Unfinished(unfinished.clone()));
    }
    Ok(Ended { sent: stats.handled(), parked: stats.parked(), failures: stats.failures() })
}

/// Whether a worker has worked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// A queue that cannot be reached is told to whoever started the worker.
    First,
    /// A queue that is away comes back.
    Again,
}

async fn enter(
    queue: &dyn Queue,
    name: &HostName,
    expire: Duration,
    entry: Entry,
) -> Result<Joined<WorkerSession>, WorkerError> {
    loop {
        match join(queue, name, expire).await {
            Err(WorkerError::Store(error @ StoreError::Unavailable { .. })) if entry == Entry::Again => {
                tracing::warn!(worker = %name, "could not join again, trying again: {error}");
                tokio::time::sleep(LOOK_AGAIN.min(expire / 4)).await;
            }
            joined => return joined,
        }
    }
}

/// Enters the queue under a name. A holder that gives signs of life keeps it; one that is silent for the expiry is replaced.
async fn join(
    queue: &dyn Queue,
    name: &HostName,
    expire: Duration,
) -> Result<Joined<WorkerSession>, WorkerError> {
    let (mut naming, mut replacing) = (Naming::default(), None);
    loop {
        let asked = clock::now();
        match queue.join(name, expire, replacing.as_ref().map(|(session, beat)| (session, *beat))).await {
            Ok(session) => return Ok(Joined { session, asked }),
            Err(JoinError::Store(error)) => return Err(error.into()),
            Err(JoinError::NameTaken { session, beat, host, expire: of_holder, liveness }) => {
                let patience = keeper::published_or(of_holder, expire);
                let holder = Holder { session, beat, expire: patience, liveness };
                match naming.is_taken_by(&holder, asked, clock::now()) {
                    Step::Refused => return Err(WorkerError::NameTaken(host)),
                    Step::Replace => replacing = Some((holder.session, beat)),
                    Step::Wait => {}
                    Step::BeginToWait => {
                        tracing::info!(worker = %host, "the name is taken; waiting until its holder has been silent for {patience:?}");
                    }
                }
            }
        }
        tokio::time::sleep(LOOK_AGAIN.min(expire / 4)).await;
    }
}

/// Works under one session until it is lost, asked to end, or done. Says how it stands then, and whether it was asked to end.
async fn live(
    life: &Arc<Life>,
    sender: &Arc<dyn Sender>,
    shutdown: &mut (impl Future<Output = ()> + Unpin),
) -> (Phase, bool) {
    let mut lanes = JoinSet::new();
    for _ in 0..life.settings.concurrency {
        lanes.spawn(Arc::clone(life).run_lane(Arc::clone(sender)));
    }
    let mut keeping = JoinSet::new();
    keeping.spawn(keeper::keep(Arc::clone(life)));
    let mut deadline = None;
    loop {
        tokio::select! {
            biased;
            () = &mut *shutdown, if deadline.is_none() => {
                deadline = Some(clock::now() + life.settings.close_within);
                life.close();
            }
            ended = lanes.join_next() => if ended.is_none() { break },
            () = until(deadline) => {
                tracing::warn!(worker = %life.session.worker, "what runs did not end in time; it is given up");
                break;
            }
        }
    }
    lanes.shutdown().await;
    keeping.shutdown().await;
    let phase = life.phase();
    if phase != Phase::Lost {
        leave(life, &life.settings).await;
    }
    (phase, deadline.is_some())
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What is still held is free at once. If the queue cannot be told, it will be after the expiry.
async fn leave(life: &Life, settings: &WorkerSettings) {
    let left = tokio::time::timeout(settings.leases.expire, life.queue.leave(&life.session)).await;
    match left {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(worker = %life.session.worker, "could not leave: {error}"),
        Err(_) => tracing::warn!(worker = %life.session.worker, "could not leave: the queue does not answer"),
    }
}
