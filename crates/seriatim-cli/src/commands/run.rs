//! `seriatim run`: runs feeds as one host until SIGTERM or SIGINT, or, with `--once`, until all is handled.

mod parts;
mod pauses;
pub mod queues;

use std::sync::Arc;
use std::time::Duration;

use seriatim::Store;
use seriatim::host::{FeedSettings, Host, HostError, Patience, Stats};
use seriatim::name::{FeedName, HostName};
use seriatim::source::{Consumer, Feed};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::parts::{Ended, Parts};
use super::parked;
use super::serve::Serving;
use super::strays;
use crate::args::{Run, Shown};
use crate::config::{Config, FeedConfig, HandlerKind};
use crate::error::{Error, Result};
use crate::metrics::{Measured, Metrics, Of, Source};
use crate::setup::{self, Guarantee};
use crate::{databases, handlers, unix_signals};

/// How often the progress of a backfill is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Run) -> Result<()> {
    let feeds = config.chosen(&arguments.feeds)?;
    let name = setup::host_name(arguments.host.as_deref())?;
    let shutdown = unix_signals::shutdown()?;
    // Before the store is made: it may be meant to be in a source's file, and that must not come to be by a slip.
    for feed in &feeds {
        let ready = async {
            databases::capture(feed).check().await?;
            handlers::check(feed, config).await
        };
        ready.await.map_err(|error: Error| error.about(&format!("feed {}", feed.name)))?;
    }
    let queues = config.chosen_queues(&arguments.feeds);
    let closed = Arc::new(Notify::new());
    let mut open = handlers::Open::default();
    let mut workers = queues::Workers::prepare(&queues, config, &name, &closed, &mut open).await?;
    workers.bound(patience(arguments));
    let mut parts = Parts::new();
    let hosting = match feeds.is_empty() {
        true => None,
        false => Some(Hosting::start(config, arguments, &name, feeds, &closed, &mut open, &mut parts).await?),
    };
    // Served until the end.
    let _metrics = match arguments.metrics {
        Some(address) => {
            let of_feeds = hosting.iter().flat_map(|hosting| hosting.measured.iter().cloned());
            let feeds = of_feeds.chain(workers.measured()).collect();
            let store = hosting.as_ref().map(|hosting| hosting.store.clone());
            let (host, ending) = (name.clone(), parts.is_ending());
            let paused_queues = workers.paused();
            Some(Metrics::serve(address, Source { host, store, feeds, paused_queues, ending }).await?)
        }
        None => None,
    };
    let _serving = match arguments.serve {
        Some(address) => Some(served(config, address).await?),
        None => None,
    };
    let until = if arguments.once { queues::Until::AllIsSent } else { queues::Until::ShutDown };
    let _pauses = workers.add_to(&mut parts, until);
    let ending = async {
        tokio::select! {
            () = shutdown => {}
            () = closed.notified() => {}
        }
    };
    let ran = parts.run(arguments.once, ending).await;
    open.close().await;
    if let Some(hosting) = hosting {
        hosting.tell_counts();
    }
    ran
}

/// The page, beside the host. Its standard output may be for changes: the log tells where it is.
async fn served(config: &Config, address: std::net::SocketAddr) -> Result<Serving> {
    let serving = Serving::start(config, address, &Shown::default()).await?;
    tracing::info!("page at {}", serving.address);
    if let Some(token) = &serving.token {
        tracing::info!("token for actions: {token}");
    }
    Ok(serving)
}

/// The feeds that are no queues, while they run.
struct Hosting {
    stats: Vec<(FeedName, Arc<Stats>)>,
    measured: Vec<Measured>,
    store: Arc<dyn Store>,
    _backfills: JoinSet<()>,
}

impl Hosting {
    /// Opens the store and the feeds, and adds the host that runs them to the parts.
    async fn start(
        config: &Config,
        arguments: &Run,
        name: &HostName,
        feeds: Vec<&FeedConfig>,
        closed: &Arc<Notify>,
        open: &mut handlers::Open,
        parts: &mut Parts,
    ) -> Result<Self> {
        let store = databases::open_store(&config.store).await?;
        for risk in store.backend().risks().await {
            tracing::warn!("store: {}; {}", risk.what, risk.remedy);
        }
        let mut host = Host::new(name.as_str(), store.shared())
            .leases(config.lease)
            .close_within(config.close_within)
            .patience(patience(arguments));
        if let Some(most) = config.most_leases {
            host = host.at_most(most);
        }
        strays::warn_of_new_names(config, &feeds, &*store).await?;
        let mut captures: Vec<Arc<dyn Feed>> = Vec::new();
        let mut backfills = JoinSet::new();
        for feed in feeds {
            let capture: Arc<dyn Feed> = databases::capture(feed);
            let handling = handlers::of(feed, config, &store, closed, open).await?;
            announce(feed, setup::guarantee(feed, config).await);
            for risk in handlers::risks(feed, config).await {
                tracing::warn!(feed = %feed.name, help = risk.remedy, "{}", risk.what);
            }
            let consumer = setup::consumer(feed, &*store).await?;
            captures.push(Arc::clone(&capture));
            backfills.spawn(tell_of_backfill(Arc::clone(&capture), store.shared(), consumer));
            host = host.feed_with(capture, handling, settings(feed));
        }
        let stats = host.stats();
        let measure = |(feed, (_, stats)): (_, &(FeedName, Arc<Stats>))| Measured {
            of: Of::Feed(feed),
            stats: Arc::clone(stats),
        };
        let measured = captures.into_iter().zip(&stats).map(measure).collect();
        let (told, once) = (parts.told(), arguments.once);
        parts.add(async move {
            let ran = match once {
                true => host.run_once_until(told).await,
                false => host.run_until(told).await,
            };
            ended(ran)
        });
        Ok(Hosting { stats, measured, store: store.shared(), _backfills: backfills })
    }

    fn tell_counts(&self) {
        for (feed, stats) in &self.stats {
            let (handled, parked, skipped) = (stats.handled(), stats.parked(), stats.skipped());
            tracing::info!(%feed, handled, parked, skipped, failures = stats.failures(), "ended");
        }
    }
}

/// How long `--once` tries.
fn patience(arguments: &Run) -> Patience {
    arguments.within.map_or_else(Patience::default, Patience::Within)
}

fn ended(ran: Result<(), HostError>) -> Ended {
    match ran {
        Ok(()) => Ended::Done,
        Err(error @ (HostError::Stopped(_) | HostError::Unfinished(_) | HostError::Parked(_))) => {
            Ended::Stopped(explain(error))
        }
        Err(error) => Ended::Failed(explain(error)),
    }
}

fn announce(feed: &FeedConfig, guarantee: Guarantee) {
    let name = &feed.name;
    match guarantee {
        Guarantee::ExactlyOnce if matches!(feed.handler.kind, HandlerKind::Sink(_)) => {
            tracing::info!(feed = %name, "exactly-once: the sink holds each change once, and refuses it when it comes again")
        }
        Guarantee::ExactlyOnce => {
            tracing::info!(feed = %name, "exactly-once: effect and checkpoint are one transaction")
        }
        Guarantee::Deduplicated => {
            tracing::info!(feed = %name, "deduplicated: a change that comes again is recognised by the sink, and dropped")
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
        heal: feed.heal,
        checkpoint: feed.checkpoint,
        chain: feed.chain,
        ..FeedSettings::default()
    }
}

/// Tells how far the reading of existing rows is, until it is done.
async fn tell_of_backfill(feed: Arc<dyn Feed>, store: Arc<dyn Store>, consumer: Consumer) {
    let mut told = 0;
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
            Some(at) if at.done > told => {
                told = at.done;
                tracing::info!(feed = %consumer.feed, "existing rows: {} of {} read", at.done, at.total);
            }
            Some(_) => {}
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
        error @ (HostError::SourceReplaced { .. } | HostError::OlderHosts(_)) => {
            Error::failed(error.to_string())
        }
        HostError::StoreLost { feed, lost } => setup::lost(&feed, &lost),
        HostError::Unfinished(unfinished) => Error::failed(unfinished.to_string())
            .help("mend that, then run it again; `--within` sets how long it tries"),
        HostError::Parked(feeds) => {
            let first = feeds.first().map_or("FEED", |(feed, _)| feed.as_str()).to_owned();
            parked::are_parked(&first, &HostError::Parked(feeds).to_string())
        }
        error @ HostError::Stopped(_) => Error::failed(error.to_string()),
    }
}
