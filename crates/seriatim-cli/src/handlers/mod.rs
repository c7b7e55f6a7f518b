//! What the program can do with changes by itself: SQL in a database, or a sink.

mod command;
mod events;
mod once;
mod sinks;
mod stdout;
mod webhook;

use std::sync::Arc;

use seriatim::FeedName;
use seriatim::handler::Handling;
use seriatim_handlers::Sink;
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerConfig, HandlerKind, QueueConfig};
use crate::databases::{self, OpenStore, Sql};
use crate::error::{Error, Result};
use crate::setup;
pub use events::HandledEvents;
pub use once::{WITH_A_LEDGER, processor};
pub use sinks::{Place, SINKS, SinkSettings};

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
            let guarantee = setup::guarantee(feed, config);
            return databases::sql_handling(feed, of_text(sql, delete), store, guarantee).await;
        }
        HandlerKind::Sink(sink) => sink.open(&place(&feed.name, &feed.handler, config), closed)?,
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
        HandlerKind::Sink(sink) => sink.open(&place(&queue.name, &queue.handler, config), closed)?,
    };
    open.0.push(Arc::clone(&sink));
    let handler = once::remembered(sink, &queue.name, queue.once.as_ref(), config).await?;
    Ok(HandledEvents::new(queue, handler))
}

fn of_text<'a>(sql: &'a str, delete: &'a Option<String>) -> Sql<'a> {
    Sql { sql, delete: delete.as_deref() }
}
