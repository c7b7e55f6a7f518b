//! From a change to the parameters of a statement.

use rusqlite::Statement;
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use seriatim::backend::{Bound, Missing, Parameter};
use seriatim::change::Change;
use seriatim::value::Value;

/// One statement, and where each of its parameters comes from.
pub(super) struct Prepared<'c> {
    statement: Statement<'c>,
    /// In the order of the statement's parameters.
    parameters: Vec<Parameter>,
}

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
            let bound = parameter.bound(change, columns).map_err(NotRun::Missing)?;
            self.statement.raw_bind_parameter(index + 1, value(&bound))?;
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

/// What a parameter is, as SQLite holds it.
fn value<'v>(bound: &Bound<'v>) -> ToSqlOutput<'v> {
    match bound {
        Bound::Op(op) => borrowed_text(op.as_str()),
        Bound::Id(number) => id(*number),
        Bound::At(at) => ToSqlOutput::Owned(Owned::Text(format!("{at:.6}"))),
        Bound::Value(value) => exact(value),
        Bound::Null => null(),
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
    fn an_id_beyond_sqlites_integers_keeps_its_digits() {
        assert_eq!(id(7), ToSqlOutput::Owned(Owned::Integer(7)));
        assert_eq!(id(u64::MAX), ToSqlOutput::Owned(Owned::Text("18446744073709551615".to_owned())));
    }
}
