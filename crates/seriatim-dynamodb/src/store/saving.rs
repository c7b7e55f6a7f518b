//! How a checkpoint is written with what it parks and takes out, and how a lease is set back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use seriatim::change::{Change, Position};
use seriatim::lease::{Lease, LeaseView};
use seriatim::name::Partition;
use seriatim::store::{Checkpoint, CheckpointError, ParkedState, StoreError};
use seriatim::value::{Columns, Key, Row};

use super::DynamoDbStore;
use super::hosts::mark_moves;
use super::keys;
use super::lease::{as_owned, fenced, is_rewound, moved, rewound};
use super::object::{self, ObjectItem, Placed};
use super::parked::{TRIES, busy};
use super::plan::{Committed, Write};
use super::requests::{Look, Transacted};
use crate::item::{number, number_of, text, text_of};
use crate::write::{Update, Written};

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

    fn resume(&mut self, name: &str) {
        if let Some(Some(kept)) = self.objects.get_mut(name) {
            kept.failure.state = ParkedState::Retrying;
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
    pub(super) async fn draw(&self, count: u64) -> Result<u64, StoreError> {
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
        let update = match checkpoint.done.to_text() {
            Some(done) => update.set("doneAbove = :done", ":done", text(&done)),
            None => update.remove("doneAbove"),
        };
        let update = as_owned(update, lease);
        let Checkpoint { resumed, unparked, parked, .. } = checkpoint;
        if resumed.is_empty() && unparked.is_empty() && parked.is_empty() {
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
                    if let Some(fenced) = now.and_then(|now| fenced(lease, Some(&now))) {
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
        let resumed: Vec<String> = checkpoint.resumed.iter().map(keys::object).collect();
        let names = out.iter().map(|(name, _)| name).chain(into.iter().map(|(name, _)| name));
        let names = names.chain(&resumed).cloned().collect();
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
        resumed.iter().for_each(|name| draft.resume(name));
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
            let both = vec![update.in_transaction(&self.table), mark_moves().in_transaction(&self.table)];
            return match self.transact("rewinding a lease in", both).await? {
                Transacted::Done => Ok(true),
                Transacted::Refused(item, _) => {
                    let item = item.map(|item| self.lease_item(&item)).transpose()?;
                    Ok(item.is_some_and(|item| is_rewound(&item.view, seen, position)))
                }
            };
        }
        for _ in 0..TRIES {
            let Some(lease) = self.settled(&place).await? else { return Ok(false) };
            let now = (&lease.view.owner, lease.view.epoch, lease.view.version);
            if now != (&seen.owner, seen.epoch, seen.version) {
                return Ok(is_rewound(&lease.view, seen, position));
            }
            let mut writes = Vec::new();
            for object in self.look(&format!("parked/{}", feed.life), Look::default()).await? {
                if ObjectItem::of(&object)?.partition == seen.id.partition {
                    writes.extend(self.without_object(&feed.life, &object).await?);
                }
            }
            if let Committed::Done = self.commit(&place, &lease, update.clone(), writes).await? {
                self.leases_have_moved().await?;
                return Ok(true);
            }
        }
        Err(busy("rewinding"))
    }
}
