//! A processor as it is given to a host.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::feed::{Shared, WindowFeed, WindowHandler};
use super::{BadVariable, Clock, Overrides, Processor, Rules};
use crate::handler::{Handling, Retry, Then};
use crate::host::{FeedSettings, Host};
use crate::name::{BadName, FeedName};
use crate::source::Start;

/// How far a window's end stays behind the present, unless told otherwise.
const BUFFER: Duration = Duration::from_secs(5);

/// How often an idle processor looks, unless told otherwise.
const EVERY: Duration = Duration::from_secs(1);

/// How long one call of `process` may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Why a processor cannot be run.
#[derive(Debug, Error)]
pub enum WrongWindows {
    /// Its name is no good.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The environment overrides a setting with something that makes no sense.
    #[error(transparent)]
    Variable(#[from] BadVariable),
    /// Its settings cannot work.
    #[error("{0}")]
    Settings(String),
}

/// The windows of a processor, to be given to [`Host::windows`].
pub struct Windows<P: Processor> {
    feed: FeedName,
    variables: String,
    processor: P,
    clock: Arc<dyn Clock>,
    rules: Rules,
    start: Start,
    every: Duration,
    timeout: Duration,
}

impl<P: Processor> Windows<P> {
    /// The windows of a processor over records that this clock stamps.
    ///
    /// The name and the processor's arguments tell its tracker from all others in the store.
    pub fn new(name: &str, processor: P, clock: impl Clock) -> Result<Self, WrongWindows> {
        let overrides = Overrides::of(name)?;
        let excessive_count = NonZeroUsize::new(P::EXCESSIVE_COUNT).or(overrides.excessive_count);
        let excessive_count = excessive_count.ok_or_else(|| {
            WrongWindows::Settings(format!("{name}: EXCESSIVE_COUNT must be at least 1, and is 0"))
        })?;
        let rules = overrides.over(Rules { buffer: BUFFER, stale_age: P::STALE_AGE, excessive_count });
        Ok(Windows {
            feed: processor.arguments().feed(name)?,
            variables: name.to_owned(),
            processor,
            clock: Arc::new(clock),
            rules,
            start: Start::Beginning,
            every: EVERY,
            timeout: TIMEOUT,
        })
    }

    /// How far a window's end stays behind the present: longer than any transaction may take; 5 s unless told otherwise. The
    /// environment variable `RECORD_CHANGE_WINDOW_BUFFER` overrides it.
    pub fn buffer(mut self, buffer: Duration) -> Result<Self, WrongWindows> {
        self.rules = Overrides::of(&self.variables)?.over(Rules { buffer, ..self.rules });
        Ok(self)
    }

    /// Where it begins when it has no tracker yet.
    pub fn start(self, start: Start) -> Self {
        Windows { start, ..self }
    }

    /// How often it looks when there was nothing; every second unless told otherwise.
    pub fn every(self, every: Duration) -> Self {
        Windows { every, ..self }
    }

    /// How long one call of `process` may take before it counts as failed; ten minutes unless told otherwise.
    pub fn timeout(self, timeout: Duration) -> Self {
        Windows { timeout, ..self }
    }

    /// The name of the feed whose checkpoint is the tracker.
    pub fn feed(&self) -> &FeedName {
        &self.feed
    }
}

impl Host {
    /// Has a processor's windows processed, one after another, by one of all hosts that are given it.
    pub fn windows<P: Processor>(self, windows: Windows<P>) -> Self {
        let settings = FeedSettings {
            start: windows.start,
            // A window is a batch of its own, and nothing is fetched before the last one is done.
            batch: 1,
            concurrency: 1,
            timeout: windows.timeout,
            retry: Retry { attempts: u32::MAX, then: Then::Stop, ..Retry::default() },
            idle: windows.every,
            ..FeedSettings::default()
        };
        let shared = Arc::new(Shared::new(
            windows.feed,
            windows.variables,
            windows.processor,
            windows.clock,
            windows.rules,
            windows.every,
        ));
        let handling = Handling::AtLeastOnce(Arc::new(WindowHandler(Arc::clone(&shared))));
        self.feed_with(Arc::new(WindowFeed(shared)), handling, settings)
    }
}
