//! What is wrong with a window, and what to do about it: one sentence each.

use std::time::Duration;

use jiff::Timestamp;
use seriatim::change::Position;
use seriatim::source::SourceError;

use super::horizon::Blind;
use super::moment::{NoKind, NoMoment};
use super::settings::{From, Settings};

const FORMS: &str = "YYYY-MM-DD HH:MM:SS[.fff] or RFC 3339, both in UTC";

impl Settings {
    /// What the rows come from, in a sentence.
    pub(super) fn whence(&self) -> String {
        match &self.from {
            From::Table => format!("{:?} in {}", self.names.table, self.names.database),
            From::Query(_) => format!("the query on {}", self.names.database),
        }
    }

    fn attention(&self, what: impl std::fmt::Display, remedy: impl Into<String>) -> SourceError {
        SourceError::needs_attention(format!("feed {}: {what}", self.names.feed), remedy)
    }

    pub(super) fn no_column(&self, setting: &str, column: &str, columns: &[&str]) -> SourceError {
        let near = columns.iter().map(|name| (strsim::levenshtein(column, name), name));
        let nearest = near.min().filter(|(distance, _)| *distance <= 1 + column.len() / 4);
        let remedy = match nearest {
            Some((_, similar)) => format!("did you mean {similar:?}? set the feed's `{setting}`"),
            None => format!("set the feed's `{setting}` to one of its columns: {}", columns.join(", ")),
        };
        self.attention(format!("{} has no column {column:?}", self.whence()), remedy)
    }

    pub(super) fn needs_key(&self) -> SourceError {
        let what = format!("{} has no primary key, so its rows cannot be told apart", self.whence());
        self.attention(what, "set the feed's `key` to columns that name one row")
    }

    pub(super) fn bad_query(&self, cause: &tokio_postgres::Error) -> SourceError {
        let said = cause.as_db_error().map_or_else(|| cause.to_string(), |said| said.message().to_owned());
        let what = format!("PostgreSQL cannot read {} in an order: {said}", self.whence());
        let remedy = match self.from {
            From::Table => "set the feed's `changed_at` and `key` to columns that have an order",
            From::Query(_) => "correct the feed's `query`, `changed_at` or `key`",
        };
        self.attention(what, remedy)
    }

    pub(super) fn no_kind(&self, why: NoKind, of: &str) -> SourceError {
        let column = &self.changed_at;
        let what = format!("{column} of {} is of type {of}", self.whence());
        let remedy = match why {
            NoKind::NoUnit => "set changed_at_unit to \"s\", \"ms\" or \"us\", whatever it counts".to_owned(),
            NoKind::NotANumber => "remove changed_at_unit, which is for whole numbers".to_owned(),
            NoKind::OtherType => format!(
                "use a timestamp with or without time zone, a date, whole numbers, or text as {FORMS}; or give the feed a \
                 `query` that makes one of it"
            ),
        };
        self.attention(what, remedy)
    }

    pub(super) fn no_moment(&self, why: NoMoment, found: &str, row: &str) -> SourceError {
        let column = &self.changed_at;
        let what = format!("{column} of the row with {row} in {} is {found}", self.whence());
        let remedy = match why {
            NoMoment::OutOfRange => "correct the row, or changed_at_unit".to_owned(),
            NoMoment::Offset => format!(
                "write times in UTC: texts with other offsets do not sort by time; or give the feed a `query` that has \
                 {column}::timestamptz as its changed_at"
            ),
            NoMoment::Nothing => format!("write it as {FORMS}"),
        };
        self.attention(what, remedy)
    }

    pub(super) fn mixed_forms(&self, found: &str, row: &str) -> SourceError {
        let what = format!(
            "{} of the row with {row} in {} is {found:?}, and others have another letter between date and time, so that \
             they do not sort by time",
            self.changed_at,
            self.whence()
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
            self.names.database
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

    /// Why the horizon is the buffer's, and what would make it exact.
    pub(super) fn blind(&self, blind: &Blind) -> (String, String) {
        let buffer = self.rules.buffer;
        let missed = format!("what is committed more than {buffer:?} after its own moment will be missed");
        let database = &self.names.database;
        match blind {
            Blind::Role(role) => (
                format!(
                    "the role {role} may not see the transactions of other roles in {database}, so nobody can tell which \
                     are open: {missed}"
                ),
                format!("grant pg_read_all_stats to {}", super::super::names::quoted(role)),
            ),
            Blind::Standby => (
                format!("{database} is a standby, and transactions are open on its primary: {missed}"),
                "name the primary in the source's url, or a buffer that is longer than transactions and the standby's delay"
                    .to_owned(),
            ),
            Blind::Untracked(pid) => (
                format!(
                    "the session with pid {pid} in {database} does not tell whether a transaction is open in it: {missed}"
                ),
                "set track_activities = on for it".to_owned(),
            ),
        }
    }
}

/// A span of time for people: whole seconds from one second on.
pub(super) fn shown(span: jiff::SignedDuration) -> String {
    let whole = Duration::from_secs(span.as_secs().max(0) as u64);
    let (minutes, seconds) = (whole.as_secs() / 60, whole.as_secs() % 60);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {seconds} s"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
