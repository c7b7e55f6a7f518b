//! Queues in `seriatim status`: what waits, who works, what is parked.
//!
//! A queue has objects instead of partitions. So that its lag is found where every feed's is, it is shown as one partition, owned by
//! the worker that is alone with it, if one is.

use seriatim::lease::HostView;
use seriatim::queue::Queue;
use seriatim::{Epoch, HostName, Partition, Position};

use super::super::parked::queued;
use super::report::{
    FeedStatus, HostStatus, LagStatus, Obstacle, ParkedStatus, PartitionStatus, QueueStatus, Report,
};
use crate::config::{Config, QueueConfig};
use crate::databases;
use crate::error::Result;
use crate::setup::Guarantee;

/// Adds the configured queues that exist, and their workers.
pub async fn add(config: &Config, report: &mut Report) -> Result<()> {
    for queue in config.queues.values() {
        match databases::existing_queue(queue).await {
            Ok(None) => {}
            Ok(Some(opened)) => {
                let workers = opened.workers().await?;
                report.feeds.push(status(queue, &*opened, &workers).await?);
                add_workers(workers, report);
            }
            Err(error) => {
                let remedy = error.remedy().unwrap_or("see that it can be reached").to_owned();
                report.feeds.push(unreachable(queue, Obstacle { what: error.sentence(), remedy }));
            }
        }
    }
    report.feeds.sort_by(|one, other| one.name.cmp(&other.name));
    report.hosts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(())
}

async fn status(queue: &QueueConfig, opened: &dyn Queue, workers: &[HostView]) -> Result<FeedStatus> {
    let backlog = opened.backlog().await?;
    let parked = queued::parked(opened, &queue.name).await?;
    let workers: Vec<HostName> = workers.iter().map(|worker| worker.name.clone()).collect();
    let lag = LagStatus { changes: Some(backlog.events), seconds: backlog.seconds };
    let alone = if workers.len() == 1 { workers.first().cloned() } else { None };
    Ok(FeedStatus {
        partitions: vec![partition(lag, alone)],
        parked: parked.len(),
        parked_objects: parked.into_iter().map(ParkedStatus::from).collect(),
        queue: Some(QueueStatus { objects: backlog.objects, workers }),
        ..empty(queue)
    })
}

/// A queue that cannot be asked: its lag is unknown, and why is said.
fn unreachable(queue: &QueueConfig, why: Obstacle) -> FeedStatus {
    FeedStatus {
        partitions: vec![partition(LagStatus::default(), None)],
        blocked_by: vec![why],
        ..empty(queue)
    }
}

fn partition(lag: LagStatus, owner: Option<HostName>) -> PartitionStatus {
    let position = Position::text("-");
    PartitionStatus { partition: Partition(0), owner, epoch: Epoch(0), position, lag }
}

fn empty(queue: &QueueConfig) -> FeedStatus {
    FeedStatus {
        name: queue.name.clone(),
        capture: Some("queue"),
        guarantee: Some(Guarantee::AtLeastOnce),
        partitions: Vec::new(),
        parked: 0,
        parked_objects: Vec::new(),
        blocked_by: Vec::new(),
        queue: None,
    }
}

/// A host that only works on queues is a host too.
fn add_workers(workers: Vec<HostView>, report: &mut Report) {
    for worker in workers {
        match report.hosts.iter_mut().find(|host| host.name == worker.name) {
            Some(host) => host.seen_at = host.seen_at.max(worker.seen_at),
            None => report.hosts.push(HostStatus { name: worker.name, leases: 0, seen_at: worker.seen_at }),
        }
    }
}
