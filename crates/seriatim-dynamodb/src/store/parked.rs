//! What is parked: read, put in, taken out, tried again, dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use seriatim::change::{Change, Position};
use seriatim::lease::{Lease, LeaseView};
use seriatim::name::{FeedName, Partition};
use seriatim::store::{
    Checkpoint, CheckpointError, DISCARDS_KEPT, Discard, Discarded, Discarding, ParkedState, StoreError,
};
use seriatim::value::{Columns, Key, Row};

use super::DynamoDbStore;
use super::feeds::{FeedItem, json, to_json};
use super::keys;
use super::lease::{as_owned, fenced, is_rewound, moved, rewound};
use super::object::{self, ObjectItem, Placed, sentence};
use super::plan::{Committed, Write, put};
use super::requests::Look;
use crate::item::{Item, number, number_of, text, text_of};
use crate::write::{Update, Written};

/// How often a step is tried that others get in the way of.
const TRIES: usize = 20;

/// One discard in so many removes those that are too many.
const TRIM_ONE_IN: u32 = 64;

/// An object's name in keys, and a change's id.
type Of = (String, u64);

/// What a step makes of the objects of one partition.
struct Draft<'a> {
    life: &'a str,
    /// By name; those that are not parked are `None`.
    objects: BTreeMap<String, Option<ObjectItem>>,
    /// Those that were parked before.
    before: BTreeSet<String>,
    placed: HashMap<Of, Placed>,
    /// The last word about each item counts: a transaction takes one write to each.
    writes: BTreeMap<(String, String), Write>,
}

impl Draft<'_> {
    fn write(&mut self, writes: Vec<Write>) {
        for write in writes {
            let (Write::Put(item) | Write::Delete(item)) = &write;
            let part = |name| text_of(item, name).unwrap_or_default().to_owned();
            self.writes.insert((part("id"), part("processorId")), write);
        }
    }

    fn take_out(&mut self, name: &str, ids: &[u64]) {
        let Some(Some(mut kept)) = self.objects.get(name).cloned() else { return };
        for id in ids {
            let Some(placed) = self.placed.remove(&(name.to_owned(), *id)) else { continue };
            kept.waiting = kept.waiting.saturating_sub(1);
            kept.bytes = kept.bytes.saturating_sub(placed.bytes);
            self.write(object::drop_change(self.life, name, *id, placed));
        }
        kept.failure.attempts = 0;
        let left = (kept.waiting > 0).then_some(kept);
        self.objects.insert(name.to_owned(), left);
    }

    fn park(&mut self, name: &str, fresh: ObjectItem, parking: &seriatim::store::Parking) {
        let mut kept = self.objects.get(name).cloned().flatten().unwrap_or(fresh);
        if let Some(failure) = &parking.failure {
            kept.failure = failure.clone();
        }
        let of = (name.to_owned(), parking.change.id);
        if !self.placed.contains_key(&of) {
            let (placed, writes) = object::keep(self.life, name, kept.next, &parking.change);
            (kept.next, kept.waiting, kept.bytes) =
                (kept.next + 1, kept.waiting + 1, kept.bytes + placed.bytes);
            self.placed.insert(of, placed);
            self.write(writes);
        }
        self.objects.insert(name.to_owned(), Some(kept));
    }

    /// How many objects have no number yet.
    fn new_objects(&self) -> u64 {
        let is_new = |kept: &&Option<ObjectItem>| kept.as_ref().is_some_and(|kept| kept.number.is_none());
        self.objects.values().filter(is_new).count() as u64
    }

    fn finish(mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<Write> {
        let mut numbers = numbers.into_iter();
        let objects = std::mem::take(&mut self.objects);
        let mut kept: Vec<(String, ObjectItem)> = Vec::new();
        for (name, object) in objects {
            match object {
                Some(object) => kept.push((name, object)),
                None if self.before.contains(&name) => {
                    let key = keys::key(&format!("parked/{}", self.life), &name);
                    self.write(vec![Write::Delete(key)]);
                }
                None => {}
            }
        }
        // Of those that are new together, the one whose first change came first is the oldest.
        kept.sort_by_key(|(_, object)| object.since);
        for (name, mut object) in kept {
            object.number = object.number.or_else(|| numbers.next());
            let write = object.write(self.life, &name);
            self.write(vec![write]);
        }
        self.writes.into_values().collect()
    }
}

fn key_of(change: &Change) -> Key {
    change.key.clone().unwrap_or_else(|| Key::new(Row::new(Columns::new::<&str>([]), [])))
}

impl DynamoDbStore {
    /// Draws so many numbers; the last one is returned.
    async fn draw(&self, count: u64) -> Result<u64, StoreError> {
        let update = Update::of(keys::key("store", "numbers"))
            .set("lastNumber = if_not_exists(lastNumber, :zero) + :count", ":count", number(count))
            .value(":zero", number(0))
            .only_if("attribute_not_exists(lastNumber) OR lastNumber >= :zero");
        match self.update("drawing a number in", update).await? {
            Written::Done(item) => number_of(&item, "lastNumber"),
            Written::Refused(_) => Err(crate::item::foreign("the last number")),
        }
    }

    async fn draft<'a>(
        &self,
        life: &'a str,
        objects: BTreeSet<String>,
        changes: Vec<Of>,
    ) -> Result<Draft<'a>, StoreError> {
        let names: Vec<String> = objects.into_iter().collect();
        let keys = names.iter().map(|name| keys::key(&format!("parked/{life}"), name)).collect();
        let items = self.get_all(keys).await?;
        let mut draft = Draft {
            life,
            objects: BTreeMap::new(),
            before: BTreeSet::new(),
            placed: HashMap::new(),
            writes: BTreeMap::new(),
        };
        for (name, item) in names.into_iter().zip(items) {
            let object = item.map(|item| ObjectItem::of(&item)).transpose()?;
            draft.before.extend(object.is_some().then(|| name.clone()));
            draft.objects.insert(name, object);
        }
        // What is not parked has no changes.
        let changes: Vec<Of> = changes.into_iter().filter(|(name, _)| draft.before.contains(name)).collect();
        let ids = changes.iter().map(|(name, id)| keys::id(life, name, *id)).collect();
        for (of, item) in changes.into_iter().zip(self.get_all(ids).await?) {
            if let Some(item) = item {
                draft.placed.insert(of, Placed::of(&item)?);
            }
        }
        Ok(draft)
    }

    pub(super) async fn save(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let Some(place) = self.place_of(&lease.id).await? else {
            return Err(CheckpointError::Fenced { by: lease.epoch.next() });
        };
        let position = text(&checkpoint.position.to_string());
        let update = moved(Update::of(place.key())).set("checkpointAt = :position", ":position", position);
        let update = as_owned(update, lease);
        if checkpoint.unparked.is_empty() && checkpoint.parked.is_empty() {
            return match self.update("checkpointing in", update).await? {
                Written::Done(_) => Ok(()),
                Written::Refused(item) => {
                    let item = item.map(|item| self.lease_item(&item)).transpose()?;
                    Err(fenced(lease, item.as_ref()).unwrap_or(CheckpointError::Fenced { by: lease.epoch }))
                }
            };
        }
        for _ in 0..TRIES {
            let seen = self.settled(&place).await?;
            let Some(seen) = seen.filter(|seen| fenced(lease, Some(seen)).is_none()) else {
                let now = self.settled(&place).await?;
                return Err(
                    fenced(lease, now.as_ref()).unwrap_or(CheckpointError::Fenced { by: lease.epoch })
                );
            };
            let writes = self.planned(&place.life, lease.id.partition, checkpoint).await?;
            match self.commit(&place, &seen, update.clone(), writes).await? {
                Committed::Done => return Ok(()),
                Committed::Refused(now) => {
                    if let Some(fenced) = now.as_ref().and_then(|now| fenced(lease, Some(now))) {
                        return Err(fenced);
                    }
                }
            }
        }
        Err(busy("checkpointing").into())
    }

    /// What a checkpoint makes of what is parked.
    async fn planned(
        &self,
        life: &str,
        partition: Partition,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<Write>, StoreError> {
        let out: Vec<_> = checkpoint.unparked.iter().map(|done| (keys::object(&done.key), done)).collect();
        let into: Vec<_> = checkpoint
            .parked
            .iter()
            .map(|parking| (keys::object(&key_of(&parking.change)), parking))
            .collect();
        let names =
            out.iter().map(|(name, _)| name).chain(into.iter().map(|(name, _)| name)).cloned().collect();
        let mut changes: Vec<Of> =
            into.iter().map(|(name, parking)| (name.clone(), parking.change.id)).collect();
        for (name, done) in &out {
            changes.extend(done.ids.iter().map(|id| (name.clone(), *id)));
        }
        let mut draft = self.draft(life, names, changes).await?;
        // An object that is gone and comes back in one step goes on with its places: no item is written twice.
        let next: HashMap<String, u64> = draft
            .objects
            .iter()
            .filter_map(|(name, object)| Some((name.clone(), object.as_ref()?.next)))
            .collect();
        for (name, done) in &out {
            draft.take_out(name, &done.ids);
        }
        let now = self.time();
        for (name, parking) in &into {
            let next = next.get(name).copied().unwrap_or(1);
            let fresh = ObjectItem::new(partition, key_of(&parking.change), now, next);
            draft.park(name, fresh, parking);
        }
        let new = draft.new_objects();
        let last = if new > 0 { self.draw(new).await? } else { 0 };
        Ok(draft.finish(last.saturating_sub(new) + 1..=last))
    }

    pub(super) async fn set_back(
        &self,
        seen: &LeaseView,
        position: &Position,
        drop_parked: bool,
    ) -> Result<bool, StoreError> {
        let Some(feed) = self.feed(&seen.id.feed).await? else { return Ok(false) };
        let place = feed.place(seen.id.partition);
        let update = rewound(&place, seen, position);
        if !drop_parked {
            return match self.update("rewinding a lease in", update).await? {
                Written::Done(_) => Ok(true),
                Written::Refused(item) => {
                    let item = item.map(|item| self.lease_item(&item)).transpose()?;
                    Ok(item.is_some_and(|item| is_rewound(&item.view, seen, position)))
                }
            };
        }
        for _ in 0..TRIES {
            let Some(lease) = self.settled(&place).await? else { return Ok(false) };
            if (&lease.view.owner, lease.view.epoch) != (&seen.owner, seen.epoch) {
                return Ok(is_rewound(&lease.view, seen, position));
            }
            let mut writes = Vec::new();
            for object in self.look(&format!("parked/{}", feed.life), Look::default()).await? {
                if ObjectItem::of(&object)?.partition == seen.id.partition {
                    writes.extend(self.without_object(&feed.life, &object).await?);
                }
            }
            if let Committed::Done = self.commit(&place, &lease, update.clone(), writes).await? {
                return Ok(true);
            }
        }
        Err(busy("rewinding"))
    }

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
    async fn kept(
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

fn busy(doing: &str) -> StoreError {
    StoreError::unavailable(doing, "others keep changing what is parked in the partition")
}
