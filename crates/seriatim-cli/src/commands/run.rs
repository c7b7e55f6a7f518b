//! `seriatim run`: runs feeds as one host until SIGTERM or SIGINT, or, with `--once`, until all is handled.

pub mod queues;

use std::sync::Arc;
use std::time::Duration;

use seriatim::Store;
use seriatim::host::{FeedSettings, Host, HostError};
use seriatim::source::{Consumer, Feed};
use tokio::sync::Notify;

use crate::args::Run;
use crate::config::{Config, FeedConfig};
use crate::error::{Error, Result};
use crate::metrics::{Measured, Metrics};
use crate::setup::{self, Guarantee};
use crate::{databases, handlers, signals};

/// How often the progress of a backfill is told.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Run) -> Result<()> {
    let feeds = config.chosen(&arguments.feeds)?;
    let name = setup::host_name(arguments.host.as_deref())?;
    let shutdown = signals::shutdown()?;
    // Before the store is made: it may be meant to be in a source's file, and that must not come to be by a slip.
    for feed in &feeds {
        let ready = async {
            databases::capture(feed).check().await?;
            handlers::check(feed).await
        };
        ready.await.map_err(|error: Error| error.about(&format!("feed {}", feed.name)))?;
    }
    let queues = config.chosen_queues(&arguments.feeds);
    let closed = Arc::new(Notify::new());
    let mut open = handlers::Open::default();
    let workers = queues::Workers::prepare(&queues, config, &name, &closed, &mut open).await?;
    if feeds.is_empty() {
        // Queues keep their own books: without other feeds, nobody asks the store.
        if arguments.metrics.is_some() {
            tracing::warn!(
                "no metrics are served: queues have none; `seriatim queue inspect` shows what is in them"
            );
        }
        let ending = async {
            tokio::select! {
                () = shutdown => {}
                () = closed.notified() => {}
            }
        };
        let worked = workers.run(arguments.once, ending).await;
        open.close().await;
        return worked;
    }
    let store = databases::open_store(&config.store).await?;
    let mut host =
        Host::new(name.as_str(), store.shared()).leases(config.lease).close_within(config.close_within);
    if let Some(most) = config.most_leases {
        host = host.at_most(most);
    }
    let mut captures: Vec<Arc<dyn Feed>> = Vec::new();
    let mut backfills = tokio::task::JoinSet::new();
    for feed in feeds {
        let capture: Arc<dyn Feed> = databases::capture(feed);
        let handling = handlers::of(feed, config, &store, &closed, &mut open).await?;
        announce(feed, Guarantee::of(feed, config));
        let consumer = setup::consumer(feed, &*store).await?;
        captures.push(Arc::clone(&capture));
        backfills.spawn(tell_of_backfill(Arc::clone(&capture), store.shared(), consumer));
        host = host.feed_with(capture, handling, settings(feed));
    }
    let stats = host.stats();
    // Served until the end.
    let _metrics = match arguments.metrics {
        Some(address) => {
            let measured = captures.into_iter().zip(&stats);
            let measured = measured.map(|(feed, (_, stats))| Measured { feed, stats: Arc::clone(stats) });
            Some(Metrics::serve(address, store.shared(), measured.collect()).await?)
        }
        None => None,
    };
    let reader_gone = Arc::clone(&closed);
    let (end, ended) = tokio::sync::watch::channel(false);
    let ending = async move {
        tokio::select! {
            () = shutdown => {}
            () = reader_gone.notified() => {}
        }
        end.send_replace(true);
        // Whoever still listens must not take the end of this for an end of the channel.
        end.closed().await;
    };
    let both = async {
        let hosting = async {
            match arguments.once {
                true => host.run_once_until(queues::told(ended.clone())).await,
                false => host.run_until(queues::told(ended.clone())).await,
            }
        };
        tokio::join!(hosting, workers.run(arguments.once, queues::told(ended.clone())))
    };
    let (ran, worked) = {
        tokio::pin!(both, ending);
        tokio::select! {
            both = &mut both => both,
            () = &mut ending => both.await,
        }
    };
    open.close().await;
    for (feed, stats) in stats {
        let (handled, parked, skipped) = (stats.handled(), stats.parked(), stats.skipped());
        tracing::info!(%feed, handled, parked, skipped, failures = stats.failures(), "ended");
    }
    ran.map_err(explain)?;
    worked
}

fn announce(feed: &FeedConfig, guarantee: Guarantee) {
    let name = &feed.name;
    match guarantee {
        Guarantee::ExactlyOnce => {
            tracing::info!(feed = %name, "exactly-once: effect and checkpoint are one transaction")
        }
        Guarantee::AtLeastOnce if feed.once.is_some() => {
            tracing::info!(feed = %name, "{}", handlers::WITH_A_LEDGER)
        }
        Guarantee::AtLeastOnce => tracing::info!(
            feed = %name,
            "at-least-once: after a crash a change may be handled again, with the same id"
        ),
    }
}

/// How the host is to run the feed.
pub fn settings(feed: &FeedConfig) -> FeedSettings {
    FeedSettings {
        start: feed.start.clone(),
        batch: feed.handler.batch,
        concurrency: feed.handler.concurrency,
        timeout: feed.handler.timeout,
        retry: feed.retry,
        parked: feed.parked,
        checkpoint: feed.checkpoint,
        chain: feed.chain,
        ..FeedSettings::default()
    }
}

/// Tells how far the reading of existing rows is, until it is done.
async fn tell_of_backfill(feed: Arc<dyn Feed>, store: Arc<dyn Store>, consumer: Consumer) {
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        let Ok(view) = store.view(std::slice::from_ref(&consumer.feed)).await else { continue };
        let mut slowest = None;
        for lease in &view.leases {
            match feed.backfill(&lease.position).await {
                Ok(Some(at))
                    if slowest.is_none_or(|slow: seriatim::source::Backfill| at.done < slow.done) =>
                {
                    slowest = Some(at);
                }
                _ => {}
            }
        }
        match slowest {
            Some(at) => {
                tracing::info!(feed = %consumer.feed, "existing rows: {} of {} read", at.done, at.total)
            }
            None if view.leases.is_empty() => {}
            None => return,
        }
    }
}

/// Why a host ended, in the program's words.
pub fn explain(error: HostError) -> Error {
    match error {
        HostError::Name(bad) => Error::usage(bad.to_string()),
        HostError::NameTaken(name) => Error::failed(format!("a host named {name} is already running"))
            .help("give this one another name with --host, or leave --host out"),
        HostError::Source { feed, error } => Error::from(error).about(&format!("feed {feed}")),
        HostError::Feed(error) => error.into(),
        HostError::Settings(wrong) => Error::usage(wrong),
        HostError::Store(error) => Error::from(error).about("store"),
        error @ HostError::SourceReplaced { .. } => Error::failed(error.to_string()),
        error @ HostError::Stopped(_) => Error::failed(error.to_string()),
    }
}
