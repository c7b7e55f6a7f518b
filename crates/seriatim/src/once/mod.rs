//! **Once.** Remembers which signals a processor has handled, so that each takes effect once.
//!
//! ```text
//!              ┌ never seen, expired ──▶ claim it ──▶ run the effect ─┬─ done ──▶ complete: the result is recorded
//!   protect ───┤                            ▲                         └─ failed ▶ fail: the claim is given back at once
//!              ├ timed out ─────────────────┤ (or it becomes unknown, for somebody to resolve)
//!              ├ running ──▶ wait, look again, decide
//!              └ completed ──▶ the recorded result, nothing runs
//! ```
//!
//! [`Once::protect`] is the front door. [`Ledger`] is what a store has to give: operations that are each atomic in
//! themselves, by which every claim, take-over and completion is one compare-and-set. `decide` is the picture above as a
//! pure function.
//!
//! # When a run has timed out
//! A claim carries the most time that its run takes, and a version: its attempt's id and a beat that a heartbeat moves. It
//! has timed out when its version has stood still for *longer* than that time. How long it stood still is known in two ways,
//! and the longer counts, as each of them is a lower bound of the truth:
//! - what the ledger vouches for ([`Record::stood_still`]) by a clock of the store's own: PostgreSQL's and Redis's server
//!   clock, the kernel's clock since boot that all processes on a SQLite file share, the time that DynamoDB stamps on its
//!   answers. A ledger without one vouches for nothing;
//! - what the caller has seen with its own eyes, on its own monotonic clock.
//!
//! So no caller's time of day is ever compared with another's: a clock that is wrong by an hour steals nothing early and makes
//! nobody wait for ever. The runner counts from before it asked for its claim, everybody else from after it was given.
//!
//! Whether a completion has expired (`expires_on`) is judged by the store's clock too.

mod changes;
mod claim;
mod decide;
mod error;
mod memory;
mod protect;
mod record;
mod settings;
mod standstill;
#[cfg(test)]
mod tests;

use async_trait::async_trait;

pub use changes::{OnceHandler, signal_id};
pub use claim::{Attempt, Begun, Entry, Resumed};
pub use decide::{Step, decide};
pub use error::{OnceError, ProtectError};
pub use memory::MemoryLedger;
pub use protect::{Once, Outcome};
pub use record::{
    Claim, Completion, Cursor, Held, Listing, Page, Record, Recorded, Resolution, Run, Signal, Started, State,
};
pub use settings::{OnTimeout, Overrun, Settings};
pub use standstill::Standstill;

pub use crate::name::{AttemptId, ProcessorId, SignalId};
use crate::store::StoreError;

/// Where signals are remembered.
///
/// # Promises
/// - Each operation happens wholly or not at all, and what it did survives the death of the process and of the machine, as
///   far as the store's other data does.
/// - An error [`StoreError::Unavailable`] may mean that the operation happened and only its answer was lost. Repeating any
///   operation with the same arguments is harmless, and answers as the first time would have.
/// - Times are the store's. No operation compares two callers' times of day.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Claims a signal for an attempt: if there is no record of it, if its completion has expired, or if it is running exactly
    /// as `replacing` says (attempt and beat), which the caller has judged to be timed out.
    ///
    /// A claim that this attempt has already is [`Started::Claimed`] again. Otherwise the record is returned as it stands.
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError>;

    /// A sign of life of a run: moves the beat of its claim, so that its time counts from now. A claim that became unknown is
    /// running again.
    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError>;

    /// Records that the effect happened, with its result, if the claim is still this attempt's. One that became unknown is
    /// known now. Repeating it changes nothing.
    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError>;

    /// Gives a claim back: nothing is remembered, and the next caller runs at once. Somebody else's claim, or a completion, is left
    /// alone: that is success.
    async fn fail(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Makes a run that is exactly as `seen` unknown: it has timed out, and it is not to be repeated before somebody said
    /// whether it happened. `false` when it has changed in the meantime.
    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError>;

    /// Says what became of an unknown run that is exactly as `seen`. `false` when it has changed in the meantime.
    async fn resolve(&self, signal: &Signal, seen: &Run, resolution: &Resolution)
    -> Result<bool, StoreError>;

    /// Forgets whatever is known about the signal, if it is still about the attempt of `seen`. A run that is still at it cannot complete
    /// any more. `false` when another attempt is recorded by now.
    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError>;

    /// What is known about a signal, as of now: never an answer from before an operation that has returned.
    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError>;

    /// Records, page by page, in an order of the store's own. A page may be empty and still not the last. Results are left out
    /// ([`Record::result`] is `None`). Whatever is there all the time is listed once.
    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError>;

    /// Removes at most so many records that have expired, and returns how many it removed. A store that does it by itself
    /// removes none here.
    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError>;

    /// The longest result, in bytes, that the store can keep.
    fn largest_result(&self) -> usize {
        usize::MAX
    }
}
