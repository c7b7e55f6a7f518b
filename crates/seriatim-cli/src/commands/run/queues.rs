//! The queues among the feeds: a worker for each, under the host's name.

use std::sync::Arc;

use seriatim::HostName;
use seriatim::source::queue::{Worker, WorkerError, WorkerSettings};
use tokio::sync::{Notify, watch};

use crate::config::{Config, QueueConfig};
use crate::databases;
use crate::error::{Error, Result};
use crate::handlers::{self, HandledEvents, Open};

/// Returns once the host is told to end.
pub async fn told(mut ended: watch::Receiver<bool>) {
    if ended.wait_for(|ended| *ended).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The workers of this host.
pub struct Workers(Vec<(String, Worker, HandledEvents)>);

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
            databases::check_source(&queue.database)
                .await
                .map_err(|error| error.about(&format!("feed {}", queue.name)))?;
            let worker =
                Worker::new(host.as_str(), databases::queue(queue).await?).settings(settings(queue, config));
            match queue.once {
                Some(_) => tracing::info!(feed = %queue.name, "{}", handlers::WITH_A_LEDGER),
                None => {
                    tracing::info!(feed = %queue.name, "at-least-once: after a crash an event may be sent again, the same byte for byte")
                }
            }
            workers.push((queue.name.to_string(), worker, handler));
        }
        Ok(Workers(workers))
    }

    /// Works until `ending` resolves; with `once`, until nothing is left.
    pub async fn run(self, once: bool, ending: impl Future<Output = ()>) -> Result<()> {
        let (end, ended) = watch::channel(false);
        let mut running = tokio::task::JoinSet::new();
        for (feed, worker, handler) in self.0 {
            let ended = told(ended.clone());
            running.spawn(async move {
                let ran = match once {
                    true => worker.drain_until(handler, ended).await,
                    false => worker.run_until(handler, ended).await,
                };
                if let Ok(done) = &ran {
                    tracing::info!(
                        feed,
                        sent = done.sent,
                        parked = done.parked,
                        failures = done.failures,
                        "ended"
                    );
                }
                ran.map(drop).map_err(|error| explain(&feed, error))
            });
        }
        tokio::pin!(ending);
        let mut result = Ok(());
        let mut told = false;
        loop {
            tokio::select! {
                () = &mut ending, if !told => {
                    told = true;
                    end.send_replace(true);
                }
                ran = running.join_next() => match ran {
                    None => return result,
                    // One that had to stop does not stop the others.
                    Some(Ok(ran)) => result = result.and(ran),
                    Some(Err(panic)) => result = Err(Error::failed("a worker ended by a fault of the program").caused_by(panic)),
                },
            }
        }
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
