//! What is wrong with a window, and what to do about it: one sentence each.

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use seriatim::change::Position;
use seriatim::source::SourceError;
use seriatim::source::window::rows::NoMoment as Such;

use super::super::similar::most_similar;
use super::moment::NoMoment;
use super::settings::Settings;

const FORMS: &str = "YYYY-MM-DD HH:MM:SS[.fff] or RFC 3339, both in UTC";

impl Settings {
    /// What the rows come from, in a sentence.
    pub(super) fn whence(&self) -> String {
        match &self.from {
            super::settings::From::Table => format!("{:?} in {}", self.names.table, self.names.file),
            super::settings::From::Query(_) => format!("the query on {}", self.names.file),
        }
    }

    fn attention(&self, what: impl std::fmt::Display, remedy: impl Into<String>) -> SourceError {
        SourceError::needs_attention(format!("feed {}: {what}", self.names.feed), remedy)
    }

    pub(super) fn no_column(&self, setting: &str, column: &str, columns: &[String]) -> SourceError {
        let remedy = match most_similar(column, columns) {
            Some(similar) => format!("did you mean {similar:?}? set the feed's `{setting}`"),
            None => format!("set the feed's `{setting}` to one of its columns: {}", columns.join(", ")),
        };
        self.attention(format!("{} has no column {column:?}", self.whence()), remedy)
    }

    pub(super) fn needs_key(&self) -> SourceError {
        let what = format!("{} has no primary key, so its rows cannot be told apart", self.whence());
        self.attention(what, "set the feed's `key` to columns that name one row")
    }

    pub(super) fn bad_query(&self, said: &rusqlite::Error) -> SourceError {
        self.attention(
            format!("SQLite cannot run its query on {}: {said}", self.names.file),
            "correct the feed's `query`",
        )
    }

    pub(super) fn no_moment(&self, why: NoMoment, found: ValueRef<'_>, row: &str) -> SourceError {
        let column = &self.changed_at;
        let what = format!("{column} of the row with {row} in {} is {}", self.whence(), shown(found));
        let remedy = match why {
            NoMoment::NoUnit => {
                "set changed_at_unit to \"s\", \"ms\" or \"us\", whatever it counts".to_owned()
            }
            NoMoment::Such(Such::OutOfRange) => "correct the row, or changed_at_unit".to_owned(),
            NoMoment::TextForNumber => {
                "remove changed_at_unit, which is for whole numbers, or correct the row".to_owned()
            }
            NoMoment::Such(Such::Offset) => format!(
                "write times in UTC: texts with other offsets do not sort by time; or give the feed a `query` that has \
                 datetime({column}) as its changed_at"
            ),
            NoMoment::Such(Such::Nothing) => {
                format!("write it as {FORMS}, or as a whole number with changed_at_unit")
            }
        };
        self.attention(what, remedy)
    }

    pub(super) fn mixed_forms(&self, found: ValueRef<'_>, row: &str) -> SourceError {
        let what = format!(
            "{} of the row with {row} in {} is {}, and others have another letter between date and time, so that they \
             do not sort by time",
            self.changed_at,
            self.whence(),
            shown(found)
        );
        self.attention(what, format!("write all of them in one form: {FORMS}"))
    }

    pub(super) fn null_in_tie(&self) -> SourceError {
        let what =
            format!("some rows of {} have NULL in their key, so they cannot be told apart", self.whence());
        self.attention(what, "give them a key, or leave them out with a `query`")
    }

    pub(super) fn key_not_unique(&self, row: &str) -> SourceError {
        let what = format!("two rows of {} have the key {row}, so they cannot be told apart", self.whence());
        self.attention(what, "set the feed's `key` to columns that name one row")
    }

    pub(super) fn not_a_position(&self, position: &Position) -> SourceError {
        self.names.not_a_position(position)
    }

    pub(super) fn clock_went_back(&self, passed: Timestamp, now: Timestamp) -> SourceError {
        let what = format!(
            "rows of {passed} are handled already, and by the clock of {} it is {now}: the clock was set back by more than \
             the buffer, so rows that are written now carry moments that the window has passed",
            self.names.file
        );
        let remedy = format!(
            "set the clock right, then read again what was written in between: `seriatim rewind {} --to TIME`",
            self.names.feed
        );
        self.attention(what, remedy)
    }

    pub(super) fn wrong_rules(&self, wrong: &str) -> SourceError {
        self.attention(wrong, "correct the feed's `buffer` or `stale_age`")
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(real) => real.to_string(),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ValueRef::Blob(_) => "a blob".to_owned(),
    }
}
