//! Feeds that the store or a source knows and the config does not: renamed, removed, or of another config that shares the store.

use std::collections::BTreeMap;

use seriatim::lease::Liveness;
use seriatim::source::Watching;
use seriatim::{FeedName, Store};

use crate::config::{Config, FeedConfig};
use crate::databases::{self, SourceBackend};
use crate::error::Result;
use std::sync::Arc;

/// A feed of this store that the config does not name.
pub struct Stray {
    /// Its name.
    pub name: FeedName,
    /// Whether the store has checkpoints of it.
    pub in_store: bool,
    /// What is watched for it, and where.
    pub watched: Vec<(Arc<dyn SourceBackend>, Watching)>,
}

impl Stray {
    /// What is known of it.
    pub fn what(&self, config: &Config) -> String {
        let file = config.file.display();
        let kept = match (self.in_store, self.watched.first()) {
            (true, Some((database, watching))) => {
                format!(
                    "its checkpoints are kept, and changes of {} are kept for it in {database}",
                    watching.table
                )
            }
            (false, Some((database, watching))) => {
                format!("changes of {} are kept for it in {database}", watching.table)
            }
            _ => "its checkpoints are kept".to_owned(),
        };
        format!("feed {} is not in {file}, and no host runs it; {kept}", self.name)
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        format!("`seriatim unwatch {}` forgets it; or put it back into the config", self.name)
    }

    /// Whether it watches what this feed watches.
    pub fn is_of_the_table_of(&self, feed: &FeedConfig) -> bool {
        let bare =
            |table: &str| table.rsplit('.').next().unwrap_or_default().trim_matches('"').to_lowercase();
        self.watched.iter().any(|(database, watching)| {
            databases::same(&**database, &*feed.database) && bare(&watching.table) == bare(&feed.table)
        })
    }
}

/// All of them, by name. Sources that cannot be asked are left out: whoever looks at them says so.
pub async fn find(config: &Config, store: &dyn Store) -> Result<Vec<Stray>> {
    let own = store.identity().await?;
    let known = store.feeds().await?;
    let hosts = store.pulse().await?.hosts;
    let is_run = |name: &FeedName| {
        hosts.iter().any(|host| host.liveness != Liveness::Dead && host.feeds.contains(name))
    };
    let mut strays: BTreeMap<FeedName, Stray> = BTreeMap::new();
    let empty = |name: &FeedName| Stray { name: name.clone(), in_store: false, watched: Vec::new() };
    for name in known.iter().filter(|name| !config.has(name.as_str())) {
        strays.insert(name.clone(), Stray { in_store: true, ..empty(name) });
    }
    for database in config.databases().into_iter().filter_map(|database| database.clone().source()) {
        for watching in database.watchings().await.unwrap_or_default() {
            let name = watching.consumer.feed.clone();
            if watching.consumer.store == own && !config.has(name.as_str()) {
                let stray = strays.entry(name.clone()).or_insert_with(|| empty(&name));
                stray.watched.push((Arc::clone(&database), watching));
            }
        }
    }
    Ok(strays.into_values().filter(|stray| !is_run(&stray.name)).collect())
}

/// Warns of feeds that are new, begin with all rows, and watch what a feed that the config does not name any more has watched: under
/// another name everything is handled once more.
pub async fn warn_of_new_names(config: &Config, feeds: &[&FeedConfig], store: &dyn Store) -> Result<()> {
    let known = store.feeds().await?;
    for (feed, stray) in renamed(feeds, &known, &find(config, store).await?) {
        tracing::warn!("{}", would_double(feed, stray));
    }
    Ok(())
}

/// New feeds that begin with all rows, each with a stray feed of the same table.
pub fn renamed<'a>(
    feeds: &[&'a FeedConfig],
    known: &[FeedName],
    strays: &'a [Stray],
) -> Vec<(&'a FeedConfig, &'a Stray)> {
    let is_new =
        |feed: &&&FeedConfig| !known.contains(&feed.name) && feed.start == seriatim::source::Start::Beginning;
    let pair = |feed: &&'a FeedConfig| {
        strays.iter().find(|stray| stray.is_of_the_table_of(feed)).map(|stray| (*feed, stray))
    };
    feeds.iter().filter(is_new).filter_map(pair).collect()
}

/// What becomes of totals.
pub fn would_double(feed: &FeedConfig, stray: &Stray) -> String {
    format!(
        "feed {} is new and begins with all rows of {}, which feed {} has handled before: if that is its old name, totals that are kept \
         by differences are doubled",
        feed.name, feed.table, stray.name
    )
}
