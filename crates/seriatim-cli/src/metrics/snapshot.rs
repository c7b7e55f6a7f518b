//! What is measured, at one moment.

use std::sync::Arc;
use std::time::Duration;

use seriatim::host::Latency;
use seriatim::lease::{LeaseView, View};
use seriatim::source::{Cursor, Lag};
use seriatim::{FeedName, Partition, Store};

use super::Measured;
use crate::commands::owners::owner_of;

/// Whoever asks gets an answer within this time; what is not known by then is left out.
const WITHIN: Duration = Duration::from_secs(5);

/// Where it is measured.
pub struct Source {
    pub store: Arc<dyn Store>,
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
        let names: Vec<FeedName> = self.feeds.iter().map(|measured| measured.feed.name().clone()).collect();
        let view = match tokio::time::timeout(WITHIN, self.store.view(&names)).await {
            Ok(Ok(view)) => view,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the metrics are without the lag: the store cannot be asked");
                View::default()
            }
            Err(_) => {
                tracing::warn!("the metrics are without the lag: the store does not answer");
                View::default()
            }
        };
        let mut feeds = Vec::with_capacity(self.feeds.len());
        for measured in &self.feeds {
            feeds.push(of_feed(measured, &view).await);
        }
        feeds
    }
}

async fn of_feed(Measured { feed, stats }: &Measured, view: &View) -> FeedSnapshot {
    let leases: Vec<&LeaseView> = view.leases.iter().filter(|lease| lease.id.feed == *feed.name()).collect();
    let cursor = |lease: &&LeaseView| Cursor { partition: lease.id.partition, after: lease.position.clone() };
    let cursors: Vec<Cursor> = leases.iter().map(cursor).collect();
    let lags = match tokio::time::timeout(WITHIN, feed.lag(&cursors)).await {
        Ok(Ok(lags)) => lags,
        Ok(Err(error)) => {
            tracing::warn!(feed = %feed.name(), %error, "the metrics are without the lag: the source cannot be asked");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(feed = %feed.name(), "the metrics are without the lag: the source does not answer");
            Vec::new()
        }
    };
    let lags = lags.into_iter().chain(std::iter::repeat(Lag { changes: None, seconds: None }));
    let partitions = leases.iter().zip(lags).map(|(lease, lag)| PartitionSnapshot {
        partition: lease.id.partition,
        owned: owner_of(lease, view).is_some(),
        changes: lag.changes,
        seconds: lag.seconds,
    });
    let counts = Counts {
        handled: stats.handled(),
        failed: stats.failures(),
        parked: stats.parked(),
        skipped: stats.skipped(),
        redelivered: stats.redelivered(),
        checkpoints: stats.checkpoints(),
        acquired: stats.acquired(),
        lost: stats.lost(),
    };
    FeedSnapshot {
        name: feed.name().clone(),
        counts,
        latency: stats.latency(),
        partitions: partitions.collect(),
    }
}
