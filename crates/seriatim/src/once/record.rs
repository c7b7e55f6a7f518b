//! What a ledger keeps about a signal, and what it is asked.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::OnceError;
use crate::name::{AttemptId, ProcessorId, SignalId};

/// A record of a run that never ends is kept for at least this long beyond its time, however soon completions expire: a
/// step of the store's clock must not take a live run for an old one.
const KEPT_AT_LEAST: Duration = Duration::from_secs(24 * 3600);

/// A signal, as one processor handles it. Another processor handles it independently.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal {
    /// Who handles it.
    pub processor: ProcessorId,
    /// Which one it is.
    pub id: SignalId,
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "signal {} of processor {}", self.id, self.processor)
    }
}

/// What an attempt asks for, and by which it writes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The signal.
    pub signal: Signal,
    /// The attempt: its right to write.
    pub attempt: AttemptId,
    /// The most time that the run takes without a sign of life.
    pub max_processing_time: Duration,
    /// For how long after that a run of which nothing is heard is remembered; `None` for ever.
    pub kept_for: Option<Duration>,
}

impl Claim {
    /// After how long without a sign of life the record of the run may be removed.
    pub fn removable_after(&self) -> Option<Duration> {
        self.kept_for.map(|kept| self.max_processing_time.saturating_add(kept.max(KEPT_AT_LEAST)))
    }
}

/// A run at one point of its life: what a take-over compares before it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose it is.
    pub attempt: AttemptId,
    /// Moved by every sign of life.
    pub beat: u64,
}

/// Where a signal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody is at it, or was and died.
    Running,
    /// It took effect.
    Completed,
    /// It may have taken effect: somebody has to say.
    Unknown,
    /// It took effect so long ago that it may run again.
    Expired,
}

impl State {
    /// All of them.
    pub const ALL: [State; 4] = [State::Running, State::Completed, State::Unknown, State::Expired];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Completed => "completed",
            State::Unknown => "unknown",
            State::Expired => "expired",
        }
    }
}

/// What is known about a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The signal.
    pub signal: Signal,
    /// Where it stands, by the store's clock.
    pub state: State,
    /// The last attempt.
    pub run: Run,
    /// Which attempt that is, counted from one since the signal was last forgotten or given back.
    pub number: u64,
    /// When that attempt began, by the store's clock.
    pub started_at: Timestamp,
    /// When it completed.
    pub completed_at: Option<Timestamp>,
    /// When the completion stops counting, to the second.
    pub expires_on: Option<Timestamp>,
    /// The most time that the run takes without a sign of life.
    pub max_processing_time: Duration,
    /// For how long the run has stood still, as far as the store can vouch for it: never more than the truth.
    pub stood_still: Duration,
    /// What the effect returned, of a signal that is completed or expired.
    pub result: Option<Recorded>,
}

/// What is kept of an effect's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// All of it.
    Kept(Vec<u8>),
    /// Nothing, and this is why.
    NotKept(String),
}

impl Recorded {
    /// A result as JSON, if it can be that and has at most so many bytes.
    pub fn json(value: &impl Serialize, at_most: usize) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => Recorded::bytes(bytes, at_most),
            Err(cause) => Recorded::NotKept(format!("its result cannot be written as JSON: {cause}")),
        }
    }

    /// A result as it is, if it has at most so many bytes.
    pub fn bytes(bytes: Vec<u8>, at_most: usize) -> Self {
        if bytes.len() <= at_most {
            return Recorded::Kept(bytes);
        }
        Recorded::NotKept(format!("its result has {} bytes, and at most {at_most} are kept", bytes.len()))
    }

    /// Reads what [`Recorded::json`] wrote. An empty result, such as that of a command that printed nothing, is `null`.
    pub fn read<T: DeserializeOwned>(&self, signal: &Signal) -> Result<T, OnceError> {
        match self {
            Recorded::NotKept(why) => {
                Err(OnceError::ResultNotKept { signal: signal.clone(), why: why.clone() })
            }
            Recorded::Kept(bytes) => serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
                .map_err(|cause| OnceError::ResultUnreadable { signal: signal.clone(), cause }),
        }
    }
}

/// An effect that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What it returned.
    pub result: Recorded,
    /// After how long the signal may run again; `None` for never.
    pub expires_after: Option<Duration>,
}

/// The answer to [`super::Ledger::start`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// The attempt has the signal.
    Claimed {
        /// Which attempt it is, counted from one.
        number: u64,
    },
    /// It does not: this is how things stand.
    Found(Box<Record>),
}

/// Whether a claim is still its attempt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is, and what was asked for is done.
    Kept,
    /// Somebody else has taken it over, or has forgotten it. Nothing was changed.
    Lost,
}

/// What somebody knows about an unknown run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It took effect.
    Completed(Completion),
    /// It did not: the next caller runs it.
    RunAgain,
}

/// Which records to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only of this processor.
    pub processor: Option<ProcessorId>,
    /// Only in this state.
    pub state: Option<State>,
    /// About how many in one page.
    pub page: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { processor: None, state: None, page: 1000 }
    }
}

/// Where the next page begins; the store's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Some of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// Where the next page begins, unless this was the last.
    pub next: Option<Cursor>,
}
