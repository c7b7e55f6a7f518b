//! From the columns of the ledger's table to the library's types.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};
use seriatim::name::BadName;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, State};

use super::clock::{Now, time};

/// A row of `read.sql` or `list.sql`.
pub(super) fn record(row: &Row<'_>, now: &Now) -> Result<Record> {
    let signal = Signal { processor: name(row, 0, ProcessorId::new)?, id: name(row, 1, SignalId::new)? };
    let expires_on: Option<i64> = row.get(10)?;
    let state = state(row, 2, expires_on.is_some_and(|second| second <= now.second()))?;
    let limit: i64 = row.get(11)?;
    Ok(Record {
        signal,
        state,
        run: Run { attempt: name(row, 3, AttemptId::new)?, beat: row.get(5).map(i64::cast_unsigned)? },
        number: row.get(4).map(i64::cast_unsigned)?,
        started_at: time(row.get(8)?),
        completed_at: row.get::<_, Option<i64>>(9)?.map(time),
        expires_on: expires_on.map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX)),
        max_processing_time: Duration::from_millis(limit.max(0).cast_unsigned()),
        stood_still: if state == State::Running { stood_still(row, now)? } else { Duration::ZERO },
        result: result(row)?,
    })
}

fn state(row: &Row<'_>, column: usize, expired: bool) -> Result<State> {
    match row.get_ref(column)?.as_str()? {
        "running" => Ok(State::Running),
        "unknown" => Ok(State::Unknown),
        "completed" if expired => Ok(State::Expired),
        "completed" => Ok(State::Completed),
        other => Err(bad(column, format!("there is no state {other:?}"))),
    }
}

/// What this machine's clock since boot can vouch for: nothing about a run that began before it was started.
fn stood_still(row: &Row<'_>, now: &Now) -> Result<Duration> {
    let (boot, beat_at): (Option<String>, Option<i64>) = (row.get(6)?, row.get(7)?);
    let (Some((current, at)), Some(boot), Some(beat_at)) = (&now.boot, boot, beat_at) else {
        return Ok(Duration::ZERO);
    };
    // Both were cut to whole milliseconds: one of them may be missing from the difference.
    let vouched = if *current == boot { (at - beat_at - 1).max(0) } else { 0 };
    Ok(Duration::from_millis(vouched.cast_unsigned()))
}

fn result(row: &Row<'_>) -> Result<Option<Recorded>> {
    let kept = row.get::<_, Option<Vec<u8>>>(12)?.map(Recorded::Kept);
    Ok(kept.or(row.get::<_, Option<String>>(13)?.map(Recorded::NotKept)))
}

fn name<T>(row: &Row<'_>, column: usize, make: fn(&str) -> std::result::Result<T, BadName>) -> Result<T> {
    make(row.get_ref(column)?.as_str()?).map_err(|cause| bad(column, cause))
}

/// A column whose content makes no sense: somebody else has written to the table.
fn bad(column: usize, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, cause.into())
}
