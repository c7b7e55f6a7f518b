//! The chain of a feed that has one: each change names the one of the same object before it.
//!
//! ```text
//!   slice ──▶ what the store knows of its objects ──▶ prev of each change ──▶ lanes ──▶ checkpoint, with the last id of each object
//! ```
//!
//! What was handed out and is not behind a checkpoint yet is known here; everything else the store knows, as of its checkpoint. So what
//! is handed out again after a crash, by whoever owns the partition then, names the same ids, and memory holds what is under way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::change::Change;
use crate::name::FeedName;
use crate::order::EventId;
use crate::source::Slice;
use crate::store::{Chained, Store, StoreError};
use crate::value::Key;

/// The last change of each object that is under way.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// By the number of its place in the lanes, in order.
    under_way: VecDeque<(u64, Chained)>,
    /// By object: the last of them, and its place.
    last: HashMap<String, (u64, u64)>,
}

/// A slice whose changes name those before them.
pub(super) struct Linked {
    slice: Slice,
    /// The last change of each of its objects.
    last: HashMap<String, u64>,
    ids: Vec<Option<(Key, u64)>>,
}

impl Linked {
    /// The slice, for the lanes.
    pub fn take_slice(&mut self) -> Slice {
        let nothing = Slice {
            partition: self.slice.partition,
            changes: Vec::new().into(),
            upto: self.slice.upto.clone(),
            caught_up: self.slice.caught_up,
        };
        std::mem::replace(&mut self.slice, nothing)
    }
}

impl Chain {
    /// What is known here of the objects of these changes.
    pub fn known(&self, changes: &[Change]) -> HashMap<String, u64> {
        let keys = changes.iter().filter_map(|change| change.key.as_ref()).map(Key::identity);
        keys.filter_map(|key| self.last.get(&key).map(|(_, id)| (key.clone(), *id))).collect()
    }

    /// The changes of the slice are in the lanes, the first of them at this place.
    pub fn note(&mut self, first: u64, linked: Linked) {
        for (place, change) in (first..).zip(linked.ids) {
            let Some((key, id)) = change else { continue };
            if linked.last.get(&key.identity()) == Some(&id) {
                self.last.insert(key.identity(), (place, id));
            }
            self.under_way.push_back((place, Chained { key, id }));
        }
    }

    /// The last change of each object before this place.
    pub fn passed(&self, place: u64) -> Vec<Chained> {
        let passed = self.under_way.iter().take_while(|(at, _)| *at < place);
        last_of_each(passed.map(|(_, chained)| chained.clone()))
    }

    /// The store knows of all that is before this place.
    pub fn saved(&mut self, place: u64) {
        while let Some((at, chained)) = self.under_way.pop_front() {
            if at >= place {
                self.under_way.push_front((at, chained));
                return;
            }
            let key = chained.key.identity();
            if self.last.get(&key).is_some_and(|(last, _)| *last == at) {
                self.last.remove(&key);
            }
        }
    }
}

/// One for each object, the last.
fn last_of_each(all: impl Iterator<Item = Chained>) -> Vec<Chained> {
    let mut last: HashMap<String, Chained> = HashMap::new();
    for chained in all {
        last.insert(chained.key.identity(), chained);
    }
    let mut last: Vec<Chained> = last.into_values().collect();
    // In one order, so that two who write them do not wait for each other.
    last.sort_by_key(|chained| chained.key.identity());
    last
}

/// Has each change of a slice name the one before it. What is not `known` here, the store knows.
pub(super) async fn link(
    store: Arc<dyn Store>,
    feed: FeedName,
    mut slice: Slice,
    mut changes: Vec<Change>,
    mut known: HashMap<String, u64>,
) -> Result<Linked, StoreError> {
    let mut unknown: HashMap<String, Key> = HashMap::new();
    for key in changes.iter().filter_map(|change| change.key.as_ref()) {
        let identity = key.identity();
        if !known.contains_key(&identity) {
            unknown.entry(identity).or_insert_with(|| key.clone());
        }
    }
    let keys: Vec<Key> = unknown.into_values().collect();
    if !keys.is_empty() {
        let found = store.chained(&feed, &keys).await?;
        known.extend(keys.iter().zip(found).filter_map(|(key, id)| Some((key.identity(), id?))));
    }
    let mut ids = Vec::with_capacity(changes.len());
    for change in &mut changes {
        let Some(key) = &change.key else {
            ids.push(None);
            continue;
        };
        let (id, last) = (EventId(change.id), known.get(&key.identity()).copied().map(EventId));
        change.prev = id.after(last).map(|prev| prev.0);
        // A row that is told anew, after a rewind, is no part of the chain that went on from its first telling.
        if last.is_none() || !id.is_existing() {
            known.insert(key.identity(), change.id);
        }
        ids.push(Some((key.clone(), change.id)));
    }
    slice.changes = changes.into();
    Ok(Linked { slice, last: known, ids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn chained(key: i64, id: u64) -> Chained {
        Chained { key: Key::of("id", Value::Integer(key)), id }
    }

    fn linked(changes: &[(i64, u64)]) -> Linked {
        let slice = Slice {
            partition: crate::name::Partition(0),
            changes: Vec::new().into(),
            upto: crate::change::Position::number(0),
            caught_up: false,
        };
        let ids: Vec<_> = changes.iter().map(|(key, id)| Some((chained(*key, *id).key, *id))).collect();
        let last = changes.iter().map(|(key, id)| (chained(*key, *id).key.identity(), *id)).collect();
        Linked { slice, last, ids }
    }

    #[test]
    fn a_checkpoint_has_the_last_change_of_each_object_that_it_passes() {
        let mut chain = Chain::default();
        chain.note(10, linked(&[(1, 100), (2, 101), (1, 102)]));
        assert_eq!(chain.passed(10), []);
        assert_eq!(chain.passed(12), [chained(1, 100), chained(2, 101)]);
        assert_eq!(chain.passed(13), [chained(1, 102), chained(2, 101)]);
    }

    #[test]
    fn what_is_saved_is_forgotten_and_what_is_under_way_is_not() {
        let mut chain = Chain::default();
        chain.note(10, linked(&[(1, 100), (2, 101), (1, 102)]));
        chain.saved(12);
        assert_eq!(chain.last.len(), 1, "{chain:?}");
        assert_eq!(chain.passed(13), [chained(1, 102)]);
        chain.saved(13);
        assert!(chain.last.is_empty() && chain.under_way.is_empty(), "{chain:?}");
    }
}
