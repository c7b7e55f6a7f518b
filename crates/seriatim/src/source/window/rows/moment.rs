//! Moments as columns keep them: whole numbers since 1970, or text whose order is the order of time.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

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

    /// What it counts: everything within one may carry the same moment.
    pub fn tick(self) -> Duration {
        Duration::from_secs(1) / self.per_second()
    }

    /// The moment that a number means; `None` when no calendar has it.
    pub fn moment(self, number: i64) -> Option<Timestamp> {
        let moment = match self {
            Unit::Seconds => Timestamp::from_second(number),
            Unit::Milliseconds => Timestamp::from_millisecond(number),
            Unit::Microseconds => Timestamp::from_microsecond(number),
        };
        moment.ok()
    }

    /// The least number at or after the moment.
    pub fn least(self, at: Timestamp) -> i64 {
        let tick = 1_000_000_000 / i128::from(self.per_second());
        let ticks = (at.as_nanosecond() + tick - 1).div_euclid(tick);
        i64::try_from(ticks).unwrap_or(i64::MAX)
    }
}

/// Why a value is not a moment that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMoment {
    /// One that no calendar has.
    OutOfRange,
    /// A text with an offset from UTC: its order is not that of time.
    Offset,
    /// Nothing of that kind.
    Nothing,
}

/// The tick of texts: they are often written to the second; whether they always have more digits, nobody knows.
pub const TICK_OF_TEXTS: Duration = Duration::from_secs(1);

/// The letter between date and time of a text, which decides the order of texts of one day.
pub fn separator(text: &[u8]) -> Option<u8> {
    text.get(10).copied()
}

/// Where texts of the other form are that sort before a text of the same day and may yet be written: the first of them, and
/// the first behind them. `None` for a text that sorts before all those of the other form.
pub fn other_form(text: &[u8]) -> Option<[String; 2]> {
    let day = std::str::from_utf8(text.get(..10)?).ok()?;
    (separator(text) == Some(b'T')).then(|| [format!("{day} 00:00:00"), format!("{day} 24")])
}

/// The least text that a column may have at or after the moment. Without a separator, the day's first.
pub fn least_text(at: Timestamp, separator: Option<u8>) -> String {
    let time = Offset::UTC.to_datetime(at);
    match separator {
        None => time.date().to_string(),
        Some(between) => format!("{}{}{}", time.date(), char::from(between), time.strftime("%H:%M:%S")),
    }
}

/// The moment that a text means: `YYYY-MM-DD HH:MM:SS[.fff…]`, also with a `T`, also with a `Z` or `+00:00`.
pub fn of_text(text: &[u8]) -> Result<Timestamp, NoMoment> {
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let between = |place: usize, letter: u8| text.get(place) == Some(&letter);
    let shaped = between(4, b'-') && between(7, b'-') && between(13, b':') && between(16, b':');
    if !shaped || !matches!(separator(text), Some(b' ' | b'T')) {
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

    fn text(text: &str) -> Result<String, NoMoment> {
        of_text(text.as_bytes()).map(|at| at.to_string())
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
            assert_eq!(unit.moment(number).map(|at| at.to_string()), whole.clone().ok(), "{unit:?}");
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
        assert_eq!(Unit::Seconds.moment(i64::MAX), None);
    }

    #[test]
    fn the_least_value_of_a_moment_sorts_before_all_its_forms() {
        let at: Timestamp = "2026-11-15T08:00:09.5Z".parse().unwrap();
        assert_eq!(Unit::Seconds.least(at), 1_794_729_610);
        assert_eq!(Unit::Milliseconds.least(at), 1_794_729_609_500);
        assert_eq!(least_text(at, None), "2026-11-15");
        assert_eq!(least_text(at, Some(b'T')), "2026-11-15T08:00:09");
        assert_eq!(least_text(at, Some(b' ')), "2026-11-15 08:00:09");
    }
}
