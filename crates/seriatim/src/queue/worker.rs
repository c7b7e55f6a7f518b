//! The loop around lanes: takes objects, sends their events, gives signs of life, and takes over from the silent.

#[cfg(test)]
mod tests;
mod keeper;
mod life;
mod run;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use super::{Event, Queue};
use crate::handler::{Failure, IntoFailure, Retry};
use crate::host::{LeaseSettings, Patience, Stats, Unfinished};
use crate::name::{BadName, HostName};
use crate::store::StoreError;

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// How many objects it works on at the same time.
    pub concurrency: usize,
    /// How many events of an object are fetched at once. After a crash, at most this many are sent again.
    pub batch: usize,
    /// How long sending one event may take.
    pub timeout: Duration,
    /// What happens to events that fail.
    pub retry: Retry,
    /// How often it gives a sign of life, looks for silent workers, and how long silence means death.
    pub leases: LeaseSettings,
    /// How long an idle worker waits before it looks again, unless the queue wakes it.
    pub idle: Duration,
    /// How long what runs may take to end when the worker is asked to.
    pub close_within: Duration,
    /// How long [`Worker::drain`] tries.
    pub patience: Patience,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        WorkerSettings {
            concurrency: 8,
            batch: 16,
            timeout: Duration::from_secs(30),
            retry: Retry::default(),
            leases: LeaseSettings::default(),
            idle: Duration::from_secs(1),
            close_within: Duration::from_secs(30),
            patience: Patience::default(),
        }
    }
}

/// Why a worker could not work.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The worker's name is no good.
    #[error(transparent)]
    Name(#[from] BadName),
    /// Another process works under the same name.
    #[error("a worker named {0} is already working; give this one another name")]
    NameTaken(HostName),
    /// Settings that cannot work.
    #[error("{0}")]
    Settings(&'static str),
    /// The rule for failed events is to stop, and one failed; or the queue needs a person, and trying again is no use.
    #[error("stopped: {0}")]
    Stopped(String),
    /// A worker that was to send what is queued gave up before it was done.
    #[error("{0}")]
    Unfinished(Unfinished),
    /// The queue is not usable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Events sent; those sent twice count twice.
    pub sent: u64,
    /// Objects parked.
    pub parked: u64,
    /// Attempts that failed.
    pub failures: u64,
}

/// Sends events on. Any closure `Fn(Event) -> impl Future<Output = Result<(), E>>` does.
///
/// The events of one object come one at a time, in order. After a crash, or when a worker was silent for too long, the last ones
/// may come again: with the same id, byte for byte.
#[async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Sends one event.
    async fn send(&self, event: Event) -> Result<(), Failure>;
}

#[async_trait]
impl<F, Fut, E> Sender for F
where
    F: Fn(Event) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: IntoFailure,
{
    async fn send(&self, event: Event) -> Result<(), Failure> {
        self(event).await.map_err(IntoFailure::into_failure)
    }
}

/// Works on a queue under a name of its own.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
/// use seriatim::Failure;
/// use seriatim::name::ObjectName;
/// use seriatim::queue::{Body, Event, MemoryQueue, Queue, Worker};
///
/// let queue = Arc::new(MemoryQueue::new());
/// let work = ObjectName::new("work:1")?;
/// queue.push(&work, &[Body::from(r#"{"title":"Emma"}"#), Body::from(r#"{"year":1815}"#)]).await?;
///
/// let print = |event: Event| async move {
///     println!("{}", event.to_json());
///     Ok::<(), Failure>(())
/// };
/// // A service would call `run_until(print, shutdown)`, in as many processes as it likes.
/// let ended = Worker::new("w1", queue).drain(print).await?;
/// assert_eq!(ended.sent, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Worker {
    name: String,
    queue: Arc<dyn Queue>,
    settings: WorkerSettings,
    stats: Arc<Stats>,
}

impl Worker {
    /// A worker of this name, unlike any other's.
    pub fn new(name: &str, queue: Arc<dyn Queue>) -> Self {
        let (settings, stats) = (WorkerSettings::default(), Arc::default());
        Worker { name: name.to_owned(), queue, settings, stats }
    }

    /// What it counts while it works, as a host does for a feed. An object that it holds counts as a lease, and what it records as sent as a
    /// checkpoint.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// With these settings.
    pub fn settings(self, settings: WorkerSettings) -> Self {
        Worker { settings, ..self }
    }

    /// Works until `shutdown` resolves, then ends what runs and gives up what it holds.
    pub async fn run_until(
        self,
        sender: impl Sender,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Ended, WorkerError> {
        run::run(self, Arc::new(sender), run::Until::ShutDown, shutdown).await
    }

    /// Sends what is queued and ends when there is nothing more to take. If nothing moves for too long
    /// ([`WorkerSettings::patience`]), it is [`WorkerError::Unfinished`].
    pub async fn drain(self, sender: impl Sender) -> Result<Ended, WorkerError> {
        run::run(self, Arc::new(sender), run::Until::Drained, std::future::pending()).await
    }

    /// As [`Worker::drain`], ending early when `shutdown` resolves.
    pub async fn drain_until(
        self,
        sender: impl Sender,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Ended, WorkerError> {
        run::run(self, Arc::new(sender), run::Until::Drained, shutdown).await
    }

    fn wrong_settings(&self) -> Option<&'static str> {
        match &self.settings {
            WorkerSettings { concurrency: 0, .. } => Some("concurrency must be at least 1"),
            WorkerSettings { batch: 0, .. } => Some("batch must be at least 1"),
            WorkerSettings { retry, .. } if retry.attempts == 0 => Some("retry.attempts must be at least 1"),
            WorkerSettings { leases, .. } => leases.wrong(),
        }
    }
}
