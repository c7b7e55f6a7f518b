//! What is wrong with a window over rows, whatever the database, and what to do about it: one sentence each.

use std::fmt::Display;
use std::ops::Deref;

use jiff::Timestamp;

use super::{From, Settings};
use crate::backend::{Names, most_similar};
use crate::source::SourceError;

/// What the forms of text are that have an order.
pub const FORMS: &str = "YYYY-MM-DD HH:MM:SS[.fff] or RFC 3339, both in UTC";

impl<N: Deref<Target = Names>> Settings<N> {
    /// What the rows come from.
    pub fn whence(&self) -> String {
        match &self.from {
            From::Table => format!("{:?} in {}", self.names.table, self.names.home),
            From::Query(_) => format!("the query on {}", self.names.home),
        }
    }

    /// Somebody has to do something.
    pub fn attention(&self, what: impl Display, remedy: impl Into<String>) -> SourceError {
        SourceError::needs_attention(format!("feed {}: {what}", self.names.feed), remedy)
    }

    /// A setting names a column that there is not.
    pub fn no_column(&self, setting: &str, column: &str, columns: &[&str]) -> SourceError {
        let remedy = match most_similar(column, columns) {
            Some(similar) => format!("did you mean {similar:?}? set the feed's `{setting}`"),
            None => format!("set the feed's `{setting}` to one of its columns: {}", columns.join(", ")),
        };
        self.attention(format!("{} has no column {column:?}", self.whence()), remedy)
    }

    /// There is no primary key, and nobody said which columns are one.
    pub fn needs_key(&self) -> SourceError {
        let what = format!("{} has no primary key, so its rows cannot be told apart", self.whence());
        self.attention(what, "set the feed's `key` to columns that name one row")
    }

    /// A value of the column is no moment.
    pub fn not_a_moment(&self, found: &str, row: &str, remedy: String) -> SourceError {
        let what = format!("{} of the row with {row} in {} is {found}", self.changed_at, self.whence());
        self.attention(what, remedy)
    }

    /// Texts of two forms do not sort by time.
    pub fn mixed_forms(&self, found: &str, row: &str) -> SourceError {
        let what = format!(
            "{} of the row with {row} in {} is {found:?}, and others have another letter between date and time, so that \
             they do not sort by time",
            self.changed_at,
            self.whence()
        );
        self.attention(what, format!("write all of them in one form: {FORMS}"))
    }

    /// A key has NULL in it.
    pub fn null_in_tie(&self) -> SourceError {
        let what =
            format!("some rows of {} have NULL in their key, so they cannot be told apart", self.whence());
        self.attention(what, "give them a key, or leave them out with a `query`")
    }

    /// Two rows have the same key.
    pub fn key_not_unique(&self, row: &str) -> SourceError {
        let what = format!("two rows of {} have the key {row}, so they cannot be told apart", self.whence());
        self.attention(what, "set the feed's `key` to columns that name one row")
    }

    /// The clock stands before what was handled already.
    pub fn clock_went_back(&self, passed: Timestamp, now: Timestamp) -> SourceError {
        let what = format!(
            "rows of {passed} are handled already, and by the clock of {} it is {now}: the clock was set back by more than \
             the buffer, so rows that are written now carry moments that the window has passed",
            self.names.home
        );
        let remedy = format!(
            "set the clock right, then read again what was written in between: `seriatim rewind {} --to TIME`",
            self.names.feed
        );
        self.attention(what, remedy)
    }

    /// The rules cannot work.
    pub fn wrong_rules(&self, wrong: &str) -> SourceError {
        self.attention(wrong, "correct the feed's `buffer` or `stale_age`")
    }
}
