//! What a pass over the changes collects for the partitions that it serves.

use seriatim::backend::Packer;
use seriatim::backend::{ChangeHeader, PackedChanges};
use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition};
use seriatim::source::{Changes, Limit, Slice};
use seriatim::value::{Columns, Key};

/// The slices of the partitions that a pass serves.
pub(crate) struct Slices {
    feed: FeedName,
    key_columns: Columns,
    slices: Vec<Collected>,
    /// For each partition of the feed, its slice, if it is served.
    served: Vec<Option<usize>>,
    bytes: usize,
    limit: Limit,
}

/// What is there for one partition.
struct Collected {
    partition: Partition,
    /// Changes that are made already: those up to the last that has no key.
    made: Vec<Change>,
    packed: Option<PackedChanges>,
}

/// A packed image: its columns, and its values.
pub(crate) type Image<'a> = (&'a Columns, &'a [u8]);

impl Slices {
    pub(crate) fn new(
        feed: &FeedName,
        partitions: u32,
        key_columns: &Columns,
        members: &[Partition],
        limit: Limit,
    ) -> Self {
        let mut served = vec![None; partitions.max(1) as usize];
        for (index, member) in members.iter().enumerate() {
            if let Some(place) = served.get_mut(member.0 as usize) {
                *place = Some(index);
            }
        }
        let collected =
            |partition: &Partition| Collected { partition: *partition, made: Vec::new(), packed: None };
        let slices = members.iter().map(collected).collect();
        let (feed, key_columns) = (feed.clone(), key_columns.clone());
        Slices { feed, key_columns, slices, served, bytes: 0, limit }
    }

    /// Forgets what was added.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        for collected in &mut self.slices {
            collected.made.clear();
            collected.packed = None;
        }
    }

    /// Whether somebody asked for the partition of the key that the database hashes to this.
    pub(crate) fn wants(&self, hash: i32) -> bool {
        self.slice_of(hash).is_some()
    }

    fn slice_of(&self, hash: i32) -> Option<usize> {
        let partition = hash.unsigned_abs() as usize % self.served.len();
        self.served[partition]
    }

    /// Adds a change of the object with this packed key, if its partition is served.
    pub(crate) fn add(
        &mut self,
        hash: i32,
        happened: ChangeHeader,
        key: &[u8],
        before: Option<Image<'_>>,
        after: Option<Image<'_>>,
    ) {
        self.add_hashed(hash, happened, (key, Key::hash_of(key)), before, after);
    }

    /// The same, where the key's own hash is known.
    pub(crate) fn add_hashed(
        &mut self,
        hash: i32,
        happened: ChangeHeader,
        (key, key_hash): (&[u8], u64),
        before: Option<Image<'_>>,
        after: Option<Image<'_>>,
    ) {
        let Some(slice) = self.slice_of(hash) else { return };
        // A delete in a log has no image at all.
        let columns = after.or(before).map_or(&self.key_columns, |(columns, _)| columns);
        let collected = &mut self.slices[slice];
        let (feed, key_columns) = (&self.feed, &self.key_columns);
        let packed = collected
            .packed
            .get_or_insert_with(|| PackedChanges::new(feed, collected.partition, key_columns));
        let pack = |values| move |packer: &mut Packer| packer.packed(values);
        let (before, after) = (before.map(|(_, values)| pack(values)), after.map(|(_, values)| pack(values)));
        self.bytes += packed.push(happened, key, key_hash, columns, before, after);
    }

    /// Adds a change that is about all objects to every partition.
    pub(crate) fn add_truncate(&mut self, happened: &ChangeHeader) {
        for collected in &mut self.slices {
            if let Some(packed) = collected.packed.take() {
                collected.made.extend(Changes::from(packed));
            }
            let ChangeHeader { position, id, at, .. } = happened.clone();
            let change = Change {
                feed: self.feed.clone(),
                partition: collected.partition,
                position,
                key: None,
                op: Op::Truncate,
                at,
                before: None,
                after: None,
                id,
                prev: None,
            };
            self.bytes += change.weight();
            collected.made.push(change);
        }
    }

    /// How much the changes weigh that were added.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much each of them weighs on average; `None` when there are none.
    pub(crate) fn average(&self) -> Option<usize> {
        let packed = |collected: &Collected| collected.packed.as_ref().map_or(0, PackedChanges::len);
        let changes: usize =
            self.slices.iter().map(|collected| collected.made.len() + packed(collected)).sum();
        self.bytes.checked_div(changes)
    }

    /// As it was before anything was added.
    pub(crate) fn for_the_next_page(&self) -> Self {
        let members: Vec<Partition> = self.slices.iter().map(|collected| collected.partition).collect();
        Slices::new(&self.feed, self.served.len() as u32, &self.key_columns, &members, self.limit)
    }

    /// Whether no further row fits.
    pub(crate) fn full(&self) -> bool {
        self.bytes >= self.limit.bytes
    }

    /// The slices, now that it is known how far the pass went.
    pub(crate) fn upto(self, upto: &Position, caught_up: bool) -> Vec<Slice> {
        let slice = |collected: Collected| Slice {
            partition: collected.partition,
            changes: collected.changes(),
            upto: upto.clone(),
            caught_up,
        };
        self.slices.into_iter().map(slice).collect()
    }
}

impl Collected {
    fn changes(self) -> Changes {
        match (self.made, self.packed) {
            (made, None) => made.into(),
            (made, Some(packed)) if made.is_empty() => packed.into(),
            (mut made, Some(packed)) => {
                made.extend(Changes::from(packed));
                made.into()
            }
        }
    }
}
