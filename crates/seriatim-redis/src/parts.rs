//! Reading what scripts answer, part by part.

use std::time::Duration;

use jiff::Timestamp;
use redis::Value;
use seriatim::name::SessionId;

use crate::error::RedisError;
use crate::script::strings;

pub(crate) type Result<T> = std::result::Result<T, RedisError>;

/// An answer that no script of ours gives.
pub(crate) fn strange(what: impl std::fmt::Debug) -> RedisError {
    RedisError::answer("reading an answer of Redis", format!("{what:?} was not expected"))
}

/// The parts of an answer, from first to last.
pub(crate) struct Parts(pub(crate) std::vec::IntoIter<Vec<u8>>);

impl Parts {
    pub(crate) fn of(answer: Value) -> Result<Self> {
        let shown = format!("{answer:?}");
        Ok(Parts(strings(answer).ok_or_else(|| strange(shown))?.into_iter()))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.0.next().ok_or_else(|| strange("a short answer"))
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(strange)
    }

    pub(crate) fn number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let text = self.text()?;
        text.parse().map_err(|_| strange(text))
    }

    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        let text = self.text()?;
        match text.as_str() {
            "" => Ok(None),
            text => read(text).map(Some).ok_or_else(|| strange(text)),
        }
    }

    /// An expiry; zero where none was published.
    pub(crate) fn expire(&mut self) -> Result<Duration> {
        Ok(self.optional(|text| text.parse().ok().map(Duration::from_millis))?.unwrap_or_default())
    }

    pub(crate) fn session(&mut self) -> Result<SessionId> {
        session(&self.text()?)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        Ok(self.optional(time)?.unwrap_or_default())
    }
}

pub(crate) fn time(text: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(text.parse().ok()?).ok()
}

pub(crate) fn session(text: &str) -> Result<SessionId> {
    SessionId::new(text).map_err(strange)
}

/// The answers in a list of answers.
pub(crate) fn list(answer: Value) -> Result<Vec<Value>> {
    match answer {
        Value::Array(answers) => Ok(answers),
        other => Err(strange(other)),
    }
}

/// Who holds a name: its session, beat and expiry.
pub(crate) fn holder(answer: Value) -> Result<Option<(SessionId, u64, Duration)>> {
    let mut parts = Parts::of(answer)?;
    match parts.0.len() {
        0 => Ok(None),
        _ => Ok(Some((parts.session()?, parts.number()?, parts.expire()?))),
    }
}
