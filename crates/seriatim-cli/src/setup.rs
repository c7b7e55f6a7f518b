//! From the configuration to what it promises, and to consumers that stores and sources agree on.

use seriatim::Store;
use seriatim::name::{FeedName, HostName, StoreId};
use seriatim::source::{Consumer, Lost};
use seriatim::store::EnsureError;

pub use seriatim_handlers::Guarantee;

use crate::config::{Config, FeedConfig, HandlerKind};
use crate::error::{Error, Result};
use crate::{databases, handlers};

/// What holds for a feed: exactly once where its SQL runs in the database that also has the checkpoints, otherwise what its sink
/// says.
pub async fn guarantee(feed: &FeedConfig, config: &Config) -> Guarantee {
    match &feed.handler.kind {
        HandlerKind::Sink(sink) => handlers::guarantee(feed, &**sink, config).await,
        HandlerKind::Sql { .. } if databases::same(&*feed.database, &*config.store) => Guarantee::ExactlyOnce,
        HandlerKind::Sql { .. } => Guarantee::AtLeastOnce,
    }
}

/// Who the feed's consumer is in the source's books.
pub async fn consumer(feed: &FeedConfig, store: &dyn Store) -> Result<Consumer> {
    Ok(Consumer { feed: feed.name.clone(), store: store.identity().await? })
}

/// Installs what the feed's capture needs in its source, and sets the feed up in the store.
pub async fn watch(feed: &FeedConfig, store: &dyn Store) -> Result<()> {
    let capture = databases::capture(feed);
    let consumer = consumer(feed, store).await?;
    known_to_source(feed, store).await?;
    refuse_lost(feed, Some(store)).await?;
    let start = capture.install(&consumer, &feed.start).await?;
    match store.ensure(&feed.name, feed.partitions, &start).await {
        // The next host that starts brings it about.
        Err(EnsureError::PartitionCount { .. }) if can_be_divided(feed, store) => Ok(()),
        ensured => Ok(ensured?),
    }
}

/// Whether the number of the feed's partitions can be changed.
pub fn can_be_divided(feed: &FeedConfig, store: &dyn Store) -> bool {
    store.reshapes() && databases::capture(feed).resliced(feed.partitions).is_some()
}

/// Fails when the store has checkpoints of the feed and its source has never heard of it.
pub async fn known_to_source(feed: &FeedConfig, store: &dyn Store) -> Result<()> {
    let consumer = consumer(feed, store).await?;
    if !store.feeds().await?.contains(&feed.name) || databases::capture(feed).knows(&consumer).await? {
        return Ok(());
    }
    let what = "the store has checkpoints of it, but the source does not know it: the source was replaced or restored";
    let help = format!("`seriatim rewind {} --to beginning` starts it afresh on this source", feed.name);
    Err(Error::failed(what).help(help))
}

/// Fails when the source knows a consumer of the feed, and the store has no checkpoints of it.
pub async fn refuse_lost(feed: &FeedConfig, store: Option<&dyn Store>) -> Result<()> {
    match find_lost(feed, store).await? {
        Some(found) => Err(lost(&feed.name, &found)),
        None => Ok(()),
    }
}

/// What the source knows of a feed of which the store has no checkpoints. A store that does not exist yet has none.
pub async fn find_lost(feed: &FeedConfig, store: Option<&dyn Store>) -> Result<Option<Lost>> {
    // Before the store is looked at: a consumer begins only after the store has its leases.
    let books = databases::capture(feed).registered().await?;
    let Some(store) = store else { return Ok(Lost::find(&feed.name, &StoreId::random(), &books)) };
    if !store.view(std::slice::from_ref(&feed.name)).await?.leases.is_empty() {
        return Ok(None);
    }
    Ok(Lost::find(&feed.name, &store.identity().await?, &books))
}

/// A store without checkpoints of a feed that its source knows, in the program's words.
pub fn lost(feed: &FeedName, lost: &Lost) -> Error {
    Error::failed(format!("feed {feed}: {}", lost.what())).help(lost.remedy())
}

/// The host's name as given, or else the machine's name and the process id, which no other living process here has.
pub fn host_name(given: Option<&str>) -> Result<HostName> {
    let name = given.map_or_else(default_host_name, str::to_owned);
    HostName::new(&name).map_err(|bad| Error::usage(bad.to_string()))
}

fn default_host_name() -> String {
    let machine = rustix::system::uname();
    format!("{}-{}", machine.nodename().to_string_lossy(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_host_name_has_the_process_in_it() {
        assert!(host_name(None).unwrap().as_str().ends_with(&std::process::id().to_string()));
        assert_eq!(host_name(Some("a")).unwrap().as_str(), "a");
        assert_eq!(host_name(Some("")).unwrap_err().exit(), crate::error::Exit::Usage);
    }
}
