//! Moments as tables keep them: times of PostgreSQL's own, whole numbers since 1970, or text whose order is the order of time.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::{Offset, TimeZone};
use seriatim::backend::rows;
pub use seriatim::backend::rows::{NoMoment, Unit};
use tokio_postgres::types::{FromSql, Type};

const PRINTER: DateTimePrinter = DateTimePrinter::new();

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
            Kind::Number(unit) => unit.tick(),
            Kind::Text => rows::TICK_OF_TEXTS,
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
            Kind::Text => rows::of_text(raw.as_bytes()),
        }
    }

    /// Writes the value of a column of times, as positions have it.
    pub(super) fn write(self, at: Timestamp, text: &mut String) {
        let written = match self {
            Kind::Date => PRINTER.print_date(&Offset::UTC.to_datetime(at).date(), text),
            _ => PRINTER.print_timestamp(&at, text),
        };
        written.expect("a text takes all that is written to it");
    }

    /// The least value that a column may have at or after the moment. `separator` is what its texts have between date and time.
    pub(super) fn least(self, at: Timestamp, separator: u8) -> String {
        match self {
            // No column has a finer tick.
            Kind::Time { .. } => written_up(at),
            Kind::Date => {
                let time = Offset::UTC.to_datetime(at);
                let midnight = time.time() == Default::default();
                let date = if midnight { time.date() } else { time.date().tomorrow().unwrap_or(Date::MAX) };
                date.to_string()
            }
            Kind::Number(unit) => unit.least(at).to_string(),
            Kind::Text => rows::least_text(at, Some(separator)),
        }
    }
}

/// The first moment that can be written in all forms.
pub(super) const EARLIEST: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// A moment, rounded up to the microsecond.
fn written_up(at: Timestamp) -> String {
    let up = (at.as_nanosecond() + 999).div_euclid(1000) * 1000;
    Timestamp::from_nanosecond(up).unwrap_or(Timestamp::MAX).to_string()
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
        assert_eq!(Kind::Text.moment("2026-11-15 08:00:09"), Ok(whole));
        assert_eq!(TIME.moment("2026-11-15T08:00:09Z"), Ok(whole));
        assert_eq!(Kind::Date.moment("2026-11-15"), Ok(at("2026-11-15T00:00:00Z")));
        assert_eq!(Kind::Number(Unit::Seconds).moment("1794729609"), Ok(whole));
        assert_eq!(Kind::Number(Unit::Milliseconds).moment("1794729609000"), Ok(whole));
        assert_eq!(Kind::Number(Unit::Microseconds).moment("1794729609000000"), Ok(whole));
    }

    #[test]
    fn what_is_no_moment_says_why() {
        assert_eq!(Kind::Text.moment("2026-11-15T08:00:09+02:00"), Err(NoMoment::Offset));
        assert_eq!(Kind::Text.moment("soon"), Err(NoMoment::Nothing));
        let most = i64::MAX.to_string();
        assert_eq!(Kind::Number(Unit::Seconds).moment(&most), Err(NoMoment::OutOfRange));
        assert_eq!(TIME.moment("infinity"), Err(NoMoment::OutOfRange));
        assert_eq!(Micros(i64::MAX).timestamp(), None);
        assert_eq!(Micros(i64::MIN).timestamp(), None);
    }

    #[test]
    fn a_moment_reads_back_as_itself() {
        for (kind, form) in [
            (TIME, "2026-11-15T08:00:09.000001Z"),
            (TIME, "2026-11-15T08:00:09.25Z"),
            (TIME, "2026-11-15T08:00:09Z"),
            (Kind::Date, "2026-11-15"),
        ] {
            let mut text = String::new();
            kind.write(kind.moment(form).unwrap(), &mut text);
            assert_eq!(text, form);
        }
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
        assert_eq!(Kind::Number(Unit::Seconds).least(half, b' '), "1794729610");
        assert_eq!(Kind::Number(Unit::Milliseconds).least(half, b' '), "1794729609500");
        assert_eq!(Kind::Text.least(half, b'T'), "2026-11-15T08:00:09");
        assert_eq!(TIME.least(half, b' '), "2026-11-15T08:00:09.5Z");
        assert_eq!(TIME.least(at("2026-11-15T08:00:09.0000001Z"), b' '), "2026-11-15T08:00:09.000001Z");
        assert_eq!(Kind::Date.least(half, b' '), "2026-11-16");
        assert_eq!(Kind::Date.least(at("2026-11-15T00:00:00Z"), b' '), "2026-11-15");
    }
}
