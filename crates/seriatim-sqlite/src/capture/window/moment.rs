//! Moments as tables keep them: whole numbers since 1970, or text whose order is the order of time.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use rusqlite::types::ValueRef;

use super::super::value::Exact;

/// What the whole numbers of a time column count since the beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

impl Unit {
    fn per_second(self) -> i64 {
        match self {
            Unit::Seconds => 1,
            Unit::Milliseconds => 1_000,
            Unit::Microseconds => 1_000_000,
        }
    }

    fn moment(self, number: i64) -> Option<Timestamp> {
        let moment = match self {
            Unit::Seconds => Timestamp::from_second(number),
            Unit::Milliseconds => Timestamp::from_millisecond(number),
            Unit::Microseconds => Timestamp::from_microsecond(number),
        };
        moment.ok()
    }
}

/// Why a value is not a moment that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMoment {
    /// A number, and nobody said what it counts.
    NoUnit,
    /// A number that no calendar has.
    OutOfRange,
    /// A text, where numbers were announced.
    TextForNumber,
    /// A text with an offset from UTC: its order is not that of time.
    Offset,
    /// Nothing of that kind.
    Nothing,
}

/// The moment that a stored value means.
pub(super) fn moment(stored: ValueRef<'_>, unit: Option<Unit>) -> Result<Timestamp, NoMoment> {
    match (stored, unit) {
        (ValueRef::Integer(number), Some(unit)) => unit.moment(number).ok_or(NoMoment::OutOfRange),
        (ValueRef::Integer(_), None) => Err(NoMoment::NoUnit),
        (ValueRef::Text(_), Some(_)) => Err(NoMoment::TextForNumber),
        (ValueRef::Text(text), None) => of_text(text),
        _ => Err(NoMoment::Nothing),
    }
}

/// The finest tick that the column's clock may have: everything within one may still carry the same moment.
pub(super) fn resolution(unit: Option<Unit>) -> Duration {
    match unit {
        // Text is often written to the second; whether it always has more digits, nobody knows.
        None => Duration::from_secs(1),
        Some(unit) => Duration::from_secs(1) / unit.per_second() as u32,
    }
}

/// The letter between date and time, which decides the order of texts of one day.
pub(super) fn separator(text: &[u8]) -> Option<u8> {
    text.get(10).copied()
}

/// The least value that a column may have at or after the moment. Without a separator, the day's first.
pub(super) fn least(at: Timestamp, unit: Option<Unit>, separator: Option<u8>) -> Exact {
    match unit {
        Some(unit) => {
            let tick = 1_000_000_000 / i128::from(unit.per_second());
            let ticks = (at.as_nanosecond() + tick - 1).div_euclid(tick);
            Exact::Integer(i64::try_from(ticks).unwrap_or(i64::MAX))
        }
        None => {
            let time = Offset::UTC.to_datetime(at);
            let date = time.date().to_string();
            let text = match separator {
                None => date,
                Some(between) => format!("{date}{}{}", between as char, time.strftime("%H:%M:%S")),
            };
            Exact::Text(text.into_bytes())
        }
    }
}

/// `YYYY-MM-DD HH:MM:SS[.fff…]`, also with a `T`, also with a `Z` or `+00:00`.
fn of_text(text: &[u8]) -> Result<Timestamp, NoMoment> {
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let between = |place: usize, letter: u8| text.get(place) == Some(&letter);
    let shaped = between(4, b'-') && between(7, b'-') && between(13, b':') && between(16, b':');
    if !shaped || !matches!(separator(text), Some(b' ' | b'T')) {
        return Err(NoMoment::Nothing);
    }
    let (nanosecond, rest) = fraction(&text[19.min(text.len())..]);
    match rest {
        b"" | b"Z" | b"z" | b"+00:00" | b"+00" | b"-00:00" => {}
        [b'+' | b'-', offset @ ..] if offset.iter().all(|c| c.is_ascii_digit() || *c == b':') => {
            return Err(NoMoment::Offset);
        }
        _ => return Err(NoMoment::Nothing),
    }
    let parts = || {
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        // A leap second is the last moment of its minute here.
        let (year, second) = (year as i16, second.min(59) as i8);
        DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second, nanosecond).ok()
    };
    let time = parts().ok_or(NoMoment::Nothing)?;
    Offset::UTC.to_timestamp(time).map_err(|_| NoMoment::OutOfRange)
}

fn digits(text: &[u8]) -> Option<u32> {
    let digit = |number: u32, c: &u8| c.is_ascii_digit().then(|| number * 10 + u32::from(c - b'0'));
    text.iter().try_fold(0, digit)
}

/// The nanoseconds after a point, and what comes behind them.
fn fraction(text: &[u8]) -> (i32, &[u8]) {
    let Some(text) = text.strip_prefix(b".") else { return (0, text) };
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let place = |index: usize| text[..end].get(index).map_or(0, |c| i32::from(c - b'0'));
    ((0..9).fold(0, |number, index| number * 10 + place(index)), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, NoMoment> {
        moment(ValueRef::Text(text.as_bytes()), None).map(|at| at.to_string())
    }

    #[test]
    fn every_form_of_a_moment_is_read() {
        let whole = Ok("2026-11-15T08:00:09Z".to_owned());
        for form in [
            "2026-11-15 08:00:09",
            "2026-11-15T08:00:09",
            "2026-11-15T08:00:09Z",
            "2026-11-15T08:00:09+00:00",
            "2026-11-15 08:00:09.000",
        ] {
            assert_eq!(text(form), whole, "{form}");
        }
        assert_eq!(text("2026-11-15 08:00:09.25"), Ok("2026-11-15T08:00:09.25Z".to_owned()));
        assert_eq!(text("2026-11-15T08:00:09.1234567891Z"), Ok("2026-11-15T08:00:09.123456789Z".to_owned()));
        for (number, unit) in [
            (1_794_729_609, Unit::Seconds),
            (1_794_729_609_000, Unit::Milliseconds),
            (1_794_729_609_000_000, Unit::Microseconds),
        ] {
            let read = moment(ValueRef::Integer(number), Some(unit)).map(|at| at.to_string());
            assert_eq!(read, Ok("2026-11-15T08:00:09Z".to_owned()), "{unit:?}");
        }
    }

    #[test]
    fn what_is_no_moment_says_why() {
        assert_eq!(text("2026-11-15T08:00:09+02:00"), Err(NoMoment::Offset));
        for nothing in [
            "",
            "soon",
            "2026-11-15",
            "2026-13-15 08:00:00",
            "2026-11-15 08:00",
            "2026-11-15_08:00:00",
            "2026-11-15 08:00:00 pm",
        ] {
            assert_eq!(text(nothing), Err(NoMoment::Nothing), "{nothing}");
        }
        assert_eq!(moment(ValueRef::Integer(1), None), Err(NoMoment::NoUnit));
        assert_eq!(moment(ValueRef::Integer(i64::MAX), Some(Unit::Seconds)), Err(NoMoment::OutOfRange));
        assert_eq!(
            moment(ValueRef::Text(b"2026-11-15 08:00:00"), Some(Unit::Seconds)),
            Err(NoMoment::TextForNumber)
        );
        assert_eq!(moment(ValueRef::Real(1.5), Some(Unit::Seconds)), Err(NoMoment::Nothing));
    }

    #[test]
    fn the_least_value_of_a_moment_sorts_before_all_its_forms() {
        let at: Timestamp = "2026-11-15T08:00:09.5Z".parse().unwrap();
        assert_eq!(least(at, Some(Unit::Seconds), None), Exact::Integer(1_794_729_610));
        assert_eq!(least(at, Some(Unit::Milliseconds), None), Exact::Integer(1_794_729_609_500));
        assert_eq!(least(at, None, None), Exact::Text("2026-11-15".into()));
        assert_eq!(least(at, None, Some(b'T')), Exact::Text("2026-11-15T08:00:09".into()));
        assert_eq!(least(at, None, Some(b' ')), Exact::Text("2026-11-15 08:00:09".into()));
    }
}
