//! A row on its way into a slice.

use crate::value::{Key, Packer};

/// A row's values, packed one after another, and what is made of them. Made once, used for many rows.
#[derive(Clone, Debug, Default)]
pub struct PackedRow {
    image: Packer,
    /// Where each value ends.
    ends: Vec<usize>,
    key: Packer,
    /// What is delivered, unless it is everything.
    chosen: Packer,
    chooses: bool,
}

impl PackedRow {
    /// Forgets the row before.
    pub fn clear(&mut self) {
        self.image.clear();
        self.ends.clear();
    }

    /// Adds the next value.
    #[inline]
    pub fn add(&mut self, pack: impl FnOnce(&mut Packer)) {
        pack(&mut self.image);
        self.ends.push(self.image.len());
    }

    /// What tells this version of the row from all others: a number made of everything in it. The row as it is now, delivered
    /// again, has it again; one with other values has another, even if its moment is the same.
    pub fn version(&self) -> u64 {
        Key::hash_of(self.image.since(0)) & i64::MAX as u64
    }

    /// Packs the key, which is the values at these places, and tells its hash.
    pub fn pack_key(&mut self, places: &[usize]) -> u64 {
        self.pack_key_by(places, |_, value, key| key.packed(value))
    }

    /// The same, where values of one object can look differently: the function packs the value of a place as all of them have it.
    pub fn pack_key_by(&mut self, places: &[usize], pack: impl Fn(usize, &[u8], &mut Packer)) -> u64 {
        self.key.clear();
        for place in places {
            pack(*place, value(&self.image, &self.ends, *place), &mut self.key);
        }
        Key::hash_of(self.key.since(0))
    }

    /// The key that was packed last.
    pub fn key(&self) -> &[u8] {
        self.key.since(0)
    }

    /// Chooses what is delivered: the values at these places, or all.
    pub fn choose(&mut self, places: Option<&[usize]>) {
        self.chooses = places.is_some();
        self.chosen.clear();
        for place in places.into_iter().flatten() {
            self.chosen.packed(value(&self.image, &self.ends, *place));
        }
    }

    /// What was chosen last.
    pub fn chosen(&self) -> &[u8] {
        if self.chooses { self.chosen.since(0) } else { self.image.since(0) }
    }
}

/// The packed value at a place.
fn value<'a>(image: &'a Packer, ends: &[usize], place: usize) -> &'a [u8] {
    let start = if place == 0 { 0 } else { ends[place - 1] };
    &image.since(start)[..ends[place] - start]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Columns, Value};

    #[test]
    fn a_key_and_a_choice_are_the_values_at_their_places() {
        let mut row = PackedRow::default();
        for _ in 0..2 {
            row.clear();
            row.add(|packer| packer.integer(7));
            row.add(|packer| packer.text("a"));
            row.add(Packer::null);
        }
        let key = crate::value::Row::new(
            Columns::new(["name", "id"]),
            [Value::Text("a".into()), Value::Integer(7)],
        );
        assert_eq!(row.pack_key(&[1, 0]), Key::new(key).hash());
        row.choose(Some(&[2, 1]));
        let mut expected = Packer::default();
        expected.null();
        expected.text("a");
        assert_eq!(row.chosen(), expected.since(0));
        row.choose(None);
        assert_eq!(row.chosen().len(), 9 + 10 + 1);
        let before = row.version();
        row.clear();
        row.add(|packer| packer.integer(8));
        assert_ne!(row.version(), before);
    }
}
