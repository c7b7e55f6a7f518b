//! What is parked: looked at, tried again, dropped.

use std::collections::BTreeSet;

use seriatim::change::Change;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{DISCARDS_KEPT, Discard, Discarded, Discarding, ParkedPage, ParkedState, StoreError};
use seriatim::value::Key;

use super::DynamoDbStore;
use super::feeds::{FeedItem, json, to_json};
use super::keys;
use super::object::{self, ObjectItem, Placed, sentence};
use super::plan::{Committed, Write, put};
use super::requests::Look;
use crate::item::{Item, number, number_of, text, text_of};
use crate::write::Update;

/// How often a step is tried that others get in the way of.
pub(super) const TRIES: usize = 20;

/// One discard in so many removes those that are too many.
const TRIM_ONE_IN: u32 = 64;

impl DynamoDbStore {
    /// What removes an object with all its changes.
    pub(super) async fn without_object(&self, life: &str, object: &Item) -> Result<Vec<Write>, StoreError> {
        let name = text_of(object, "processorId")?;
        let mut writes = vec![Write::Delete(keys::key(&format!("parked/{life}"), name))];
        for (id, placed) in self.kept(life, name, None).await? {
            writes.extend(object::drop_change(life, name, id, placed));
        }
        Ok(writes)
    }

    /// The changes kept for an object, in order, at most so many, by id and place.
    pub(super) async fn kept(
        &self,
        life: &str,
        name: &str,
        limit: Option<usize>,
    ) -> Result<Vec<(u64, Placed)>, StoreError> {
        let only = Some("id, processorId, changeId, changePlace, pieceCount, changeBytes");
        let pieces = self.look(&keys::changes(life, name), Look { only, limit, ..Look::default() }).await?;
        let mut kept: Vec<(u64, Placed)> = Vec::new();
        for piece in &pieces {
            let placed = Placed::of(piece)?;
            if kept.last().is_none_or(|(_, last)| last.place != placed.place) {
                kept.push((number_of(piece, "changeId")?, placed));
            }
        }
        Ok(kept)
    }

    /// The feed, with nothing left to carry out in any partition.
    async fn settled_feed(&self, feed: &FeedName) -> Result<Option<FeedItem>, StoreError> {
        let Some(found) = self.feed(feed).await? else { return Ok(None) };
        let only = Some("id, processorId, partitionNumber, planName");
        let leases = self.look(&format!("leases/{}", found.life), Look { only, ..Look::default() }).await?;
        for lease in leases.iter().filter(|lease| lease.contains_key("planName")) {
            self.settled(&found.place(Partition(number_of(lease, "partitionNumber")?))).await?;
        }
        Ok(Some(found))
    }

    /// The parked objects of a feed with their names in keys, oldest first.
    pub(super) async fn objects(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ObjectItem>, StoreError> {
        let Some(found) = self.settled_feed(feed).await? else { return Ok(Vec::new()) };
        let items = self.look(&format!("parked/{}", found.life), Look::default()).await?;
        let mut objects = items.iter().map(ObjectItem::of).collect::<Result<Vec<_>, _>>()?;
        objects.retain(|object| partition.is_none_or(|partition| object.partition == partition));
        objects.sort_by_key(|object| object.number);
        Ok(objects)
    }

    /// Some of the parked objects of a feed, in the order of their names in keys.
    pub(super) async fn page_of_objects(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        let Some(found) = self.settled_feed(feed).await? else { return Ok(ParkedPage::default()) };
        // One more than a page has tells whether there is another one.
        let look = Look { limit: Some(limit.saturating_add(1)), after, ..Look::default() };
        let items = self.look(&format!("parked/{}", found.life), look).await?;
        let placed = items
            .iter()
            .map(|item| Ok((text_of(item, "processorId")?.to_owned(), ObjectItem::of(item)?.shown(feed))));
        Ok(ParkedPage::cut(placed.collect::<Result<_, StoreError>>()?, limit))
    }

    pub(super) async fn one_object(
        &self,
        feed: &FeedName,
        key: &Key,
    ) -> Result<Option<ObjectItem>, StoreError> {
        let Some(found) = self.settled_feed(feed).await? else { return Ok(None) };
        self.object_of(&found.life, &keys::object(key)).await
    }

    async fn object_of(&self, life: &str, name: &str) -> Result<Option<ObjectItem>, StoreError> {
        let item = self.get(keys::key(&format!("parked/{life}"), name)).await?;
        item.map(|item| ObjectItem::of(&item)).transpose()
    }

    /// An object that may still be on its way into the table.
    async fn object_in(
        &self,
        feed: &FeedName,
        found: &FeedItem,
        name: &str,
    ) -> Result<Option<ObjectItem>, StoreError> {
        match self.object_of(&found.life, name).await? {
            Some(object) => Ok(Some(object)),
            None => {
                self.settled_feed(feed).await?;
                self.object_of(&found.life, name).await
            }
        }
    }

    pub(super) async fn changes_of(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        let Some(found) = self.settled_feed(feed).await? else { return Ok(Vec::new()) };
        let collection = keys::changes(&found.life, &keys::object(key));
        // Most changes are one piece; where they are more, a second look is longer.
        let mut asked = limit;
        loop {
            let look = Look { limit: Some(asked), ..Look::default() };
            let pieces = if limit == 0 { Vec::new() } else { self.look(&collection, look).await? };
            let mut changes = object::changes(&pieces)?;
            if changes.len() >= limit || pieces.len() < asked {
                changes.truncate(limit);
                return Ok(changes);
            }
            asked = asked.saturating_mul(2);
        }
    }

    pub(super) async fn try_again(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        let partitions: BTreeSet<Partition> = match key {
            Some(key) => {
                self.one_object(feed, key).await?.into_iter().map(|object| object.partition).collect()
            }
            None => self.objects(feed, None).await?.into_iter().map(|object| object.partition).collect(),
        };
        let mut marked = 0;
        for partition in partitions {
            marked += self.try_partition_again(feed, partition, key.map(keys::object)).await?;
        }
        Ok(marked)
    }

    async fn try_partition_again(
        &self,
        feed: &FeedName,
        partition: Partition,
        only: Option<String>,
    ) -> Result<u64, StoreError> {
        for _ in 0..TRIES {
            let Some(found) = self.feed(feed).await? else { return Ok(0) };
            let place = found.place(partition);
            let Some(lease) = self.settled(&place).await? else { return Ok(0) };
            let items = match &only {
                Some(name) => {
                    self.get(keys::key(&format!("parked/{}", found.life), name)).await?.into_iter().collect()
                }
                None => self.look(&format!("parked/{}", found.life), Look::default()).await?,
            };
            let mut writes = Vec::new();
            for item in &items {
                let mut object = ObjectItem::of(item)?;
                if object.partition == partition {
                    object.try_again();
                    writes.push(object.write(&found.life, text_of(item, "processorId")?));
                }
            }
            let marked = writes.len() as u64;
            if marked == 0 {
                return Ok(0);
            }
            let update = asked(&place).only_if("attribute_exists(feedName)");
            if let Committed::Done = self.commit(&place, &lease, update, writes).await? {
                self.leases_have_moved().await?;
                return Ok(marked);
            }
        }
        Err(busy("asking for a retry"))
    }

    pub(super) async fn drop_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let name = keys::object(key);
        for _ in 0..TRIES {
            let Some(found) = self.feed(feed).await? else { return Ok(Discarding::Changed) };
            let Some(object) = self.object_in(feed, &found, &name).await? else {
                return Ok(Discarding::Changed);
            };
            let place = found.place(object.partition);
            let Some(lease) = self.settled(&place).await? else { return Ok(Discarding::Changed) };
            // What was read before the lease may be older than it.
            let Some(object) = self.object_of(&found.life, &name).await? else { continue };
            let limit = matches!(what, Discard::First(_)).then_some(1);
            let kept = self.kept(&found.life, &name, limit).await?;
            if kept.first().is_none_or(|(id, _)| *id != what.first()) {
                return Ok(Discarding::Changed);
            }
            let retrying = object.failure.state == ParkedState::Retrying;
            if retrying && lease.view.owner.is_some() {
                return Ok(Discarding::Busy);
            }
            let update = asked(&place).only_if(match retrying {
                true => "attribute_exists(feedName) AND attribute_not_exists(sessionId)",
                false => "attribute_exists(feedName)",
            });
            let writes = self.without_first(&found.life, &name, object, &kept, reason).await?;
            let dropped = kept.len() as u64;
            if let Committed::Done = self.commit(&place, &lease, update, writes).await? {
                self.leases_have_moved().await?;
                self.trim_now_and_then(&found.life).await;
                return Ok(Discarding::Done(dropped));
            }
        }
        Err(busy("discarding"))
    }

    /// What drops the first changes of an object and remembers that.
    async fn without_first(
        &self,
        life: &str,
        name: &str,
        mut object: ObjectItem,
        dropped: &[(u64, Placed)],
        reason: &str,
    ) -> Result<Vec<Write>, StoreError> {
        let mut writes: Vec<Write> =
            dropped.iter().flat_map(|(id, placed)| object::drop_change(life, name, *id, *placed)).collect();
        let last = dropped.last().map_or(0, |(id, _)| *id);
        let note = [
            ("partitionNumber", number(object.partition.0)),
            ("keyJson", text(&to_json(&object.key))),
            ("firstId", number(dropped.first().map_or(0, |(id, _)| *id))),
            ("lastId", number(last)),
            ("changeCount", number(dropped.len())),
            ("errorText", text(sentence(&object.failure.error))),
            ("reasonText", text(sentence(reason))),
            ("discardedAt", number(self.time())),
        ];
        let place = format!("{:020}", self.draw(1).await?);
        writes.push(put(keys::key(&format!("discarded/{life}"), &place), note));
        object.waiting = object.waiting.saturating_sub(dropped.len() as u64);
        object.bytes = object.bytes.saturating_sub(dropped.iter().map(|(_, placed)| placed.bytes).sum());
        object.try_again();
        writes.push(match object.waiting {
            0 => Write::Delete(keys::key(&format!("parked/{life}"), name)),
            _ => object.write(life, name),
        });
        Ok(writes)
    }

    async fn trim_now_and_then(&self, life: &str) {
        if fastrand::u32(..TRIM_ONE_IN) > 0 {
            return;
        }
        let trimming = async {
            let look = Look { only: Some("id, processorId"), backwards: true, ..Look::default() };
            let notes = self.look(&format!("discarded/{life}"), look).await?;
            self.delete_all(notes.into_iter().skip(DISCARDS_KEPT).collect()).await
        };
        if let Err(error) = trimming.await {
            tracing::debug!("old discards are removed another time: {error}");
        }
    }

    pub(super) async fn discards(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        let Some(found) = self.settled_feed(feed).await? else { return Ok(Vec::new()) };
        if limit == 0 {
            return Ok(Vec::new());
        }
        let look = Look { backwards: true, limit: Some(limit), ..Look::default() };
        let notes = self.look(&format!("discarded/{}", found.life), look).await?;
        notes.iter().map(|note| discarded(feed, note)).collect()
    }
}

fn discarded(feed: &FeedName, note: &Item) -> Result<Discarded, StoreError> {
    Ok(Discarded {
        feed: feed.clone(),
        partition: Partition(number_of(note, "partitionNumber")?),
        key: json(note, "keyJson")?,
        first: number_of(note, "firstId")?,
        last: number_of(note, "lastId")?,
        changes: number_of(note, "changeCount")?,
        error: text_of(note, "errorText")?.to_owned(),
        reason: text_of(note, "reasonText")?.to_owned(),
        at: super::timestamp(number_of(note, "discardedAt")?),
    })
}

/// Lets the owner of a partition know that somebody asked for something.
fn asked(place: &keys::LeasePlace) -> Update {
    Update::of(place.key()).set("askedTimes = askedTimes + :one", ":one", number(1))
}

pub(super) fn busy(doing: &str) -> StoreError {
    StoreError::unavailable(doing, "others keep changing what is parked in the partition")
}
