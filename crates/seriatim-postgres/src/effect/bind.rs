//! From a change to the parameters of a statement.
//!
//! Values travel as text, which the server reads as the type that it found for the parameter: any type it has, also those
//! that are none of ours (enums, ranges, uuid, domains), arrives as if it were written into the statement.

use std::error::Error;

use bytes::BytesMut;
use seriatim::backend::{Bound, Missing, Parameter};
use seriatim::change::Change;
use seriatim::value::Value;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

use super::nested;

/// What a parameter of this type is for a change.
pub(super) fn text(
    parameter: &mut Parameter,
    change: &Change,
    columns: usize,
    of: &Type,
) -> Result<Text, Missing> {
    Ok(match parameter.bound(change, columns)? {
        Bound::Op(op) => Text::from(op.as_str()),
        Bound::Id(id) => Text(Some(id.to_string())),
        Bound::At(at) => Text(Some(format!("{at:.6}"))),
        Bound::Value(value) => exact(value, of),
        Bound::Null => Text(None),
    })
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
        Value::Json(json) => {
            nested::literal(json, of).map_or_else(|| Text::from(json), |text| Text(Some(text)))
        }
        Value::Decimal(text) | Value::Text(text) => Text::from(text),
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
