//! From the attributes of an item to the library's types.
//!
//! | attribute | what it is |
//! |---|---|
//! | `id`, `processorId` | the signal: the table's key |
//! | `startedAt`, `completedAt` | milliseconds since 1970; completed means that the latter is there |
//! | `expiresOn` | seconds since 1970, for DynamoDB's own expiry |
//! | `attempt`, `attemptNumber` | who may write, and which attempt it is |
//! | `beat`, `beatAt` | moved by every sign of life, and when that was at the latest |
//! | `maxProcessingTime` | milliseconds |
//! | `unknownSince` | milliseconds since 1970; there while nobody knows what became of the run |
//! | `recorded`, `notKept` | the result, or why there is none |

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, State};
use seriatim::store::StoreError;

use crate::clock::Now;
use crate::item::{Item, foreign, key_of, number_of, optional_number, text, text_of};

/// The attribute of a result, and its value.
pub(super) fn recorded(result: &Recorded) -> (&'static str, &'static str, AttributeValue) {
    match result {
        Recorded::Kept(bytes) => ("recorded", "notKept", AttributeValue::B(Blob::new(bytes.clone()))),
        Recorded::NotKept(why) => ("notKept", "recorded", text(why)),
    }
}

pub(super) fn key(signal: &Signal) -> Item {
    key_of(signal.id.as_str(), signal.processor.as_str())
}

/// The signal whose key this is.
pub(super) fn signal(item: &Item) -> Result<Signal, StoreError> {
    let processor =
        ProcessorId::new(text_of(item, "processorId")?).map_err(|cause| foreign(cause.to_string()))?;
    let id = SignalId::new(text_of(item, "id")?).map_err(|cause| foreign(cause.to_string()))?;
    Ok(Signal { processor, id })
}

/// The record that an item is, at this time.
pub(super) fn record(item: &Item, now: Option<Now>) -> Result<Record, StoreError> {
    let completed_at: Option<i64> = optional_number(item, "completedAt")?;
    let expires_on = optional_number::<i64>(item, "expiresOn")?.filter(|_| completed_at.is_some());
    let expired = expires_on.zip(now).is_some_and(|(second, now)| second <= now.second());
    let state = match (completed_at, expired, item.contains_key("unknownSince")) {
        (Some(_), true, _) => State::Expired,
        (Some(_), false, _) => State::Completed,
        (None, _, true) => State::Unknown,
        (None, _, false) => State::Running,
    };
    let started_at = number_of(item, "startedAt")?;
    let limit = number_of::<i64>(item, "maxProcessingTime")?.max(0).cast_unsigned();
    let run = Run {
        attempt: AttemptId::new(text_of(item, "attempt")?).map_err(|cause| foreign(cause.to_string()))?,
        beat: number_of(item, "beat")?,
    };
    let beat_at = optional_number(item, "beatAt")?.filter(|_| state == State::Running);
    Ok(Record {
        signal: signal(item)?,
        state,
        run,
        number: number_of(item, "attemptNumber")?,
        started_at: time(started_at),
        // Both are estimates of the service's time.
        completed_at: completed_at.map(|at| time(at.max(started_at))),
        expires_on: expires_on.map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX)),
        max_processing_time: Duration::from_millis(limit),
        stood_still: beat_at.zip(now).map_or(Duration::ZERO, |(beat_at, now)| since(beat_at, now)),
        result: result(item),
    })
}

/// What the service's clock can vouch for.
fn since(beat_at: i64, now: Now) -> Duration {
    Duration::from_millis(now.earliest.saturating_sub(beat_at).max(0).cast_unsigned())
}

fn result(item: &Item) -> Option<Recorded> {
    match (item.get("recorded"), item.get("notKept")) {
        (Some(AttributeValue::B(bytes)), _) => Some(Recorded::Kept(bytes.as_ref().to_vec())),
        (_, Some(AttributeValue::S(why))) => Some(Recorded::NotKept(why.clone())),
        _ => None,
    }
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}
