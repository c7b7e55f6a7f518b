//! What the named parameters of a user's SQL stand for: `:op`, `:id`, `:at`, `:key_…`, `:new_…`, `:old_…`.

use jiff::Timestamp;

use crate::change::{Change, Op};
use crate::value::{Columns, Row, Value};

/// What one parameter stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// What happened.
    Op,
    /// The change's number.
    Id,
    /// When it happened.
    At,
    /// A column of one of the rows that a change carries.
    Column(Column),
    /// Nothing that a change has: whoever checks the SQL reports it, and it is null.
    Unknown,
}

/// A column of one of the rows that a change carries, and where it is in rows of the shape seen last: rows of one table mostly
/// share it.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    image: Image,
    name: String,
    shape: Option<Columns>,
    index: Option<usize>,
}

/// One of the rows that a change carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    Key,
    New,
    Old,
}

/// What a parameter is for a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound<'v> {
    /// What happened.
    Op(Op),
    /// The change's number.
    Id(u64),
    /// When it happened.
    At(Timestamp),
    /// A value of a row.
    Value(&'v Value),
    /// Nothing.
    Null,
}

/// A column that the SQL names and the table does not have any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl Parameter {
    /// What a parameter of this name, with its colon, stands for.
    pub fn named(name: &str) -> Self {
        let column = |prefix, image| {
            let name = name.strip_prefix(prefix)?.to_owned();
            Some(Parameter::Column(Column { image, name, shape: None, index: None }))
        };
        match name {
            ":op" => Parameter::Op,
            ":id" => Parameter::Id,
            ":at" => Parameter::At,
            _ => column(":key_", Image::Key)
                .or_else(|| column(":new_", Image::New))
                .or_else(|| column(":old_", Image::Old))
                .unwrap_or(Parameter::Unknown),
        }
    }

    /// What the parameter is for a change; `Err` with a column's name when the change should have it and has not.
    /// `columns` is how many the table has.
    pub fn bound<'v>(&mut self, change: &'v Change, columns: usize) -> Result<Bound<'v>, Missing> {
        match self {
            Parameter::Op => Ok(Bound::Op(change.op)),
            Parameter::Id => Ok(Bound::Id(change.id)),
            Parameter::At => Ok(Bound::At(change.at)),
            Parameter::Column(column) => column.bound(change, columns),
            Parameter::Unknown => Ok(Bound::Null),
        }
    }
}

impl Column {
    fn bound<'v>(&mut self, change: &'v Change, columns: usize) -> Result<Bound<'v>, Missing> {
        let Some(row) = self.image.of(change) else {
            // An update has a row before it, also where the source's log does not carry it: that is not null.
            return match (self.image, change.op) {
                (Image::Old, Op::Update) => Err(Missing(self.name.clone())),
                _ => Ok(Bound::Null),
            };
        };
        match self.find(row) {
            Some(value) => Ok(Bound::Value(value)),
            None if row.columns().unknown().any(|unknown| unknown == self.name) => {
                Err(Missing(self.name.clone()))
            }
            // From before the column was added.
            None if self.image != Image::Key && row.columns().len() < columns => Ok(Bound::Null),
            None => Err(Missing(self.name.clone())),
        }
    }

    fn find<'r>(&mut self, row: &'r Row) -> Option<&'r Value> {
        if self.shape.as_ref() != Some(row.columns()) {
            self.index = row.columns().index_of(&self.name);
            self.shape = Some(row.columns().clone());
        }
        self.index.and_then(|index| row.values().get(index))
    }
}

impl Image {
    fn of(self, change: &Change) -> Option<&Row> {
        match self {
            Image::Key => change.key.as_ref().map(|key| key.row()),
            Image::New => change.after.as_ref(),
            Image::Old => change.before.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_what_its_name_says() {
        let column = |image, name: &str| {
            Parameter::Column(Column { image, name: name.to_owned(), shape: None, index: None })
        };
        assert_eq!(Parameter::named(":op"), Parameter::Op);
        assert_eq!(Parameter::named(":key_id"), column(Image::Key, "id"));
        assert_eq!(Parameter::named(":new_old_price"), column(Image::New, "old_price"));
        assert_eq!(Parameter::named(":old_new_price"), column(Image::Old, "new_price"));
        for unknown in [":amount", "@op", "$1"] {
            assert_eq!(Parameter::named(unknown), Parameter::Unknown);
        }
    }
}
