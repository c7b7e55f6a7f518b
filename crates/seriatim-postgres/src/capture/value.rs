//! Values: from the JSON that PostgreSQL makes of a row to what Seriatim knows, without losing a digit.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use seriatim::backend::Packer;
use seriatim::value::{Columns, Value};

use super::json::string;
use super::table::Column;

/// How the values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Integer,
    Real,
    Decimal,
    Bool,
    /// A moment.
    Time,
    /// A date and time without a zone; taken as UTC.
    LocalTime,
    Bytes,
    /// Whatever else is written as a string.
    Text,
    /// A document: json, and what PostgreSQL makes one of (arrays, composites).
    Json,
    /// A column that is not there any more: as its JSON looks.
    Unknown,
}

impl Reading {
    /// How a column of this type is read.
    pub(crate) fn of(column: &Column) -> Self {
        Reading::of_type(column.base, column.sort, column.category)
    }

    /// The same, where the type under its domain, that type's sort and its category are known.
    pub(crate) fn of_type(base: u32, sort: char, category: char) -> Self {
        match base {
            16 => Reading::Bool,
            17 => Reading::Bytes,
            20 | 21 | 23 | 26 => Reading::Integer,
            700 | 701 => Reading::Real,
            1700 => Reading::Decimal,
            1114 => Reading::LocalTime,
            1184 => Reading::Time,
            114 | 3802 => Reading::Json,
            _ if category == 'A' || sort == 'c' => Reading::Json,
            _ => Reading::Text,
        }
    }

    /// Packs the value that this JSON is. What does not look like the type is kept as it looks: the column had another type
    /// when the row was written.
    #[inline]
    pub(crate) fn pack(self, json: &str, packer: &mut Packer) {
        if json == "null" {
            return packer.null();
        }
        match self {
            Reading::Integer => match json.parse().or_else(|_| json.trim_matches('"').parse()) {
                Ok(number) => packer.integer(number),
                Err(_) => as_it_looks(json, packer),
            },
            Reading::Text if json.starts_with('"') && !json.contains('\\') => {
                packer.text(&json[1..json.len() - 1])
            }
            Reading::Json => packer.value(&Value::Json(Arc::from(json))),
            Reading::Unknown => as_it_looks(json, packer),
            _ => match self.value(json) {
                Some(value) => packer.value(&value),
                None => as_it_looks(json, packer),
            },
        }
    }

    fn value(self, json: &str) -> Option<Value> {
        Some(match self {
            Reading::Bool => Value::Bool(json.parse().ok()?),
            Reading::Real => Value::Real(json.trim_matches('"').parse().ok()?),
            Reading::Decimal => Value::Decimal(Arc::from(json.trim_matches('"'))),
            Reading::Time => Value::Time(string(json)?.parse::<Timestamp>().ok()?),
            Reading::LocalTime => {
                let local: DateTime = string(json)?.parse().ok()?;
                Value::Time(TimeZone::UTC.to_timestamp(local).ok()?)
            }
            Reading::Bytes => Value::Bytes(bytes(&string(json)?)?.into()),
            Reading::Text => Value::Text(Arc::from(&*string(json)?)),
            Reading::Integer | Reading::Json | Reading::Unknown => return None,
        })
    }
}

/// A value by its JSON alone.
fn as_it_looks(json: &str, packer: &mut Packer) {
    let value = match json.as_bytes().first() {
        Some(b'"') => Value::Text(Arc::from(&*string(json).unwrap_or_default())),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'{' | b'[') => Value::Json(Arc::from(json)),
        _ => match json.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Decimal(Arc::from(json)),
        },
    };
    packer.value(&value);
}

/// Bytes in either form that a session may have chosen: `\x00ff`, or `\000\377`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let pair = |pair: &[u8]| Some((digit(pair.first()?)? * 16 + digit(pair.get(1)?)?) as u8);
            hex.as_bytes().chunks(2).map(pair).collect()
        }
        None => escaped(text.as_bytes()),
    }
}

fn escaped(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', more @ ..]) => {
                bytes.push(b'\\');
                more
            }
            (b'\\', [a, b, c, more @ ..]) => {
                let octal =
                    std::str::from_utf8(&[*a, *b, *c]).ok().and_then(|text| u8::from_str_radix(text, 8).ok());
                bytes.push(octal?);
                more
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    Some(bytes)
}

/// Packs a value as a key has it: equal values of a type are one key, however they are written.
pub(crate) fn pack_normal(value: &[u8], key: &mut Packer) {
    let mut one = Packer::default();
    one.packed(value);
    let row = one.into_row(Columns::new(["x"]));
    match row.values().first() {
        Some(Value::Decimal(digits)) => key.value(&Value::Decimal(normal_decimal(digits).into())),
        // There are a zero and its negative, which are equal.
        Some(Value::Real(real)) if *real == 0.0 => key.real(0.0),
        _ => key.packed(value),
    }
}

/// A decimal number as a key has it: 1.50 and 1.5 are equal, so they are one key.
fn normal_decimal(digits: &str) -> &str {
    match digits.contains('.') && !digits.contains(['e', 'E']) {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: Reading, json: &str) -> Value {
        let mut packer = Packer::default();
        reading.pack(json, &mut packer);
        packer.into_row(Columns::new(["x"])).values()[0].clone()
    }

    #[test]
    fn values_keep_what_they_are() {
        let text = |text: &str| Value::Text(Arc::from(text));
        assert_eq!(read(Reading::Integer, "-9223372036854775808"), Value::Integer(i64::MIN));
        assert_eq!(read(Reading::Integer, "\"26\""), Value::Integer(26));
        assert_eq!(read(Reading::Decimal, "1.500"), Value::Decimal("1.500".into()));
        assert_eq!(read(Reading::Decimal, "\"NaN\""), Value::Decimal("NaN".into()));
        assert_eq!(read(Reading::Real, "\"-Infinity\""), Value::Real(f64::NEG_INFINITY));
        assert_eq!(read(Reading::Real, "1e-05"), Value::Real(1e-5));
        assert_eq!(read(Reading::Text, r#""a\"\u00e4\n""#), text("a\"ä\n"));
        assert_eq!(read(Reading::Bool, "true"), Value::Bool(true));
        assert_eq!(read(Reading::Text, "null"), Value::Null);
        assert_eq!(read(Reading::Json, r#"{"a": 1}"#), Value::Json(r#"{"a": 1}"#.into()));
        let time = |text: &str| Value::Time(text.parse().unwrap());
        let expected = time("2026-11-15T08:00:00.123456Z");
        assert_eq!(read(Reading::Time, "\"2026-11-15T09:00:00.123456+01:00\""), expected);
        assert_eq!(read(Reading::LocalTime, "\"2026-11-15T08:00:00.123456\""), expected);
        assert_eq!(read(Reading::Time, "\"infinity\""), text("infinity"));
    }

    #[test]
    fn bytes_are_read_in_either_form() {
        let expected = Value::Bytes(Arc::from(*b"\x00\xffa\\"));
        assert_eq!(read(Reading::Bytes, r#""\\x00ff615c""#), expected);
        assert_eq!(read(Reading::Bytes, r#""\\000\\377a\\\\""#), expected);
        assert_eq!(read(Reading::Bytes, r#""\\x""#), Value::Bytes(Arc::from(*b"")));
    }

    #[test]
    fn a_value_of_a_type_that_the_column_no_longer_has_is_kept_as_it_looks() {
        assert_eq!(read(Reading::Integer, "\"x\""), Value::Text("x".into()));
        assert_eq!(read(Reading::Bool, "12"), Value::Integer(12));
        assert_eq!(read(Reading::Unknown, "12.5"), Value::Decimal("12.5".into()));
    }

    #[test]
    fn equal_decimals_are_one_key() {
        for digits in ["1.5", "1.50", "1.500"] {
            assert_eq!(normal_decimal(digits), "1.5");
        }
        assert_eq!(normal_decimal("100"), "100");
        assert_eq!(normal_decimal("0.00"), "0");
    }
}
