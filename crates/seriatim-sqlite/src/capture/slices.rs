//! What a pass over the changes collects for the partitions that it serves.

use seriatim::change::{Change, Op, Position};
use seriatim::name::{FeedName, Partition};
use seriatim::order::partition_of;
use seriatim::source::{Limit, Slice};
use seriatim::value::{Columns, Key, Row};
use jiff::Timestamp;
use rusqlite::types::ValueRef;

use super::value::{push_value, value, value_like};

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

    /// The image of a row whose first column is there.
    pub(super) fn image(&self, columns: &Columns, first: usize) -> Row {
        let mut values = Vec::with_capacity(columns.len());
        for column in first..first + columns.len() {
            push_value(&mut values, self.raw(column));
        }
        Row::new(columns.clone(), values)
    }

    /// The image of a row that is much like another: what is equal is shared, not copied.
    pub(super) fn image_like(&self, columns: &Columns, first: usize, other: &Row) -> Row {
        let values = other.values().iter().enumerate();
        Row::new(columns.clone(), values.map(|(slot, known)| value_like(self.raw(first + slot), known)))
    }

    /// The key of a row whose first column is there.
    pub(super) fn key(&self, columns: &Columns, slots: &[usize], first: usize) -> Key {
        Key::new(Row::new(columns.clone(), slots.iter().map(|slot| value(self.raw(first + slot)))))
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

/// The slices of the partitions that a pass serves.
pub(super) struct Slices {
    feed: FeedName,
    partitions: u32,
    slices: Vec<Slice>,
    /// For each partition of the feed, its slice, if it is served.
    served: Vec<Option<usize>>,
    bytes: usize,
    limit: Limit,
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
        Slices { feed: feed.clone(), partitions, slices, served, bytes: 0, limit }
    }

    /// The slice that a key belongs to, if its partition is served.
    pub(super) fn wanted(&self, key: &Key) -> Option<usize> {
        let partition = partition_of(key, self.partitions);
        self.served.get(partition.0 as usize).copied().flatten()
    }

    /// Adds a change to a slice.
    pub(super) fn add(&mut self, slice: usize, happened: Happened, key: Key, before: Option<Row>, after: Option<Row>) {
        let slice = &mut self.slices[slice];
        let change = Change {
            feed: self.feed.clone(),
            partition: slice.partition,
            position: happened.place,
            key: Some(key),
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
