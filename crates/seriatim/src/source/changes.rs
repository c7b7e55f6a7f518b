//! The changes of a slice.
//!
//! A source that reads fast packs them side by side ([`PackedChanges`]) and leaves it to whoever takes them to make each one
//! a [`Change`] of its own: reading is done by one thread for all partitions, the rest by as many as there are.

use jiff::Timestamp;

use crate::change::{Change, Op, Position};
use crate::name::{FeedName, Partition};
use crate::value::{Columns, Key, Packed, Packer, Shapes};

/// The changes of a slice, in order. Each is made when it is taken.
#[derive(Clone, Debug)]
pub struct Changes(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Made(std::vec::IntoIter<Change>),
    Packed(PackedChanges),
}

impl Changes {
    /// Whether there are none left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lane of the change that comes after so many others (see [`Change::lane`]); `None` if it is about all objects.
    pub(crate) fn lane(&self, after: usize) -> Option<u64> {
        match &self.0 {
            Inner::Made(changes) => changes.as_slice()[after].key.as_ref().map(Key::hash),
            Inner::Packed(packed) => Some(packed.records[packed.taken + after].hash),
        }
    }

    /// The positions of those that are left.
    pub(crate) fn positions(&self) -> impl ExactSizeIterator<Item = Position> {
        (0..self.len()).map(|after| match &self.0 {
            Inner::Made(changes) => changes.as_slice()[after].position.clone(),
            Inner::Packed(packed) => packed.position(packed.taken + after),
        })
    }

    /// Takes the next ones, to be handled together: their rows may share memory, which is free again when all of them are gone.
    pub(crate) fn take_into(&mut self, count: usize, out: &mut Vec<Change>) {
        match &mut self.0 {
            Inner::Made(changes) => out.extend(changes.take(count)),
            Inner::Packed(packed) => packed.take_into(count, out),
        }
    }

    /// The same changes, as those of this partition.
    pub(crate) fn renumbered(self, partition: Partition) -> Self {
        match self.0 {
            Inner::Made(changes) => {
                let changes: Vec<Change> = changes.map(|change| Change { partition, ..change }).collect();
                changes.into()
            }
            Inner::Packed(packed) => Changes(Inner::Packed(PackedChanges { partition, ..packed })),
        }
    }

    /// How much those that are left weigh together (see [`Change::weight`]).
    pub fn weight(&self) -> usize {
        match &self.0 {
            Inner::Made(changes) => changes.as_slice().iter().map(Change::weight).sum(),
            Inner::Packed(packed) => packed.weight(),
        }
    }
}

impl From<Vec<Change>> for Changes {
    fn from(changes: Vec<Change>) -> Self {
        Changes(Inner::Made(changes.into_iter()))
    }
}

impl From<PackedChanges> for Changes {
    fn from(mut packed: PackedChanges) -> Self {
        packed.end_piece(Packer::default());
        Changes(Inner::Packed(packed))
    }
}

impl Iterator for Changes {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        match &mut self.0 {
            Inner::Made(changes) => changes.next(),
            Inner::Packed(packed) => packed.take(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Inner::Made(changes) => changes.len(),
            Inner::Packed(packed) => packed.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Changes {}

/// What a change is apart from its rows.
#[derive(Clone, Debug)]
pub struct ChangeHeader {
    /// Its place in the partition.
    pub position: Position,
    /// Its number in the feed.
    pub id: u64,
    /// What happened.
    pub op: Op,
    /// When.
    pub at: Timestamp,
}

/// A change that was packed, and in which piece its rows are: one after another, the key first. It fits into one line of a
/// processor's memory.
#[derive(Clone, Debug)]
struct Record {
    id: u64,
    hash: u64,
    at: Timestamp,
    piece: u32,
    start: u32,
    /// Which of the shapes its images have.
    shape: u32,
    /// Counted from the start, as are the others.
    key_end: u32,
    /// The image before begins where the key ends, the image after where that one ends; one that is not there takes no room.
    before_end: u32,
    after_end: u32,
    op: Op,
    has_before: bool,
    has_after: bool,
}

impl Record {
    fn end(&self) -> u32 {
        self.start + self.after_end
    }
}

/// Changes share memory, in pieces of so many bytes at most: whoever keeps one of them keeps no more.
const SHARED: usize = 8 << 10;

/// Memory for a piece, and for most changes that turn out not to fit into it.
const ROOM: usize = SHARED + SHARED / 8;

/// The shape that keys have.
const OF_KEYS: u32 = 0;

/// Changes of one partition, packed side by side.
#[derive(Clone, Debug)]
pub struct PackedChanges {
    feed: FeedName,
    partition: Partition,
    /// The columns of the keys, and all that images have.
    shapes: Vec<Columns>,
    /// The shapes as the last piece has them.
    shared: Option<Shapes>,
    pieces: Vec<Packed>,
    /// The piece that is being packed.
    packer: Packer,
    records: Vec<Record>,
    /// The position of each record; empty as long as all of them are the numbers that the changes have as ids.
    positions: Vec<Position>,
    taken: usize,
    /// How much those that are left are when packed.
    bytes: usize,
    /// About so many will come.
    expected: usize,
}

/// However many are expected, memory for no more is taken at once.
const MOST_EXPECTED: usize = 64 << 10;

impl PackedChanges {
    /// None yet. The name is copied, so that threads do not count references to the same one at the same time.
    pub fn new(feed: &FeedName, partition: Partition, key_columns: &Columns) -> Self {
        PackedChanges {
            feed: feed.apart(),
            partition,
            shapes: vec![key_columns.clone()],
            shared: None,
            pieces: Vec::new(),
            packer: Packer::default(),
            records: Vec::new(),
            positions: Vec::new(),
            taken: 0,
            bytes: 0,
            expected: 0,
        }
    }

    /// Takes memory for about so many at once: growing copies what is there.
    pub fn expecting(mut self, changes: usize) -> Self {
        self.expected = changes.min(MOST_EXPECTED / size_of::<Record>());
        self
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.records.len() - self.taken
    }

    /// Whether there are none left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a change with this packed key (see [`Key::hash_of`] for its hash) and the images that the functions pack, each of
    /// which has these columns. Returns what it weighs.
    pub fn push(
        &mut self,
        happened: ChangeHeader,
        key: &[u8],
        hash: u64,
        columns: &Columns,
        before: Option<impl FnOnce(&mut Packer)>,
        after: Option<impl FnOnce(&mut Packer)>,
    ) -> usize {
        let shape = self.shape(columns);
        let start = self.packer.len();
        self.packer.packed(key);
        let key_end = self.length_since(start);
        let (has_before, has_after) = (before.is_some(), after.is_some());
        let before_end = before.map_or(key_end, |pack| self.image(pack, start));
        let after_end = after.map_or(before_end, |pack| self.image(pack, start));
        if start > 0 && self.packer.len() > SHARED {
            self.begin_piece(start);
        }
        if self.records.len() == self.records.capacity() {
            self.make_room();
        }
        self.bytes += after_end as usize;
        let ChangeHeader { position, id, op, at } = happened;
        self.place(position, id);
        self.records.push(Record {
            id,
            hash,
            at,
            piece: self.pieces.len() as u32,
            start: self.packer.len() as u32 - after_end,
            shape,
            key_end,
            before_end,
            after_end,
            op,
            has_before,
            has_after,
        });
        size_of::<Change>() + after_end as usize
    }

    /// What was packed from this place on becomes the first of another piece.
    fn begin_piece(&mut self, start: usize) {
        let mut next = Packer::default();
        next.reserve(ROOM);
        next.packed(self.packer.since(start));
        self.packer.truncate(start);
        self.end_piece(next);
    }

    fn end_piece(&mut self, next: Packer) {
        let shapes = self.shared.get_or_insert_with(|| Shapes::from(self.shapes.as_slice()));
        self.pieces.push(std::mem::replace(&mut self.packer, next).finish(shapes));
    }

    /// Keeps the position of the next change, which has this id, where that does not say it.
    fn place(&mut self, position: Position, id: u64) {
        if self.positions.is_empty() {
            if position.as_number() == Some(id) {
                return;
            }
            self.positions.extend(self.records.iter().map(|record| Position::number(record.id)));
        }
        self.positions.push(position);
    }

    fn make_room(&mut self) {
        let (changes, bytes) = (self.records.len(), self.packer.len());
        // Grown in large steps: there is hardly ever just one, and what is there is copied each time.
        let more = (3 * changes + 1).max(self.expected);
        self.records.reserve(more);
        if changes == 0 {
            // Most are about as long as the first.
            self.packer.reserve(((bytes + bytes / 8) * more).min(ROOM));
        }
    }

    fn image(&mut self, pack: impl FnOnce(&mut Packer), start: usize) -> u32 {
        pack(&mut self.packer);
        self.length_since(start)
    }

    fn length_since(&self, start: usize) -> u32 {
        u32::try_from(self.packer.len() - start).expect("databases refuse rows of 4 GiB")
    }

    fn shape(&mut self, columns: &Columns) -> u32 {
        // Hardly ever more than one.
        match self.shapes.iter().skip(1).position(|known| known.is_shared_with(columns)) {
            Some(shape) => shape as u32 + 1,
            None => {
                self.shapes.push(columns.clone());
                self.shared = None;
                self.shapes.len() as u32 - 1
            }
        }
    }

    fn weight(&self) -> usize {
        self.len() * size_of::<Change>() + self.bytes
    }

    fn take(&mut self) -> Option<Change> {
        let record = self.records.get(self.taken)?;
        // Memory of its own: a change that waits for long keeps no others in memory.
        let packed = self.pieces[record.piece as usize].copy(record.start, record.end());
        let change = self.change(self.taken, &packed, 0);
        self.bytes -= record.after_end as usize;
        self.taken += 1;
        Some(change)
    }

    fn take_into(&mut self, count: usize, out: &mut Vec<Change>) {
        let taken = self.taken..self.taken + count;
        let records = &self.records[taken.clone()];
        self.bytes -= records.iter().map(|record| record.after_end as usize).sum::<usize>();
        out.extend(taken.map(|index| {
            let record = &self.records[index];
            self.change(index, &self.pieces[record.piece as usize], record.start)
        }));
        self.taken += count;
    }

    #[inline]
    fn position(&self, index: usize) -> Position {
        match self.positions.get(index) {
            Some(position) => position.clone(),
            None => Position::number(self.records[index].id),
        }
    }

    /// The change of a record whose rows begin at that place.
    #[inline(always)]
    fn change(&self, index: usize, packed: &Packed, start: u32) -> Change {
        let record = &self.records[index];
        let row = |shape: u32, from: u32, to: u32| packed.row(shape, start + from, start + to);
        Change {
            feed: self.feed.clone(),
            partition: self.partition,
            position: self.position(index),
            key: Some(Key::hashed(row(OF_KEYS, 0, record.key_end), record.hash)),
            op: record.op,
            at: record.at,
            before: record.has_before.then(|| row(record.shape, record.key_end, record.before_end)),
            after: record.has_after.then(|| row(record.shape, record.before_end, record.after_end)),
            id: record.id,
            prev: None,
        }
    }
}

#[cfg(test)]
mod tests;
