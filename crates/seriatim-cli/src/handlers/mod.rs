//! What the program can do with changes by itself.

mod stdout;

use std::sync::Arc;

use seriatim::handler::Handling;
use seriatim_sqlite::{SqlEffect, SqliteStore, in_transaction};
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerKind};
use crate::setup::Guarantee;

/// The handling that a feed's configuration asks for. `closed` is told when the standard output is closed.
pub fn of(feed: &FeedConfig, config: &Config, store: &SqliteStore, closed: &Arc<Notify>) -> Handling {
    match &feed.handler.kind {
        HandlerKind::Stdout => Handling::AtLeastOnce(Arc::new(stdout::Stdout::new(Arc::clone(closed)))),
        HandlerKind::Sql { sql, delete } => {
            let effect = SqlEffect::new(sql, delete.as_deref());
            match Guarantee::of(feed, config) {
                Guarantee::ExactlyOnce => {
                    Handling::ExactlyOnce(Arc::new(in_transaction(store, effect.into_fn())))
                }
                Guarantee::AtLeastOnce => Handling::AtLeastOnce(Arc::new(effect.on(feed.database.path()))),
            }
        }
    }
}
