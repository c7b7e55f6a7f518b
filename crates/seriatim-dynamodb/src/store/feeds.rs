//! Feeds and their lives.

use aws_sdk_dynamodb::types::{Delete as Deleting, Put as Putting, TransactWriteItem};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use seriatim::change::Position;
use seriatim::lease::{LeaseId, LeaseView};
use seriatim::name::{FeedName, StoreId};
use seriatim::store::{EnsureError, StoreError};

use super::DynamoDbStore;
use super::keys::{self, LeasePlace, OVER};
use super::lease::fresh;
use super::plan::Write;
use super::requests::{AT_ONCE, Look, Transacted, item};
use crate::item::{Item, foreign, number, number_of, text, text_of};
use crate::write::{Update, Written};

/// A feed as it is in the table.
#[derive(Clone, Debug)]
pub(super) struct FeedItem {
    /// What tells it from feeds that had its name before.
    pub life: String,
    pub partitions: u32,
    start: String,
}

impl FeedItem {
    fn of(item: &Item) -> Result<Self, StoreError> {
        Ok(FeedItem {
            life: text_of(item, "feedLife")?.to_owned(),
            partitions: number_of(item, "partitionCount")?,
            start: text_of(item, "startAt")?.to_owned(),
        })
    }

    pub(super) fn place(&self, partition: seriatim::Partition) -> LeasePlace {
        LeasePlace { life: self.life.clone(), partition }
    }

    fn places(&self) -> impl Iterator<Item = LeasePlace> + '_ {
        (0..self.partitions).map(|partition| self.place(seriatim::Partition(partition)))
    }
}

pub(super) fn json<T: serde::de::DeserializeOwned>(item: &Item, name: &str) -> Result<T, StoreError> {
    serde_json::from_str(text_of(item, name)?)
        .map_err(|_| foreign(format!("{name} is not what it should be")))
}

/// As JSON, lossless.
pub(super) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("changes, keys and names always serialize")
}

impl DynamoDbStore {
    /// The feed, as it is now.
    pub(super) async fn feed(&self, feed: &FeedName) -> Result<Option<FeedItem>, StoreError> {
        let found = self.get(keys::key("feeds", feed.as_str())).await?;
        let found = found.map(|item| FeedItem::of(&item)).transpose()?;
        self.know(feed, found.as_ref());
        Ok(found)
    }

    /// Where a lease is, as far as this handle knows: a life that is over has no leases, which is as good.
    pub(super) async fn place_of(&self, id: &LeaseId) -> Result<Option<LeasePlace>, StoreError> {
        let known = self.known().get(&id.feed).cloned();
        let feed = match known {
            Some(feed) => Some(feed),
            None => self.feed(&id.feed).await?,
        };
        Ok(feed.map(|feed| feed.place(id.partition)))
    }

    pub(super) async fn make(
        &self,
        feed: &FeedName,
        partitions: u32,
        start: &Position,
    ) -> Result<(), EnsureError> {
        let new = Update::of(keys::key("feeds", feed.as_str()))
            .set("feedLife = :life", ":life", text(StoreId::random().as_str()))
            .set("partitionCount = :count", ":count", number(partitions))
            .set("startAt = :start", ":start", text(&start.to_string()))
            .only_if("attribute_not_exists(feedLife)");
        let (existing, is_new) = match self.update("setting up a feed in", new).await? {
            Written::Done(item) => (FeedItem::of(&item)?, true),
            Written::Refused(item) => (FeedItem::of(&item.unwrap_or_default())?, false),
        };
        self.know(feed, Some(&existing));
        if existing.partitions != partitions {
            let existing = existing.partitions;
            return Err(EnsureError::PartitionCount { feed: feed.clone(), existing, wanted: partitions });
        }
        // Where whoever began it was told to start: they may have come no further than this.
        let making = existing.places().map(|place| self.make_lease(feed, place, &existing.start));
        stream::iter(making.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        if is_new {
            self.leases_have_moved().await?;
        }
        Ok(())
    }

    async fn make_lease(&self, feed: &FeedName, place: LeasePlace, start: &str) -> Result<(), StoreError> {
        let attributes = fresh(feed, place.partition.0, start);
        let mut update = Update::of(place.key()).only_if("attribute_not_exists(feedName)");
        for (name, value) in attributes {
            update = update.set(&format!("{name} = :{name}"), &format!(":{name}"), value);
        }
        self.update("setting up a lease in", update).await.map(|_| ())
    }

    /// All feeds, by name. Cleans up after those that were forgotten by somebody who did not get to it.
    pub(super) async fn all_feeds(&self) -> Result<Vec<(FeedName, FeedItem)>, StoreError> {
        let mut feeds = Vec::new();
        for item in self.look("feeds", Look::default()).await? {
            let name = text_of(&item, "processorId")?;
            match name.starts_with(OVER) {
                true => self.clean_up(&FeedItem::of(&item)?).await?,
                false => feeds.push((FeedName::new(name).map_err(foreign)?, FeedItem::of(&item)?)),
            }
        }
        for (name, feed) in &feeds {
            self.know(name, Some(feed));
        }
        feeds.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(feeds)
    }

    pub(super) async fn leases_of(&self, feed: &FeedItem) -> Result<Vec<LeaseView>, StoreError> {
        let items = self.look(&format!("leases/{}", feed.life), Look::default()).await?;
        items.iter().map(|item| Ok(self.lease_item(item)?.view)).collect()
    }

    pub(super) async fn end(&self, name: &FeedName) -> Result<(), StoreError> {
        let Some(feed) = self.feed(name).await? else { return self.all_feeds().await.map(drop) };
        let over = keys::key("feeds", &format!("{OVER}{}", feed.life));
        let attributes = [
            ("feedLife", text(&feed.life)),
            ("partitionCount", number(feed.partitions)),
            ("startAt", text(&feed.start)),
        ];
        let delete = Deleting::builder()
            .table_name(&self.table)
            .set_key(Some(keys::key("feeds", name.as_str())))
            .condition_expression("feedLife = :life")
            .expression_attribute_values(":life", text(&feed.life));
        let delete = delete.build().expect("all that is required is given");
        let delete = TransactWriteItem::builder().delete(delete).build();
        let note = Putting::builder().table_name(&self.table).set_item(Some(item(over, attributes)));
        let note = note.build().expect("all that is required is given");
        let note = TransactWriteItem::builder().put(note).build();
        self.know(name, None);
        match self.transact("forgetting a feed in", vec![delete, note]).await? {
            Transacted::Done => {
                self.leases_have_moved().await?;
                self.clean_up(&feed).await
            }
            // Somebody else was faster.
            Transacted::Refused(..) => Ok(()),
        }
    }

    /// Removes all that is left of a feed's life that is over: the leases first, so that nobody adds to it.
    async fn clean_up(&self, feed: &FeedItem) -> Result<(), StoreError> {
        self.delete_all(feed.places().map(|place| place.key()).collect()).await?;
        for place in feed.places() {
            self.delete_collection(&place.plans()).await?;
        }
        for object in self.look(&format!("parked/{}", feed.life), Look::default()).await? {
            let writes = self.without_object(&feed.life, &object).await?;
            let keys = writes.into_iter().filter_map(|write| match write {
                Write::Delete(key) => Some(key),
                Write::Put(_) => None,
            });
            self.delete_all(keys.collect()).await?;
        }
        self.delete_collection(&format!("discarded/{}", feed.life)).await?;
        self.delete(keys::key("feeds", &format!("{OVER}{}", feed.life))).await
    }

    async fn delete_collection(&self, name: &str) -> Result<(), StoreError> {
        let keys = self.look(name, Look { only: Some("id, processorId"), ..Look::default() }).await?;
        self.delete_all(keys).await
    }
}
