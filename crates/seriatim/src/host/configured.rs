//! A feed and how it is run, said in one breath.

use std::sync::Arc;
use std::time::Duration;

use super::{CheckpointPolicy, FeedSettings, ParkLimits};
use crate::handler::Retry;
use crate::source::{Feed, Start};

/// A feed with settings of its own. Made by [`ConfigureFeed`], taken by [`Host::feed`](super::Host::feed).
#[derive(Clone)]
pub struct ConfiguredFeed {
    feed: Arc<dyn Feed>,
    settings: FeedSettings,
}

/// What a host can run: a feed as it is, with the usual settings, or one with settings of its own.
///
/// Not for implementing: every [`Feed`] has it.
pub trait IntoConfigured {
    /// The feed and its settings.
    fn into_configured(self) -> ConfiguredFeed;
}

impl<F: Feed> IntoConfigured for F {
    fn into_configured(self) -> ConfiguredFeed {
        ConfiguredFeed { feed: Arc::new(self), settings: FeedSettings::default() }
    }
}

impl IntoConfigured for ConfiguredFeed {
    fn into_configured(self) -> ConfiguredFeed {
        self
    }
}

impl ConfiguredFeed {
    pub(super) fn into_parts(self) -> (Arc<dyn Feed>, FeedSettings) {
        (self.feed, self.settings)
    }

    fn with(mut self, set: impl FnOnce(&mut FeedSettings)) -> Self {
        set(&mut self.settings);
        self
    }
}

/// Says how a feed is run, one setting at a time; the others stay at the program's defaults ([`FeedSettings`]).
///
/// ```
/// # use std::sync::Arc;
/// # use seriatim::{Change, Context, Failure, Host, MemoryStore, source::Feed};
/// use seriatim::ConfigureFeed;
/// use seriatim::handler::{Retry, Then};
///
/// async fn run(orders: impl Feed) -> Result<(), seriatim::host::HostError> {
///     let print = |change: Change, _: Context| async move {
///         println!("{}", change.to_json());
///         Ok::<(), Failure>(())
///     };
///     let orders = orders.batch(10).retry(Retry { attempts: 3, then: Then::Skip, ..Retry::default() });
///     Host::new("billing-1", Arc::new(MemoryStore::new())).feed(orders, print).run_once().await
/// }
/// ```
pub trait ConfigureFeed: IntoConfigured + Sized {
    /// Where it begins when it has no checkpoint yet.
    fn start(self, start: Start) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.start = start)
    }

    /// How many changes a handler gets at most in one call.
    fn batch(self, changes: usize) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.batch = changes)
    }

    /// How many calls run at the same time in one partition.
    fn concurrency(self, calls: usize) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.concurrency = calls)
    }

    /// How long one call may take; for a closure, each change.
    fn timeout(self, timeout: Duration) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.timeout = timeout)
    }

    /// What happens to changes that fail.
    fn retry(self, retry: Retry) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.retry = retry)
    }

    /// How much may be parked.
    fn parked(self, limits: ParkLimits) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.parked = limits)
    }

    /// When a checkpoint is written.
    fn checkpoint(self, policy: CheckpointPolicy) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.checkpoint = policy)
    }

    /// How long an idle feed waits before it looks again, unless the source wakes it.
    fn idle(self, pause: Duration) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.idle = pause)
    }

    /// Each change names the change of the same object before it.
    fn chain(self) -> ConfiguredFeed {
        self.into_configured().with(|settings| settings.chain = true)
    }

    /// All settings at once.
    fn settings(self, settings: FeedSettings) -> ConfiguredFeed {
        self.into_configured().with(|own| *own = settings)
    }
}

impl<F: IntoConfigured> ConfigureFeed for F {}
