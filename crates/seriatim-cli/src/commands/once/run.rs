//! `seriatim once run`: protects any command, as `flock` does for locks.

use std::io::Write;

use seriatim::clock;
use seriatim::once::{self, Attempt, Begun, Entry, OnceError, Recorded, Settings};
use tokio::time::Instant;

use super::arguments::Run;
use super::child::{Child, Ended};
use super::signal;
use super::unix_signals::Signals;
use super::waiting::{ANSWER_WITHIN, open, over};
use crate::databases::Database;
use crate::error::{Error, Result};

const NOT_RUN: &str = "the command was not run";

/// Runs the command, unless it has run before.
pub async fn execute(store: &Database, arguments: &Run) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let mut signals = Signals::listen()?;
    let began = clock::now();
    let deadline = began + arguments.max_wait + ANSWER_WITHIN;
    let ledger = tokio::select! {
        biased;
        opened = open(store, began + arguments.max_wait) => opened?,
        over = over(&mut signals, deadline) => return Err(over.explain(arguments.max_wait, NOT_RUN)),
    };
    let once = once::Once::new(ledger, signal.processor.as_str()).settings(settings(arguments, began));
    let begun = match once.start_unless(signal.id.as_str(), over(&mut signals, deadline)).await? {
        Entry::Begun(begun) => begun,
        Entry::Stopped(over) => return Err(over.explain(arguments.max_wait, NOT_RUN)),
    };
    match begun {
        Begun::Run(attempt) => protect(&once, &attempt, signals, arguments).await,
        Begun::Duplicate(Recorded::Kept(output)) => print(&output),
        Begun::Duplicate(Recorded::NotKept(why)) => Err(OnceError::ResultNotKept { signal, why }.into()),
    }
}

fn settings(arguments: &Run, began: Instant) -> Settings {
    Settings {
        max_processing_time: arguments.max_processing_time,
        expires_after: arguments.expires_after.0,
        // Connecting has taken its part of it.
        max_wait: Some(arguments.max_wait.saturating_sub(began.elapsed())),
        heartbeat: arguments.heartbeat,
        on_timeout: arguments.on_timeout.into(),
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
