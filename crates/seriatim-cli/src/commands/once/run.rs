//! `seriatim once run`: protects any command, as `flock` does for locks.

use std::io::Write;

use seriatim::once::{self, Attempt, Begun, OnceError, Recorded, Settings};

use super::arguments::{OnTimeout, Run};
use super::child::{Child, Ended};
use super::signal;
use super::signals::Signals;
use crate::config::LedgerPlace;
use crate::databases;
use crate::error::{Error, Result};

/// Runs the command, unless it has run before.
pub async fn execute(place: &LedgerPlace, arguments: &Run) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let mut signals = Signals::listen()?;
    let ledger = databases::open_ledger(place).await?;
    let once = once::Once::new(ledger, signal.processor.as_str()).settings(settings(arguments));
    let begun = tokio::select! {
        begun = once.start(signal.id.as_str()) => begun?,
        // Whoever waits holds nothing. Shells answer so for what a signal ended.
        ended_by = signals.next() => return Err(Error::command(128 + ended_by.as_raw() as u8)),
    };
    match begun {
        Begun::Run(attempt) => protect(&once, &attempt, signals, arguments).await,
        Begun::Duplicate(Recorded::Kept(output)) => print(&output),
        Begun::Duplicate(Recorded::NotKept(why)) => Err(OnceError::ResultNotKept { signal, why }.into()),
    }
}

fn settings(arguments: &Run) -> Settings {
    Settings {
        max_processing_time: arguments.max_processing_time,
        expires_after: arguments.expires_after.0,
        max_wait: Some(arguments.max_wait),
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
