//! The panel of a config: its store, its sources, its queues and its ledger.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use seriatim::name::{FeedName, ProcessorId};
use seriatim::once::Listing;
use seriatim_dashboard::{
    Action, Done, Filter, Listed, MOST, Panel, ParkedQuery, Refusal, RefusalKind, StorePanel,
};
use tokio::sync::Mutex;

use super::super::status::report::Report;
use super::super::{lease, once, parked, rewind, status};
use crate::args::{Parked, ParkedDiscard, ParkedRetry, Rewind};
use crate::config::Config;
use crate::databases::{self, OpenStore};
use crate::error::{Error, Exit, Result};

/// Answers for everything that a config names.
pub struct ConfigPanel {
    config: Config,
    /// Once there is a store.
    store: Mutex<Option<(OpenStore, Arc<StorePanel>)>>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let kind = match error.exit() {
            Exit::Usage => RefusalKind::Bad,
            Exit::TryLater => RefusalKind::Conflict,
            _ if error.may_pass() => RefusalKind::Unavailable,
            _ => RefusalKind::Conflict,
        };
        let refusal = Refusal::new(kind, error.sentence());
        match error.remedy() {
            Some(remedy) => refusal.help(remedy),
            None => refusal,
        }
    }
}

impl ConfigPanel {
    pub fn new(config: &Config) -> Self {
        ConfigPanel { config: config.clone(), store: Mutex::default() }
    }

    /// The store, if there is one by now.
    async fn existing(&self) -> Result<Option<(OpenStore, Arc<StorePanel>)>> {
        let mut known = self.store.lock().await;
        if known.is_none() {
            let found = databases::existing_store(&self.config.store).await?;
            *known = found.map(|store| {
                let panel = Arc::new(StorePanel::new(store.shared()));
                (store, panel)
            });
        }
        Ok(known.clone())
    }

    /// The store, which must be there.
    async fn store(&self) -> Result<(OpenStore, Arc<StorePanel>), Refusal> {
        let nothing = || {
            Refusal::new(RefusalKind::NotFound, "nothing has run yet: there is no store")
                .help("`seriatim run` makes it")
        };
        self.existing().await?.ok_or_else(nothing)
    }

    /// A feed or queue of this name in the config.
    fn named(&self, feed: &str) -> Result<&FeedName, Refusal> {
        self.config.named(feed).map_err(|error| Refusal { kind: RefusalKind::NotFound, ..error.into() })
    }

    fn is_queue(&self, feed: &str) -> bool {
        self.config.queue(feed).is_ok()
    }

    /// An object of a queue: its events are not shown.
    async fn queued_object(&self, queue: &FeedName, key: &Value) -> Result<Value, Refusal> {
        let lines = parked::lines(&self.config, None, Some(queue.as_str())).await?;
        let found = lines.into_iter().find(|line| line["key"] == *key || line["key"]["object"] == *key);
        Ok(json!({"feed": queue, "key": key, "parked": found, "changes": [], "more": false}))
    }

    /// The program's own commands do it.
    async fn act_on_queue(&self, action: &Action) -> Result<Value, Refusal> {
        let arguments = match action.clone() {
            Action::Discard { feed, key, tail, reason } => {
                Parked::Discard(ParkedDiscard { feed, key: key.to_string(), tail, reason })
            }
            Action::Retry { feed, key } => {
                let (all, key) = (key.is_none(), key.map(|key| key.to_string()));
                Parked::Retry(ParkedRetry { feed, key, all, no_wait: true })
            }
            other => {
                return Err(Refusal::new(
                    RefusalKind::Unsupported,
                    format!("a queue has no {} of several objects, or of a partition", other.name()),
                )
                .help("act on one object, or on all without a condition"));
            }
        };
        parked::execute(&self.config, &arguments).await?;
        Ok(json!({"feed": action.feed()}))
    }

    /// As `seriatim lease move --no-wait`: a host that has its share gives another lease back.
    async fn hand_over(&self, feed: &str, partition: u32, host: &str) -> Result<Value, Refusal> {
        let not_found = |error: Error| Refusal { kind: RefusalKind::NotFound, ..error.into() };
        let (store, config) = (self.store().await?.0, self.config.feed(feed).map_err(not_found)?);
        let asked =
            lease::ask(&store, config, partition, host).await.map_err(|error| match error.may_pass() {
                true => error.into(),
                false => not_found(error),
            })?;
        let state = if asked.owned { "owned" } else { "asked" };
        Ok(json!({"feed": feed, "partition": partition, "host": host, "state": state}))
    }

    /// Feeds and hosts, as `seriatim status` shows them.
    pub async fn report(&self) -> Result<Report> {
        let store = self.existing().await?.map(|(store, _)| store);
        status::collect(&self.config, store.as_ref()).await
    }

    async fn rewind(&self, feed: &str, to: &str) -> Result<Value, Refusal> {
        self.named(feed)?;
        let arguments = Rewind {
            feed: feed.to_owned(),
            to: to.to_owned(),
            partition: None,
            force: false,
            again: false,
            yes: true,
        };
        rewind::execute(&self.config, &arguments).await?;
        Ok(json!({"feed": feed, "to": to}))
    }
}

/// Whether the store knows this feed, or some.
async fn knows(store: &OpenStore, only: Option<&str>) -> Result<bool> {
    let feeds = store.feeds().await?;
    Ok(only.is_none_or(|only| feeds.iter().any(|feed| feed.as_str() == only)))
}

#[async_trait]
impl Panel for ConfigPanel {
    async fn status(&self) -> Result<Value, Refusal> {
        Ok(serde_json::from_str(&self.report().await?.to_json()).unwrap_or_default())
    }

    async fn object(&self, feed: &str, key: &Value) -> Result<Value, Refusal> {
        let feed = self.named(feed)?.clone();
        if self.is_queue(feed.as_str()) {
            return self.queued_object(&feed, key).await;
        }
        match self.existing().await? {
            Some((_, panel)) => panel.object(feed.as_str(), key).await,
            None => Ok(json!({"feed": feed, "key": key, "parked": null, "changes": [], "more": false})),
        }
    }

    async fn parked(&self, query: &ParkedQuery) -> Result<Listed, Refusal> {
        let only = match &query.feed {
            Some(feed) => Some(self.named(feed)?.as_str()),
            None => None,
        };
        let is_of_a_queue = only.is_some_and(|only| self.is_queue(only));
        let mut listed = match self.existing().await? {
            Some((store, panel)) if !is_of_a_queue && knows(&store, only).await? => {
                panel.parked(query).await?
            }
            _ => Listed::default(),
        };
        let (filter, limit) = (query.filter(), query.limit.unwrap_or(MOST));
        let queued = parked::lines(&self.config, None, only).await?;
        listed.lines.extend(
            queued
                .into_iter()
                .filter(|line| line["error"].as_str().is_some_and(|error| filter.matches(error))),
        );
        listed.more |= listed.lines.len() > limit;
        listed.lines.truncate(limit);
        Ok(listed)
    }

    async fn matching(&self, feed: &str, filter: &Filter) -> Result<Value, Refusal> {
        if !self.is_queue(self.named(feed)?.as_str()) {
            return self.store().await?.1.matching(feed, filter).await;
        }
        let mut lines = parked::lines(&self.config, None, Some(feed)).await?;
        lines.retain(|line| line["error"].as_str().is_some_and(|error| filter.matches(error)));
        let changes: u64 = lines.iter().filter_map(|line| line["waiting"].as_u64()).sum();
        Ok(json!({"feed": feed, "dry_run": true, "objects": lines.len(), "changes": changes, "more": false}))
    }

    async fn hosts(&self) -> Result<Vec<Value>, Refusal> {
        match self.existing().await? {
            Some((_, panel)) => panel.hosts().await,
            None => Ok(Vec::new()),
        }
    }

    async fn leases(&self) -> Result<Vec<Value>, Refusal> {
        match self.existing().await? {
            Some((_, panel)) => panel.leases().await,
            None => Ok(Vec::new()),
        }
    }

    async fn once(&self, processor: Option<&str>) -> Result<Vec<Value>, Refusal> {
        let processor = processor.map(ProcessorId::new).transpose();
        let processor = processor.map_err(|bad| Refusal::new(RefusalKind::Bad, bad.to_string()))?;
        let Some(ledger) = databases::existing_ledger(&self.config.store).await? else {
            return Ok(Vec::new());
        };
        let listing = Listing { processor, ..Listing::default() };
        Ok(once::lines(&*ledger, &listing, MOST).await?)
    }

    async fn act(&self, action: &Action) -> Result<Value, Refusal> {
        let feed = action.feed();
        match action {
            Action::Retry { .. }
            | Action::Discard { .. }
            | Action::RetryMatching { .. }
            | Action::DiscardMatching { .. }
                if self.is_queue(feed) =>
            {
                self.act_on_queue(action).await
            }
            Action::Pause { .. } => {
                let changed = self.store().await?.0.pause(self.named(feed)?).await?;
                Ok(json!({"feed": feed, "paused": true, "changed": changed}))
            }
            Action::Resume { .. } => {
                let changed = self.store().await?.0.resume(self.named(feed)?).await?;
                Ok(json!({"feed": feed, "paused": false, "changed": changed}))
            }
            Action::Rewind { to, .. } => self.rewind(feed, to).await,
            Action::Move { partition, host, .. } if self.config.feed(feed).is_ok() => {
                self.hand_over(feed, *partition, host).await
            }
            _ => self.store().await?.1.act(action).await,
        }
    }

    async fn keep(&self, done: &Done) -> Result<(), Refusal> {
        self.store().await?.1.keep(done).await
    }

    async fn actions(&self, limit: usize) -> Result<Vec<Done>, Refusal> {
        match self.existing().await? {
            Some((_, panel)) => panel.actions(limit).await,
            None => Ok(Vec::new()),
        }
    }
}
