//! Feeds that are queues.

use std::sync::Arc;
use std::time::Duration;

use seriatim::FeedName;
use seriatim::handler::Retry;

use super::{HandlerConfig, OnceConfig};
use crate::databases::QueueBackend;

/// One queue.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Its name.
    pub name: FeedName,
    /// The name of its source.
    pub source: String,
    /// Where the source is.
    pub database: Arc<dyn QueueBackend>,
    /// How often an idle worker looks, unless the source wakes it.
    pub every: Duration,
    /// How many events of one object may wait.
    pub limit: Option<u64>,
    /// What its keys begin with, on Redis; `{NAME}:` when left out.
    pub prefix: Option<String>,
    /// What is done with the events.
    pub handler: HandlerConfig,
    /// What is done when that fails.
    pub retry: Retry,
    /// How its events are remembered, where each is to be handled once.
    pub once: Option<OnceConfig>,
}
