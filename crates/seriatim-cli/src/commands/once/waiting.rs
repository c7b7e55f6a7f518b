//! How callers of `once` wait for a store and for other callers.

use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::Ledger;
use tokio::time::Instant;

use super::unix_signals::Signals;
use crate::databases::{self, Database};
use crate::error::{Error, Result};

/// How much longer than `--max-wait` an answer of the store may take: it decides by itself when the wait is over.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The pause before a store that is away is asked again.
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

/// Opens the ledger. One that is away is waited for, as somebody else's run is.
pub async fn open(store: &Database, until: Instant) -> Result<Arc<dyn Ledger>> {
    loop {
        match databases::open_ledger(store).await {
            Err(error) if error.may_pass() && clock::now() + CONNECT_AGAIN < until => {
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            opened => return opened,
        }
    }
}

/// Why a caller ends before it has a claim.
pub enum Over {
    Signal(rustix::process::Signal),
    NoAnswer,
}

/// Returns when the caller is told to end, or when its time is over and the store has not answered.
pub async fn over(signals: &mut Signals, deadline: Instant) -> Over {
    tokio::select! {
        signal = signals.next() => Over::Signal(signal),
        () = tokio::time::sleep_until(deadline) => Over::NoAnswer,
    }
}

impl Over {
    /// The error that the program ends with; `so` says what did not happen.
    pub fn explain(self, max_wait: Duration, so: &str) -> Error {
        match self {
            // Shells answer so for what a signal ended.
            Over::Signal(signal) => Error::command(128 + signal.as_raw() as u8),
            Over::NoAnswer => {
                let what = format!("store: it did not answer within --max-wait ({max_wait:?})");
                Error::failed(what).help(format!("check that the store can be reached; {so}"))
            }
        }
    }
}
