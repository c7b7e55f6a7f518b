//! From the columns of the store's tables to the library's types.

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};
use seriatim::change::Position;
use seriatim::lease::Part;
use seriatim::name::{BadName, Epoch, FeedName, HostName, SessionId, StoreId};
use seriatim::store::DoneAbove;

/// A column whose content makes no sense: somebody else has written to the table.
fn bad<E: std::error::Error + Send + Sync + 'static>(column: usize, cause: E) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, Box::new(cause))
}

fn name<T>(row: &Row<'_>, column: usize, make: fn(&str) -> std::result::Result<T, BadName>) -> Result<T> {
    make(row.get_ref(column)?.as_str()?).map_err(|cause| bad(column, cause))
}

pub(crate) fn store_id(row: &Row<'_>, column: usize) -> Result<StoreId> {
    name(row, column, StoreId::new)
}

pub(crate) fn session_id(row: &Row<'_>, column: usize) -> Result<SessionId> {
    name(row, column, SessionId::new)
}

pub(crate) fn host_name(row: &Row<'_>, column: usize) -> Result<HostName> {
    name(row, column, HostName::new)
}

pub(crate) fn feed_name(row: &Row<'_>, column: usize) -> Result<FeedName> {
    name(row, column, FeedName::new)
}

/// What `read` makes of the column, `None` where it is null.
pub(crate) fn optional<T>(
    row: &Row<'_>,
    column: usize,
    read: fn(&Row<'_>, usize) -> Result<T>,
) -> Result<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => read(row, column).map(Some),
    }
}

pub(crate) fn position(row: &Row<'_>, column: usize) -> Result<Position> {
    Ok(Position::text(row.get_ref(column)?.as_str()?))
}

pub(crate) fn done_above(row: &Row<'_>, column: usize) -> Result<DoneAbove> {
    let text = row.get_ref(column)?.as_str_or_null()?.unwrap_or_default();
    text.parse().map_err(|cause| bad(column, cause))
}

pub(crate) fn part(row: &Row<'_>, column: usize) -> Result<Option<Part>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| serde_json::from_str(text).map_err(|cause| bad(column, cause))).transpose()
}

pub(crate) fn epoch(row: &Row<'_>, column: usize) -> Result<Epoch> {
    number(row, column).map(Epoch)
}

/// Counters use all 64 bits; SQLite's integers are signed.
pub(crate) fn number(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|cause| bad(column, cause))
}

/// A time that may not be there.
pub(crate) fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    let time: Option<i64> = row.get(column)?;
    time.map(|time| Timestamp::from_millisecond(time).map_err(|cause| bad(column, cause))).transpose()
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|cause| bad(column, cause))
}

/// The JSON that [`json`] reads.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("names, numbers and lists of them always serialize")
}

/// A time span as SQLite keeps it.
pub(crate) fn milliseconds(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
