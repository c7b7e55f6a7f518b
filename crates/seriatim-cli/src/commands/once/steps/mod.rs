//! `seriatim once start`, `beat`, `complete` and `fail`: the steps of `once run`, for programs that do the work themselves.
//!
//! Each is a process of its own, so the attempt's id is all that connects them. A caller that is killed in between leaves a claim
//! that times out.

mod arguments;
mod result;

use std::io::Read;
use std::time::Duration;

use serde_json::value::RawValue;
use seriatim::clock;
use seriatim::name::AttemptId;
use seriatim::once::{self, Attempt, Begun, Entry, OnceError, Recorded, Resumed, Settings, State};

use arguments::Whose;
pub use arguments::{Beat, Complete, Fail, Start};

use super::signal;
use super::unix_signals::Signals;
use super::waiting::{self, ANSWER_WITHIN, Over};
use crate::databases::Database;
use crate::error::{Error, Result};
use crate::output;

/// For how long a store that is away is asked again by `beat`, `complete` and `fail`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Claims a signal and prints the attempt, or what the signal's effect returned.
pub async fn start(store: &Database, arguments: &Start) -> Result<()> {
    let signal = signal(&arguments.which)?;
    let mut signals = Signals::listen()?;
    let began = clock::now();
    let deadline = began + arguments.max_wait + ANSWER_WITHIN;
    let explain = |over: Over| over.explain(arguments.max_wait, "nothing was claimed");
    let ledger = tokio::select! {
        biased;
        opened = waiting::open(store, began + arguments.max_wait) => opened?,
        over = waiting::over(&mut signals, deadline) => return Err(explain(over)),
    };
    let settings = Settings {
        max_processing_time: arguments.max_processing_time,
        max_wait: Some(arguments.max_wait.saturating_sub(began.elapsed())),
        on_timeout: arguments.on_timeout.into(),
        ..Settings::default()
    };
    let once = once::Once::new(ledger, signal.processor.as_str()).settings(settings);
    let stop = waiting::over(&mut signals, deadline);
    match once.start_unless(signal.id.as_str(), stop).await {
        Ok(Entry::Begun(Begun::Run(attempt))) => hand_over(&once, &attempt, arguments.json).await,
        Ok(Entry::Begun(Begun::Duplicate(recorded))) => completed(&recorded, arguments.json),
        Ok(Entry::Stopped(over)) => Err(explain(over)),
        Err(error) => {
            match &error {
                OnceError::StillRunning { .. } => say("running", None, arguments.json)?,
                OnceError::Unknown { .. } => say("unknown", None, arguments.json)?,
                _ => {}
            }
            Err(error.into())
        }
    }
}

/// Prints the attempt. A caller that does not learn of it will not run: its claim is given back.
async fn hand_over(once: &once::Once, attempt: &Attempt, json: bool) -> Result<()> {
    let id = serde_json::Value::from(attempt.id().as_str()).to_string();
    let shown = if json { &*id } else { attempt.id().as_str() };
    let said = say("run", Some(("attempt", shown)), json);
    if said.is_err() {
        once.fail(attempt).await;
    }
    said
}

fn completed(recorded: &Recorded, json: bool) -> Result<()> {
    match recorded {
        Recorded::Kept(bytes) => say("completed", Some(("result", &result::as_json(bytes))), json),
        Recorded::NotKept(why) => {
            tracing::warn!("{why}");
            say("completed", Some(("result", "null")), json)
        }
    }
}

/// Prints a state, and what belongs to it: as JSON, or as words.
fn say(state: &str, more: Option<(&str, &str)>, json: bool) -> Result<()> {
    let line = match (json, more) {
        (true, Some((name, value))) => format!(r#"{{"state":"{state}","{name}":{value}}}"#),
        (true, None) => format!(r#"{{"state":"{state}"}}"#),
        (false, Some((_, value))) => format!("{state} {value}"),
        (false, None) => state.to_owned(),
    };
    Ok(output::line(line)?)
}

/// A sign of life: the attempt's time counts from now.
pub async fn beat(store: &Database, arguments: &Beat) -> Result<()> {
    let (once, Resumed { mut attempt, .. }) = resume(store, &arguments.whose, Settings::default()).await?;
    once.extend(&mut attempt).await.map_err(|error| no_longer(&arguments.whose, error))?;
    done("running", &arguments.whose)
}

/// Records that the effect happened, and what it returned.
pub async fn complete(store: &Database, arguments: &Complete) -> Result<()> {
    let given = given(&arguments.result)?;
    let settings = Settings { expires_after: arguments.expires_after.0, ..Settings::default() };
    let (once, Resumed { attempt, .. }) = resume(store, &arguments.whose, settings).await?;
    let recorded = Recorded::bytes(given.into_bytes(), once.largest_result());
    once.complete(&attempt, recorded).await.map_err(|error| no_longer(&arguments.whose, error))?;
    done("completed", &arguments.whose)
}

/// Gives the claim back: the next caller runs at once.
pub async fn fail(store: &Database, arguments: &Fail) -> Result<()> {
    let (once, Resumed { attempt, state }) = resume(store, &arguments.whose, Settings::default()).await?;
    if matches!(state, State::Completed | State::Expired) {
        let what = format!("{}: attempt {} has completed", attempt.signal(), arguments.whose.attempt);
        return Err(Error::failed(what).help("`seriatim once forget` makes a completed signal run again"));
    }
    once.fail(&attempt).await;
    done("failed", &arguments.whose)
}

fn done(state: &str, whose: &Whose) -> Result<()> {
    if whose.json { say(state, None, true) } else { Ok(()) }
}

/// The attempt of `once start`, if it still counts.
async fn resume(store: &Database, whose: &Whose, settings: Settings) -> Result<(once::Once, Resumed)> {
    let signal = signal(&whose.which)?;
    let attempt = AttemptId::new(&whose.attempt).map_err(|bad| Error::usage(bad.to_string()))?;
    let ledger = waiting::open(store, clock::now() + PATIENCE).await?;
    let settings = Settings { max_wait: Some(PATIENCE), ..settings };
    let once = once::Once::new(ledger, signal.processor.as_str()).settings(settings);
    let resumed = once.resume(signal.id.as_str(), &attempt).await;
    Ok((once, resumed.map_err(|error| no_longer(whose, error))?))
}

/// An attempt that no longer counts is named.
fn no_longer(whose: &Whose, error: OnceError) -> Error {
    match error {
        OnceError::Superseded { signal, .. } => {
            let what = format!("{signal}: attempt {} no longer counts", whose.attempt);
            Error::failed(what).help(
                "it took longer than --max-processing-time without `once beat`, or it was given back; its effect is recorded by nobody",
            )
        }
        other => other.into(),
    }
}

/// The result that the command line, or the standard input, gives.
fn given(argument: &str) -> Result<String> {
    let text = match argument {
        "-" => read_input()?,
        text => text.to_owned(),
    };
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(value) => Ok(value.get().to_owned()),
        Err(error) => Err(Error::usage(format!("--result is not JSON: {error}"))
            .help(r#"write it as JSON, such as '{"sent":true}' or '"text"'"#)),
    }
}

fn read_input() -> Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|cause| Error::failed("the standard input cannot be read").caused_by(cause))?;
    Ok(text)
}
