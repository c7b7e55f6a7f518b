//! What can go wrong, by what the caller can do about it.

use std::time::Duration;

use thiserror::Error;

use super::Signal;
use crate::name::BadName;
use crate::store::StoreError;

/// A signal could not be claimed, or its completion not recorded.
#[derive(Debug, Error)]
pub enum OnceError {
    /// The processor's or the signal's id cannot be used.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// Somebody is at it, and was for as long as the caller was willing to wait. Nothing ran; ask again later.
    #[error(
        "{signal} is still being handled by attempt {attempt}, after waiting for {waited:.1?}; ask again later"
    )]
    StillRunning {
        /// The signal.
        signal: Signal,
        /// Which attempt is at it.
        attempt: u64,
        /// For how long the caller waited.
        waited: Duration,
    },
    /// A run timed out, and nobody knows whether it took effect. Nothing ran.
    #[error(
        "{signal} is unknown: attempt {attempt} timed out and may have taken effect; find out, then resolve it as completed or \
         to be run again"
    )]
    Unknown {
        /// The signal.
        signal: Signal,
        /// Which attempt it was.
        attempt: u64,
    },
    /// The signal took effect before, and what it returned was not kept. Nothing ran.
    #[error("{signal} has been handled, but {why}; it does not run again")]
    ResultNotKept {
        /// The signal.
        signal: Signal,
        /// Why the result is not there.
        why: String,
    },
    /// The signal took effect before, and what it returned is of another type. Nothing ran.
    #[error("{signal} has been handled, but its recorded result is not what is expected now: {cause}")]
    ResultUnreadable {
        /// The signal.
        signal: Signal,
        /// What is wrong with it.
        #[source]
        cause: serde_json::Error,
    },
    /// The run took longer than `max_processing_time`, or was forgotten: another attempt counts now. The effect of this one may
    /// have happened, and is recorded by nobody.
    #[error(
        "{signal}: this attempt ({attempt}) has lost its claim, and what it did is not recorded; give max_processing_time more \
         room, or turn the heartbeat on"
    )]
    Superseded {
        /// The signal.
        signal: Signal,
        /// Which attempt this was.
        attempt: u64,
    },
    /// The run was stopped because its time was up, as [`super::Overrun::Stop`] asks, or because the ledger could not be told in
    /// time that it is alive. The claim is left to time out.
    #[error("{signal} was stopped: it took longer than its {limit:?}")]
    TookTooLong {
        /// The signal.
        signal: Signal,
        /// Its time.
        limit: Duration,
    },
    /// The effect happened and could not be recorded. The claim is left to time out; then it runs again, or becomes unknown.
    #[error("{signal} took effect, but the ledger could not record it: {cause}")]
    NotRecorded {
        /// The signal.
        signal: Signal,
        /// What the ledger said.
        #[source]
        cause: StoreError,
    },
    /// The ledger failed. Nothing ran.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A protected effect did not come to a recorded result.
#[derive(Debug, Error)]
pub enum ProtectError<E> {
    /// The effect itself failed. Its claim is given back: the next caller runs at once.
    #[error("{0}")]
    Failed(E),
    /// Something else stood in the way.
    #[error(transparent)]
    Once(#[from] OnceError),
}
