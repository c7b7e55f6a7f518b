//! Columns as the server sends them, without a detour.

use std::error::Error;

use jiff::Timestamp;
use postgres_types::{FromSql, Type, accepts};

/// JSON, as text.
pub(super) struct Raw<'a>(pub &'a str);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Raw(std::str::from_utf8(raw)?))
    }

    accepts!(JSON, TEXT);
}

/// A moment.
pub(super) struct Moment(pub Timestamp);

/// Microseconds between 1970 and 2000, where PostgreSQL's clock begins.
const YEAR_2000: i64 = 946_684_800_000_000;

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let since_2000 = i64::from_be_bytes(raw.try_into()?);
        let since_1970 = since_2000.saturating_add(YEAR_2000);
        Ok(Moment(Timestamp::from_microsecond(since_1970).unwrap_or(Timestamp::UNIX_EPOCH)))
    }

    accepts!(TIMESTAMPTZ);
}
