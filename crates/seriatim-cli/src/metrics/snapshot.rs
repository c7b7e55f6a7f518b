//! What is measured, at one moment.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use seriatim::host::{Latency, Stats};
use seriatim::lease::{LeaseView, Liveness, View};
use seriatim::queue::Queue;
use seriatim::source::{Feed, Lag, Sliced};
use seriatim::store::{ParkedObject, StoreError};
use seriatim::{FeedName, HostName, Partition, Store};
use tokio::sync::watch;

use super::{Measured, Of};
use crate::commands::owners::owner_of;
use crate::commands::parked::{is_for_people, queued};

/// Whoever asks gets an answer within this time; what is not known by then is left out.
const WITHIN: Duration = Duration::from_secs(5);

/// Where it is measured.
pub struct Source {
    /// This host.
    pub host: HostName,
    /// That of the feeds that are no queues.
    pub store: Option<Arc<dyn Store>>,
    pub feeds: Vec<Measured>,
    /// The queues that are paused, where there are queues.
    pub paused_queues: Option<watch::Receiver<BTreeSet<FeedName>>>,
    /// Whether the host is about to end.
    pub ending: watch::Receiver<bool>,
}

/// One feed.
#[derive(Debug)]
pub struct FeedSnapshot {
    pub name: FeedName,
    pub counts: Counts,
    pub latency: Latency,
    /// What is parked now; `None` when that is not known.
    pub parked: Option<ParkedNow>,
    /// Whether anything holds it back now; `None` when that is not known.
    pub blocked: Option<bool>,
    /// Empty when the store cannot be asked.
    pub partitions: Vec<PartitionSnapshot>,
}

/// What is parked of a feed, whoever parked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedNow {
    pub objects: u64,
    pub changes: u64,
}

impl ParkedNow {
    fn of(parked: &[ParkedObject]) -> Self {
        let parked = parked.iter().filter(|object| is_for_people(object));
        let count = |sum: ParkedNow, object: &ParkedObject| ParkedNow {
            objects: sum.objects + 1,
            changes: sum.changes + object.waiting,
        };
        parked.fold(ParkedNow { objects: 0, changes: 0 }, count)
    }
}

/// What this host has done.
#[derive(Debug)]
pub struct Counts {
    pub handled: u64,
    pub failed: u64,
    pub parked: u64,
    pub skipped: u64,
    pub redelivered: u64,
    pub checkpoints: u64,
    pub acquired: u64,
    pub lost: u64,
}

/// One partition, whoever owns it.
#[derive(Debug)]
pub struct PartitionSnapshot {
    pub partition: Partition,
    pub owned: bool,
    pub changes: Option<u64>,
    pub seconds: Option<f64>,
}

impl Source {
    pub async fn snapshot(&self) -> Vec<FeedSnapshot> {
        let view = self.view().await;
        let paused = self.paused().await;
        let mut feeds = Vec::with_capacity(self.feeds.len());
        for Measured { of, stats } in &self.feeds {
            let is_paused = |name: &FeedName| Some(paused.as_ref()?.contains(name));
            let (name, parked, blocked, partitions) = match of {
                Of::Feed(feed) => {
                    let name = feed.name();
                    let known = view.clone().unwrap_or_default();
                    let blocked = is_blocked(feed, view.as_ref(), is_paused(name)).await;
                    (name, self.parked(name).await, blocked, of_feed(feed, &known).await)
                }
                Of::Queue(name, queue) => {
                    let asking =
                        async { queued::parked(&**queue, name).await.map_err(|error| error.sentence()) };
                    let parked = asked(PARKED, &format!("queue {name}"), asking).await;
                    let partitions = of_queue(name, &**queue).await.into_iter().collect();
                    let is_paused = self.paused_queues.as_ref().map(|paused| paused.borrow().contains(name));
                    (name, parked.map(|parked| ParkedNow::of(&parked)), is_paused, partitions)
                }
            };
            let (name, counts, latency) = (name.clone(), counts(stats), stats.latency());
            feeds.push(FeedSnapshot { name, counts, latency, parked, blocked, partitions });
        }
        feeds
    }

    async fn parked(&self, feed: &FeedName) -> Option<ParkedNow> {
        let parked = asked(PARKED, "store", self.store.as_ref()?.parked(feed, None)).await?;
        Some(ParkedNow::of(&parked))
    }

    /// The feeds that are paused.
    async fn paused(&self) -> Option<Vec<FeedName>> {
        let paused = asked("metrics of what is blocked", "store", self.store.as_ref()?.paused()).await?;
        Some(paused.into_iter().map(|paused| paused.feed).collect())
    }

    async fn view(&self) -> Option<View> {
        let name = |measured: &Measured| match &measured.of {
            Of::Feed(feed) => Some(feed.name().clone()),
            Of::Queue(..) => None,
        };
        let names: Vec<FeedName> = self.feeds.iter().filter_map(name).collect();
        asked(LAG, "store", self.store.as_ref()?.view(&names)).await
    }
}

/// What is missing in the metrics when nobody answers.
const LAG: &str = "metrics of the lag";
const PARKED: &str = "metrics of what is parked";

/// Whether a pause, a source or a host holds the feed back.
async fn is_blocked(feed: &Arc<dyn Feed>, view: Option<&View>, is_paused: Option<bool>) -> Option<bool> {
    let (name, view, is_paused) = (feed.name(), view?, is_paused?);
    let living = view.hosts.iter().filter(|host| host.liveness != Liveness::Dead);
    let is_in_trouble = living.flat_map(|host| &host.troubles).any(|trouble| trouble.feed == *name);
    if is_paused || is_in_trouble {
        return Some(true);
    }
    let asking = feed.blockers();
    let blockers = asked("metrics of what is blocked", &format!("source of feed {name}"), asking).await?;
    Some(blockers.iter().any(|blocker| blocker.of.is_none()))
}

/// The answer, if it comes in time. What is missing without it is said.
pub(super) async fn asked<T, E: Display>(
    missing: &str,
    whom: &str,
    asking: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    match tokio::time::timeout(WITHIN, asking).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(error)) => {
            tracing::warn!(%error, "no {missing}: the {whom} cannot be asked");
            None
        }
        Err(_) => {
            tracing::warn!("no {missing}: the {whom} does not answer");
            None
        }
    }
}

async fn of_feed(feed: &Arc<dyn Feed>, view: &View) -> Vec<PartitionSnapshot> {
    let name = feed.name();
    let leases: Vec<&LeaseView> = view.leases.iter().filter(|lease| lease.id.feed == *name).collect();
    let asking = Sliced::lags(feed, &leases);
    let lags = asked(LAG, &format!("source of feed {name}"), asking).await.unwrap_or_default();
    let lags = lags.into_iter().chain(std::iter::repeat(Lag { changes: None, seconds: None }));
    let partitions = leases.iter().zip(lags).map(|(lease, lag)| PartitionSnapshot {
        partition: lease.id.partition,
        owned: owner_of(lease, view).is_some(),
        changes: lag.changes,
        seconds: lag.seconds,
    });
    partitions.collect()
}

/// A queue is shown as one partition, as in `status`; it is owned when anybody works on it.
async fn of_queue(name: &FeedName, queue: &dyn Queue) -> Option<PartitionSnapshot> {
    let asking = async { Ok::<_, StoreError>((queue.workers().await?, queue.backlog().await?)) };
    let (workers, backlog) = asked(LAG, &format!("queue {name}"), asking).await?;
    Some(PartitionSnapshot {
        partition: Partition(0),
        owned: !workers.is_empty(),
        changes: Some(backlog.events),
        seconds: backlog.seconds,
    })
}

fn counts(stats: &Stats) -> Counts {
    Counts {
        handled: stats.handled(),
        failed: stats.failures(),
        parked: stats.parked(),
        skipped: stats.skipped(),
        redelivered: stats.redelivered(),
        checkpoints: stats.checkpoints(),
        acquired: stats.acquired(),
        lost: stats.lost(),
    }
}
