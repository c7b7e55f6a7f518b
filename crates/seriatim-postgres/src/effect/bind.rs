//! From a change to the parameters of a statement.
//!
//! Values travel as text, which the server reads as the type that it found for the parameter: any type it has, also those
//! that are none of ours (enums, ranges, uuid, domains), arrives as if it were written into the statement.

use std::error::Error;

use bytes::BytesMut;
use seriatim::change::Change;
use seriatim::value::{Columns, Row, Value};
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

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

/// A column that the SQL names and the table does not have any more.
#[derive(Debug)]
pub(super) struct Missing(pub(super) String);

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
    /// `columns` is how many the table has.
    pub(super) fn value(&mut self, change: &Change, columns: usize, of: &Type) -> Result<Text, Missing> {
        Ok(match self {
            Parameter::Op => Text::from(change.op.as_str()),
            Parameter::Id => Text(Some(change.id.to_string())),
            Parameter::At => Text(Some(format!("{:.6}", change.at))),
            Parameter::Column { image, column, place } => match image.of(change) {
                None => Text(None),
                Some(row) => match place.find(row, column) {
                    Some(value) => exact(value, of),
                    // From before the column was added.
                    None if *image != Image::Key && row.columns().len() < columns => Text(None),
                    None => return Err(Missing(column.clone())),
                },
            },
            Parameter::Unknown => Text(None),
        })
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

/// The value as PostgreSQL reads it, with every digit. Sources of another kind have no truth values or whole numbers of their own:
/// what is one in the statement's eyes is written as one.
fn exact(value: &Value, of: &Type) -> Text {
    let is_whole = [Type::INT2, Type::INT4, Type::INT8].contains(of);
    match value {
        Value::Null => Text(None),
        Value::Bool(truth) if is_whole => Text(Some(u8::from(*truth).to_string())),
        Value::Bool(truth) => Text(Some(truth.to_string())),
        Value::Integer(number @ 0..=1) if *of == Type::BOOL => Text(Some((*number == 1).to_string())),
        Value::Integer(number) => Text(Some(number.to_string())),
        Value::Real(real) if is_whole && real.fract() == 0.0 && real.abs() < 9e18 => {
            Text(Some((*real as i64).to_string()))
        }
        Value::Real(real) => Text(Some(real_text(*real))),
        Value::Decimal(text) | Value::Text(text) | Value::Json(text) => Text::from(text),
        Value::Bytes(bytes) => Text(Some(hex(bytes))),
        Value::Time(time) => Text(Some(time.to_string())),
    }
}

fn real_text(real: f64) -> String {
    match real {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        // The shortest digits that mean this very number.
        real => format!("{real:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
    }
    text
}

/// A parameter in PostgreSQL's text format, or null.
#[derive(Debug, PartialEq)]
pub(super) struct Text(pub(super) Option<String>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(Some(text.to_owned()))
    }
}

impl From<&std::sync::Arc<str>> for Text {
    fn from(text: &std::sync::Arc<str>) -> Self {
        Text(Some(text.to_string()))
    }
}

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    fn to_sql_checked(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(of, out)
    }
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
        assert_eq!(Parameter::named("$1"), Parameter::Unknown);
    }

    #[test]
    fn values_are_written_as_their_type_reads_them() {
        let text = |value: Value, of: Type| exact(&value, &of).0.unwrap();
        assert_eq!(text(Value::Bool(true), Type::BOOL), "true");
        assert_eq!(text(Value::Bool(true), Type::INT4), "1");
        assert_eq!(text(Value::Integer(1), Type::BOOL), "true");
        assert_eq!(text(Value::Real(2.0), Type::INT8), "2");
        assert_eq!(text(Value::Real(0.1), Type::FLOAT8), "0.1");
        assert_eq!(text(Value::Real(1e300), Type::FLOAT8), "1e300");
        assert_eq!(text(Value::Real(f64::NAN), Type::FLOAT8), "NaN");
        assert_eq!(text(Value::Real(f64::NEG_INFINITY), Type::NUMERIC), "-Infinity");
        assert_eq!(text(Value::Bytes([0, 0xff].into()), Type::BYTEA), "\\x00ff");
        assert_eq!(exact(&Value::Null, &Type::INT4), Text(None));
    }
}
