//! What the sequencer remembers from one look at the journals to the next. Pure: no I/O.

use std::collections::HashMap;

/// A look at journals.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// All that was committed when it began is visible in this snapshot.
    pub seen: String,
    /// Each journal with its newest tick, and whether that has not seen all of it.
    pub journals: Vec<(i64, i64, bool)>,
}

/// Journals in which nothing was new, so that the next look need not look for the same again.
#[derive(Debug, Default)]
pub(super) struct Memory {
    seen: Option<String>,
    still: HashMap<i64, i64>,
    /// Nothing was left to be ticked.
    settled: bool,
}

/// What the next look need not look for again.
#[derive(Debug, PartialEq)]
pub(super) struct Known<'a> {
    /// The snapshot of the last look.
    pub seen: Option<&'a str>,
    /// The journals in which nothing was new.
    pub captures: Vec<i64>,
    /// Their newest ticks.
    pub ticks: Vec<i64>,
    /// Nothing was left to be ticked.
    pub settled: bool,
}

impl Memory {
    /// What is known from the last look.
    pub fn known(&self) -> Known<'_> {
        let (captures, ticks) = self.still.iter().unzip();
        Known { seen: self.seen.as_deref(), captures, ticks, settled: self.settled }
    }

    /// Notes a look, and returns the journals that are to be ticked. The next look looks at those again.
    pub fn note(&mut self, look: Look) -> Vec<i64> {
        let moved: Vec<i64> = look.journals.iter().filter(|one| one.2).map(|one| one.0).collect();
        self.still = look.journals.into_iter().filter(|one| !one.2).map(|one| (one.0, one.1)).collect();
        self.seen = Some(look.seen);
        self.settled = moved.is_empty();
        moved
    }
}

/// Whether a tick's snapshot sees all that another one sees.
pub(crate) fn covers(tick: &str, seen: &str) -> bool {
    let Some((tick, seen)) = parsed(tick).zip(parsed(seen)) else { return false };
    let visible = |xid: &u64| *xid < seen.0 || (*xid < seen.1 && !seen.2.contains(xid));
    tick.1 >= seen.1 && !tick.2.iter().any(visible)
}

/// A snapshot: all before the first number are in it, none from the second one on, and between them not those that are listed.
fn parsed(snapshot: &str) -> Option<(u64, u64, Vec<u64>)> {
    let mut parts = snapshot.splitn(3, ':');
    let (xmin, xmax, open) = (parts.next()?, parts.next()?, parts.next()?);
    let open = open.split(',').filter(|xid| !xid.is_empty()).map(|xid| xid.parse().ok());
    Some((xmin.parse().ok()?, xmax.parse().ok()?, open.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_covers_another_when_it_sees_all_that_the_other_sees() {
        for (tick, seen, expected) in [
            ("10:10:", "10:10:", true),
            ("10:12:10", "10:12:10", true),
            ("10:12:10", "10:12:", false),
            ("12:12:", "10:12:10", true),
            ("10:11:", "10:12:", false),
            ("10:13:12", "10:12:", true),
            ("9:13:9", "10:12:", false),
            ("", "10:12:", false),
        ] {
            assert_eq!(covers(tick, seen), expected, "{tick} covers {seen}");
        }
    }

    #[test]
    fn a_journal_that_was_not_ticked_is_looked_at_again() {
        let mut memory = Memory::default();
        let look = |moved| Look { seen: "5:5:".to_owned(), journals: vec![(1, 70, moved), (2, 80, false)] };
        assert_eq!(memory.note(look(true)), [1]);
        let known = memory.known();
        assert_eq!((known.captures, known.ticks, known.settled), (vec![2], vec![80], false));
        assert!(memory.note(look(false)).is_empty());
        assert!(memory.known().settled && memory.known().seen == Some("5:5:"));
    }
}
