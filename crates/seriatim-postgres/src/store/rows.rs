//! From the columns of the store's tables to the library's types.

use jiff::Timestamp;
use seriatim::change::Position;
use seriatim::lease::Part;
use seriatim::name::{BadName, Epoch, FeedName, HostName, SessionId};
use seriatim::store::{DoneAbove, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// A column whose content makes no sense: somebody else has written to the table.
pub(super) fn bad(cause: impl std::fmt::Display) -> StoreError {
    StoreError::needs_attention(
        format!("a row in one of the store's tables cannot be read: {cause}"),
        "somebody has changed it by hand: restore it from a backup, or rewind the feed",
    )
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(bad)
}

fn name<T>(row: &Row, column: usize, make: fn(&str) -> Result<T, BadName>) -> Result<T, StoreError> {
    make(get(row, column)?).map_err(bad)
}

fn optional<T>(
    row: &Row,
    column: usize,
    make: fn(&str) -> Result<T, BadName>,
) -> Result<Option<T>, StoreError> {
    get::<Option<&str>>(row, column)?.map(make).transpose().map_err(bad)
}

pub(super) fn session_id(row: &Row, column: usize) -> Result<SessionId, StoreError> {
    name(row, column, SessionId::new)
}

pub(super) fn maybe_session_id(row: &Row, column: usize) -> Result<Option<SessionId>, StoreError> {
    optional(row, column, SessionId::new)
}

pub(super) fn host_name(row: &Row, column: usize) -> Result<HostName, StoreError> {
    name(row, column, HostName::new)
}

pub(super) fn maybe_host_name(row: &Row, column: usize) -> Result<Option<HostName>, StoreError> {
    optional(row, column, HostName::new)
}

pub(super) fn feed_name(row: &Row, column: usize) -> Result<FeedName, StoreError> {
    name(row, column, FeedName::new)
}

pub(super) fn feed_names(row: &Row, column: usize) -> Result<Vec<FeedName>, StoreError> {
    let names: Vec<&str> = get(row, column)?;
    names.into_iter().map(FeedName::new).collect::<Result<_, _>>().map_err(bad)
}

pub(super) fn position(row: &Row, column: usize) -> Result<Position, StoreError> {
    get(row, column).map(Position::text)
}

pub(super) fn done_above(row: &Row, column: usize) -> Result<DoneAbove, StoreError> {
    get::<Option<&str>>(row, column)?.unwrap_or_default().parse().map_err(bad)
}

pub(super) fn part(row: &Row, column: usize) -> Result<Option<Part>, StoreError> {
    let text = get::<Option<&str>>(row, column)?;
    text.map(|text| serde_json::from_str(text).map_err(bad)).transpose()
}

pub(super) fn epoch(row: &Row, column: usize) -> Result<Epoch, StoreError> {
    number(row, column).map(Epoch)
}

/// Counters use all 64 bits; PostgreSQL's integers are signed.
pub(super) fn number(row: &Row, column: usize) -> Result<u64, StoreError> {
    get(row, column).map(i64::cast_unsigned)
}

/// Partitions and attempts are never negative, and never near the end of an integer.
pub(super) fn small(row: &Row, column: usize) -> Result<u32, StoreError> {
    get(row, column).map(i32::cast_unsigned)
}

pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp, StoreError> {
    get(row, column)
}

pub(super) fn json<T: serde::de::DeserializeOwned>(row: &Row, column: usize) -> Result<T, StoreError> {
    serde_json::from_str(get(row, column)?).map_err(bad)
}

/// The JSON that [`json`] reads.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("names, numbers and lists of them always serialize")
}

/// PostgreSQL's text has no zero byte in it.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A name as SQL wants it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
