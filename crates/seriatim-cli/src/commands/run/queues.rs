//! The queues among the feeds: a worker for each, under the host's name.

use std::sync::Arc;

use seriatim::queue::{Ended as Done, Queue, Worker, WorkerError, WorkerSettings};
use seriatim::{FeedName, HostName};
use tokio::sync::Notify;

use super::parts::{Ended, Parts};
use crate::config::{Config, QueueConfig};
use crate::databases;
use crate::error::{Error, Result};
use crate::handlers::{self, HandledEvents, Open};
use crate::metrics::{Measured, Of};

/// The workers of this host.
pub struct Workers(Vec<Working>);

/// One of them.
struct Working {
    feed: FeedName,
    queue: Arc<dyn Queue>,
    worker: Worker,
    handler: HandledEvents,
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
        let mut workers = Vec::new();
        for queue in queues {
            let handler = handlers::of_queue(queue, config, closed, open).await?;
            queue
                .database
                .check_source()
                .await
                .map_err(|error| error.about(&format!("feed {}", queue.name)))?;
            let opened = databases::queue(queue).await?;
            let worker = Worker::new(host.as_str(), Arc::clone(&opened)).settings(settings(queue, config));
            match queue.once {
                Some(_) => tracing::info!(feed = %queue.name, "{}", handlers::WITH_A_LEDGER),
                None => {
                    tracing::info!(feed = %queue.name, "at-least-once: after a crash an event may be sent again, the same byte for byte")
                }
            }
            workers.push(Working { feed: queue.name.clone(), queue: opened, worker, handler });
        }
        Ok(Workers(workers))
    }

    /// What is measured of them.
    pub fn measured(&self) -> Vec<Measured> {
        let measured = |working: &Working| Measured {
            of: Of::Queue(working.feed.clone(), Arc::clone(&working.queue)),
            stats: working.worker.stats(),
        };
        self.0.iter().map(measured).collect()
    }

    /// Works until nothing is left.
    pub async fn drain(self) -> Result<()> {
        let mut parts = Parts::new();
        self.add_to(&mut parts, true);
        parts.run(true, std::future::pending()).await
    }

    /// Adds each worker to the parts of the host; with `once`, they work until nothing is left.
    pub fn add_to(self, parts: &mut Parts, once: bool) {
        for Working { feed, worker, handler, .. } in self.0 {
            let told = parts.told();
            parts.add(async move {
                let ran = match once {
                    true => worker.drain_until(handler, told).await,
                    false => worker.run_until(handler, told).await,
                };
                ended(feed.as_str(), ran)
            });
        }
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
        ..WorkerSettings::default()
    }
}

fn explain(feed: &str, error: WorkerError) -> Error {
    let error = match error {
        WorkerError::Name(bad) => Error::usage(bad.to_string()),
        WorkerError::NameTaken(name) => Error::failed(format!("a worker named {name} is already working"))
            .help("give this host another name with --host, or leave --host out"),
        WorkerError::Settings(wrong) => Error::usage(wrong),
        WorkerError::Store(error) => error.into(),
        error @ WorkerError::Stopped(_) => Error::failed(error.to_string()),
    };
    error.about(&format!("feed {feed}"))
}
