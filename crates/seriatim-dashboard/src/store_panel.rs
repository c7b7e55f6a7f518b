//! A panel over a store alone: what every host and every tool shares.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use seriatim::lease::{HostView, LeaseView, Liveness, View};
use seriatim::store::{Discarding, ParkedObject};
use seriatim::{Change, FeedName, HostName, Partition, Store};

use crate::panel::{Action, Done, Filter, Listed, MOST, Panel, ParkedQuery, Refusal, RefusalKind};
use crate::parked;

/// So many parked objects of a feed are counted at most.
const COUNTED: u64 = 100_000;

/// The most changes of one object that are shown.
const CHANGES: usize = 100;

/// Answers from a store. Lag and obstacles of sources are unknown to it.
pub struct StorePanel {
    store: Arc<dyn Store>,
}

impl StorePanel {
    /// A panel over this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        StorePanel { store }
    }

    async fn view(&self) -> Result<View, Refusal> {
        let feeds = self.store.feeds().await?;
        Ok(self.store.view(&feeds).await?)
    }

    /// The feed of this name, if the store knows it.
    async fn feed(&self, name: &str) -> Result<FeedName, Refusal> {
        let known = self.store.feeds().await?.into_iter().find(|feed| feed.as_str() == name);
        known.ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("there is no feed {name:?}")))
    }

    async fn found(&self, feed: &FeedName, key: &Value) -> Result<ParkedObject, Refusal> {
        let (found, _) = parked::find(&*self.store, feed, key).await?;
        found.ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("feed {feed}: {key} is not parked")))
    }

    async fn retry(&self, feed: &str, key: Option<&Value>) -> Result<Value, Refusal> {
        let feed = self.feed(feed).await?;
        let object = match key {
            Some(key) => Some(self.found(&feed, key).await?.key),
            None => None,
        };
        let objects = self.store.retry_parked(&feed, object.as_ref()).await?;
        Ok(json!({"feed": feed, "objects": objects}))
    }

    async fn discard(&self, feed: &str, key: &Value, tail: bool, reason: &str) -> Result<Value, Refusal> {
        let feed = self.feed(feed).await?;
        let object = self.found(&feed, key).await?;
        let changed = || {
            Refusal::new(RefusalKind::Conflict, format!("what is parked of {key} changed in the meantime"))
                .help("look at it again")
        };
        match parked::discard(&*self.store, &feed, &object.key, tail, reason).await? {
            Discarding::Done(dropped) => Ok(json!({"feed": feed, "dropped": dropped})),
            Discarding::Changed => Err(changed()),
            Discarding::Busy => {
                Err(Refusal::new(RefusalKind::Conflict, format!("{key} is being tried again just now"))
                    .help("try again once it is parked; nothing was dropped"))
            }
        }
    }

    async fn hand_over(&self, feed: &str, partition: u32, host: &str) -> Result<Value, Refusal> {
        let feed = self.feed(feed).await?;
        let view = self.store.view(std::slice::from_ref(&feed)).await?;
        let lease = view.leases.iter().find(|lease| lease.id.partition == Partition(partition));
        let lease = lease.ok_or_else(|| {
            Refusal::new(RefusalKind::NotFound, format!("feed {feed} has no partition {partition}"))
        })?;
        let runs = |other: &&HostView| {
            other.name.as_str() == host && other.liveness != Liveness::Dead && other.feeds.contains(&feed)
        };
        let to = view.hosts.iter().find(runs).ok_or_else(|| {
            Refusal::new(RefusalKind::NotFound, format!("no host {host:?} runs feed {feed}"))
        })?;
        if lease.owner.as_ref().is_some_and(|owner| owner.session == to.session) {
            return Ok(json!({"feed": feed, "partition": partition, "host": host, "state": "owned"}));
        }
        match self.store.request_hand_over(lease, &to.name).await? {
            true => Ok(json!({"feed": feed, "partition": partition, "host": host, "state": "asked"})),
            false => {
                Err(Refusal::new(RefusalKind::Conflict, format!("partition {} changed hands", lease.id))
                    .help("try again"))
            }
        }
    }
}

#[async_trait]
impl Panel for StorePanel {
    async fn status(&self) -> Result<Value, Refusal> {
        let view = self.view().await?;
        let mut feeds = Vec::new();
        for name in self.store.feeds().await? {
            let parked = self.store.parked_count(&name, COUNTED).await?;
            let leases = view.leases.iter().filter(|lease| lease.id.feed == name);
            feeds.push(json!({
                "name": name,
                "capture": null,
                "guarantee": null,
                "partitions": leases.map(|lease| partition(lease, &view)).collect::<Vec<_>>(),
                "parked": parked.objects,
                "parked_changes": parked.changes,
                "parked_more": parked.more,
                "blocked_by": troubles(&name, &view),
            }));
        }
        let hosts: Vec<Value> = living(&view).map(|host| self::host(host, &view)).collect();
        Ok(json!({"feeds": feeds, "hosts": hosts}))
    }

    async fn object(&self, feed: &str, key: &Value) -> Result<Value, Refusal> {
        let feed = self.feed(feed).await?;
        let (found, more_to_look_at) = parked::find(&*self.store, &feed, key).await?;
        let Some(object) = found else {
            let looked_at = more_to_look_at.then_some(parked::COUNTED);
            return Ok(json!({
                "feed": feed, "key": key, "parked": null, "changes": [], "more": false, "looked_at": looked_at,
            }));
        };
        let changes = self.store.parked_changes(&feed, &object.key, CHANGES).await?;
        Ok(json!({
            "feed": feed,
            "key": object.key.to_json(),
            "parked": parked_line(&object),
            "changes": changes.iter().map(change).collect::<Vec<_>>(),
            "more": object.waiting > changes.len() as u64,
        }))
    }

    async fn parked(&self, query: &ParkedQuery) -> Result<Listed, Refusal> {
        let feeds = match &query.feed {
            Some(feed) => vec![self.feed(feed).await?],
            None => self.store.feeds().await?,
        };
        let (filter, limit) = (query.filter(), query.limit.unwrap_or(MOST));
        let (mut found, mut more) = (Vec::new(), false);
        for feed in &feeds {
            let take = |object: ParkedObject| {
                if filter.matches(&object.failure.error) {
                    found.push(object);
                }
                true
            };
            more |= parked::look(&*self.store, feed, parked::LOOKED_AT, take).await?;
        }
        more |= found.len() > limit;
        found.sort_by_key(|object| object.since);
        Ok(Listed { lines: found.iter().take(limit).map(parked_line).collect(), more })
    }

    async fn matching(&self, feed: &str, filter: &Filter) -> Result<Value, Refusal> {
        parked::matching(&*self.store, &self.feed(feed).await?, filter).await
    }

    async fn hosts(&self) -> Result<Vec<Value>, Refusal> {
        let view = self.view().await?;
        Ok(living(&view).take(MOST).map(|host| self::host(host, &view)).collect())
    }

    async fn leases(&self) -> Result<Vec<Value>, Refusal> {
        let view = self.view().await?;
        Ok(view.leases.iter().map(|lease| lease_line(lease, &view)).collect())
    }

    async fn once(&self, _: Option<&str>) -> Result<Vec<Value>, Refusal> {
        Err(Refusal::new(RefusalKind::Unsupported, "this page knows no ledger"))
    }

    async fn act(&self, action: &Action) -> Result<Value, Refusal> {
        match action {
            Action::Retry { feed, key } => self.retry(feed, key.as_ref()).await,
            Action::Discard { feed, key, tail, reason } => self.discard(feed, key, *tail, reason).await,
            Action::RetryMatching { feed, filter } => {
                parked::retry_matching(&*self.store, &self.feed(feed).await?, filter).await
            }
            Action::DiscardMatching { feed, filter, tail, reason } => {
                let feed = self.feed(feed).await?;
                parked::discard_matching(&*self.store, &feed, filter, *tail, reason).await
            }
            Action::Move { feed, partition, host } => self.hand_over(feed, *partition, host).await,
            Action::Pause { .. } | Action::Resume { .. } | Action::Rewind { .. } => {
                Err(Refusal::new(RefusalKind::Unsupported, format!("this page cannot {}", action.name()))
                    .help("use the program: it has the config"))
            }
        }
    }

    async fn keep(&self, done: &Done) -> Result<(), Refusal> {
        Ok(self.store.note_action(&serde_json::to_string(done).unwrap_or_default()).await?)
    }

    async fn actions(&self, limit: usize) -> Result<Vec<Done>, Refusal> {
        // Each is noted when it is asked for, and again with what came of it: the later note is read first.
        let noted = self.store.actions(limit.saturating_mul(2)).await?;
        let mut known = HashSet::new();
        let done = noted.iter().filter_map(|action| serde_json::from_str::<Done>(&action.text).ok());
        Ok(done.filter(|done| known.insert(done.id.clone())).take(limit).collect())
    }
}

fn living(view: &View) -> impl Iterator<Item = &HostView> {
    view.hosts.iter().filter(|host| host.liveness != Liveness::Dead)
}

fn owner<'a>(lease: &LeaseView, view: &'a View) -> Option<&'a HostView> {
    let session = &lease.owner.as_ref()?.session;
    living(view).find(|host| host.session == *session)
}

fn owner_name<'a>(lease: &LeaseView, view: &'a View) -> Option<&'a HostName> {
    owner(lease, view).map(|host| &host.name)
}

fn partition(lease: &LeaseView, view: &View) -> Value {
    json!({
        "partition": lease.id.partition,
        "owner": owner_name(lease, view),
        "epoch": lease.epoch,
        "position": lease.position,
        "lag": {"changes": null, "seconds": null},
    })
}

fn lease_line(lease: &LeaseView, view: &View) -> Value {
    let owner = owner(lease, view);
    json!({
        "feed": lease.id.feed,
        "partition": lease.id.partition,
        "owner": owner.map(|host| &host.name),
        "epoch": lease.epoch,
        "position": lease.position,
        "wanted_by": lease.hand_over_to,
        "renewed_at": owner.map(|host| host.seen_at),
        "expire": owner.map(|host| host.expire.as_secs_f64()),
        "parents": lease.part.as_ref().map(|part| part.parents.as_slice()).unwrap_or_default(),
    })
}

fn troubles(feed: &FeedName, view: &View) -> Vec<Value> {
    let all = living(view).flat_map(|host| host.troubles.iter().map(move |trouble| (host, trouble)));
    all.filter(|(_, trouble)| trouble.feed == *feed)
        .map(|(host, trouble)| {
            json!({"what": format!("host {}: {}", host.name, trouble.what), "remedy": trouble.remedy, "since": trouble.since})
        })
        .collect()
}

fn host(host: &HostView, view: &View) -> Value {
    let owned = |lease: &&LeaseView| lease.owner.as_ref().is_some_and(|owner| owner.session == host.session);
    json!({
        "name": host.name,
        "leases": view.leases.iter().filter(owned).count(),
        "seen_at": host.seen_at,
        "expire": host.expire.as_secs_f64(),
        "feeds": host.feeds,
        "troubles": host.troubles.iter().map(|trouble| &trouble.what).collect::<Vec<_>>(),
    })
}

fn parked_line(object: &ParkedObject) -> Value {
    json!({
        "feed": object.feed,
        "partition": object.partition,
        "key": object.key.to_json(),
        "waiting": object.waiting,
        "attempts": object.failure.attempts,
        "error": object.failure.error,
        "since": object.since,
        "state": object.failure.state,
        "next_try": object.failure.next_try,
    })
}

/// A change as the API shows it: ids as texts, since they may be larger than a script's numbers.
fn change(change: &Change) -> Value {
    let mut shown: Value = serde_json::from_str(&change.to_json()).unwrap_or_default();
    for id in ["id", "prev"] {
        if let Some(number) = shown.get(id).and_then(Value::as_u64) {
            shown[id] = json!(number.to_string());
        }
    }
    shown
}
