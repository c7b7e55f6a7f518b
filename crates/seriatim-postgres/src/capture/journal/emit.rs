//! From rows of the journal to changes in slices.

use jiff::Timestamp;
use seriatim::change::{Op, Position};
use seriatim::source::Happened;
use seriatim::value::Packer;

use super::super::image::{Images, Packed};
use super::super::slices::Slices;

/// Makes changes of images, and collects them.
pub(super) struct Emit<'a> {
    pub images: &'a mut Images,
    pub slices: Slices,
    /// Images of the change at hand.
    packer: Packer,
    key: Packer,
    row: Packer,
}

/// One row of the journal.
pub(super) struct Noted<'a> {
    pub id: i64,
    pub op: char,
    pub at: Timestamp,
    pub hash: Option<i32>,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
}

/// An image that cannot be read, or that lacks a column of the key.
#[derive(Debug)]
pub(super) struct Unreadable;

impl<'a> Emit<'a> {
    pub(super) fn new(images: &'a mut Images, slices: Slices) -> Self {
        Emit { images, slices, packer: Packer::default(), key: Packer::default(), row: Packer::default() }
    }

    /// Adds what a row of the journal says.
    pub(super) fn noted(&mut self, noted: &Noted<'_>, position: Position) -> Result<(), Unreadable> {
        let op = match noted.op {
            'i' => Op::Insert,
            'u' => Op::Update,
            'd' => Op::Delete,
            _ => Op::Truncate,
        };
        let happened = Happened { position, id: noted.id as u64, op, at: noted.at };
        match noted.hash {
            None => {
                self.slices.add_truncate(&happened);
                Ok(())
            }
            Some(hash) => self.add(hash, happened, noted.before, noted.after),
        }
    }

    /// Adds a row as it was before anything happened to it that this feed tells of.
    pub(super) fn existing(
        &mut self,
        hash: i32,
        image: &str,
        at: Timestamp,
        position: Position,
        id: impl FnOnce(&[u8]) -> u64,
    ) -> Result<(), Unreadable> {
        if !self.slices.wants(hash) {
            return Ok(());
        }
        let packed = self.pack(image)?;
        self.row.clear();
        self.images.pack_row_name(&packed, &self.packer, &mut self.row).ok_or(Unreadable)?;
        let id = id(self.row.since(0));
        let happened = Happened { position, id, op: Op::Upsert, at };
        let columns = self.images.columns(&packed).clone();
        let after = Some((&columns, packed.values(&self.packer)));
        self.slices.add(hash, happened, self.key.since(0), None, after);
        Ok(())
    }

    fn add(
        &mut self,
        hash: i32,
        happened: Happened,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), Unreadable> {
        if !self.slices.wants(hash) {
            return Ok(());
        }
        self.packer.clear();
        let pack = |json: Option<&str>, images: &mut Images, packer: &mut Packer| match json {
            Some(json) => images.pack(json, packer).map(Some).ok_or(Unreadable),
            None => Ok(None),
        };
        let before = pack(before, self.images, &mut self.packer)?;
        let after = pack(after, self.images, &mut self.packer)?;
        let named = after.as_ref().or(before.as_ref()).ok_or(Unreadable)?.clone();
        self.key.clear();
        self.images.pack_key(&named, &self.packer, &mut self.key).ok_or(Unreadable)?;
        let columns = self.images.columns(&named).clone();
        let values = |packed: Option<Packed>| packed.map(|packed| (&columns, packed.values(&self.packer)));
        let (before, after) = (values(before), values(after));
        self.slices.add(hash, happened, self.key.since(0), before, after);
        Ok(())
    }

    fn pack(&mut self, image: &str) -> Result<Packed, Unreadable> {
        self.packer.clear();
        self.key.clear();
        let packed = self.images.pack(image, &mut self.packer).ok_or(Unreadable)?;
        self.images.pack_key(&packed, &self.packer, &mut self.key).ok_or(Unreadable)?;
        Ok(packed)
    }
}
