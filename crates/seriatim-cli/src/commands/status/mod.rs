//! `seriatim status`: feeds, partitions, owners, positions, lag, what is parked and what blocks.
//!
//! It only looks: nothing is made, installed or taken.

pub mod people;
mod queues;
pub mod report;

use std::sync::Arc;
use std::time::Duration;

use seriatim::lease::{HostView, Layout, LeaseView, Liveness, View};
use seriatim::name::StoreId;
use seriatim::source::{Blocker, Feed, Lag, Sliced, Slot};
use seriatim::store::{ParkedCount, ParkedObject, Paused};
use seriatim::{FeedName, Store};

use super::owners::owner_of;
use super::strays;
use crate::args::Status;
use crate::config::{Config, FeedConfig};
use crate::databases::OpenStore;
use crate::error::{Error, Result};
use crate::setup;
use crate::{databases, handlers, output, unix_signals};
use people::Detail;
use report::{
    ComesAgain, FeedStatus, HostStatus, LagStatus, Obstacle, ParkedStatus, PartitionStatus, Report,
};

/// Clears a terminal, and begins at its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Status) -> Result<()> {
    let Some(seconds) = arguments.watch else { return show(config, arguments).await };
    let shutdown = unix_signals::shutdown()?;
    tokio::select! {
        shown = again_and_again(config, arguments, Duration::from_secs(u64::from(seconds))) => shown,
        () = shutdown => Ok(()),
    }
}

async fn again_and_again(config: &Config, arguments: &Status, pause: Duration) -> Result<()> {
    loop {
        if output::is_terminal() && !arguments.json {
            output::text(CLEAR)?;
        }
        show(config, arguments).await?;
        tokio::time::sleep(pause).await;
    }
}

async fn show(config: &Config, arguments: &Status) -> Result<()> {
    let store = databases::existing_store(&config.store).await?;
    let report = collect(config, store.as_ref()).await?;
    let detail = if arguments.partitions { Detail::Partitions } else { Detail::Feeds };
    match arguments.json {
        true => output::line(report.to_json())?,
        false => report.write(detail, &mut output::stdout())?,
    }
    Ok(())
}

/// Everything that the store, if there is one, the sources and the queues know.
pub async fn collect(config: &Config, store: Option<&OpenStore>) -> Result<Report> {
    let mut report = match store {
        Some(store) => report(config, &**store).await?,
        None => Report::default(),
    };
    let paused = paused(store).await?;
    queues::add(config, &paused, &mut report).await?;
    Ok(report)
}

async fn paused(store: Option<&OpenStore>) -> Result<Vec<Paused>> {
    match store {
        Some(store) => Ok(store.paused().await?),
        None => Ok(Vec::new()),
    }
}

/// Everything that the store and the sources know.
async fn report(config: &Config, store: &dyn Store) -> Result<Report> {
    let (names, own, paused) = (store.feeds().await?, store.identity().await?, store.paused().await?);
    let view = store.view(&names).await?;
    let (mut feeds, mut notes) = (Vec::with_capacity(names.len()), Vec::new());
    for stray in strays::find(config, store).await? {
        notes.push(Obstacle { what: stray.what(config), remedy: stray.remedy(), since: None });
    }
    for name in &names {
        let parked = Parked::of(store, name).await?;
        let pause = paused.iter().find(|paused| paused.feed == *name);
        let (feed, others) = feed_status(config, name, &view, parked, pause).await;
        feeds.push(feed);
        for note in others.into_iter().filter_map(|other| note(config, &own, other)) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let hosts = view.hosts.iter().filter(|host| host.liveness != Liveness::Dead);
    Ok(Report { feeds, hosts: hosts.map(|host| host_status(host, &view)).collect(), notes })
}

/// What holds no feed back, as a note: a consumer that keeps changes from being pruned, or what a target may lose. A consumer that the
/// config does not name is among the strays already.
fn note(config: &Config, own: &StoreId, blocker: Blocker) -> Option<Obstacle> {
    let of = blocker.of.as_ref();
    let is_stray = of.is_some_and(|of| of.store == *own && !config.has(of.feed.as_str()));
    (!is_stray).then(|| Obstacle::from(blocker))
}

/// What is known of a feed, and what wants attention beside it.
async fn feed_status(
    config: &Config,
    name: &FeedName,
    view: &View,
    parked: Parked,
    pause: Option<&Paused>,
) -> (FeedStatus, Vec<Blocker>) {
    let leases: Vec<&LeaseView> = view.leases.iter().filter(|lease| lease.id.feed == *name).collect();
    let feed = config.feeds.get(name);
    let (lags, blockers, slot) = match feed {
        Some(feed) => ask_source(feed, &leases).await,
        None => (Vec::new(), Vec::new(), None),
    };
    let (mut others, blockers): (Vec<Blocker>, Vec<Blocker>) =
        blockers.into_iter().partition(|blocker| blocker.of.is_some());
    let mut blocked_by: Vec<Obstacle> = pause.map(Obstacle::pause).into_iter().collect();
    blocked_by.extend(blockers.into_iter().map(Obstacle::from));
    blocked_by.extend(changing(name, &leases));
    blocked_by.extend(troubles(name, view));
    let guarantee = match feed {
        Some(feed) => {
            others.extend(handlers::risks(feed, config).await);
            Some(setup::guarantee(feed, config).await)
        }
        None => None,
    };
    let lags = lags.into_iter().map(LagStatus::from).chain(std::iter::repeat(LagStatus::default()));
    let status = FeedStatus {
        name: name.clone(),
        capture: feed.map(|feed| feed.capture.as_str()),
        guarantee,
        partitions: leases.iter().zip(lags).map(|(lease, lag)| partition_status(lease, view, lag)).collect(),
        parked: usize::try_from(parked.count.objects).unwrap_or(usize::MAX),
        parked_changes: parked.count.changes,
        parked_more: parked.count.more,
        parked_objects: parked.objects.into_iter().map(ParkedStatus::from).collect(),
        paused: pause.is_some(),
        blocked_by,
        slot,
        comes_again: feed.zip(guarantee).and_then(|(feed, guarantee)| ComesAgain::of(feed, guarantee)),
        queue: None,
    };
    (status, others)
}

/// So many parked objects of a feed, and as many changes, are counted at most: a status is quick however much is parked.
const COUNTED: u64 = 100_000;

/// So many parked objects are read to be shown.
const READ: usize = 100;

/// What is parked of a feed: how much, and some of it.
struct Parked {
    count: ParkedCount,
    objects: Vec<ParkedObject>,
}

impl Parked {
    async fn of(store: &dyn Store, feed: &FeedName) -> Result<Self> {
        let count = store.parked_count(feed, COUNTED).await?;
        if count.objects == 0 {
            return Ok(Parked { count, objects: Vec::new() });
        }
        let mut objects = store.parked_page(feed, None, READ).await?.objects;
        objects.retain(ParkedObject::is_for_people);
        objects.sort_by_key(|object| object.since);
        Ok(Parked { count, objects })
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
        since: None,
    })
}

/// What keeps running hosts from going on with the feed.
fn troubles(feed: &FeedName, view: &View) -> impl Iterator<Item = Obstacle> {
    let living = view.hosts.iter().filter(|host| host.liveness != Liveness::Dead);
    let troubles = living.flat_map(|host| host.troubles.iter().map(|trouble| (&host.name, trouble)));
    troubles
        .filter(|(_, trouble)| trouble.feed == *feed)
        .map(|(host, trouble)| Obstacle::trouble(host, trouble))
}

/// The lag of each lease, what holds the feed back, and its slot; nothing, with a warning, when the source cannot be asked.
async fn ask_source(feed: &FeedConfig, leases: &[&LeaseView]) -> (Vec<Lag>, Vec<Blocker>, Option<Slot>) {
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
    let slot = capture.slot().await.unwrap_or_else(|error| {
        unknown("its slot", error.into());
        None
    });
    (lags, blockers, slot)
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
