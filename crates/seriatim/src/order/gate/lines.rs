//! The gate for a consumer that only has JSON lines.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{Admit, Arrived, EventId, Gate, GateError, GateState, Link};
use crate::name::ObjectName;
use crate::order::NotALink;

/// A line that is no event of a chain, or that the gate has no answer to.
#[derive(Debug, Error)]
pub enum LineError {
    /// Not what was expected.
    #[error("this line is no event of a chain, {why}: {line}")]
    NotAnEvent {
        /// The line.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// Its `prev` is not smaller than its `id`.
    #[error(transparent)]
    NotALink(#[from] NotALink),
    /// The gate.
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// What a gate reads of a line. The object is what `object` says, or else the `key`, whatever it looks like.
#[derive(Deserialize)]
struct Line {
    id: u64,
    prev: Option<u64>,
    object: Option<String>,
    key: Option<Value>,
}

/// Reads events as JSON lines, each with `id`, `prev` and `object` (or `key`), and gives back those that are to be applied.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use seriatim::order::{Gate, JsonLines, Limits, MemoryGateState};
///
/// let mut gate = JsonLines::new(Gate::open(MemoryGateState::default(), Limits::default()).await?);
/// let early = r#"{"object":"work:1","id":2,"prev":1}"#;
/// let first = r#"{"object":"work:1","id":1,"prev":null}"#;
/// assert_eq!(gate.next(early).await?, None);
/// assert_eq!(gate.next(first).await?.as_deref(), Some(first));
/// // … apply the line, then say so.
/// assert_eq!(gate.applied(first).await?.as_deref(), Some(early));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct JsonLines<S> {
    gate: Gate<S>,
}

impl<S: GateState> JsonLines<S> {
    /// Lines through this gate.
    pub fn new(gate: Gate<S>) -> Self {
        JsonLines { gate }
    }

    /// The gate itself, for its gaps.
    pub fn gate(&mut self) -> &mut Gate<S> {
        &mut self.gate
    }

    /// Takes a line in. Returns it when it is to be applied now, nothing when it was applied before or is held.
    pub async fn next(&mut self, line: &str) -> Result<Option<String>, LineError> {
        let event = parse(line)?;
        Ok(match self.gate.admit(&event).await? {
            Admit::Apply => Some(event.body),
            Admit::Duplicate | Admit::Wait { .. } => None,
        })
    }

    /// Records that a line was applied, and returns the one that is to be applied next, if it was held.
    pub async fn applied(&mut self, line: &str) -> Result<Option<String>, LineError> {
        let next = self.gate.applied(&parse(line)?).await?;
        Ok(next.map(|event| event.body))
    }

    /// The lines that were held when their turn came, and not applied: what to begin with after a restart.
    pub async fn left_over(&self) -> Result<Vec<String>, LineError> {
        let mut lines = Vec::new();
        for object in self.gate.waiting() {
            lines.extend(self.gate.ready(&object).await?.map(|event| event.body));
        }
        Ok(lines)
    }
}

fn parse(line: &str) -> Result<Arrived, LineError> {
    let line = line.trim();
    let wrong = |why: String| LineError::NotAnEvent { line: line.to_owned(), why };
    let read: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    let object = read.object.or_else(|| read.key.filter(|key| !key.is_null()).map(|key| key.to_string()));
    let object = object.ok_or_else(|| wrong("it has neither `object` nor `key`".to_owned()))?;
    let object = ObjectName::new(&object).map_err(|bad| wrong(bad.to_string()))?;
    let link = Link::new(EventId(read.id), read.prev.map(EventId))?;
    Ok(Arrived { object, link, body: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_object_or_has_a_key() {
        let of = |line: &str| parse(line).unwrap().object.as_str().to_owned();
        assert_eq!(of(r#"{"object":"work:1","id":1,"prev":null}"#), "work:1");
        assert_eq!(of(r#"{"key":{"id":42},"id":4211,"prev":4017,"after":{}}"#), r#"{"id":42}"#);
    }

    #[test]
    fn a_line_that_is_no_event_says_why() {
        let why = |line: &str| parse(line).unwrap_err().to_string();
        assert!(why(r#"{"id":1,"prev":null}"#).contains("neither `object` nor `key`"));
        assert!(why(r#"{"object":"a","id":-1,"prev":null}"#).contains("invalid value"));
        assert!(why("tea").contains("no event of a chain"));
        assert!(why(r#"{"object":"a","id":1,"prev":2}"#).contains("not smaller"));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_is_an_event_or_a_sentence(
            line in r#"\PC{0,60}|\{"(object|key)":("\PC{0,5}"|[0-9]{1,3}|null|\{\}),"id":-?[0-9]{1,22},"prev":(null|[0-9]{1,22})\}?"#
        ) {
            match parse(&line) {
                Ok(event) => prop_assert!(event.link.prev().is_none_or(|prev| prev < event.link.id())),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
