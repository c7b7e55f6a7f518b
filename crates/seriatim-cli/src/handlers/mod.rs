//! What the program can do with changes by itself.

mod events;
mod stdout;

use std::sync::Arc;

use seriatim::handler::{Handler, Handling};
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerKind, QueueConfig};
use crate::databases::{self, OpenStore, Sql};
use crate::error::{Error, Result};
use crate::setup::Guarantee;
pub use events::HandledEvents;

/// Whether the handler can work.
pub async fn check(feed: &FeedConfig) -> Result<()> {
    match &feed.handler.kind {
        HandlerKind::Stdout => Ok(()),
        HandlerKind::Sql { sql, delete } => databases::check_sql(feed, of_text(sql, delete)).await,
    }
}

/// The handling that a feed's configuration asks for. `closed` is told when the standard output is closed.
pub async fn of(
    feed: &FeedConfig,
    config: &Config,
    store: &OpenStore,
    closed: &Arc<Notify>,
) -> Result<Handling> {
    match &feed.handler.kind {
        HandlerKind::Stdout => Ok(Handling::AtLeastOnce(Arc::new(stdout::Stdout::new(Arc::clone(closed))))),
        HandlerKind::Sql { sql, delete } => {
            databases::sql_handling(feed, of_text(sql, delete), store, Guarantee::of(feed, config)).await
        }
    }
}

/// What a queue's events are handed to.
pub fn of_queue(queue: &QueueConfig, closed: &Arc<Notify>) -> Result<HandledEvents> {
    let handler: Arc<dyn Handler> = match &queue.handler.kind {
        HandlerKind::Stdout => Arc::new(stdout::Stdout::new(Arc::clone(closed))),
        HandlerKind::Sql { .. } => {
            return Err(Error::usage(format!("feed {}: sql cannot handle events of a queue", queue.name)));
        }
    };
    Ok(HandledEvents::new(queue, handler))
}

fn of_text<'a>(sql: &'a str, delete: &'a Option<String>) -> Sql<'a> {
    Sql { sql, delete: delete.as_deref() }
}
