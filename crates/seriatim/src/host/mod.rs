//! A host: one running process that owns leases and runs handlers.
//!
//! ```text
//!   keeper ── renews, takes, asks for, hands over leases ──▶ store
//!     └─▶ one partition each ◀── one reader for each feed ◀── source
//! ```
//!
//! The keeper decides nothing itself: it asks [`crate::lease::Watch`] who is alive and [`crate::lease::balance`] what to do,
//! and carries it out.

mod configured;
mod error;
mod keeper;
mod observer;
mod open;
pub(crate) mod partition;
pub(crate) mod patience;
mod pausing;
mod policy;
mod pruning;
mod reader;
pub(crate) mod rounded;
mod sliced;
mod settings;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub use configured::{ConfigureFeed, ConfiguredFeed, IntoConfigured};
pub use error::{HostError, Unfinished};
pub use observer::{CloseReason, Observed, Observer};
pub use patience::Patience;
pub use policy::CheckpointPolicy;
pub use settings::{FeedSettings, HEAL, LeaseSettings, ParkLimits};
pub use stats::{BOUNDS, Latency, Stats};

use crate::handler::{Handler, Handling, TransactionalHandler};
use crate::name::{FeedName, HostName, Partition};
use crate::source::{Consumer, Feed};
use crate::store::{Store, Trouble};
use observer::Observers;
use partition::SharedTarget;
use partition::machine::Until;
pub(crate) use partition::machine::failures;

/// A partition that holds changes of this weight asks for no more.
const ENOUGH_BYTES: usize = 4 << 20;

/// A feed as it was given to the host.
struct Given {
    feed: Arc<dyn Feed>,
    handling: Handling,
    settings: FeedSettings,
    stats: Arc<Stats>,
}

/// A feed while it runs.
struct FeedRuntime {
    feed: Arc<dyn Feed>,
    consumer: Consumer,
    handling: Handling,
    settings: FeedSettings,
    stats: Arc<Stats>,
    /// How partitions read it.
    readers: sliced::Readers,
    /// The number of partitions that this host is to bring about, and why it has to wait with that.
    change: sliced::WantedChange,
    until: Until,
    /// Whether an operator has paused it.
    pause: pausing::Pause,
    /// What is known about what the handler works on.
    target: Arc<SharedTarget>,
    /// Partitions that cannot go on, and why.
    full: Mutex<BTreeMap<Partition, String>>,
    /// How many objects were parked in each partition that this host runs or ran, when it last looked.
    parked: Mutex<BTreeMap<Partition, u64>>,
}

impl FeedRuntime {
    /// How many objects are parked in the partitions that this host runs or ran.
    fn parked_objects(&self) -> u64 {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// So many objects are parked in this partition now.
    fn note_parked(&self, partition: Partition, objects: u64) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, objects);
    }

    /// What keeps this host from going on with the feed.
    fn troubles(&self) -> Vec<Trouble> {
        let feed = &self.consumer.feed;
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let full = full.iter().map(|(partition, why)| Trouble {
            feed: feed.clone(),
            what: format!("partition {partition} waits: {why}"),
            remedy: format!(
                "mend the cause and run `seriatim parked retry {feed} --all`, or discard changes"
            ),
            since: None,
        });
        let outage = self.target.outage().map(|outage| Trouble {
            feed: feed.clone(),
            what: format!("its target fails since {:.0}: {}", outage.since, outage.error),
            remedy: "mend it; the feed goes on by itself".to_owned(),
            since: Some(outage.since),
        });
        outage.into_iter().chain(full).chain(self.change.trouble(feed)).collect()
    }
}

/// One running process that owns leases and runs handlers.
///
/// ```
/// # use std::sync::Arc;
/// # use seriatim::{Change, Context, Failure, Host, MemoryStore, source::Feed};
/// async fn keep_in_step(orders: impl Feed) -> Result<(), seriatim::host::HostError> {
///     Host::new("billing-1", Arc::new(MemoryStore::new()))
///         .feed(orders, |change: Change, _: Context| async move {
///             println!("{}", change.to_json());
///             Ok::<(), Failure>(())
///         })
///         .run_once()
///         .await
/// }
/// ```
pub struct Host {
    name: String,
    store: Arc<dyn Store>,
    feeds: Vec<Given>,
    leases: LeaseSettings,
    most: Option<u32>,
    close_within: Duration,
    patience: Patience,
    observers: Vec<Arc<dyn Observer>>,
}

impl Host {
    /// A host of this name, which no other running host of the store may have.
    pub fn new(name: &str, store: Arc<dyn Store>) -> Self {
        let close_within = Duration::from_secs(30);
        Host {
            name: name.to_owned(),
            store,
            feeds: Vec::new(),
            leases: LeaseSettings::default(),
            most: None,
            close_within,
            patience: Patience::default(),
            observers: Vec::new(),
        }
    }

    /// Has a feed's changes handled at least once each. Its settings are the program's defaults, or what [`ConfigureFeed`] says.
    pub fn feed(self, feed: impl IntoConfigured, handler: impl Handler) -> Self {
        let (feed, settings) = feed.into_configured().into_parts();
        self.feed_with(feed, Handling::AtLeastOnce(Arc::new(handler)), settings)
    }

    /// Has a feed's changes handled exactly once each: effect and checkpoint are one transaction of the store.
    pub fn feed_in_transaction(self, feed: impl IntoConfigured, handler: impl TransactionalHandler) -> Self {
        let (feed, settings) = feed.into_configured().into_parts();
        self.feed_with(feed, Handling::ExactlyOnce(Arc::new(handler)), settings)
    }

    /// Has a feed's changes handled in this way, with these settings.
    pub fn feed_with(mut self, feed: Arc<dyn Feed>, handling: Handling, settings: FeedSettings) -> Self {
        self.feeds.push(Given { feed, handling, settings, stats: Arc::default() });
        self
    }

    /// Keeps leases by these settings instead of the defaults.
    pub fn leases(self, leases: LeaseSettings) -> Self {
        Host { leases, ..self }
    }

    /// Takes no more leases than this, over all feeds: for a machine that can do less than the others. What it leaves, they
    /// share.
    pub fn at_most(self, leases: u32) -> Self {
        Host { most: Some(leases), ..self }
    }

    /// Tells this observer what happens. Nothing that it does can stop the host.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// How long closing may take before handlers that hang are cut off.
    pub fn close_within(self, close_within: Duration) -> Self {
        Host { close_within, ..self }
    }

    /// How long [`Host::run_once`] tries: five minutes without progress, unless this says otherwise.
    pub fn patience(self, patience: Patience) -> Self {
        Host { patience, ..self }
    }

    /// The counters of each feed, which go on counting while the host runs.
    pub fn stats(&self) -> Vec<(FeedName, Arc<Stats>)> {
        self.feeds.iter().map(|given| (given.feed.name().clone(), Arc::clone(&given.stats))).collect()
    }

    /// Runs until `shutdown` resolves, then finishes what runs, checkpoints and gives its leases back.
    ///
    /// A feed that has to stop does not stop the others; once all have stopped, it is [`HostError::Stopped`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), HostError> {
        self.run(Until::ShutDown, shutdown).await
    }

    /// Handles what is there and ends. Partitions that another live host owns are left to it.
    ///
    /// - If any feed had to stop, it is [`HostError::Stopped`].
    /// - If nothing moves for too long ([`Host::patience`]), such as when the target is away, it is [`HostError::Unfinished`].
    /// - If all that can be handled is, and objects are parked, it is [`HostError::Parked`].
    pub async fn run_once(self) -> Result<(), HostError> {
        self.run(Until::CaughtUp, std::future::pending()).await
    }

    /// As [`Host::run_once`], ending early when `shutdown` resolves.
    pub async fn run_once_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), HostError> {
        self.run(Until::CaughtUp, shutdown).await
    }

    /// Tries only what is parked and marked to be tried again, in partitions that no other live host owns, until `shutdown`
    /// resolves. Nothing is read from the sources: for a moment in which no host runs.
    pub async fn run_parked_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), HostError> {
        self.run(Until::ShutDownOnlyParked, shutdown).await
    }

    fn check_settings(&self) -> Result<(), HostError> {
        let mut names = HashSet::new();
        for given in &self.feeds {
            let name = given.feed.name();
            if !names.insert(name) {
                return Err(HostError::Settings(format!("feed {name} was given twice")));
            }
            if let Some(wrong) = given.settings.wrong() {
                return Err(HostError::Settings(format!("feed {name}: {wrong}")));
            }
            let is_transactional = matches!(given.handling, Handling::ExactlyOnce(_));
            if is_transactional && given.settings.checkpoint == CheckpointPolicy::Manual {
                let what =
                    "its handler checkpoints with each of its effects: that cannot be left to its word";
                return Err(HostError::Settings(format!("feed {name}: {what}")));
            }
        }
        if self.most == Some(0) {
            return Err(HostError::Settings("a host that may have no lease can do nothing".to_owned()));
        }
        self.leases.wrong().map_or(Ok(()), |wrong| Err(HostError::Settings(wrong.to_owned())))
    }

    async fn run(self, until: Until, shutdown: impl Future<Output = ()> + Send) -> Result<(), HostError> {
        let name = HostName::new(&self.name)?;
        self.check_settings()?;
        let store = self.store.identity().await?;
        let feeds = open::feeds(&self.store, &store, self.feeds, until).await?;
        let pausing = pausing::Pausing::begin(&*self.store, &feeds).await?;
        // Why it ends before all is handled: it was asked to, or gave up.
        let (opened, early) = (feeds.clone(), OnceLock::new());
        let shutdown = async {
            let why = tokio::select! {
                biased;
                () = shutdown => Ok(()),
                unfinished = patience::out_of(until, self.patience, &opened) => Err(unfinished),
            };
            drop(early.set(why));
        };
        // One that only tries what is parked has no share of the feeds.
        let sharing = feeds.iter().filter(|_| until != Until::ShutDownOnlyParked);
        let names: Vec<FeedName> = sharing.map(|feed| feed.consumer.feed.clone()).collect();
        tokio::pin!(shutdown);
        let joined = tokio::select! {
            biased;
            joined = open::join(&*self.store, &name, &names, self.leases.expire) => joined?,
            () = &mut shutdown => return patience::ended(early.get(), until, &opened),
        };
        let (observers, telling) = Observers::start(self.observers);
        let keeping = keeper::Keeping {
            leases: self.leases,
            most: self.most,
            until,
            close_within: self.close_within,
            store,
            pausing,
        };
        let ran = keeper::Keeper::new(self.store, joined, feeds, keeping, observers).run(shutdown).await;
        observer::end(telling).await;
        ran.and_then(|()| patience::ended(early.get(), until, &opened))
    }
}
