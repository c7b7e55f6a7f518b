//! The sinks of the program: each is one file here and one line in [`SINKS`].

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim_handlers::{Guarantee, Sink};
use tokio::sync::Notify;

use super::{command, stdout, webhook};
use crate::config::{Config, HandlerConfig, Section, Setting};
use crate::error::Result;

/// All sinks, in the order in which the program names them.
pub const SINKS: [SinkKind; 3] = [command::SINK, webhook::SINK, stdout::SINK];

/// One kind of sink, as `[feed.X.handler]` has it.
pub struct SinkKind {
    /// The setting that asks for it.
    pub key: &'static str,
    /// How that is written.
    pub example: &'static str,
    /// The other settings that only it has.
    pub settings: &'static [&'static str],
    /// The sections that only it has.
    pub sections: &'static [&'static str],
    /// Reads its settings.
    pub read: fn(&Section<'_>, &Setting<'_>) -> Result<Arc<dyn SinkSettings>>,
}

/// The settings of one sink.
#[async_trait]
pub trait SinkSettings: Debug + Send + Sync {
    /// What the sink promises by itself.
    fn guarantee(&self) -> Guarantee;

    /// The sizes of batches and the number of calls at the same time, where nobody says.
    fn batch_and_concurrency(&self) -> (u32, u32) {
        (100, 8)
    }

    /// Whether `once = true` may stand beside it.
    fn may_be_remembered(&self) -> bool {
        true
    }

    /// The variable of the environment that has a secret of it.
    fn secret_variable(&self) -> Option<&str> {
        None
    }

    /// Whether it is set up rightly. Whether its target is there does not matter yet: it may come.
    fn check(&self, place: &Place<'_>) -> Result<()>;

    /// Whether its target is there.
    async fn reach(&self, place: &Place<'_>) -> Result<()>;

    /// The sink itself. `closed` is told when nobody reads what it writes any more.
    fn open(&self, place: &Place<'_>, closed: &Arc<Notify>) -> Result<Arc<dyn Sink>>;
}

/// What a sink is for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The feed whose changes it gets.
    pub feed: &'a FeedName,
    /// The settings that all handlers have.
    pub handler: &'a HandlerConfig,
    /// All settings.
    pub config: &'a Config,
}
