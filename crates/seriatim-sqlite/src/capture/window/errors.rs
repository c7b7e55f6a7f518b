//! What is wrong with a window on SQLite, and what to do about it: one sentence each.

use rusqlite::types::ValueRef;
use seriatim::backend::rows::{FORMS, NoMoment as Such};
use seriatim::source::SourceError;

use super::moment::NoMoment;
use super::settings::Settings;

pub(super) fn bad_query(settings: &Settings, said: &rusqlite::Error) -> SourceError {
    let what = format!("SQLite cannot run its query on {}: {said}", settings.names.home);
    settings.attention(what, "correct the feed's `query`")
}

pub(super) fn no_moment(settings: &Settings, why: NoMoment, found: ValueRef<'_>, row: &str) -> SourceError {
    let column = &settings.changed_at;
    let remedy = match why {
        NoMoment::NoUnit => "set changed_at_unit to \"s\", \"ms\" or \"us\", whatever it counts".to_owned(),
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
    settings.not_a_moment(&shown(found), row, remedy)
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
