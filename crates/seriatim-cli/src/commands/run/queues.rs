//! The queues among the feeds: a worker for each, under the host's name.

use std::collections::BTreeSet;
use std::sync::Arc;

use seriatim::host::{HostError, Patience};
use seriatim::queue::{Ended as Done, Queue, Worker, WorkerError, WorkerSettings};
use seriatim::{FeedName, HostName};
use tokio::sync::{Notify, watch};

use super::super::parked;
use super::parts::{Ended, Parts};
use super::pauses::{Pause, Pauses};
use crate::config::{Config, QueueConfig};
use crate::databases;
use crate::error::{Error, Result};
use crate::handlers::{self, HandledEvents, Open};
use crate::metrics::{Measured, Of};

/// The workers of this host.
pub struct Workers {
    workers: Vec<Working>,
    pauses: Option<Pauses>,
}

/// When workers end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Never.
    ShutDown,
    /// When nothing is left to take. What is parked is told as a failure.
    AllIsSent,
    /// When nothing is left to take. Somebody else looks at what is parked.
    Drained,
}

/// One of them.
struct Working {
    feed: FeedName,
    queue: Arc<dyn Queue>,
    worker: Worker,
    settings: WorkerSettings,
    handler: HandledEvents,
    pause: Pause,
}

impl Workers {
    /// Opens the queues and their handlers.
    pub async fn prepare(
        queues: &[&QueueConfig],
        config: &Config,
        host: &HostName,
        closed: &Arc<Notify>,
        open: &mut Open,
    ) -> Result<Self> {
        let pauses = if queues.is_empty() { None } else { Some(Pauses::begin(config).await?) };
        let mut workers = Vec::new();
        for queue in queues {
            let handler = handlers::of_queue(queue, config, closed, open).await?;
            queue
                .database
                .check_queues()
                .await
                .map_err(|error| error.about(&format!("feed {}", queue.name)))?;
            let opened = databases::queue(queue).await?;
            let worker = Worker::new(host.as_str(), Arc::clone(&opened));
            match queue.once {
                Some(_) => tracing::info!(feed = %queue.name, "{}", handlers::WITH_A_LEDGER),
                None => {
                    tracing::info!(feed = %queue.name, "at-least-once: after a crash an event may be sent again, the same byte for byte")
                }
            }
            if let Some(pauses) = &pauses {
                let (feed, pause) = (queue.name.clone(), pauses.of(&queue.name));
                let settings = settings(queue, config);
                workers.push(Working { feed, queue: opened, worker, settings, handler, pause });
            }
        }
        Ok(Workers { workers, pauses })
    }

    /// What is measured of them.
    pub fn measured(&self) -> Vec<Measured> {
        let measured = |working: &Working| Measured {
            of: Of::Queue(working.feed.clone(), Arc::clone(&working.queue)),
            stats: working.worker.stats(),
        };
        self.workers.iter().map(measured).collect()
    }

    /// The queues that are paused, as it is now and later.
    pub fn paused(&self) -> Option<watch::Receiver<BTreeSet<FeedName>>> {
        self.pauses.as_ref().map(Pauses::now)
    }

    /// Has those that end by themselves try no longer than this.
    pub fn bound(&mut self, patience: Patience) {
        self.workers.iter_mut().for_each(|working| working.settings.patience = patience);
    }

    /// Works until nothing is left.
    pub async fn drain(self) -> Result<()> {
        let mut parts = Parts::new();
        let _pauses = self.add_to(&mut parts, Until::Drained);
        parts.run(true, std::future::pending()).await
    }

    /// Adds each worker to the parts of the host. What they hear of pauses by is to be kept.
    pub fn add_to(self, parts: &mut Parts, until: Until) -> Option<Pauses> {
        for working in self.workers {
            let told = parts.told();
            parts.add(working.run(until, told));
        }
        self.pauses
    }
}

impl Working {
    /// Works until it is told to end, with rests while its queue is paused.
    async fn run(self, until: Until, told: impl Future<Output = ()> + Send) -> Ended {
        let Working { feed, queue, worker, settings, handler, mut pause } = self;
        let worker = worker.settings(settings);
        tokio::pin!(told);
        loop {
            if pause.is_on() {
                if until != Until::ShutDown {
                    return Ended::Stopped(paused(&feed));
                }
                tracing::warn!(%feed, "paused; `seriatim resume {feed}` lets it go on");
                tokio::select! {
                    () = &mut told => return Ended::Done,
                    () = pause.until(false) => tracing::info!(%feed, "resumed"),
                }
            }
            let mut is_told = false;
            let ending = async {
                tokio::select! {
                    () = &mut told => is_told = true,
                    () = pause.until(true) => {}
                }
            };
            let (worker, handler) = (worker.clone(), handler.clone());
            let ran = match until {
                Until::ShutDown => worker.run_until(handler, ending).await,
                Until::AllIsSent | Until::Drained => worker.drain_until(handler, ending).await,
            };
            let ended = ended(feed.as_str(), ran);
            if is_told || !matches!(ended, Ended::Done) || !pause.is_on() {
                return match ended {
                    Ended::Done if until == Until::AllIsSent => none_is_parked(&feed, &*queue).await,
                    ended => ended,
                };
            }
        }
    }
}

fn paused(feed: &FeedName) -> Error {
    Error::failed(format!("feed {feed}: it is paused"))
        .help(format!("`seriatim resume {feed}` lets it go on"))
}

async fn none_is_parked(feed: &FeedName, queue: &dyn Queue) -> Ended {
    match queue.parked().await.map(|objects| objects.len() as u64) {
        Ok(0) => Ended::Done,
        Ok(objects) => {
            let what = HostError::Parked(vec![(feed.clone(), objects)]).to_string();
            Ended::Stopped(parked::are_parked(feed.as_str(), &what))
        }
        Err(error) => Ended::Failed(Error::from(error).about(&format!("feed {feed}"))),
    }
}

fn ended(feed: &str, ran: Result<Done, WorkerError>) -> Ended {
    match ran {
        Ok(done) => {
            let (sent, parked, failures) = (done.sent, done.parked, done.failures);
            tracing::info!(feed, sent, parked, failures, "ended");
            Ended::Done
        }
        Err(WorkerError::Stopped(why)) => {
            tracing::error!(feed, why, "feed stopped");
            Ended::Stopped(explain(feed, WorkerError::Stopped(why)))
        }
        Err(error @ WorkerError::Unfinished(_)) => Ended::Stopped(explain(feed, error)),
        Err(error) => Ended::Failed(explain(feed, error)),
    }
}

fn settings(queue: &QueueConfig, config: &Config) -> WorkerSettings {
    WorkerSettings {
        concurrency: queue.handler.concurrency,
        batch: queue.handler.batch,
        timeout: queue.handler.timeout,
        retry: queue.retry,
        leases: config.lease,
        idle: queue.every,
        close_within: config.close_within,
        patience: Patience::default(),
    }
}

fn explain(feed: &str, error: WorkerError) -> Error {
    let error = match error {
        WorkerError::Name(bad) => Error::usage(bad.to_string()),
        WorkerError::NameTaken(name) => Error::failed(format!("a worker named {name} is already working"))
            .help("give this host another name with --host, or leave --host out"),
        WorkerError::Settings(wrong) => Error::usage(wrong),
        WorkerError::Store(error) => error.into(),
        WorkerError::Unfinished(unfinished) => Error::failed(unfinished.to_string())
            .help("mend what keeps it, then run it again; `--within` sets how long it tries"),
        error @ WorkerError::Stopped(_) => Error::failed(error.to_string()),
    };
    error.about(&format!("feed {feed}"))
}
