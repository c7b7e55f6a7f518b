//! `seriatim parked retry`: has parked objects tried again, by the host that owns them, or else by this process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seriatim::clock;
use seriatim::host::HostError;
use seriatim::lease::View;
use seriatim::store::{ParkedObject, ParkedState};
use seriatim::{FeedName, Host, Partition};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::owners::owner_of;
use super::super::run;
use super::{find, known};
use crate::args::ParkedRetry;
use crate::config::{Config, FeedConfig};
use crate::databases::{self, OpenStore};
use crate::error::{Error, Result};
use crate::output::{self, counted};
use crate::{handlers, setup, unix_signals};

/// How often it looks whether they are done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &ParkedRetry) -> Result<()> {
    let (store, feed) = known(config, &arguments.feed).await?;
    let name = &feed.name;
    let chosen = match &arguments.key {
        Some(key) => vec![find(&*store, name, key).await?],
        None => store.parked(name, None).await?,
    };
    if chosen.is_empty() {
        output::line(format_args!("feed {name}: nothing is parked"))?;
        return Ok(());
    }
    let key = arguments.key.as_ref().and(chosen.first()).map(|object| &object.key);
    store.retry_parked(name, key).await?;
    if arguments.no_wait {
        let (count, are) = (chosen.len() as u64, if chosen.len() == 1 { "is" } else { "are" });
        let objects = output::counted(count, "parked object");
        output::line(format_args!("feed {name}: {objects} {are} to be tried again"))?;
        return Ok(());
    }
    let mut waiting =
        Waiting { config, store: &store, feed, helper: None, ownerless: None, told: BTreeSet::new() };
    let shutdown = unix_signals::shutdown()?;
    let outcome = tokio::select! {
        outcome = waiting.until_tried(&chosen) => outcome,
        () = shutdown => Err(Error::failed(format!("feed {name}: told to stop before all were tried"))
            .help("they stay marked: the next host tries them")),
    };
    waiting.end().await?;
    report(name, chosen.len(), &outcome?)
}

/// A host of this process's own that tries what is marked where nobody else does.
struct Helper {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), HostError>>,
    open: handlers::Open,
}

/// The wait for objects to be tried.
struct Waiting<'a> {
    config: &'a Config,
    store: &'a OpenStore,
    feed: &'a FeedConfig,
    helper: Option<Helper>,
    /// Since when a partition that is needed has had no owner.
    ownerless: Option<tokio::time::Instant>,
    /// What was said to be in the way.
    told: BTreeSet<String>,
}

impl Waiting<'_> {
    /// Waits until each is handled to its end or parked again, and returns those that are parked again.
    async fn until_tried(&mut self, chosen: &[ParkedObject]) -> Result<Vec<ParkedObject>> {
        let mut open: Vec<&ParkedObject> = chosen.iter().collect();
        let mut failed = Vec::new();
        loop {
            let mut still = Vec::new();
            for object in open {
                match self.store.parked_object(&object.feed, &object.key).await? {
                    None => {}
                    Some(now) if now.failure.state == ParkedState::Parked => failed.push(now),
                    Some(_) => still.push(object),
                }
            }
            if still.is_empty() {
                return Ok(failed);
            }
            open = still;
            let view = self.store.view(std::slice::from_ref(&self.feed.name)).await?;
            self.tell_troubles(&view);
            self.help_if_nobody_does(&view, &open).await?;
            self.check_helper().await?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Starts a host here when a partition has no owner, and none comes within two rounds of acquiring.
    async fn help_if_nobody_does(&mut self, view: &View, open: &[&ParkedObject]) -> Result<()> {
        let needed: BTreeSet<Partition> = open.iter().map(|object| object.partition).collect();
        let has_owner = |lease: &seriatim::lease::LeaseView| owner_of(lease, view).is_some();
        let needed = |lease: &&seriatim::lease::LeaseView| needed.contains(&lease.id.partition);
        if view.leases.iter().filter(needed).all(has_owner) {
            self.ownerless = None;
            return Ok(());
        }
        let nobody_runs = !view.leases.iter().any(has_owner);
        let now = clock::now();
        let since = *self.ownerless.get_or_insert(now);
        if self.helper.is_none() && (nobody_runs || now >= since + 2 * self.config.lease.acquire) {
            self.helper = Some(self.start_helper().await?);
        }
        Ok(())
    }

    async fn start_helper(&self) -> Result<Helper> {
        let feed = self.feed;
        let about = |error: Error| error.about(&format!("feed {}", feed.name));
        databases::capture(feed).check().await.map_err(Error::from).map_err(about)?;
        handlers::check(feed, self.config).await.map_err(about)?;
        tracing::info!(feed = %feed.name, "no host runs it: trying here");
        let mut open = handlers::Open::default();
        let handling =
            handlers::of(feed, self.config, self.store, &std::sync::Arc::default(), &mut open).await?;
        let name = setup::host_name(None)?;
        let host = Host::new(name.as_str(), self.store.shared()).leases(self.config.lease);
        let host = host.feed_with(databases::capture(feed), handling, run::settings(feed));
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = async move { drop(stopped.await) };
        Ok(Helper { stop, running: tokio::spawn(host.run_parked_until(ended)), open })
    }

    /// A helper that ended by itself has failed.
    async fn check_helper(&mut self) -> Result<()> {
        if !self.helper.as_ref().is_some_and(|helper| helper.running.is_finished()) {
            return Ok(());
        }
        self.end().await?;
        Err(Error::failed(format!("feed {}: trying ended before all were tried", self.feed.name)))
    }

    async fn end(&mut self) -> Result<()> {
        let Some(Helper { stop, running, open }) = self.helper.take() else { return Ok(()) };
        // One that ended by itself does not listen any more.
        let _ = stop.send(());
        let ended = running.await;
        open.close().await;
        match ended {
            Ok(ended) => ended.map_err(run::explain),
            Err(panicked) => Err(Error::failed("trying ended badly").caused_by(panicked)),
        }
    }

    fn tell_troubles(&mut self, view: &View) {
        let troubles = view.hosts.iter().flat_map(|host| &host.troubles);
        for trouble in troubles.filter(|trouble| trouble.feed == self.feed.name) {
            if self.told.insert(trouble.what.clone()) {
                tracing::warn!(feed = %trouble.feed, help = trouble.remedy, "{}", trouble.what);
            }
        }
    }
}

/// Says what came of it.
pub(super) fn report(feed: &FeedName, chosen: usize, failed: &[ParkedObject]) -> Result<()> {
    let handled = chosen - failed.len();
    if handled > 0 {
        let are = if handled == 1 { "is" } else { "are" };
        let handled = counted(handled as u64, "object");
        output::line(format_args!("feed {feed}: {handled} {are} handled to the end and parked no more"))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let mut errors: BTreeMap<&str, usize> = BTreeMap::new();
    failed.iter().for_each(|object| *errors.entry(&object.failure.error).or_default() += 1);
    let errors: Vec<String> = errors.iter().map(|(error, count)| format!("{error} ({count})")).collect();
    let objects = counted(failed.len() as u64, "object");
    let what = format!("feed {feed}: {objects} failed again: {}", errors.join("; "));
    Err(Error::failed(what)
        .help(format!("they are parked as before; `seriatim parked list {feed}` shows them")))
}
