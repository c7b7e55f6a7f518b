//! What the program can do with changes by itself: SQL in a database, or a sink.

mod address;
mod command;
mod events;
#[cfg(feature = "nats")]
mod nats;
mod once;
mod redis_stream;
mod sinks;
#[cfg(feature = "sqs")]
mod sqs;
mod stdout;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use seriatim::handler::Handling;
use seriatim::source::Blocker;
use seriatim::{FeedName, Partition};
use seriatim_handlers::{Generations, Guarantee, LedgerGenerations, Sink, Template};
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerConfig, HandlerKind, QueueConfig, Section};
use crate::databases::{self, OpenStore, Sql};
use crate::error::{Error, Result};
use crate::setup;
pub use events::HandledEvents;
pub use once::{WITH_A_LEDGER, processor};
pub use sinks::{Place, SINKS, SinkSettings};

/// How long a target may take to say how it is set up.
const ASK_WITHIN: Duration = Duration::from_secs(3);

/// Whether the handler is set up rightly. Whether its target is there does not matter yet: it may come.
pub async fn check(feed: &FeedConfig, config: &Config) -> Result<()> {
    match &feed.handler.kind {
        HandlerKind::Sql { sql, delete } => databases::check_sql(feed, of_text(sql, delete)).await,
        HandlerKind::Sink(sink) => sink.check(&place(&feed.name, &feed.handler, config)),
    }
}

/// Whether the handler's target is there.
pub async fn reach(feed: &FeedName, handler: &HandlerConfig, config: &Config) -> Result<()> {
    match &handler.kind {
        HandlerKind::Sql { .. } => Ok(()),
        HandlerKind::Sink(sink) => sink.reach(&place(feed, handler, config)).await,
    }
}

/// Settings of the handler's target under which it can lose what it acknowledged.
pub async fn risks(feed: &FeedConfig, config: &Config) -> Vec<Blocker> {
    match &feed.handler.kind {
        HandlerKind::Sql { .. } => Vec::new(),
        HandlerKind::Sink(sink) => {
            let place = place(&feed.name, &feed.handler, config);
            // A target that is away keeps nobody waiting.
            tokio::time::timeout(ASK_WITHIN, sink.risks(&place)).await.unwrap_or_default()
        }
    }
}

/// The guarantee of a feed's sink.
pub async fn guarantee(feed: &FeedConfig, sink: &dyn SinkSettings, config: &Config) -> Guarantee {
    sink.guarantee(&place(&feed.name, &feed.handler, config)).await
}

/// Has a sink that knows what it holds take the changes of these partitions once more: they come again on purpose.
pub async fn renew(feed: &FeedConfig, config: &Config, partitions: &[Partition]) -> Result<()> {
    let remembers = matches!(&feed.handler.kind, HandlerKind::Sink(sink) if sink.remembers());
    let Some(ledger) = databases::existing_ledger(&config.store).await?.filter(|_| remembers) else {
        return Ok(());
    };
    let generations = LedgerGenerations::new(ledger, &feed.name);
    for partition in partitions {
        generations.renew(*partition).await?;
    }
    Ok(())
}

/// The same for a feed that is forgotten.
pub async fn renew_all(feed: &FeedName, config: &Config) -> Result<()> {
    match databases::existing_ledger(&config.store).await? {
        Some(ledger) => Ok(LedgerGenerations::new(ledger, feed).renew_all().await?),
        None => Ok(()),
    }
}

/// The generations of a feed's partitions, in the store's ledger.
async fn generations(place: &Place<'_>) -> Result<Arc<dyn Generations>> {
    let ledger = databases::open_ledger(&place.config.store).await?;
    Ok(Arc::new(LedgerGenerations::new(ledger, place.feed)))
}

/// The template in this setting, if it is there.
fn template(section: &Section<'_>, name: &str) -> Result<Option<Template>> {
    let Some(setting) = section.get(name)? else { return Ok(None) };
    Template::parse(setting.word()?).map(Some).map_err(|bad| setting.wrong(bad))
}

/// What is odd about the handler, and may be meant so.
pub fn warnings(feed: &FeedName, handler: &HandlerConfig, config: &Config) -> Vec<Blocker> {
    match &handler.kind {
        HandlerKind::Sql { .. } => Vec::new(),
        HandlerKind::Sink(sink) => sink.warnings(&place(feed, handler, config)),
    }
}

fn place<'a>(feed: &'a FeedName, handler: &'a HandlerConfig, config: &'a Config) -> Place<'a> {
    Place { feed, handler, config }
}

/// Sinks that may have something to end when the program does.
#[derive(Default)]
pub struct Open(Vec<Arc<dyn Sink>>);

impl Open {
    /// Ends what they keep running.
    pub async fn close(self) {
        for sink in self.0 {
            sink.close().await;
        }
    }
}

/// The handling that a feed's configuration asks for. `closed` is told when the standard output is closed.
pub async fn of(
    feed: &FeedConfig,
    config: &Config,
    store: &OpenStore,
    closed: &Arc<Notify>,
    open: &mut Open,
) -> Result<Handling> {
    let sink = match &feed.handler.kind {
        HandlerKind::Sql { sql, delete } => {
            let guarantee = setup::guarantee(feed, config).await;
            return databases::sql_handling(feed, of_text(sql, delete), store, guarantee).await;
        }
        HandlerKind::Sink(sink) => sink.open(&place(&feed.name, &feed.handler, config), closed).await?,
    };
    open.0.push(Arc::clone(&sink));
    Ok(Handling::AtLeastOnce(once::remembered(sink, &feed.name, feed.once.as_ref(), config).await?))
}

/// What a queue's events are handed to.
pub async fn of_queue(
    queue: &QueueConfig,
    config: &Config,
    closed: &Arc<Notify>,
    open: &mut Open,
) -> Result<HandledEvents> {
    let sink = match &queue.handler.kind {
        HandlerKind::Sql { .. } => {
            return Err(Error::usage(format!("feed {}: sql cannot handle events of a queue", queue.name)));
        }
        HandlerKind::Sink(sink) => sink.open(&place(&queue.name, &queue.handler, config), closed).await?,
    };
    open.0.push(Arc::clone(&sink));
    let handler = once::remembered(sink, &queue.name, queue.once.as_ref(), config).await?;
    Ok(HandledEvents::new(queue, handler))
}

fn of_text<'a>(sql: &'a str, delete: &'a Option<String>) -> Sql<'a> {
    Sql { sql, delete: delete.as_deref() }
}
