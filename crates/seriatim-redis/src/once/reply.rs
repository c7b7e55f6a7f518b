//! What the ledger's scripts answer.

use std::time::Duration;

use jiff::Timestamp;
use redis::Value;
use seriatim::once::{AttemptId, ProcessorId, Record, Recorded, Run, Signal, SignalId, Started, State};

use crate::parts::{Parts, Result, list, strange};
use crate::script::string;

/// A signal as keys name it. Neither name has a control character in it.
pub(super) fn name(signal: &Signal) -> String {
    format!("{}\n{}", signal.processor, signal.id)
}

/// The number of an attempt, or the record that kept it out.
pub(super) fn started(answer: Value) -> Result<Started> {
    if let Value::Int(number) = answer {
        return Ok(Started::Claimed { number: number.cast_unsigned() });
    }
    Ok(Started::Found(Box::new(read(Parts::of(answer)?)?)))
}

/// A record, if there is one.
pub(super) fn record(answer: Value) -> Result<Option<Record>> {
    let parts = Parts::of(answer)?;
    if parts.0.len() == 0 { Ok(None) } else { read(parts).map(Some) }
}

/// Where the next page begins, and the records of this one.
pub(super) fn page(answer: Value) -> Result<(Option<String>, Vec<Record>)> {
    let mut answers = list(answer)?.into_iter();
    let mut next = || answers.next().ok_or_else(|| strange("a short answer"));
    let cursor = string(next()?).and_then(|name| String::from_utf8(name).ok());
    let cursor = cursor.ok_or_else(|| strange("no name of a signal"))?;
    let records = list(next()?)?.into_iter().map(|answer| read(Parts::of(answer)?));
    Ok((Some(cursor).filter(|name| !name.is_empty()), records.collect::<Result<_>>()?))
}

fn read(mut parts: Parts) -> Result<Record> {
    let signal = parts.text()?;
    let signal = self::signal(&signal).ok_or_else(|| strange(signal))?;
    let state = parts.text()?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state).ok_or_else(|| strange(state))?;
    let (attempt, number, beat) = (parts.text()?, parts.number()?, parts.number()?);
    let run = Run { attempt: AttemptId::new(&attempt).map_err(strange)?, beat };
    let started_at = parts.optional(moment)?.unwrap_or_default();
    let completed_at = parts.optional(moment)?;
    let expires_on = parts.optional(second)?;
    let (limit, stood_still): (u64, u64) = (parts.number()?, parts.number()?);
    Ok(Record {
        signal,
        state,
        run,
        number,
        started_at,
        completed_at,
        expires_on,
        max_processing_time: Duration::from_millis(limit),
        // Two readings of the server's clock are each cut to a microsecond: one may be missing from their difference.
        stood_still: Duration::from_micros(stood_still.saturating_sub(1)),
        result: result(parts)?,
    })
}

fn result(mut parts: Parts) -> Result<Option<Recorded>> {
    match parts.text()?.as_str() {
        "1" => Ok(Some(Recorded::Kept(parts.bytes()?))),
        "0" => Ok(Some(Recorded::NotKept(parts.text()?))),
        _ => Ok(None),
    }
}

fn signal(name: &str) -> Option<Signal> {
    let (processor, id) = name.split_once('\n')?;
    Some(Signal { processor: ProcessorId::new(processor).ok()?, id: SignalId::new(id).ok()? })
}

fn moment(micros: &str) -> Option<Timestamp> {
    Timestamp::from_microsecond(micros.parse().ok()?).ok()
}

fn second(text: &str) -> Option<Timestamp> {
    Some(Timestamp::from_second(text.parse().ok()?).unwrap_or(Timestamp::MAX))
}
