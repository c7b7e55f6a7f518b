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

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, State};
use seriatim::store::StoreError;

use crate::clock::Now;

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(super) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The attribute of a result, and its value.
pub(super) fn recorded(result: &Recorded) -> (&'static str, &'static str, AttributeValue) {
    match result {
        Recorded::Kept(bytes) => ("recorded", "notKept", AttributeValue::B(Blob::new(bytes.clone()))),
        Recorded::NotKept(why) => ("notKept", "recorded", text(why)),
    }
}

pub(super) fn key(signal: &Signal) -> Item {
    let (id, processor) = (text(signal.id.as_str()), text(signal.processor.as_str()));
    HashMap::from([("id".to_owned(), id), ("processorId".to_owned(), processor)])
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
    let completed_at = optional_number(item, "completedAt")?;
    let expires_on = optional_number(item, "expiresOn")?.filter(|_| completed_at.is_some());
    let expired = expires_on.zip(now).is_some_and(|(second, now)| second <= now.second());
    let state = match (completed_at, expired, item.contains_key("unknownSince")) {
        (Some(_), true, _) => State::Expired,
        (Some(_), false, _) => State::Completed,
        (None, _, true) => State::Unknown,
        (None, _, false) => State::Running,
    };
    let started_at = number_of(item, "startedAt")?;
    let limit = number_of(item, "maxProcessingTime")?.max(0).cast_unsigned();
    let run = Run {
        attempt: AttemptId::new(text_of(item, "attempt")?).map_err(|cause| foreign(cause.to_string()))?,
        beat: number_of(item, "beat")?.cast_unsigned(),
    };
    let beat_at = optional_number(item, "beatAt")?.filter(|_| state == State::Running);
    Ok(Record {
        signal: signal(item)?,
        state,
        run,
        number: number_of(item, "attemptNumber")?.cast_unsigned(),
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

pub(super) fn text_of<'a>(item: &'a Item, name: &str) -> Result<&'a str, StoreError> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        _ => Err(foreign(format!("an item has no text {name}"))),
    }
}

fn number_of(item: &Item, name: &str) -> Result<i64, StoreError> {
    optional_number(item, name)?.ok_or_else(|| foreign(format!("an item has no number {name}")))
}

fn optional_number(item: &Item, name: &str) -> Result<Option<i64>, StoreError> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(number)) => {
            number.parse().map(Some).map_err(|_| foreign(format!("{name} is {number}")))
        }
        Some(_) => Err(foreign(format!("{name} is no number"))),
    }
}

/// An item that makes no sense.
fn foreign(what: String) -> StoreError {
    StoreError::needs_attention(
        format!("the table has an item that is not the ledger's: {what}"),
        "give the ledger a table of its own",
    )
}
