//! From rows of the journal to changes in slices.

use jiff::Timestamp;
use seriatim::backend::ChangeHeader;
use seriatim::backend::Packer;
use seriatim::change::{Op, Position};

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
    /// What is delivered of the images.
    rooms: [Packer; 2],
}

/// One row of the journal.
pub(super) struct Noted<'a> {
    pub id: i64,
    /// It was noted as an update: where the row as it was is not there, the log did not carry it.
    pub update: bool,
    pub at: Timestamp,
    pub hash: Option<i32>,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
    /// There is a filter: an image for which it does not hold is not there.
    pub sifted: bool,
}

/// An image that cannot be read, or that lacks a column of the key.
#[derive(Debug)]
pub(super) struct Unreadable;

impl<'a> Emit<'a> {
    pub(super) fn new(images: &'a mut Images, slices: Slices) -> Self {
        let [packer, key, row, first, second] = Default::default();
        Emit { images, slices, packer, key, row, rooms: [first, second] }
    }

    /// Adds what a row of the journal says.
    pub(super) fn noted(&mut self, noted: &Noted<'_>, position: Position) -> Result<(), Unreadable> {
        // A feed with a filter is one of a table that has no other rows: what comes to match is inserted, what does no more is
        // deleted.
        let op = match (noted.before, noted.after) {
            _ if noted.hash.is_none() => Op::Truncate,
            (None, None) if noted.sifted => return Ok(()),
            (None, None) => return Err(Unreadable),
            (None, Some(_)) if noted.update && !noted.sifted => Op::Update,
            (None, Some(_)) => Op::Insert,
            (Some(_), Some(_)) => Op::Update,
            (Some(_), None) => Op::Delete,
        };
        let happened = ChangeHeader { position, id: noted.id as u64, op, at: noted.at };
        match noted.hash {
            None => {
                self.slices.add_truncate(&happened);
                Ok(())
            }
            Some(hash) => self.add(hash, happened, noted),
        }
    }

    /// Adds a row as it was before anything happened to it that this feed tells of: by its image, and the id that this was noted
    /// with, or the highest for one of the table itself.
    pub(super) fn existing(
        &mut self,
        hash: i32,
        (image, noted): (&str, i64),
        at: Timestamp,
        position: Position,
        id: impl FnOnce(&[u8]) -> u64,
    ) -> Result<(), Unreadable> {
        if !self.slices.wants(hash) {
            return Ok(());
        }
        let packed = self.pack(image, noted)?;
        self.row.clear();
        self.images.pack_row_name(&packed, &self.packer, &mut self.row).ok_or(Unreadable)?;
        let id = id(self.row.since(0));
        let happened = ChangeHeader { position, id, op: Op::Upsert, at };
        let after = self.images.delivered(&packed, &self.packer, &mut self.rooms[0]);
        self.slices.add(hash, happened, self.key.since(0), None, Some(after));
        self.images.reuse(Some(packed));
        Ok(())
    }

    fn add(&mut self, hash: i32, happened: ChangeHeader, noted: &Noted<'_>) -> Result<(), Unreadable> {
        if !self.slices.wants(hash) {
            return Ok(());
        }
        self.packer.clear();
        let pack = |json: Option<&str>, images: &mut Images, packer: &mut Packer| match json {
            Some(json) => images.pack_noted(json, noted.id, packer).map(Some).ok_or(Unreadable),
            None => Ok(None),
        };
        let before = pack(noted.before, self.images, &mut self.packer)?;
        let after = pack(noted.after, self.images, &mut self.packer)?;
        let named = after.as_ref().or(before.as_ref()).ok_or(Unreadable)?;
        self.key.clear();
        self.images.pack_key(named, &self.packer, &mut self.key).ok_or(Unreadable)?;
        let (images, packer, [first, second]) = (&*self.images, &self.packer, &mut self.rooms);
        let delivered = [
            before.as_ref().map(|packed| images.delivered(packed, packer, first)),
            after.as_ref().map(|packed| images.delivered(packed, packer, second)),
        ];
        self.slices.add(hash, happened, self.key.since(0), delivered[0], delivered[1]);
        for packed in [before, after] {
            self.images.reuse(packed);
        }
        Ok(())
    }

    fn pack(&mut self, image: &str, noted: i64) -> Result<Packed, Unreadable> {
        self.packer.clear();
        self.key.clear();
        let packed = self.images.pack_noted(image, noted, &mut self.packer).ok_or(Unreadable)?;
        self.images.pack_key(&packed, &self.packer, &mut self.key).ok_or(Unreadable)?;
        Ok(packed)
    }
}
