//! The chain of a feed that has one: each change names the one of the same object before it.
//!
//! ```text
//!   slice ──▶ what the store knows of its objects ──▶ prev of each change ──▶ lanes ──▶ checkpoint, with the last id of each object
//! ```
//!
//! What was handed out and is not behind a checkpoint yet is known here; everything else the store knows, as of its checkpoint. So what
//! is handed out again after a crash, by whoever owns the partition then, names the same ids, and memory holds what is under way.

use std::collections::{HashMap, VecDeque};

use crate::change::Change;
use crate::order::EventId;
use crate::source::Slice;
use crate::store::Chained;
use crate::value::Key;

/// The last change of each object that is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// By the number of its place in the lanes, in order.
    under_way: VecDeque<(u64, Chained)>,
    /// By object: the last of them, and its place.
    last: HashMap<String, (u64, u64)>,
}

/// A slice whose changes do not name those before them yet.
#[derive(Clone, Debug)]
pub(super) struct Unlinked {
    slice: Slice,
    changes: Vec<Change>,
    /// The last change of each of its objects, as far as it is known.
    known: HashMap<String, u64>,
    /// The objects of which only the store knows.
    unknown: Vec<Key>,
}

impl Chain {
    /// What is known here of a slice's objects, and the objects of which only the store knows.
    pub fn look_up(&self, slice: Slice, changes: Vec<Change>) -> (Unlinked, Vec<Key>) {
        let (mut known, mut unknown) = (HashMap::new(), HashMap::new());
        for key in changes.iter().filter_map(|change| change.key.as_ref()) {
            let identity = key.identity();
            match self.last.get(&identity) {
                Some((_, id)) => drop(known.insert(identity, *id)),
                None => drop(unknown.entry(identity).or_insert_with(|| key.clone())),
            }
        }
        let unknown: Vec<Key> = unknown.into_values().collect();
        (Unlinked { slice, changes, known, unknown: unknown.clone() }, unknown)
    }

    /// Has each change of a slice name the one before it, with what the store found of the objects that it was asked for. The
    /// first of the changes goes into the lanes at this place.
    pub fn link(&mut self, unlinked: Unlinked, found: Vec<Option<u64>>, first: u64) -> Slice {
        let Unlinked { mut slice, mut changes, mut known, unknown } = unlinked;
        known.extend(unknown.iter().zip(found).filter_map(|(key, id)| Some((key.identity(), id?))));
        for change in &mut changes {
            let Some(key) = &change.key else { continue };
            let (id, last) = (EventId(change.id), known.get(&key.identity()).copied().map(EventId));
            change.prev = id.after(last).map(|prev| prev.0);
            // A row that is told anew, after a rewind, is no part of the chain that went on from its first telling.
            if last.is_none() || !id.is_existing() {
                known.insert(key.identity(), change.id);
            }
        }
        self.note(first, &changes, &known);
        slice.changes = changes.into();
        slice
    }

    /// The changes are in the lanes, the first of them at this place; these are the last ones of their objects.
    fn note(&mut self, first: u64, changes: &[Change], last: &HashMap<String, u64>) {
        for (place, change) in (first..).zip(changes) {
            let Some(key) = &change.key else { continue };
            if last.get(&key.identity()) == Some(&change.id) {
                self.last.insert(key.identity(), (place, change.id));
            }
            self.under_way.push_back((place, Chained { key: key.clone(), id: change.id }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Op, Position};
    use crate::name::{FeedName, Partition};
    use crate::value::Value;

    fn chained(key: i64, id: u64) -> Chained {
        Chained { key: Key::of("id", Value::Integer(key)), id }
    }

    fn slice(changes: &[(i64, u64)]) -> Slice {
        let change = |(key, id): &(i64, u64)| Change {
            feed: FeedName::new("f").unwrap(),
            partition: Partition(0),
            position: Position::number(*id),
            key: Some(chained(*key, *id).key),
            op: Op::Update,
            at: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id: *id,
            prev: None,
        };
        let changes: Vec<Change> = changes.iter().map(change).collect();
        Slice {
            partition: Partition(0),
            changes: changes.into(),
            upto: Position::number(0),
            caught_up: false,
        }
    }

    /// Links a slice of which the store knows these.
    fn link(
        chain: &mut Chain,
        first: u64,
        changes: &[(i64, u64)],
        in_store: &[(i64, u64)],
    ) -> Vec<Option<u64>> {
        let slice = slice(changes);
        let changes = slice.changes.clone().collect();
        let (unlinked, unknown) = chain.look_up(slice, changes);
        let found =
            |key: &Key| in_store.iter().find(|(id, _)| chained(*id, 0).key == *key).map(|(_, id)| *id);
        let found = unknown.iter().map(found).collect();
        chain.link(unlinked, found, first).changes.map(|change| change.prev).collect()
    }

    #[test]
    fn each_change_names_the_one_before_it_wherever_that_is_known() {
        let mut chain = Chain::default();
        let prev = link(&mut chain, 10, &[(1, 100), (2, 101), (1, 102)], &[(2, 50)]);
        assert_eq!(prev, [None, Some(50), Some(100)]);
        assert_eq!(link(&mut chain, 13, &[(1, 103)], &[(1, 7)]), [Some(102)], "what is under way is newer");
    }

    #[test]
    fn a_checkpoint_has_the_last_change_of_each_object_that_it_passes() {
        let mut chain = Chain::default();
        link(&mut chain, 10, &[(1, 100), (2, 101), (1, 102)], &[]);
        assert_eq!(chain.passed(10), []);
        assert_eq!(chain.passed(12), [chained(1, 100), chained(2, 101)]);
        assert_eq!(chain.passed(13), [chained(1, 102), chained(2, 101)]);
    }

    #[test]
    fn what_is_saved_is_forgotten_and_what_is_under_way_is_not() {
        let mut chain = Chain::default();
        link(&mut chain, 10, &[(1, 100), (2, 101), (1, 102)], &[]);
        chain.saved(12);
        assert_eq!(chain.last.len(), 1, "{chain:?}");
        assert_eq!(chain.passed(13), [chained(1, 102)]);
        chain.saved(13);
        assert!(chain.last.is_empty() && chain.under_way.is_empty(), "{chain:?}");
    }
}
