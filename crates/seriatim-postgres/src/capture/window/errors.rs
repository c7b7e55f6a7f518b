//! What is wrong with a window on PostgreSQL, and what to do about it: one sentence each.

use std::time::Duration;

use seriatim::backend::rows::FORMS;
use seriatim::source::SourceError;

use super::horizon::Blind;
use super::moment::{NoKind, NoMoment};
use super::settings::{From, Settings};

pub(super) fn bad_query(settings: &Settings, cause: &tokio_postgres::Error) -> SourceError {
    let said = cause.as_db_error().map_or_else(|| cause.to_string(), |said| said.message().to_owned());
    let what = format!("PostgreSQL cannot read {} in an order: {said}", settings.whence());
    let remedy = match settings.from {
        From::Table => "set the feed's `changed_at` and `key` to columns that have an order",
        From::Query(_) => "correct the feed's `query`, `changed_at` or `key`",
    };
    settings.attention(what, remedy)
}

pub(super) fn no_kind(settings: &Settings, why: NoKind, of: &str) -> SourceError {
    let what = format!("{} of {} is of type {of}", settings.changed_at, settings.whence());
    let remedy = match why {
        NoKind::NoUnit => "set changed_at_unit to \"s\", \"ms\" or \"us\", whatever it counts".to_owned(),
        NoKind::NotANumber => "remove changed_at_unit, which is for whole numbers".to_owned(),
        NoKind::OtherType => format!(
            "use a timestamp with or without time zone, a date, whole numbers, or text as {FORMS}; or give the feed a \
             `query` that makes one of it"
        ),
    };
    settings.attention(what, remedy)
}

pub(super) fn no_moment(settings: &Settings, why: NoMoment, found: &str, row: &str) -> SourceError {
    let remedy = match why {
        NoMoment::OutOfRange => "correct the row, or changed_at_unit".to_owned(),
        NoMoment::Offset => format!(
            "write times in UTC: texts with other offsets do not sort by time; or give the feed a `query` that has \
             {}::timestamptz as its changed_at",
            settings.changed_at
        ),
        NoMoment::Nothing => format!("write it as {FORMS}"),
    };
    settings.not_a_moment(found, row, remedy)
}

/// Why the horizon is the buffer's, and what would make it exact.
pub(super) fn without_sight(settings: &Settings, blind: &Blind) -> (String, String) {
    let buffer = settings.rules.buffer;
    let missed = format!("what is committed more than {buffer:?} after its own moment will be missed");
    let database = &settings.names.home;
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
