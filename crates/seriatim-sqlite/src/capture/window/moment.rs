//! Moments as tables keep them: whole numbers since 1970, or text whose order is the order of time.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use seriatim::backend::rows;
pub use seriatim::backend::rows::Unit;

use super::super::value::Exact;

/// Why a value is not a moment that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMoment {
    /// A number, and nobody said what it counts.
    NoUnit,
    /// A text, where numbers were announced.
    TextForNumber,
    /// Of the right kind, and yet none.
    Such(rows::NoMoment),
}

/// The moment that a stored value means.
pub(super) fn moment(stored: ValueRef<'_>, unit: Option<Unit>) -> Result<Timestamp, NoMoment> {
    match (stored, unit) {
        (ValueRef::Integer(number), Some(unit)) => {
            unit.moment(number).ok_or(NoMoment::Such(rows::NoMoment::OutOfRange))
        }
        (ValueRef::Integer(_), None) => Err(NoMoment::NoUnit),
        (ValueRef::Text(_), Some(_)) => Err(NoMoment::TextForNumber),
        (ValueRef::Text(text), None) => rows::of_text(text).map_err(NoMoment::Such),
        _ => Err(NoMoment::Such(rows::NoMoment::Nothing)),
    }
}

/// The finest tick that the column's clock may have: everything within one may still carry the same moment.
pub(super) fn resolution(unit: Option<Unit>) -> Duration {
    unit.map_or(rows::TICK_OF_TEXTS, Unit::tick)
}

/// The least value that a column may have at or after the moment. Texts have this letter between date and time; without it, the
/// day's first.
pub(super) fn least(at: Timestamp, unit: Option<Unit>, separator: Option<u8>) -> Exact {
    match unit {
        Some(unit) => Exact::Integer(unit.least(at)),
        None => Exact::Text(rows::least_text(at, separator).into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_moment_says_why() {
        let text = ValueRef::Text(b"2026-11-15 08:00:00");
        assert!(moment(text, None).is_ok());
        assert_eq!(moment(text, Some(Unit::Seconds)), Err(NoMoment::TextForNumber));
        assert_eq!(moment(ValueRef::Integer(1), None), Err(NoMoment::NoUnit));
        let such = |why| Err(NoMoment::Such(why));
        let most = ValueRef::Integer(i64::MAX);
        assert_eq!(moment(most, Some(Unit::Seconds)), such(rows::NoMoment::OutOfRange));
        assert_eq!(moment(ValueRef::Real(1.5), Some(Unit::Seconds)), such(rows::NoMoment::Nothing));
    }
}
