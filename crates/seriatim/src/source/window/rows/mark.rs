//! What a position remembers beside the place.

use std::fmt::Write as _;

use jiff::Timestamp;

/// What is remembered beside the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How many rows were dropped as stale, over the whole feed.
    pub dropped: u64,
    /// The versions of restless rows that were delivered ahead of their time: when, and their ids.
    pub early: Vec<(Timestamp, u64)>,
}

impl Mark {
    /// Forgets what was delivered early and has its place behind everything before this moment.
    pub fn forget_before(&mut self, at: Timestamp) {
        self.early.retain(|(early, _)| *early >= at);
    }

    /// Whether the version of this id was delivered early.
    pub fn has(&self, id: u64) -> bool {
        self.early.iter().any(|(_, early)| *early == id)
    }

    /// Writes it behind the text of a place.
    pub fn write(&self, text: &mut String) {
        const TAKES_ALL: &str = "a text takes all that is written to it";
        if self.dropped > 0 {
            write!(text, " dropped={}", self.dropped).expect(TAKES_ALL);
        }
        for (index, (at, id)) in self.early.iter().enumerate() {
            let before = if index == 0 { " early=" } else { "," };
            write!(text, "{before}{}:{id}", at.as_nanosecond()).expect(TAKES_ALL);
        }
    }

    /// Reads what was written; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut mark = Mark::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=')? {
                ("dropped", number) => mark.dropped = number.parse().ok()?,
                ("early", list) => {
                    let version = |text: &str| {
                        let (at, id) = text.split_once(':')?;
                        Some((Timestamp::from_nanosecond(at.parse().ok()?).ok()?, id.parse().ok()?))
                    };
                    mark.early = list.split(',').map(version).collect::<Option<_>>()?;
                }
                _ => return None,
            }
        }
        Some(mark)
    }
}
