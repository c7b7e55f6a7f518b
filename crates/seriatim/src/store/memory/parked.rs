//! Parked objects in memory.

use std::collections::{BTreeMap, VecDeque};

use crate::change::Change;
use crate::clock;
use crate::lease::LeaseId;
use crate::name::{FeedName, Partition};
use crate::store::{
    DISCARDS_KEPT, Discard, Discarded, Discarding, ParkedFailure, ParkedObject, ParkedState, Parking,
    Unparking,
};
use crate::value::Key;

/// All that is parked, by feed and object, and what was discarded, latest first.
#[derive(Debug, Default)]
pub(super) struct Parked {
    objects: BTreeMap<(FeedName, String), Kept>,
    discards: BTreeMap<FeedName, VecDeque<Discarded>>,
    /// In the order of parking: two may be parked in one instant.
    next: u64,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    object: ParkedObject,
    changes: Vec<Change>,
}

fn id(feed: &FeedName, key: &Key) -> (FeedName, String) {
    (feed.clone(), key.identity())
}

impl Kept {
    /// The object, with what it amounts to now.
    fn shown(&self) -> ParkedObject {
        let bytes = self.changes.iter().map(|change| change.weight() as u64).sum();
        ParkedObject { waiting: self.changes.len() as u64, bytes, ..self.object.clone() }
    }

    fn try_again(&mut self) {
        self.object.failure.attempts = 0;
        self.object.failure.state = ParkedState::Retrying;
    }
}

impl Parked {
    pub fn park(&mut self, lease: &LeaseId, parking: &Parking) {
        let Some(key) = parking.change.key.clone() else { return };
        let waits = ParkedFailure {
            error: "waits behind an earlier change".to_owned(),
            attempts: 0,
            state: ParkedState::Retrying,
            next_try: None,
        };
        let number = self.next;
        self.next += 1;
        let kept = self.objects.entry(id(&lease.feed, &key)).or_insert_with(|| Kept {
            number,
            object: ParkedObject {
                feed: lease.feed.clone(),
                partition: lease.partition,
                key,
                waiting: 0,
                bytes: 0,
                failure: waits,
                since: clock::wall(),
            },
            changes: Vec::new(),
        });
        if let Some(failure) = &parking.failure {
            kept.object.failure = failure.clone();
        }
        if kept.changes.iter().all(|change| change.id != parking.change.id) {
            kept.changes.push(parking.change.clone());
        }
    }

    /// The owner tries an object again by itself.
    pub fn resume(&mut self, feed: &FeedName, key: &Key) {
        if let Some(kept) = self.objects.get_mut(&id(feed, key)) {
            kept.object.failure.state = ParkedState::Retrying;
        }
    }

    pub fn unpark(&mut self, feed: &FeedName, done: &Unparking) {
        let id = id(feed, &done.key);
        let Some(kept) = self.objects.get_mut(&id) else { return };
        kept.changes.retain(|change| !done.ids.contains(&change.id));
        kept.object.failure.attempts = 0;
        if kept.changes.is_empty() {
            self.objects.remove(&id);
        }
    }

    pub fn list(&self, feed: &FeedName, partition: Option<Partition>) -> Vec<ParkedObject> {
        let asked_for = |kept: &&Kept| {
            kept.object.feed == *feed && partition.is_none_or(|partition| kept.object.partition == partition)
        };
        let mut kept: Vec<&Kept> = self.objects.values().filter(asked_for).collect();
        kept.sort_by_key(|kept| kept.number);
        kept.into_iter().map(Kept::shown).collect()
    }

    pub fn object(&self, feed: &FeedName, key: &Key) -> Option<ParkedObject> {
        self.objects.get(&id(feed, key)).map(Kept::shown)
    }

    pub fn changes(&self, feed: &FeedName, key: &Key, limit: usize) -> Vec<Change> {
        let kept = self.objects.get(&id(feed, key));
        kept.map(|kept| kept.changes.iter().take(limit).cloned().collect()).unwrap_or_default()
    }

    /// Marks one or all to be tried again, and says in which partitions they are, once for each.
    pub fn retry(&mut self, feed: &FeedName, key: Option<&Key>) -> Vec<Partition> {
        let wanted = key.map(|key| id(feed, key));
        let of_feed = self.objects.iter_mut().filter(|(id, _)| id.0 == *feed);
        let chosen = of_feed.filter(|(id, _)| wanted.as_ref().is_none_or(|wanted| wanted == *id));
        let mark = |(_, kept): (_, &mut Kept)| {
            kept.try_again();
            kept.object.partition
        };
        chosen.map(mark).collect()
    }

    /// Drops, and says in which partition.
    pub fn discard(
        &mut self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
        owned: impl Fn(Partition) -> bool,
    ) -> (Discarding, Option<Partition>) {
        let id = id(feed, key);
        let begins_so = |kept: &&mut Kept| kept.changes.first().is_some_and(|head| head.id == what.first());
        let Some(kept) = self.objects.get_mut(&id).filter(begins_so) else {
            return (Discarding::Changed, None);
        };
        let partition = kept.object.partition;
        if kept.object.failure.state == ParkedState::Retrying && owned(partition) {
            return (Discarding::Busy, None);
        }
        let count = match what {
            Discard::First(_) => 1,
            Discard::All(_) => kept.changes.len(),
        };
        let dropped: Vec<Change> = kept.changes.drain(..count).collect();
        kept.try_again();
        let discarded = Discarded {
            feed: feed.clone(),
            partition,
            key: kept.object.key.clone(),
            first: what.first(),
            last: dropped.last().map_or(what.first(), |change| change.id),
            changes: count as u64,
            error: kept.object.failure.error.clone(),
            reason: reason.to_owned(),
            at: clock::wall(),
        };
        if kept.changes.is_empty() {
            self.objects.remove(&id);
        }
        let discards = self.discards.entry(feed.clone()).or_default();
        discards.push_front(discarded);
        discards.truncate(DISCARDS_KEPT);
        (Discarding::Done(count as u64), Some(partition))
    }

    pub fn discarded(&self, feed: &FeedName, limit: usize) -> Vec<Discarded> {
        self.discards.get(feed).into_iter().flatten().take(limit).cloned().collect()
    }

    /// Makes objects those of another partition.
    pub fn adopt(&mut self, lease: &LeaseId, keys: &[Key]) {
        for key in keys {
            if let Some(kept) = self.objects.get_mut(&id(&lease.feed, key)) {
                kept.object.partition = lease.partition;
            }
        }
    }

    pub fn drop_partition(&mut self, lease: &LeaseId) {
        self.objects
            .retain(|_, kept| kept.object.feed != lease.feed || kept.object.partition != lease.partition);
    }

    pub fn forget(&mut self, feed: &FeedName) {
        self.objects.retain(|(of, _), _| of != feed);
        self.discards.remove(feed);
    }
}
