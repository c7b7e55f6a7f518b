//! `seriatim status`: feeds, partitions, owners, positions, lag, what is parked and what blocks.
//!
//! It only looks: nothing is made, installed or taken.

mod queues;
mod report;

use std::sync::Arc;

use seriatim::lease::{HostView, Layout, LeaseView, Liveness, View};
use seriatim::source::{Feed, Lag, Sliced};
use seriatim::store::ParkedObject;
use seriatim::{FeedName, Store};

use super::owners::owner_of;
use super::parked::is_for_people;
use crate::args::Status;
use crate::config::{Config, FeedConfig};
use crate::error::{Error, Result};
use crate::setup;
use crate::{databases, output};
use report::{FeedStatus, HostStatus, LagStatus, Obstacle, ParkedStatus, PartitionStatus, Report};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Status) -> Result<()> {
    let mut report = match databases::existing_store(&config.store).await? {
        Some(store) => report(config, &*store).await?,
        None => Report::default(),
    };
    queues::add(config, &mut report).await?;
    match arguments.json {
        true => output::line(report.to_json())?,
        false => report.write(&mut output::stdout())?,
    }
    Ok(())
}

/// Everything that the store and the sources know.
async fn report(config: &Config, store: &dyn Store) -> Result<Report> {
    let names = store.feeds().await?;
    let view = store.view(&names).await?;
    let mut feeds = Vec::with_capacity(names.len());
    for name in &names {
        let mut parked = store.parked(name, None).await?;
        parked.retain(is_for_people);
        feeds.push(feed_status(config, name, &view, parked).await);
    }
    let hosts = view.hosts.iter().filter(|host| host.liveness != Liveness::Dead);
    Ok(Report { feeds, hosts: hosts.map(|host| host_status(host, &view)).collect() })
}

async fn feed_status(config: &Config, name: &FeedName, view: &View, parked: Vec<ParkedObject>) -> FeedStatus {
    let leases: Vec<&LeaseView> = view.leases.iter().filter(|lease| lease.id.feed == *name).collect();
    let feed = config.feeds.get(name);
    let (lags, mut blocked_by) = match feed {
        Some(feed) => ask_source(feed, &leases).await,
        None => {
            tracing::warn!(
                "feed {name} is in the store and not in {}: its lag is unknown",
                config.file.display()
            );
            (Vec::new(), Vec::new())
        }
    };
    blocked_by.extend(changing(name, &leases));
    blocked_by.extend(troubles(name, view));
    let lags = lags.into_iter().map(LagStatus::from).chain(std::iter::repeat(LagStatus::default()));
    FeedStatus {
        name: name.clone(),
        capture: feed.map(|feed| feed.capture.as_str()),
        guarantee: feed.map(|feed| setup::guarantee(feed, config)),
        partitions: leases.iter().zip(lags).map(|(lease, lag)| partition_status(lease, view, lag)).collect(),
        parked: parked.len(),
        parked_objects: parked.into_iter().map(ParkedStatus::from).collect(),
        blocked_by,
        queue: None,
    }
}

/// A change of the number of partitions that is under way.
fn changing(feed: &FeedName, leases: &[&LeaseView]) -> Option<Obstacle> {
    let layout = Layout::of(leases);
    let is_ending = |lease: &&&LeaseView| {
        let part = layout.part(lease);
        (part.next.is_some() || part.upto.is_some()) && !layout.has_ended(lease)
    };
    let left = leases.iter().filter(is_ending).count();
    let upto = leases.iter().find_map(|lease| layout.part(lease).upto);
    let until = upto.map_or("stop".to_owned(), |upto| format!("come to position {upto}"));
    (left > 0).then(|| Obstacle {
        what: format!(
            "its partitions change to {}: the new ones wait until {left} of the old ones {until}",
            layout.count()
        ),
        remedy: format!("wait; `seriatim lease list {feed}` shows how far they are"),
    })
}

/// What keeps running hosts from going on with the feed.
fn troubles(feed: &FeedName, view: &View) -> impl Iterator<Item = Obstacle> {
    let living = view.hosts.iter().filter(|host| host.liveness != Liveness::Dead);
    let troubles = living.flat_map(|host| host.troubles.iter().map(|trouble| (&host.name, trouble)));
    troubles.filter(|(_, trouble)| trouble.feed == *feed).map(|(host, trouble)| Obstacle {
        what: format!("host {host}: {}", trouble.what),
        remedy: trouble.remedy.clone(),
    })
}

/// The lag of each lease and what holds the feed back; nothing, with a warning, when the source cannot be asked.
async fn ask_source(feed: &FeedConfig, leases: &[&LeaseView]) -> (Vec<Lag>, Vec<Obstacle>) {
    let capture = databases::capture(feed);
    let unknown = |what: &str, error: Error| {
        let error = error.about(&format!("feed {}", feed.name));
        tracing::warn!(help = error.remedy(), "{}: {what} is unknown", error.sentence());
    };
    let divided: Arc<dyn Feed> = capture.clone();
    let lags = Sliced::lags(&divided, leases).await.unwrap_or_else(|error| {
        unknown("its lag", error.into());
        Vec::new()
    });
    let blockers = capture.blockers().await.unwrap_or_else(|error| {
        unknown("what blocks it", error.into());
        Vec::new()
    });
    (lags, blockers.into_iter().map(Obstacle::from).collect())
}

fn partition_status(lease: &LeaseView, view: &View, lag: LagStatus) -> PartitionStatus {
    PartitionStatus {
        partition: lease.id.partition,
        owner: owner_of(lease, view).cloned(),
        epoch: lease.epoch,
        position: lease.position.clone(),
        lag,
    }
}

fn host_status(host: &HostView, view: &View) -> HostStatus {
    let owned = |lease: &&LeaseView| lease.owner.as_ref().is_some_and(|owner| owner.session == host.session);
    let leases = view.leases.iter().filter(owned).count();
    HostStatus { name: host.name.clone(), leases, seen_at: host.seen_at }
}
