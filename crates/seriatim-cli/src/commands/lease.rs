//! `seriatim lease`: who owns which partition, and what an operator can do about it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use seriatim::clock;
use seriatim::lease::{HostView, LeaseId, LeaseView, Liveness, View};
use seriatim::store::OnRewind;
use seriatim::{Epoch, FeedName, HostName, Partition, Position};

use super::owners::{SetFree, owner_of, refuse_if_owned, set_free};
use crate::args::{Lease, LeaseList, LeaseMove, LeaseRelease};
use crate::config::{Config, FeedConfig, instead_of};
use crate::databases::{self, OpenStore};
use crate::error::{Error, Result};
use crate::output::{self, FAINT, PLAIN, Table, WARN};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Lease) -> Result<()> {
    match arguments {
        Lease::List(arguments) => list(config, arguments).await,
        Lease::Release(arguments) => release(config, arguments).await,
        Lease::Move(arguments) => hand_over(config, arguments).await,
    }
}

/// One lease, as `list --json` shows it.
#[derive(Serialize)]
struct Line<'a> {
    feed: &'a FeedName,
    partition: Partition,
    owner: Option<&'a HostName>,
    epoch: Epoch,
    position: &'a Position,
    wanted_by: Option<&'a HostName>,
    /// When its owner last gave a sign of life, by the store's clock.
    renewed_at: Option<Timestamp>,
    /// After how many seconds without one others take it.
    expire: Option<f64>,
    /// The partitions that it goes on from, while the number of the feed's partitions changes.
    parents: &'a [Partition],
}

async fn list(config: &Config, arguments: &LeaseList) -> Result<()> {
    let view = match databases::existing_store(&config.store).await? {
        Some(store) => {
            let feeds = match &arguments.feed {
                Some(feed) => vec![config.feed(feed)?.name.clone()],
                None => store.feeds().await?,
            };
            store.view(&feeds).await?
        }
        None => View::default(),
    };
    let lines: Vec<Line<'_>> = view.leases.iter().map(|lease| line(lease, &view)).collect();
    match arguments.json {
        true => output::line(serde_json::to_string(&lines).expect("names and numbers always serialize"))?,
        false => write(&lines)?,
    }
    Ok(())
}

fn line<'a>(lease: &'a LeaseView, view: &View) -> Line<'a> {
    let owner = owner_of(lease, view);
    let host = owner.and_then(|owner| view.hosts.iter().find(|host| host.name == *owner));
    Line {
        feed: &lease.id.feed,
        partition: lease.id.partition,
        owner,
        epoch: lease.epoch,
        position: &lease.position,
        wanted_by: lease.hand_over_to.as_ref(),
        renewed_at: host.map(|host| host.seen_at),
        expire: host.map(|host| host.expire.as_secs_f64()),
        parents: lease.part.as_ref().map_or(&[], |part| &part.parents),
    }
}

fn write(lines: &[Line<'_>]) -> Result<()> {
    if lines.is_empty() {
        output::line("there are no leases yet: `seriatim run` makes them")?;
        return Ok(());
    }
    let mut table = Table::titled(["feed", "partition", "owner", "epoch", "position", "wanted by"]);
    for line in lines {
        let owner = match line.owner {
            Some(owner) => (PLAIN, owner.to_string()),
            None => (WARN, "nobody".to_owned()),
        };
        table.row([
            (PLAIN, line.feed.to_string()),
            (PLAIN, line.partition.to_string()),
            owner,
            (FAINT, line.epoch.to_string()),
            (FAINT, line.position.to_string()),
            (PLAIN, line.wanted_by.map(ToString::to_string).unwrap_or_default()),
        ]);
    }
    let mut out = output::stdout();
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

async fn release(config: &Config, arguments: &LeaseRelease) -> Result<()> {
    let (store, feed) = known(config, &arguments.feed).await?;
    let view = store.view(std::slice::from_ref(&feed.name)).await?;
    let lease = find(&view, feed, arguments.partition)?;
    if lease.owner.is_none() {
        output::line(format_args!("partition {}: nobody owns it", lease.id))?;
        return Ok(());
    }
    if !arguments.force {
        refuse_if_owned([lease], &view, &format!("partition {} cannot be released", lease.id))?;
    }
    // The same position under a new epoch: whoever had the lease can write nothing under it any more.
    let (parked, force) = (OnRewind::KeepParked, arguments.force);
    let how = SetFree { to: None, parked, force, unless_parked: None };
    set_free(&*store, &lease.id, &how).await?;
    output::line(format_args!("partition {}: free; a host takes it within lease.acquire", lease.id))?;
    Ok(())
}

async fn hand_over(config: &Config, arguments: &LeaseMove) -> Result<()> {
    let (store, feed) = known(config, &arguments.feed).await?;
    let asked = ask(&store, feed, arguments.partition, &arguments.host).await?;
    let Asked { lease, to, owned } = &asked;
    if *owned {
        output::line(format_args!("partition {lease}: {to} owns it already"))?;
        return Ok(());
    }
    if arguments.no_wait {
        output::line(format_args!("partition {lease}: {to} was asked to take it"))?;
        return Ok(());
    }
    arrived(&store, config, lease, to).await
}

/// A host that is to take a lease.
pub struct Asked {
    lease: LeaseId,
    to: HostName,
    /// It has it already, and was not asked.
    pub owned: bool,
}

/// Asks a host to take a partition, and does not wait for it.
pub async fn ask(store: &OpenStore, feed: &FeedConfig, partition: u32, host: &str) -> Result<Asked> {
    let view = store.view(std::slice::from_ref(&feed.name)).await?;
    let lease = find(&view, feed, partition)?;
    let to = runner(&view, feed, host)?;
    let owned = owner_of(lease, &view) == Some(&to.name);
    let moves = if owned { Vec::new() } else { exchange(&view, feed, lease, to) };
    for (lease, to) in moves {
        if !store.request_hand_over(lease, to).await? {
            return Err(changed(lease));
        }
    }
    Ok(Asked { lease: lease.id.clone(), to: to.name.clone(), owned })
}

/// Which leases go where. A host that has its share gives one back, or the next round of balancing would undo the move.
fn exchange<'a>(
    view: &'a View,
    feed: &FeedConfig,
    lease: &'a LeaseView,
    to: &'a HostView,
) -> Vec<(&'a LeaseView, &'a HostName)> {
    let mut counts: BTreeMap<&HostName, usize> = runners(view, feed).map(|host| (&host.name, 0)).collect();
    for owner in view.leases.iter().filter_map(|lease| owner_of(lease, view)) {
        *counts.entry(owner).or_default() += 1;
    }
    let share = view.leases.len().div_ceil(counts.len().max(1));
    let mut moves = vec![(lease, &to.name)];
    if counts.get(&to.name).is_some_and(|count| *count >= share)
        && let Some(from) = owner_of(lease, view)
        && let Some(back) = view.leases.iter().find(|other| owner_of(other, view) == Some(&to.name))
    {
        moves.push((back, from));
    }
    moves
}

/// Waits until the host has the lease.
async fn arrived(store: &OpenStore, config: &Config, lease: &LeaseId, to: &HostName) -> Result<()> {
    let began = clock::now();
    let bound = config.lease.expire + config.lease.acquire * 2;
    loop {
        let view = store.view(std::slice::from_ref(&lease.feed)).await?;
        let now = view.leases.iter().find(|now| now.id == *lease);
        if now.and_then(|now| owner_of(now, &view)) == Some(to) {
            output::line(format_args!("partition {lease}: {to} owns it now"))?;
            return Ok(());
        }
        if began.elapsed() > bound {
            return Err(Error::failed(format!("partition {lease}: {to} does not own it yet"))
                .help("its owner may be busy with a long batch; `seriatim lease list` shows who has it"));
        }
        store.wait(Duration::from_millis(100)).await;
    }
}

async fn known<'a>(config: &'a Config, feed: &str) -> Result<(OpenStore, &'a FeedConfig)> {
    let feed = config.feed(feed)?;
    let store = databases::existing_store(&config.store).await?;
    let never_ran = || Error::failed(format!("feed {} has never run: it has no leases", feed.name));
    Ok((store.ok_or_else(never_ran)?, feed))
}

fn find<'a>(view: &'a View, feed: &FeedConfig, partition: u32) -> Result<&'a LeaseView> {
    let found = view.leases.iter().find(|lease| lease.id.partition == Partition(partition));
    found.ok_or_else(|| match view.leases.len() {
        0 => Error::failed(format!("feed {} has never run: it has no leases", feed.name)),
        count => Error::usage(format!("feed {} has no partition {partition}", feed.name))
            .help(format!("its partitions are 0 to {}", count - 1)),
    })
}

fn runners<'a>(view: &'a View, feed: &FeedConfig) -> impl Iterator<Item = &'a HostView> {
    view.hosts.iter().filter(|host| host.liveness != Liveness::Dead && host.feeds.contains(&feed.name))
}

/// The host of this name, which must run the feed.
fn runner<'a>(view: &'a View, feed: &FeedConfig, name: &str) -> Result<&'a HostView> {
    let names: Vec<&str> = runners(view, feed).map(|host| host.name.as_str()).collect();
    runners(view, feed).find(|host| host.name.as_str() == name).ok_or_else(|| {
        let failed = Error::failed(format!("no host {name:?} runs feed {}", feed.name));
        match names.is_empty() {
            true => failed.help("no host runs it: `seriatim run` starts one"),
            false => failed.help(instead_of(name, &names)),
        }
    })
}

fn changed(lease: &LeaseView) -> Error {
    Error::failed(format!("partition {} changed hands in the meantime", lease.id))
        .help("run the same command again")
}
