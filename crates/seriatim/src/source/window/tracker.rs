//! The tracker as text: what a store keeps, and what people read.

use std::fmt;

use jiff::Timestamp;

use super::{Place, Tie};
use crate::change::Position;

/// A feed that has no tracker yet is here.
const BEGINNING: &str = "beginning";

/// Where a feed is, with what is to be remembered beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracker {
    /// `None` before the first window.
    pub place: Option<Place>,
    /// How many records were dropped as stale.
    pub dropped: u64,
    /// How many windows of restless records were handled at this place: each position is its own.
    pub early: u64,
}

impl Tracker {
    pub(super) fn at(place: Option<Place>) -> Self {
        Tracker { place, dropped: 0, early: 0 }
    }

    pub(super) fn position(&self) -> Position {
        Position::text(&self.to_string())
    }

    /// Understands a position; `None` when it is not one of ours.
    pub(super) fn parse(position: &Position) -> Option<Self> {
        let text = position.to_string();
        let (head, tie) = match text.split_once(" tie=") {
            Some((head, tie)) => (head, Some(Tie::from(tie))),
            None => (text.as_str(), None),
        };
        let mut words = head.split(' ');
        let place = match words.next()? {
            BEGINNING => None,
            at => Some(Place { at: at.parse::<Timestamp>().ok()?, tie }),
        };
        let mut tracker = Tracker::at(place);
        for word in words {
            match word.split_once('=')? {
                ("dropped", number) => tracker.dropped = number.parse().ok()?,
                ("early", number) => tracker.early = number.parse().ok()?,
                _ => return None,
            }
        }
        Some(tracker)
    }
}

impl fmt::Display for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}", place.at)?,
            None => f.write_str(BEGINNING)?,
        }
        for (name, number) in [("dropped", self.dropped), ("early", self.early)] {
            if number > 0 {
                write!(f, " {name}={number}")?;
            }
        }
        match self.place.as_ref().and_then(|place| place.tie.as_ref()) {
            Some(tie) => write!(f, " tie={tie}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracker_reads_back_as_itself() {
        for text in [
            "beginning",
            "2026-11-15T08:00:00Z",
            "2026-11-15T08:00:00.000000001Z dropped=17",
            "2026-11-15T08:00:00Z dropped=17 early=2 tie=a tie=b dropped=3",
            "2026-11-15T08:00:00Z tie=",
        ] {
            let position = Position::text(text);
            assert_eq!(Tracker::parse(&position).expect(text).position(), position);
        }
    }

    #[test]
    fn foreign_positions_are_nobodys() {
        for text in ["", "42", "soon", "2026-11-15T08:00:00Z lost=1", "2026-11-15T08:00:00Z dropped=x"] {
            assert_eq!(Tracker::parse(&Position::text(text)), None, "{text}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_read_as_a_tracker_reads_back_as_itself(text in r"(beginning|2026-11-15T08:00:00Z|.{0,6})( (dropped|early|x)=[0-9a]{0,25}){0,3}( tie=.{0,8})?|.{0,40}") {
            if let Some(tracker) = Tracker::parse(&Position::text(&text)) {
                prop_assert_eq!(Tracker::parse(&tracker.position()), Some(tracker));
            }
        }
    }
}
