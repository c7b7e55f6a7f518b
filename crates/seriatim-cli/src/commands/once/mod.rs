//! `seriatim once`: commands that run once for each signal, and what is remembered about them.

mod arguments;
mod child;
mod init;
mod manage;
mod run;
mod show;
mod steps;
mod unix_signals;
mod waiting;

use std::path::Path;

use seriatim::name::{ProcessorId, SignalId};
use seriatim::once::{OnceError, Signal};

use arguments::Which;
pub use arguments::{Form, Once};
pub use show::lines;

use crate::config::{self, Environment};
use crate::error::{Error, Result};

/// Runs the command.
pub async fn execute(file: &Path, arguments: &Once) -> Result<()> {
    let store = config::load_store(file, &Environment::of_process())?;
    match arguments {
        Once::Run(arguments) => run::execute(&store, arguments).await,
        Once::Start(arguments) => steps::start(&store, arguments).await,
        Once::Beat(arguments) => steps::beat(&store, arguments).await,
        Once::Complete(arguments) => steps::complete(&store, arguments).await,
        Once::Fail(arguments) => steps::fail(&store, arguments).await,
        Once::List(arguments) => show::list(&store, arguments).await,
        Once::Show(arguments) => show::show(&store, arguments).await,
        Once::Forget(arguments) => manage::forget(&store, arguments).await,
        Once::Resolve(arguments) => manage::resolve(&store, arguments).await,
        Once::Init(arguments) => init::execute(&store, arguments).await,
    }
}

fn signal(which: &Which) -> Result<Signal> {
    let usage = |bad: seriatim::name::BadName| Error::usage(bad.to_string());
    Ok(Signal {
        processor: ProcessorId::new(&which.processor).map_err(usage)?,
        id: SignalId::new(&which.id).map_err(usage)?,
    })
}

fn unheard_of(signal: &Signal) -> Error {
    Error::failed(format!("nothing is known about {signal}")).help("`seriatim once list` shows what is")
}

fn changed(signal: &Signal) -> Error {
    Error::failed(format!("{signal} has changed in the meantime"))
        .help("look at it again with `seriatim once show`")
}

impl From<OnceError> for Error {
    fn from(error: OnceError) -> Self {
        match error {
            OnceError::BadName(bad) => Error::usage(bad.to_string()),
            OnceError::Store(error) => error.into(),
            OnceError::StillRunning { .. } => Error::try_later(error.to_string()),
            OnceError::Unknown { signal, attempt } => {
                let what =
                    format!("{signal} is unknown: attempt {attempt} timed out and may have taken effect");
                Error::failed(what).help("find out, then `seriatim once resolve --completed` or `--rerun`")
            }
            other => Error::failed(other.to_string()),
        }
    }
}
