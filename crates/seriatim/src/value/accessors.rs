//! A value as a type of Rust.

use jiff::Timestamp;

use super::Value;

impl Value {
    /// Whether it is SQL's NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The truth value, if it is one. SQLite has none: there it is a number.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The whole number, if it is one that 64 bits hold: an integer, or a decimal without a fraction.
    ///
    /// ```
    /// use seriatim::Value;
    ///
    /// assert_eq!(Value::Integer(7).as_i64(), Some(7));
    /// assert_eq!(Value::Decimal("12.00".into()).as_i64(), Some(12));
    /// assert_eq!(Value::Decimal("12.50".into()).as_i64(), None);
    /// assert_eq!(Value::Text("7".into()).as_i64(), None);
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Decimal(digits) => {
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                whole.parse().ok().filter(|_| fraction.bytes().all(|digit| digit == b'0'))
            }
            _ => None,
        }
    }

    /// The number as floating point, if it is one; digits beyond its precision are rounded.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Real(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            Value::Decimal(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// The text, if it is one; of a decimal its digits, and of a JSON document its text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Decimal(text) | Value::Json(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, if it is bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The moment, if it is one.
    pub fn as_timestamp(&self) -> Option<Timestamp> {
        match self {
            Value::Time(time) => Some(*time),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_it_is_and_nothing_else() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Integer(-1),
            Value::Real(0.5),
            Value::Text("tea".into()),
            Value::Bytes(b"tea"[..].into()),
            Value::Time(Timestamp::UNIX_EPOCH),
        ];
        let count = |is: fn(&Value) -> bool| values.iter().filter(|value| is(value)).count();
        assert_eq!(count(Value::is_null), 1);
        assert_eq!(count(|value| value.as_bool().is_some()), 1);
        assert_eq!(count(|value| value.as_i64().is_some()), 1);
        assert_eq!(count(|value| value.as_f64().is_some()), 2);
        assert_eq!(count(|value| value.as_str().is_some()), 1);
        assert_eq!(count(|value| value.as_bytes().is_some()), 1);
        assert_eq!(count(|value| value.as_timestamp().is_some()), 1);
    }

    #[test]
    fn a_decimal_is_a_whole_number_where_nothing_is_lost() {
        let of = |digits: &str| Value::Decimal(digits.into()).as_i64();
        assert_eq!(
            (of("-12"), of("9223372036854775807.0"), of("0.00")),
            (Some(-12), Some(i64::MAX), Some(0))
        );
        assert_eq!((of("9223372036854775808"), of("0.01"), of("NaN"), of("1e3")), (None, None, None, None));
        assert_eq!(Value::Decimal("1e3".into()).as_f64(), Some(1000.0));
    }
}
