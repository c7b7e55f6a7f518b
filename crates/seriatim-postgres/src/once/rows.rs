//! From the columns of the ledger's table to the library's types.

use std::time::Duration;

use jiff::Timestamp;
use seriatim::name::BadName;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, State};
use seriatim::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Two readings of the server's clock are each cut to a microsecond: one may be missing from their difference.
const CUT: i64 = 1;

/// A row of `once_read.sql` or `once_list.sql`.
pub(super) fn record(row: &Row) -> Result<Record, StoreError> {
    let signal = Signal { processor: name(row, 0, ProcessorId::new)?, id: name(row, 1, SignalId::new)? };
    let (stood_still, limit): (i64, i64) = (get(row, 6)?, get(row, 10)?);
    let expires_on: Option<i64> = get(row, 9)?;
    Ok(Record {
        signal,
        state: state(get(row, 2)?)?,
        run: Run { attempt: name(row, 3, AttemptId::new)?, beat: number(row, 5)? },
        number: number(row, 4)?,
        started_at: get(row, 7)?,
        completed_at: get(row, 8)?,
        expires_on: expires_on.map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX)),
        max_processing_time: Duration::from_millis(limit.max(0).cast_unsigned()),
        stood_still: Duration::from_micros((stood_still - CUT).max(0).cast_unsigned()),
        result: result(row)?,
    })
}

/// A counter.
pub(super) fn number(row: &Row, column: usize) -> Result<u64, StoreError> {
    get(row, column).map(i64::cast_unsigned)
}

fn state(word: &str) -> Result<State, StoreError> {
    let known = State::ALL.into_iter().find(|state| state.as_str() == word);
    known.ok_or_else(|| bad(format_args!("there is no state {word:?}")))
}

fn result(row: &Row) -> Result<Option<Recorded>, StoreError> {
    let kept = get::<Option<Vec<u8>>>(row, 11)?.map(Recorded::Kept);
    Ok(kept.or(get::<Option<String>>(row, 12)?.map(Recorded::NotKept)))
}

fn name<T>(row: &Row, column: usize, make: fn(&str) -> Result<T, BadName>) -> Result<T, StoreError> {
    make(get(row, column)?).map_err(bad)
}

fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(bad)
}

/// A column whose content makes no sense: somebody else has written to the table.
fn bad(cause: impl std::fmt::Display) -> StoreError {
    StoreError::needs_attention(
        format!("a row in the ledger's table cannot be read: {cause}"),
        "somebody has changed it by hand: mend it, or delete it if its signal may run again",
    )
}
