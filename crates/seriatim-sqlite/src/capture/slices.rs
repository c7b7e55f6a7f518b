//! What a pass over the changes collects for the partitions that it serves.

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition};
use seriatim::order::partition_of_hash;
use seriatim::source::{Limit, Slice};
use seriatim::value::{Columns, Key, Packer};

use super::value::pack;

/// A row of a running statement. Its columns are known to exist: the statement was made with them.
pub(super) struct Stepped<'a>(pub &'a rusqlite::Row<'a>);

impl Stepped<'_> {
    /// A number that Seriatim itself wrote.
    pub(super) fn number(&self, column: usize) -> i64 {
        match self.raw(column) {
            ValueRef::Integer(number) => number,
            _ => 0,
        }
    }

    /// A value as SQLite has it.
    #[inline(always)]
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

/// One thing that happened, before it is known whether anybody wants it.
pub(super) struct Happened {
    pub place: Position,
    pub id: u64,
    pub op: Op,
    pub at: Timestamp,
}

/// A slice that has any changes has room for its share of so many rows at once.
const EXPECTED_ROWS: usize = 4096;

/// A key that somebody wants, packed.
pub(super) struct WantedKey {
    slice: usize,
    hash: u64,
    end: usize,
}

/// Where the images of a change are in a row of a running statement: the places of their first columns.
pub(super) struct Images<'a> {
    pub columns: &'a Columns,
    pub before: Option<usize>,
    pub after: Option<usize>,
}

/// The slices of the partitions that a pass serves.
pub(super) struct Slices {
    feed: FeedName,
    partitions: u32,
    slices: Vec<Slice>,
    /// For each partition of the feed, its slice, if it is served.
    served: Vec<Option<usize>>,
    bytes: usize,
    limit: Limit,
    /// Packs one change after another.
    packer: Packer,
    /// Names of columns as others have them, and in memory of this pass: references to what all passes share would be
    /// counted by the reading and the handling threads at the same time, and cost as much as the reading.
    columns: Vec<(Columns, Columns)>,
}

impl Slices {
    pub(super) fn new(feed: &FeedName, partitions: u32, members: &[Partition], limit: Limit) -> Self {
        let mut served = vec![None; partitions.max(1) as usize];
        for (index, member) in members.iter().enumerate() {
            if let Some(place) = served.get_mut(member.0 as usize) {
                *place = Some(index);
            }
        }
        let slice = |partition: &Partition| Slice {
            partition: *partition,
            changes: Vec::new(),
            upto: Position::number(0),
            caught_up: false,
        };
        let slices = members.iter().map(slice).collect();
        let (packer, columns) = (Packer::default(), Vec::new());
        Slices { feed: feed.apart(), partitions, slices, served, bytes: 0, limit, packer, columns }
    }

    /// The key in these columns of a row, if its partition is served.
    pub(super) fn wanted(
        &mut self,
        row: &Stepped<'_>,
        key: impl Iterator<Item = usize>,
    ) -> Option<WantedKey> {
        self.packer.clear();
        key.for_each(|column| pack(&mut self.packer, row.raw(column)));
        let hash = Key::hash_of(self.packer.since(0));
        let partition = partition_of_hash(hash, self.partitions);
        let slice = self.served.get(partition.0 as usize).copied().flatten()?;
        Some(WantedKey { slice, hash, end: self.packer.len() })
    }

    /// Adds the change of the key that was just found wanted.
    pub(super) fn add(
        &mut self,
        row: &Stepped<'_>,
        key: &WantedKey,
        key_columns: &Columns,
        images: &Images<'_>,
        happened: Happened,
    ) {
        let (key_columns, columns) = (self.apart(key_columns), self.apart(images.columns));
        let before = images.before.map(|first| self.pack(row, first, columns.len()));
        let after = images.after.map(|first| self.pack(row, first, columns.len()));
        // What is needed last is moved: each clone is a counted reference, and there are millions a second.
        let packed = self.packer.finish();
        let key_row = packed.clone().row(key_columns, 0, key.end);
        let before = before.map(|(start, end)| packed.clone().row(columns.clone(), start, end));
        let after = after.map(|(start, end)| packed.row(columns, start, end));
        let slice = &mut self.slices[key.slice];
        let change = Change {
            feed: self.feed.clone(),
            partition: slice.partition,
            position: happened.place,
            key: Some(Key::hashed(key_row, key.hash)),
            op: happened.op,
            at: happened.at,
            before,
            after,
            id: happened.id,
            prev: None,
        };
        self.bytes += change.weight();
        if slice.changes.capacity() == 0 {
            slice.changes.reserve(self.limit.rows.min(EXPECTED_ROWS) / self.partitions as usize + 1);
        }
        slice.changes.push(change);
    }

    fn pack(&mut self, row: &Stepped<'_>, first: usize, columns: usize) -> (usize, usize) {
        let start = self.packer.len();
        (first..first + columns).for_each(|column| pack(&mut self.packer, row.raw(column)));
        (start, self.packer.len())
    }

    fn apart(&mut self, columns: &Columns) -> Columns {
        if let Some((_, apart)) = self.columns.iter().find(|(known, _)| known.is_shared_with(columns)) {
            return apart.clone();
        }
        let apart = columns.apart();
        self.columns.push((columns.clone(), apart.clone()));
        apart
    }

    /// Whether no further row fits.
    pub(super) fn full(&self) -> bool {
        self.bytes >= self.limit.bytes
    }

    /// The slices, now that it is known how far the pass went.
    pub(super) fn upto(mut self, upto: &Position, caught_up: bool) -> Vec<Slice> {
        for slice in &mut self.slices {
            slice.upto = upto.clone();
            slice.caught_up = caught_up;
        }
        self.slices
    }
}
