//! Queues in `seriatim status`: what waits, who works, what is parked.
//!
//! A queue has objects instead of partitions. So that its lag is found where every feed's is, it is shown as one partition, owned by
//! the worker that is alone with it, if one is.

use seriatim::lease::HostView;
use seriatim::queue::Queue;
use seriatim::store::Paused;
use seriatim::{Epoch, HostName, Partition, Position};

use super::super::parked::queued;
use super::report::{
    ComesAgain, FeedStatus, HostStatus, LagStatus, Obstacle, ParkedStatus, PartitionStatus, QueueStatus,
    Report,
};
use crate::config::{Config, QueueConfig};
use crate::databases;
use crate::error::Result;
use crate::setup::Guarantee;

/// Adds the configured queues that exist, and their workers.
pub async fn add(config: &Config, paused: &[Paused], report: &mut Report) -> Result<()> {
    for queue in config.queues.values() {
        match databases::existing_queue(queue).await {
            Ok(None) => {}
            Ok(Some(opened)) => {
                let workers = opened.workers().await?;
                let pause = paused.iter().find(|paused| paused.feed == queue.name);
                report.feeds.push(status(queue, &*opened, &workers, pause).await?);
                add_workers(workers, report);
            }
            Err(error) => {
                let remedy = error.remedy().unwrap_or("see that it can be reached").to_owned();
                report
                    .feeds
                    .push(unreachable(queue, Obstacle { what: error.sentence(), remedy, since: None }));
            }
        }
    }
    report.feeds.sort_by(|one, other| one.name.cmp(&other.name));
    report.hosts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(())
}

async fn status(
    queue: &QueueConfig,
    opened: &dyn Queue,
    workers: &[HostView],
    pause: Option<&Paused>,
) -> Result<FeedStatus> {
    let backlog = opened.backlog().await?;
    let parked = queued::parked(opened, &queue.name).await?;
    let workers: Vec<HostName> = workers.iter().map(|worker| worker.name.clone()).collect();
    let lag = LagStatus { changes: Some(backlog.events), seconds: backlog.seconds };
    let alone = if workers.len() == 1 { workers.first().cloned() } else { None };
    Ok(FeedStatus {
        partitions: vec![partition(lag, alone)],
        parked: parked.len(),
        parked_changes: parked.iter().map(|object| object.waiting).sum(),
        parked_more: false,
        paused: pause.is_some(),
        blocked_by: pause.map(Obstacle::pause).into_iter().collect(),
        parked_objects: parked.into_iter().map(ParkedStatus::from).collect(),
        slot: None,
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
        parked_changes: 0,
        parked_more: false,
        paused: false,
        comes_again: Some(comes_again(queue)),
        parked_objects: Vec::new(),
        blocked_by: Vec::new(),
        slot: None,
        queue: None,
    }
}

/// What a worker had fetched of the objects that it worked on.
fn comes_again(queue: &QueueConfig) -> ComesAgain {
    let in_flight = (queue.handler.batch as u64).saturating_mul(queue.handler.concurrency as u64);
    ComesAgain { in_flight, changes: 0, seconds: 0.0 }
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
