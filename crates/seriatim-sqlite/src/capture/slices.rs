//! What a pass over the changes collects for the partitions that it serves.

use jiff::Timestamp;
use rusqlite::types::ValueRef;
pub(super) use seriatim::backend::ChangeHeader;
use seriatim::backend::PackedChanges;
use seriatim::backend::Packer;
use seriatim::change::Position;
use seriatim::name::{FeedName, Partition};
use seriatim::order::partition_of_hash;
use seriatim::source::{Limit, Slice};
use seriatim::value::{Columns, Key};

use super::chosen::Chosen;

/// A row of a running statement. Its columns are known to exist: the statement was made with them.
pub(super) struct Stepped<'a>(pub &'a rusqlite::Row<'a>);

impl Stepped<'_> {
    /// A number that Seriatim itself wrote.
    pub(super) fn number(&self, column: usize) -> i64 {
        match self.0.get_ref(column) {
            Ok(ValueRef::Integer(number)) => number,
            _ => 0,
        }
    }

    /// Packs a value as users get it. Text that is not UTF-8 is packed as bytes.
    #[inline(always)]
    pub(super) fn pack(&self, column: usize, packer: &mut Packer) {
        // Looked at where SQLite's answer lies: to move it first takes longer than to pack it.
        match self.0.get_ref(column) {
            Ok(ValueRef::Null) | Err(_) => packer.null(),
            Ok(ValueRef::Integer(number)) => packer.integer(number),
            Ok(ValueRef::Real(real)) => packer.real(real),
            Ok(ValueRef::Text(text)) => packer.text_or_bytes(text),
            Ok(ValueRef::Blob(bytes)) => packer.bytes(bytes),
        }
    }

    /// Packs a value of a key. Where 1 and 1.0 are kept apart though they are equal, both are 1.
    #[inline(always)]
    pub(super) fn pack_key(&self, column: usize, whole: bool, packer: &mut Packer) {
        match self.0.get_ref(column) {
            Ok(ValueRef::Real(real)) if whole && real.trunc() == real && real.abs() < 9e15 => {
                packer.integer(real as i64)
            }
            _ => self.pack(column, packer),
        }
    }

    /// A value as SQLite has it.
    pub(super) fn raw(&self, column: usize) -> ValueRef<'_> {
        self.0.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// A moment that Seriatim's triggers wrote.
    pub(super) fn time(&self, column: usize) -> Timestamp {
        time(self.number(column))
    }
}

/// A moment from milliseconds; one that no calendar has is the first that every calendar has.
pub(super) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A key that somebody wants, packed.
pub(super) struct WantedKey {
    slice: usize,
    hash: u64,
}

/// Where the images of a change are in a row of a running statement: the places of their first columns.
pub(super) struct Images<'a> {
    pub chosen: &'a Chosen,
    pub before: Option<usize>,
    pub after: Option<usize>,
}

/// The slices of the partitions that a pass serves.
pub(super) struct Slices {
    feed: FeedName,
    partitions: u32,
    slices: Vec<(Partition, Option<PackedChanges>)>,
    /// For each partition of the feed, its slice, if it is served.
    served: Vec<Option<usize>>,
    bytes: usize,
    limit: Limit,
    /// How many changes each slice will have, about.
    expected: usize,
    /// Packs one key after another.
    key: Packer,
    /// Whole numbers in keys are integers, however they are stored.
    whole: bool,
}

impl Slices {
    pub(super) fn new(feed: &FeedName, partitions: u32, members: &[Partition], limit: Limit) -> Self {
        let mut served = vec![None; partitions.max(1) as usize];
        for (index, member) in members.iter().enumerate() {
            if let Some(place) = served.get_mut(member.0 as usize) {
                *place = Some(index);
            }
        }
        let slices = members.iter().map(|partition| (*partition, None)).collect();
        let (feed, key) = (feed.clone(), Packer::default());
        Slices { feed, partitions, slices, served, bytes: 0, limit, expected: 0, key, whole: false }
    }

    /// The key's columns keep 1 and 1.0 apart, or do not.
    pub(super) fn with_whole_numbers(mut self, whole: bool) -> Self {
        self.whole = whole;
        self
    }

    /// There are so many changes at most, of all partitions of the feed.
    pub(super) fn expecting(mut self, changes: u64) -> Self {
        let each = usize::try_from(changes).unwrap_or(usize::MAX).min(self.limit.rows) / self.served.len();
        // Keys are spread evenly, but not quite.
        self.expected = each + each / 4;
        self
    }

    /// The key in these columns of a row, if its partition is served.
    pub(super) fn wanted(
        &mut self,
        row: &Stepped<'_>,
        key: impl Iterator<Item = usize>,
    ) -> Option<WantedKey> {
        self.key.clear();
        key.for_each(|column| row.pack_key(column, self.whole, &mut self.key));
        self.wanted_hash(Key::hash_of(self.key.since(0)))
    }

    /// The key of this hash, if its partition is served.
    pub(super) fn wanted_hash(&self, hash: u64) -> Option<WantedKey> {
        let partition = partition_of_hash(hash, self.partitions);
        let slice = self.served.get(partition.0 as usize).copied().flatten()?;
        Some(WantedKey { slice, hash })
    }

    /// Adds the change of the key that was just found wanted.
    pub(super) fn add(
        &mut self,
        row: &Stepped<'_>,
        key: &WantedKey,
        key_columns: &Columns,
        images: &Images<'_>,
        happened: ChangeHeader,
    ) {
        let (partition, slice) = &mut self.slices[key.slice];
        let slice = slice.get_or_insert_with(|| {
            PackedChanges::new(&self.feed, *partition, key_columns).expecting(self.expected)
        });
        let Chosen { columns, places, .. } = images.chosen;
        let image = |first: usize| {
            move |packer: &mut Packer| {
                places.iter().for_each(|place| row.pack(first + place, packer));
            }
        };
        let (before, after) = (images.before.map(image), images.after.map(image));
        self.bytes += slice.push(happened, self.key.since(0), key.hash, columns, before, after);
    }

    /// Adds a change of this key to an image, both with their columns and packed.
    pub(super) fn add_packed(
        &mut self,
        wanted: &WantedKey,
        key: (&Columns, &[u8]),
        image: (&Columns, &[u8]),
        happened: ChangeHeader,
    ) {
        let (partition, slice) = &mut self.slices[wanted.slice];
        let slice = slice.get_or_insert_with(|| PackedChanges::new(&self.feed, *partition, key.0));
        let after = |packer: &mut Packer| packer.packed(image.1);
        let before = None::<fn(&mut Packer)>;
        self.bytes += slice.push(happened, key.1, wanted.hash, image.0, before, Some(after));
    }

    /// How much the changes weigh that were added.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// As it was before anything was added.
    pub(super) fn for_the_next_page(&self) -> Self {
        let slices = self.slices.iter().map(|(partition, _)| (*partition, None)).collect();
        let (feed, served) = (self.feed.clone(), self.served.clone());
        Slices { feed, served, slices, bytes: 0, key: Packer::default(), ..*self }
    }

    /// Whether no further row fits.
    pub(super) fn full(&self) -> bool {
        self.bytes >= self.limit.bytes
    }

    /// The slices, now that it is known how far the pass went.
    pub(super) fn upto(self, upto: &Position, caught_up: bool) -> Vec<Slice> {
        let slice = |(partition, changes): (Partition, Option<PackedChanges>)| Slice {
            partition,
            changes: changes.map_or_else(|| Vec::new().into(), Into::into),
            upto: upto.clone(),
            caught_up,
        };
        self.slices.into_iter().map(slice).collect()
    }
}
