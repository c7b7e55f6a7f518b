//! From a change to the parameters of a statement.

use rusqlite::Statement;
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use seriatim::change::Change;
use seriatim::value::{Columns, Row, Value};

/// One statement, and where each of its parameters comes from.
pub(super) struct Prepared<'c> {
    statement: Statement<'c>,
    /// In the order of the statement's parameters.
    parameters: Vec<Parameter>,
}

/// What one parameter stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Parameter {
    Op,
    Id,
    At,
    Column {
        image: Image,
        column: String,
        place: Place,
    },
    /// Nothing that a change has; [`super::SqlEffect::check`] reports it, and it is null.
    Unknown,
}

/// One of the rows that a change carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    Key,
    New,
    Old,
}

/// Where a column stands in rows of the shape seen last: rows of one table mostly share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    shape: Option<Columns>,
    index: Option<usize>,
}

impl Parameter {
    /// What a parameter of this name, with its colon, stands for.
    pub(super) fn named(name: &str) -> Self {
        let image = |prefix, image| {
            let column = name.strip_prefix(prefix)?.to_owned();
            Some(Parameter::Column { image, column, place: Place::default() })
        };
        match name {
            ":op" => Parameter::Op,
            ":id" => Parameter::Id,
            ":at" => Parameter::At,
            _ => image(":key_", Image::Key)
                .or_else(|| image(":new_", Image::New))
                .or_else(|| image(":old_", Image::Old))
                .unwrap_or(Parameter::Unknown),
        }
    }

    /// The value of the parameter; `Err` with a column's name when the change should have it and has not.
    fn value<'v>(&mut self, change: &'v Change, columns: usize) -> Result<ToSqlOutput<'v>, Missing> {
        Ok(match self {
            Parameter::Op => borrowed_text(change.op.as_str()),
            Parameter::Id => id(change.id),
            Parameter::At => ToSqlOutput::Owned(Owned::Text(format!("{:.6}", change.at))),
            Parameter::Column { image, column, place } => match image.of(change) {
                None => null(),
                Some(row) => match place.find(row, column) {
                    Some(value) => exact(value),
                    // From before the column was added.
                    None if *image != Image::Key && row.columns().len() < columns => null(),
                    None => return Err(Missing(column.clone())),
                },
            },
            Parameter::Unknown => null(),
        })
    }
}

/// A column that the SQL names and the table does not have any more.
pub(super) struct Missing(pub String);

/// Why a statement did not run for a change.
pub(super) enum NotRun {
    Missing(Missing),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for NotRun {
    fn from(cause: rusqlite::Error) -> Self {
        NotRun::Sqlite(cause)
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

impl Place {
    fn find<'r>(&mut self, row: &'r Row, column: &str) -> Option<&'r Value> {
        if self.shape.as_ref() != Some(row.columns()) {
            self.index = row.columns().index_of(column);
            self.shape = Some(row.columns().clone());
        }
        self.index.and_then(|index| row.values().get(index))
    }
}

impl<'c> Prepared<'c> {
    pub(super) fn new(statement: Statement<'c>) -> rusqlite::Result<Self> {
        let names = (1..=statement.parameter_count()).map(|index| statement.parameter_name(index));
        let parameters = names.map(|name| name.map_or(Parameter::Unknown, Parameter::named)).collect();
        Ok(Prepared { statement, parameters })
    }

    /// Runs the statement for one change. Rows that it returns are of no interest.
    /// `columns` is how many the table has.
    pub(super) fn run(&mut self, change: &Change, columns: usize) -> Result<(), NotRun> {
        for (index, parameter) in self.parameters.iter_mut().enumerate() {
            let value = parameter.value(change, columns).map_err(NotRun::Missing)?;
            self.statement.raw_bind_parameter(index + 1, value)?;
        }
        let mut rows = self.statement.raw_query();
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Only BEGIN, COMMIT and their like neither write nor return anything.
    pub(super) fn is_about_transactions(&self) -> bool {
        self.statement.readonly() && self.statement.column_count() == 0
    }

    pub(super) fn parameter_names(&self) -> impl Iterator<Item = Option<&str>> {
        (1..=self.parameters.len()).map(|index| self.statement.parameter_name(index))
    }
}

/// The value as SQLite holds it, with every digit.
fn exact(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Null => null(),
        Value::Bool(truth) => ToSqlOutput::Owned(Owned::Integer(i64::from(*truth))),
        Value::Integer(number) => ToSqlOutput::Owned(Owned::Integer(*number)),
        Value::Real(real) => ToSqlOutput::Owned(Owned::Real(*real)),
        Value::Decimal(text) | Value::Text(text) | Value::Json(text) => borrowed_text(text),
        Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        Value::Time(time) => ToSqlOutput::Owned(Owned::Text(time.to_string())),
    }
}

/// SQLite's integers end at half of an id's range; beyond that its digits are exact only as text.
fn id(id: u64) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(i64::try_from(id).map_or_else(|_| Owned::Text(id.to_string()), Owned::Integer))
}

fn null() -> ToSqlOutput<'static> {
    ToSqlOutput::Borrowed(ValueRef::Null)
}

fn borrowed_text(text: &str) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_what_its_name_says() {
        let column = |image, column: &str| Parameter::Column {
            image,
            column: column.to_owned(),
            place: Place::default(),
        };
        assert_eq!(Parameter::named(":op"), Parameter::Op);
        assert_eq!(Parameter::named(":key_id"), column(Image::Key, "id"));
        assert_eq!(Parameter::named(":new_old_price"), column(Image::New, "old_price"));
        assert_eq!(Parameter::named(":old_new_price"), column(Image::Old, "new_price"));
        assert_eq!(Parameter::named(":amount"), Parameter::Unknown);
        assert_eq!(Parameter::named("@op"), Parameter::Unknown);
    }

    #[test]
    fn an_id_beyond_sqlites_integers_keeps_its_digits() {
        assert_eq!(id(7), ToSqlOutput::Owned(Owned::Integer(7)));
        assert_eq!(id(u64::MAX), ToSqlOutput::Owned(Owned::Text("18446744073709551615".to_owned())));
    }
}
