//! Moments as tables keep them: times of PostgreSQL's own, whole numbers since 1970, or text whose order is the order of time.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use tokio_postgres::types::{FromSql, Type};

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
    fn per_second(self) -> u32 {
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

/// What a time column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `timestamptz`, or `timestamp`, which is taken to be in UTC: rounded to so many digits of a second.
    Time { digits: u32 },
    /// `date`, in UTC.
    Date,
    /// Whole numbers.
    Number(Unit),
    /// Text in UTC; the letter between its date and its time is not known here.
    Text,
}

/// Why a column cannot have moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKind {
    /// Whole numbers, and nobody said what they count.
    NoUnit,
    /// No whole numbers, and somebody said what they count.
    NotANumber,
    /// Another type.
    OtherType,
}

/// Why a value is not a moment that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMoment {
    /// One that no calendar has.
    OutOfRange,
    /// A text with an offset from UTC: its order is not that of time.
    Offset,
    /// Nothing of that kind.
    Nothing,
}

impl Kind {
    /// The kind of a column of this type and modifier.
    pub(super) fn of(of: &Type, modifier: i32, unit: Option<Unit>) -> Result<Self, NoKind> {
        let kind = match *of {
            Type::TIMESTAMPTZ | Type::TIMESTAMP => {
                Kind::Time { digits: u32::try_from(modifier).unwrap_or(6).min(6) }
            }
            Type::DATE => Kind::Date,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR => Kind::Text,
            Type::INT2 | Type::INT4 | Type::INT8 => {
                return unit.map(Kind::Number).ok_or(NoKind::NoUnit);
            }
            _ => return Err(NoKind::OtherType),
        };
        if unit.is_some() { Err(NoKind::NotANumber) } else { Ok(kind) }
    }

    /// The tick of the column's clock: everything within one may still carry the same moment.
    pub(super) fn tick(self) -> Duration {
        match self {
            Kind::Time { digits } => Duration::from_secs(1) / 10_u32.pow(digits),
            Kind::Date => Duration::from_secs(24 * 3600),
            Kind::Number(unit) => Duration::from_secs(1) / unit.per_second(),
            // Text is often written to the second; whether it always has more digits, nobody knows.
            Kind::Text => Duration::from_secs(1),
        }
    }

    /// The moment that a stored value means, written as positions have it.
    pub(super) fn moment(self, raw: &str) -> Result<Timestamp, NoMoment> {
        match self {
            Kind::Time { .. } => raw.parse().map_err(|_| NoMoment::OutOfRange),
            Kind::Date => {
                let date: Date = raw.parse().map_err(|_| NoMoment::OutOfRange)?;
                TimeZone::UTC
                    .to_timestamp(date.to_datetime(Default::default()))
                    .map_err(|_| NoMoment::OutOfRange)
            }
            Kind::Number(unit) => {
                raw.parse().ok().and_then(|number| unit.moment(number)).ok_or(NoMoment::OutOfRange)
            }
            Kind::Text => of_text(raw.as_bytes()),
        }
    }

    /// The value of a column of times, as positions have it.
    pub(super) fn written(self, at: Timestamp) -> String {
        match self {
            Kind::Date => Offset::UTC.to_datetime(at).date().to_string(),
            _ => at.to_string(),
        }
    }

    /// The least value that a column may have at or after the moment. `separator` is what its texts have between date and time.
    pub(super) fn least(self, at: Timestamp, separator: char) -> String {
        match self {
            // No column has a finer tick.
            Kind::Time { .. } => written_up(at),
            Kind::Date => {
                let time = Offset::UTC.to_datetime(at);
                let midnight = time.time() == Default::default();
                let date = if midnight { time.date() } else { time.date().tomorrow().unwrap_or(Date::MAX) };
                date.to_string()
            }
            Kind::Number(unit) => {
                let tick = 1_000_000_000 / i128::from(unit.per_second());
                let ticks = (at.as_nanosecond() + tick - 1).div_euclid(tick);
                i64::try_from(ticks).unwrap_or(i64::MAX).to_string()
            }
            Kind::Text => {
                let time = Offset::UTC.to_datetime(at);
                format!("{}{separator}{}", time.date(), time.strftime("%H:%M:%S"))
            }
        }
    }

    /// Whether its values are read as times.
    pub(super) fn is_of_calendar(self) -> bool {
        matches!(self, Kind::Time { .. } | Kind::Date)
    }
}

/// The first moment that can be written in all forms.
pub(super) const EARLIEST: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// A moment, rounded up to the microsecond.
fn written_up(at: Timestamp) -> String {
    let up = (at.as_nanosecond() + 999).div_euclid(1000) * 1000;
    Timestamp::from_nanosecond(up).unwrap_or(Timestamp::MAX).to_string()
}

/// The letter between date and time of a text.
pub(super) fn separator(text: &str) -> Option<char> {
    text.as_bytes().get(10).map(|letter| char::from(*letter))
}

/// A time of PostgreSQL's: microseconds since 1970. `infinity` is beyond all calendars, and so is what no calendar here has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Micros(i64);

/// PostgreSQL counts from the beginning of 2000.
const SINCE_2000: i64 = 946_684_800_000_000;

impl Micros {
    pub(super) fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0).ok().filter(|at| *at >= EARLIEST)
    }

    /// One that no calendar here has, in words.
    pub(super) fn beyond(self) -> String {
        match self.0 {
            i64::MAX => "infinity".to_owned(),
            number if number < i64::MIN + 2 * SINCE_2000 => "-infinity".to_owned(),
            number => format!("{number} microseconds since 1970"),
        }
    }
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let since_2000 = match *of {
            Type::DATE => i64::from(i32::from_be_bytes(raw.try_into()?)).saturating_mul(86_400_000_000),
            _ => i64::from_be_bytes(raw.try_into()?),
        };
        Ok(Micros(since_2000.saturating_add(SINCE_2000)))
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::TIMESTAMPTZ | Type::TIMESTAMP | Type::DATE)
    }
}

/// `YYYY-MM-DD HH:MM:SS[.fff…]`, also with a `T`, also with a `Z` or `+00:00`.
fn of_text(text: &[u8]) -> Result<Timestamp, NoMoment> {
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let between = |place: usize, letter: u8| text.get(place) == Some(&letter);
    let shaped = between(4, b'-') && between(7, b'-') && between(13, b':') && between(16, b':');
    if !shaped || !(between(10, b' ') || between(10, b'T')) {
        return Err(NoMoment::Nothing);
    }
    let (nanosecond, rest) = fraction(text.get(19..).unwrap_or_default());
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

    const TIME: Kind = Kind::Time { digits: 6 };

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_of_a_moment_is_read() {
        let whole = at("2026-11-15T08:00:09Z");
        for form in [
            "2026-11-15 08:00:09",
            "2026-11-15T08:00:09",
            "2026-11-15T08:00:09Z",
            "2026-11-15T08:00:09+00:00",
            "2026-11-15 08:00:09.000",
        ] {
            assert_eq!(Kind::Text.moment(form), Ok(whole), "{form}");
        }
        assert_eq!(TIME.moment("2026-11-15T08:00:09Z"), Ok(whole));
        assert_eq!(Kind::Date.moment("2026-11-15"), Ok(at("2026-11-15T00:00:00Z")));
        assert_eq!(Kind::Number(Unit::Seconds).moment("1794729609"), Ok(whole));
        assert_eq!(Kind::Number(Unit::Milliseconds).moment("1794729609000"), Ok(whole));
        assert_eq!(Kind::Number(Unit::Microseconds).moment("1794729609000000"), Ok(whole));
    }

    #[test]
    fn what_is_no_moment_says_why() {
        assert_eq!(Kind::Text.moment("2026-11-15T08:00:09+02:00"), Err(NoMoment::Offset));
        for nothing in ["", "soon", "2026-11-15", "2026-13-15 08:00:00", "2026-11-15_08:00:00"] {
            assert_eq!(Kind::Text.moment(nothing), Err(NoMoment::Nothing), "{nothing}");
        }
        let most = i64::MAX.to_string();
        assert_eq!(Kind::Number(Unit::Seconds).moment(&most), Err(NoMoment::OutOfRange));
        assert_eq!(TIME.moment("infinity"), Err(NoMoment::OutOfRange));
        assert_eq!(Micros(i64::MAX).timestamp(), None);
        assert_eq!(Micros(i64::MIN).timestamp(), None);
    }

    #[test]
    fn the_type_says_what_a_column_is() {
        assert_eq!(Kind::of(&Type::TIMESTAMPTZ, -1, None), Ok(TIME));
        assert_eq!(Kind::of(&Type::TIMESTAMP, 0, None), Ok(Kind::Time { digits: 0 }));
        assert_eq!(Kind::of(&Type::INT8, -1, None), Err(NoKind::NoUnit));
        assert_eq!(Kind::of(&Type::TEXT, -1, Some(Unit::Seconds)), Err(NoKind::NotANumber));
        assert_eq!(Kind::of(&Type::FLOAT8, -1, Some(Unit::Seconds)), Err(NoKind::OtherType));
        assert_eq!(Kind::Time { digits: 0 }.tick(), Duration::from_secs(1));
        assert_eq!(TIME.tick(), Duration::from_micros(1));
    }

    #[test]
    fn the_least_value_of_a_moment_sorts_before_all_its_forms() {
        let half = at("2026-11-15T08:00:09.5Z");
        assert_eq!(Kind::Number(Unit::Seconds).least(half, ' '), "1794729610");
        assert_eq!(Kind::Number(Unit::Milliseconds).least(half, ' '), "1794729609500");
        assert_eq!(Kind::Text.least(half, 'T'), "2026-11-15T08:00:09");
        assert_eq!(TIME.least(half, ' '), "2026-11-15T08:00:09.5Z");
        assert_eq!(TIME.least(at("2026-11-15T08:00:09.0000001Z"), ' '), "2026-11-15T08:00:09.000001Z");
        assert_eq!(Kind::Date.least(half, ' '), "2026-11-16");
        assert_eq!(Kind::Date.least(at("2026-11-15T00:00:00Z"), ' '), "2026-11-15");
    }
}
