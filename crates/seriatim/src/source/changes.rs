//! The changes of a slice.
//!
//! A source that reads fast packs them side by side ([`PackedChanges`]) and leaves it to whoever takes them to make each one
//! a [`Change`] of its own: reading is done by one thread for all partitions, the rest by as many as there are.

use jiff::Timestamp;

use crate::change::{Change, Op, Position};
use crate::name::{FeedName, Partition};
use crate::value::{Columns, Key, Packed, Packer, Row};

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
    fn from(packed: PackedChanges) -> Self {
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
pub struct Happened {
    /// Its place in the partition.
    pub position: Position,
    /// Its number in the feed.
    pub id: u64,
    /// What happened.
    pub op: Op,
    /// When.
    pub at: Timestamp,
}

/// Where a change's rows are: one after another, the key first.
#[derive(Clone, Debug)]
struct Record {
    happened: Happened,
    hash: u64,
    start: usize,
    /// Which of the shapes its images have.
    shape: u32,
    /// Counted from the start, as are the others.
    key_end: u32,
    /// Where the image before ends, if there is one; it begins where the key ends.
    before_end: Option<u32>,
    /// Where the image after ends, if there is one; it begins where what was before it ends.
    after_end: Option<u32>,
}

/// Changes of one partition, packed side by side.
#[derive(Clone, Debug)]
pub struct PackedChanges {
    feed: FeedName,
    partition: Partition,
    key_columns: Columns,
    /// The columns that images have, as the source has them and in memory of their own.
    shapes: Vec<(Columns, Columns)>,
    packer: Packer,
    records: Vec<Record>,
    taken: usize,
}

impl PackedChanges {
    /// None yet. Names are copied, so that threads do not count references to the same ones at the same time.
    pub fn new(feed: &FeedName, partition: Partition, key_columns: &Columns) -> Self {
        PackedChanges {
            feed: feed.apart(),
            partition,
            key_columns: key_columns.apart(),
            shapes: Vec::new(),
            packer: Packer::default(),
            records: Vec::new(),
            taken: 0,
        }
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
        happened: Happened,
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
        let before_end = before.map(|pack| self.image(pack, start));
        let after_end = after.map(|pack| self.image(pack, start));
        if self.records.len() == self.records.capacity() {
            // Grown in large steps: there is hardly ever just one, and what is there is copied each time.
            self.records.reserve(3 * self.records.len() + 1);
        }
        self.records.push(Record { happened, hash, shape, start, key_end, before_end, after_end });
        size_of::<Change>() + self.packer.len() - start
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
        match self.shapes.iter().position(|(known, _)| known.is_shared_with(columns)) {
            Some(shape) => shape as u32,
            None => {
                self.shapes.push((columns.clone(), columns.apart()));
                self.shapes.len() as u32 - 1
            }
        }
    }

    fn weight(&self) -> usize {
        let left = self.records.len() - self.taken;
        let start = self.records.get(self.taken).map_or(self.packer.len(), |next| next.start);
        left * size_of::<Change>() + self.packer.len() - start
    }

    fn take(&mut self) -> Option<Change> {
        let record = self.records.get(self.taken)?;
        self.taken += 1;
        let Record { happened, hash, shape, start, key_end, before_end, after_end } = record.clone();
        let end = after_end.or(before_end).unwrap_or(key_end);
        // Memory of its own: a change that waits for long keeps no others in memory.
        let packed: Packed = self.packer.copy(start, start + end as usize);
        let (_, columns) = &self.shapes[shape as usize];
        let row = |packed: Packed, columns: &Columns, from: u32, to: u32| -> Row {
            packed.row(columns.clone(), from as usize, to as usize)
        };
        let before = before_end.map(|before_end| row(packed.clone(), columns, key_end, before_end));
        let after =
            after_end.map(|after_end| row(packed.clone(), columns, before_end.unwrap_or(key_end), after_end));
        let key = Key::hashed(row(packed, &self.key_columns, 0, key_end), hash);
        let Happened { position, id, op, at } = happened;
        let (feed, partition) = (self.feed.clone(), self.partition);
        Some(Change { feed, partition, position, key: Some(key), op, at, before, after, id, prev: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn packed() -> (Changes, Vec<Change>) {
        let (feed, columns) = (FeedName::new("f").unwrap(), Columns::new(["id", "name"]));
        let mut packed = PackedChanges::new(&feed, Partition(3), &Columns::new(["id"]));
        let mut made = Vec::new();
        for id in 1..=3u64 {
            let key = Key::of("id", Value::Integer(id as i64));
            let row =
                |name: &str| Row::new(columns.clone(), [Value::Integer(id as i64), Value::Text(name.into())]);
            let (before, after) = ((id != 1).then(|| row("old")), (id != 3).then(|| row("new")));
            let mut bytes = Packer::default();
            bytes.integer(id as i64);
            let pack = |row: &Row| {
                let values = row.values().to_vec();
                move |packer: &mut Packer| values.iter().for_each(|value| packer.value(value))
            };
            let happened =
                Happened { position: Position::number(id), id, op: Op::Update, at: Timestamp::UNIX_EPOCH };
            let change = Change {
                feed: feed.clone(),
                partition: Partition(3),
                position: happened.position.clone(),
                key: Some(key.clone()),
                op: happened.op,
                at: happened.at,
                before: before.clone(),
                after: after.clone(),
                id,
                prev: None,
            };
            let (before, after) = (before.as_ref().map(pack), after.as_ref().map(pack));
            let weight = packed.push(happened, bytes.since(0), key.hash(), &columns, before, after);
            assert_eq!(weight, change.weight());
            made.push(change);
        }
        (packed.into(), made)
    }

    #[test]
    fn packed_changes_are_the_changes_that_were_packed() {
        let (packed, made) = packed();
        assert_eq!(packed.len(), 3);
        assert_eq!(packed.collect::<Vec<_>>(), made);
    }

    #[test]
    fn what_is_left_weighs_what_its_changes_weigh() {
        let (mut packed, made) = packed();
        for taken in 0..3 {
            assert_eq!(packed.weight(), made[taken..].iter().map(Change::weight).sum::<usize>());
            packed.next();
        }
        assert_eq!((packed.weight(), packed.is_empty()), (0, true));
    }
}
