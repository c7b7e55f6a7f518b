//! `seriatim once run`: protects any command, as `flock` does for locks.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{self, Attempt, Begun, Entry, Ledger, OnceError, Recorded, Settings};
use tokio::time::Instant;

use super::arguments::{OnTimeout, Run};
use super::child::{Child, Ended};
use super::signal;
use super::unix_signals::Signals;
use crate::databases;
use crate::databases::Database;
use crate::error::{Error, Result};

/// How much longer than `--max-wait` an answer of the store may take: it decides by itself when the wait is over.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The pause before a store that is away is asked again.
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

/// Runs the command, unless it has run before.
pub async fn execute(store: &Database, arguments: &Run) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let mut signals = Signals::listen()?;
    let began = clock::now();
    let deadline = began + arguments.max_wait + ANSWER_WITHIN;
    let ledger = tokio::select! {
        biased;
        opened = open(store, began + arguments.max_wait) => opened?,
        over = over(&mut signals, deadline) => return Err(over.explain(arguments)),
    };
    let once = once::Once::new(ledger, signal.processor.as_str()).settings(settings(arguments, began));
    let begun = match once.start_unless(signal.id.as_str(), over(&mut signals, deadline)).await? {
        Entry::Begun(begun) => begun,
        Entry::Stopped(over) => return Err(over.explain(arguments)),
    };
    match begun {
        Begun::Run(attempt) => protect(&once, &attempt, signals, arguments).await,
        Begun::Duplicate(Recorded::Kept(output)) => print(&output),
        Begun::Duplicate(Recorded::NotKept(why)) => Err(OnceError::ResultNotKept { signal, why }.into()),
    }
}

/// Opens the ledger. One that is away is waited for, as somebody else's run is.
async fn open(store: &Database, until: Instant) -> Result<Arc<dyn Ledger>> {
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
enum Over {
    Signal(rustix::process::Signal),
    NoAnswer,
}

/// Returns when the caller is told to end, or when its time is over and the store has not answered.
async fn over(signals: &mut Signals, deadline: Instant) -> Over {
    tokio::select! {
        signal = signals.next() => Over::Signal(signal),
        () = tokio::time::sleep_until(deadline) => Over::NoAnswer,
    }
}

impl Over {
    fn explain(self, arguments: &Run) -> Error {
        match self {
            // Shells answer so for what a signal ended.
            Over::Signal(signal) => Error::command(128 + signal.as_raw() as u8),
            Over::NoAnswer => {
                let what = format!("store: it did not answer within --max-wait ({:?})", arguments.max_wait);
                Error::failed(what).help("check that the store can be reached; the command was not run")
            }
        }
    }
}

fn settings(arguments: &Run, began: Instant) -> Settings {
    Settings {
        max_processing_time: arguments.max_processing_time,
        expires_after: arguments.expires_after.0,
        // Connecting has taken its part of it.
        max_wait: Some(arguments.max_wait.saturating_sub(began.elapsed())),
        heartbeat: arguments.heartbeat,
        on_timeout: match arguments.on_timeout {
            OnTimeout::Rerun => once::OnTimeout::Rerun,
            OnTimeout::Unknown => once::OnTimeout::Unknown,
        },
        result_limit: arguments.max_output,
        ..Settings::default()
    }
}

async fn protect(once: &once::Once, attempt: &Attempt, signals: Signals, arguments: &Run) -> Result<()> {
    let limit = once.largest_result();
    let mut child = match Child::start(&arguments.command, signals) {
        Ok(child) => child,
        Err(error) => {
            once.fail(attempt).await;
            return Err(error);
        }
    };
    let ended = tokio::select! {
        biased;
        ended = child.run(limit) => ended,
        stopped = once.watch_over(attempt.clone()) => {
            child.stop().await;
            return Err(stopped.into());
        }
    };
    match ended {
        Ok(Ended::Well(output)) => Ok(once.complete(attempt, output).await?),
        Ok(Ended::Badly(code)) => {
            once.fail(attempt).await;
            Err(Error::command(code))
        }
        // The command may be at it still, or have done it: the claim is left to time out.
        Err(error) => Err(error),
    }
}

fn print(output: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(output)?;
    out.flush()?;
    Ok(())
}
