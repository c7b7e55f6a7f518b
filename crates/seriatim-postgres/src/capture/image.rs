//! Images: rows as the triggers noted them, packed with the columns that they had then.

use seriatim::backend::Packer;
use seriatim::value::{Columns, Value};

use std::sync::Arc;

use super::json::{Marks, marks, members, unescaped, value_end};
use super::shapes::{Shape as Had, Typed};
use super::table::Table;
use super::value::{Reading, pack_normal};

/// Reads images of one table, whatever columns it had when they were noted.
#[derive(Debug)]
pub(crate) struct Images {
    table: Table,
    /// The key's columns' names now.
    pub key_columns: Columns,
    /// The names that each of them has or had, newest first.
    key_names: Vec<Vec<String>>,
    /// The names of the columns that name a row, in the same way.
    row_names: Vec<Vec<String>>,
    shapes: Vec<Shape>,
    /// The columns that the table has and had, oldest first.
    had: Vec<Had>,
    /// The columns that are delivered; all when not given.
    chosen: Option<Vec<String>>,
    /// The columns that the feed's filter is about.
    asked_about: Vec<String>,
    /// An image had columns that the table has not, or had none that the filter is about.
    puzzled: bool,
    /// Memory of images that are done with.
    spare: Vec<Vec<usize>>,
}

/// The columns that an image has.
#[derive(Debug)]
struct Shape {
    /// How many shapes the table had had before.
    era: usize,
    /// Their names as JSON writes them.
    names: Vec<Box<str>>,
    /// The names of columns that the image has not, though the row has.
    unknown: Vec<Box<str>>,
    /// What stands before each value as PostgreSQL itself writes JSON: the name, and what separates it from the one before.
    heads: Vec<Box<str>>,
    columns: Columns,
    readings: Vec<Reading>,
    /// Where the key's columns are; `None` when one is not there.
    key: Option<Vec<usize>>,
    /// Where the columns are that name the row.
    row: Option<Vec<usize>>,
    /// The columns that are delivered, and where they are; `None` for all.
    chosen: Option<(Columns, Vec<usize>)>,
}

/// An image that was packed.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    shape: usize,
    /// Where the values of each column end.
    ends: Vec<usize>,
    start: usize,
}

impl Images {
    /// Images of this table as it is now, by the key whose columns have or had these names, newest first.
    pub(crate) fn new(table: &Table, key_names: &[Vec<String>]) -> Self {
        let newest = key_names.iter().map(|names| names.first().map_or("", String::as_str));
        let key_columns = Columns::new(newest);
        Images {
            table: table.clone(),
            key_columns,
            key_names: key_names.to_vec(),
            row_names: Vec::new(),
            shapes: Vec::new(),
            had: Vec::new(),
            chosen: None,
            asked_about: Vec::new(),
            puzzled: false,
            spare: Vec::new(),
        }
    }

    /// The same, whose rows are named by columns that have or had these names, newest first.
    pub(crate) fn naming_rows(self, row_names: Vec<Vec<String>>) -> Self {
        Images { row_names, ..self }
    }

    /// The same, of which only these columns are delivered.
    pub(crate) fn choosing(self, chosen: Option<Vec<String>>) -> Self {
        Images { chosen, ..self }
    }

    /// The same, of a table that had these columns, oldest first.
    pub(crate) fn with_shapes(self, had: Vec<Had>) -> Self {
        Images { had, ..self }
    }

    /// The same, of a feed whose filter is about these columns.
    pub(crate) fn asked_about(self, columns: impl Iterator<Item = String>) -> Self {
        Images { asked_about: columns.collect(), ..self }
    }

    /// Packs an image of the table as it is. `None` when it is no JSON object.
    pub(crate) fn pack(&mut self, json: &str, packer: &mut Packer) -> Option<Packed> {
        self.pack_noted(json, i64::MAX, packer)
    }

    /// Packs an image that was noted with this id. `None` when it is no JSON object.
    pub(crate) fn pack_noted(&mut self, json: &str, id: i64, packer: &mut Packer) -> Option<Packed> {
        let mut ends = self.spare.pop().unwrap_or_default();
        let later = self.had.iter().rev().take_while(|had| had.since >= id).count();
        let era = self.had.len().saturating_sub(later);
        let marks = marks(json);
        // Nearly always the newest shape; a wrong one leaves a few values behind that nobody looks at.
        for shape in (0..self.shapes.len()).rev() {
            if self.shapes[shape].era != era {
                continue;
            }
            if let Some(start) = self.shapes[shape].pack((json, &marks), packer, &mut ends)? {
                return Some(Packed { shape, ends, start });
            }
        }
        let shape = self.new_shape(json, &marks, era)?;
        let lacks = |column: &String| shape.columns.index_of(column).is_none();
        self.puzzled |= shape.key.is_none()
            || shape.readings.contains(&Reading::Unknown)
            || self.asked_about.iter().any(lacks);
        self.shapes.push(shape);
        let shape = self.shapes.len() - 1;
        let start = self.shapes[shape].pack((json, &marks), packer, &mut ends)??;
        Some(Packed { shape, ends, start })
    }

    /// Nobody needs this image any more: its memory is the next one's.
    #[inline]
    pub(crate) fn reuse(&mut self, image: Option<Packed>) {
        if let Some(image) = image {
            self.spare.push(image.ends);
        }
    }

    /// Whether an image had other columns than the table, or than the filter: it may be another table by now.
    pub(crate) fn is_puzzled(&self) -> bool {
        self.puzzled
    }

    /// What is delivered of an image that is in this packer; what has to be put together for that is in the other one.
    pub(crate) fn delivered<'a>(
        &'a self,
        image: &Packed,
        from: &'a Packer,
        room: &'a mut Packer,
    ) -> (&'a Columns, &'a [u8]) {
        let shape = &self.shapes[image.shape];
        let Some((columns, places)) = &shape.chosen else { return (&shape.columns, image.values(from)) };
        room.clear();
        places.iter().for_each(|place| room.packed(image.value(*place, from)));
        (columns, room.since(0))
    }

    /// Packs the key of an image that is in this packer. `None` when the image lacks a column of it.
    pub(crate) fn pack_key(&self, image: &Packed, from: &Packer, key: &mut Packer) -> Option<()> {
        let shape = &self.shapes[image.shape];
        shape.pack_some(shape.key.as_ref()?, image, from, key);
        Some(())
    }

    /// Packs what names the row of an image that is in this packer. `None` when the image lacks a column of it.
    pub(crate) fn pack_row_name(&self, image: &Packed, from: &Packer, name: &mut Packer) -> Option<()> {
        let shape = &self.shapes[image.shape];
        shape.pack_some(shape.row.as_ref()?, image, from, name);
        Some(())
    }

    /// The table may be another one by now.
    pub(crate) fn puzzle(&mut self) {
        self.puzzled = true;
    }

    /// How the column of this name is read in images of an era: as it was then, or as near to that as is known.
    fn reading(&self, name: &str, era: usize) -> Reading {
        let (before, after) = self.had.split_at(era);
        let mut known = before.iter().rev().chain(after).flat_map(|had| &had.columns);
        let had = known.find(|column| column.name == name).map(Typed::reading);
        let now = || self.table.columns.iter().find(|column| column.name == name).map(Reading::of);
        had.or_else(now).unwrap_or(Reading::Unknown)
    }

    fn new_shape(&self, json: &str, marks: &Marks<'_>, era: usize) -> Option<Shape> {
        let columns = members(json)?.filter(|(name, _)| !name.is_empty());
        let names: Vec<Box<str>> = columns.map(|(name, _)| Box::from(name)).collect();
        let plain: Vec<_> = names.iter().map(|name| unescaped(name)).collect();
        let by_name = |name: &str| self.table.columns.iter().find(|column| column.name == name);
        let readings = plain.iter().map(|name| self.reading(name, era)).collect();
        let unknown: Vec<Box<str>> = marks.unknown.iter().map(|name| Box::from(*name)).collect();
        let named = |columns: Columns, wanted: &dyn Fn(&str) -> bool| match unknown.is_empty() {
            true => columns,
            false => {
                columns.with_unknown(unknown.iter().map(|name| unescaped(name)).filter(|name| wanted(name)))
            }
        };
        let columns = named(Columns::new(plain.iter().map(AsRef::as_ref)), &|_| true);
        let (key, row) = (places(&self.key_names, &columns), places(&self.row_names, &columns));
        let chosen = self.chosen.as_ref().map(|chosen| {
            // What the table has no more was asked for by another name, perhaps.
            let wanted = |name: &str| chosen.iter().any(|chosen| chosen == name) || by_name(name).is_none();
            let places: Vec<usize> = (0..plain.len()).filter(|place| wanted(&plain[*place])).collect();
            (named(Columns::new(places.iter().map(|place| plain[*place].as_ref())), &wanted), places)
        });
        let before = |at| if at == 0 { '{' } else { ',' };
        let head = |(at, name)| Box::from(format!("{}\"{name}\":", before(at)));
        let heads = names.iter().enumerate().map(head).collect();
        Some(Shape { era, key, row, chosen, names, unknown, heads, columns, readings })
    }
}

/// Where columns are, by the newest of their names that the image has.
fn places(names: &[Vec<String>], columns: &Columns) -> Option<Vec<usize>> {
    let place = |names: &Vec<String>| names.iter().find_map(|name| columns.index_of(name));
    names.iter().map(place).collect()
}

impl Packed {
    /// The packed value of one column, in the packer that has it.
    fn value<'a>(&self, place: usize, packer: &'a Packer) -> &'a [u8] {
        let start = if place == 0 { self.start } else { self.ends[place - 1] };
        &packer.since(start)[..self.ends[place] - start]
    }

    /// The packed values, in the packer that has them.
    fn values<'a>(&self, packer: &'a Packer) -> &'a [u8] {
        let end = self.ends.last().copied().unwrap_or(self.start);
        &packer.since(self.start)[..end - self.start]
    }
}

impl Shape {
    /// Packs an image of this shape, notes where each value ends and tells where the first begins: `Some(None)` when it has another
    /// shape, `None` when it is no object.
    fn pack(
        &self,
        (json, marks): (&str, &Marks<'_>),
        packer: &mut Packer,
        ends: &mut Vec<usize>,
    ) -> Option<Option<usize>> {
        let Marks { documents, unknown } = marks;
        let same = unknown.len() == self.unknown.len()
            && unknown.iter().zip(&self.unknown).all(|(one, other)| **one == **other);
        if !same {
            return Some(None);
        }
        let start = packer.len();
        ends.clear();
        if documents.is_empty() && unknown.is_empty() && self.pack_as_written(json, packer, ends).is_some() {
            return Some(Some(start));
        }
        // Behind what was packed in vain.
        let start = packer.len();
        ends.clear();
        let mut members = members(json)?;
        for (name, reading) in self.names.iter().zip(&self.readings) {
            match members.next() {
                Some((found, _)) if *found == **name && documents.contains(&found) => {
                    packer.value(&Value::Json(Arc::from("null")));
                }
                Some((found, value)) if *found == **name => reading.pack(value, packer),
                _ => return Some(None),
            }
            ends.push(packer.len());
        }
        Some(members.next().is_none_or(|(name, _)| name.is_empty()).then_some(start))
    }

    /// The same for an image that is written just as PostgreSQL writes this shape; `None` for any other.
    #[inline]
    fn pack_as_written(&self, json: &str, packer: &mut Packer, ends: &mut Vec<usize>) -> Option<()> {
        let mut rest = json;
        for (head, reading) in self.heads.iter().zip(&self.readings) {
            rest = rest.strip_prefix(&**head)?;
            // Around a document of type json stands what its writer put there.
            if rest.starts_with(|letter: char| letter.is_ascii_whitespace()) {
                return None;
            }
            let (value, after) = rest.split_at_checked(value_end(rest.as_bytes())?)?;
            reading.pack(value, packer);
            ends.push(packer.len());
            rest = after;
        }
        (rest == "}").then_some(())
    }

    /// Packs some values of an image, each in one way for equal values.
    fn pack_some(&self, places: &[usize], image: &Packed, from: &Packer, into: &mut Packer) {
        for index in places {
            let value = image.value(*index, from);
            match self.readings[*index] {
                Reading::Decimal | Reading::Real => pack_normal(value, into),
                _ => into.packed(value),
            }
        }
    }
}
