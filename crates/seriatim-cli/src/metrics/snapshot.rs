//! What is measured, at one moment.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use seriatim::host::{Latency, Stats};
use seriatim::lease::{LeaseView, View};
use seriatim::queue::Queue;
use seriatim::source::{Feed, Lag, Sliced};
use seriatim::store::StoreError;
use seriatim::{FeedName, Partition, Store};

use super::{Measured, Of};
use crate::commands::owners::owner_of;

/// Whoever asks gets an answer within this time; what is not known by then is left out.
const WITHIN: Duration = Duration::from_secs(5);

/// Where it is measured.
pub struct Source {
    pub store: Option<Arc<dyn Store>>,
    pub feeds: Vec<Measured>,
}

/// One feed.
#[derive(Debug)]
pub struct FeedSnapshot {
    pub name: FeedName,
    pub counts: Counts,
    pub latency: Latency,
    /// Empty when the store cannot be asked.
    pub partitions: Vec<PartitionSnapshot>,
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
        let view = self.view().await.unwrap_or_default();
        let mut feeds = Vec::with_capacity(self.feeds.len());
        for Measured { of, stats } in &self.feeds {
            let (name, partitions) = match of {
                Of::Feed(feed) => (feed.name(), of_feed(feed, &view).await),
                Of::Queue(name, queue) => (name, of_queue(name, &**queue).await.into_iter().collect()),
            };
            let (name, counts) = (name.clone(), counts(stats));
            feeds.push(FeedSnapshot { name, counts, latency: stats.latency(), partitions });
        }
        feeds
    }

    async fn view(&self) -> Option<View> {
        let name = |measured: &Measured| match &measured.of {
            Of::Feed(feed) => Some(feed.name().clone()),
            Of::Queue(..) => None,
        };
        let names: Vec<FeedName> = self.feeds.iter().filter_map(name).collect();
        asked("store", self.store.as_ref()?.view(&names)).await
    }
}

/// The answer, if it comes in time. What is missing without it is said.
async fn asked<T, E: Display>(whom: &str, asking: impl Future<Output = Result<T, E>>) -> Option<T> {
    match tokio::time::timeout(WITHIN, asking).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the metrics are without the lag: the {whom} cannot be asked");
            None
        }
        Err(_) => {
            tracing::warn!("the metrics are without the lag: the {whom} does not answer");
            None
        }
    }
}

async fn of_feed(feed: &Arc<dyn Feed>, view: &View) -> Vec<PartitionSnapshot> {
    let name = feed.name();
    let leases: Vec<&LeaseView> = view.leases.iter().filter(|lease| lease.id.feed == *name).collect();
    let asking = Sliced::lags(feed, &leases);
    let lags = asked(&format!("source of feed {name}"), asking).await.unwrap_or_default();
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
    let (workers, backlog) = asked(&format!("queue {name}"), asking).await?;
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
