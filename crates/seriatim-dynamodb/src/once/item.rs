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
//!
//! An item of Mnemosyne has the first two rows and `expiresOn` alone. Completed, it is a duplicate; started, it is a run whose version is
//! its `startedAt`, which everybody who begins it there writes anew. Nothing has to be migrated: the first claim here makes it an
//! item of this kind.

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, State};
use seriatim::store::StoreError;

use crate::clock::Now;
use crate::item::{Item, foreign, key_of, number, number_of, optional_number, optional_text, text, text_of};

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

/// What the attempt of an item of Mnemosyne begins with; the rest is its `startedAt`.
const MNEMOSYNE: &str = "mnemosyne-";

/// The attempt that an item is about.
pub(super) fn attempt(item: &Item) -> Result<AttemptId, StoreError> {
    let id = match optional_text(item, "attempt") {
        Some(attempt) => AttemptId::new(attempt),
        None => AttemptId::new(&format!("{MNEMOSYNE}{}", number_of::<i64>(item, "startedAt")?)),
    };
    id.map_err(|cause| foreign(cause.to_string()))
}

/// The condition that an item is still about this attempt, and its value.
pub(super) fn is_about(attempt: &AttemptId) -> (&'static str, AttributeValue) {
    match attempt.as_str().strip_prefix(MNEMOSYNE) {
        Some(started) => ("attribute_not_exists(attempt) AND startedAt = :seen", number(started)),
        None => ("attempt = :seen", text(attempt.as_str())),
    }
}

/// The record that an item is, at this time. `unsaid` is the time of a run that does not say how long it takes.
pub(super) fn record(item: &Item, now: Option<Now>, unsaid: Duration) -> Result<Record, StoreError> {
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
    let is_mnemosynes = !item.contains_key("attempt");
    let limit = optional_number::<i64>(item, "maxProcessingTime")?;
    let limit = limit.map(|limit| Duration::from_millis(limit.max(0).cast_unsigned()));
    let run = Run { attempt: attempt(item)?, beat: optional_number(item, "beat")?.unwrap_or(0) };
    let beat_at = optional_number(item, "beatAt")?.filter(|_| state == State::Running);
    Ok(Record {
        signal: signal(item)?,
        state,
        run,
        number: optional_number(item, "attemptNumber")?.unwrap_or(0),
        started_at: time(started_at),
        // Both are estimates of the service's time.
        completed_at: completed_at.map(|at| time(at.max(started_at))),
        expires_on: expires_on.map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX)),
        max_processing_time: limit.unwrap_or(unsaid),
        stood_still: beat_at.zip(now).map_or(Duration::ZERO, |(beat_at, now)| since(beat_at, now)),
        result: result(item).or_else(|| (is_mnemosynes && completed_at.is_some()).then(nothing)),
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

/// The result of what returned nothing.
fn nothing() -> Recorded {
    Recorded::Kept(Vec::new())
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}
