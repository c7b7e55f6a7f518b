//! Feeds that are paused.

use seriatim::name::FeedName;
use seriatim::store::{Paused, StoreError};

use super::requests::Look;
use super::{DynamoDbStore, keys, timestamp};
use crate::item::{foreign, number, number_of, text_of};
use crate::write::{Delete, Update, Written};

const COLLECTION: &str = "paused";

impl DynamoDbStore {
    /// Says whether it was not paused before.
    pub(super) async fn add_pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let pause = Update::of(keys::key(COLLECTION, feed.as_str()))
            .set("pausedSince = :since", ":since", number(self.time()))
            .only_if("attribute_not_exists(pausedSince)");
        let paused = self.update("pausing a feed in", pause).await?;
        // Also when it was paused already: whoever did that may have died before hosts were told.
        self.leases_have_moved().await?;
        Ok(matches!(paused, Written::Done(_)))
    }

    /// Says whether it was paused.
    pub(super) async fn remove_pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let resume =
            Delete::of(keys::key(COLLECTION, feed.as_str())).only_if("attribute_exists(pausedSince)");
        let resumed = resume.send(&self.client, &self.table, "resuming a feed in").await?;
        self.leases_have_moved().await?;
        Ok(matches!(resumed, Written::Done(_)))
    }

    pub(super) async fn pauses_now(&self) -> Result<Vec<Paused>, StoreError> {
        let items = self.look(COLLECTION, Look::default()).await?;
        let paused = items.iter().map(|item| {
            let feed = FeedName::new(text_of(item, "processorId")?).map_err(foreign)?;
            Ok(Paused { feed, since: timestamp(number_of(item, "pausedSince")?) })
        });
        paused.collect()
    }
}
