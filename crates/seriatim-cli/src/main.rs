//! The program `seriatim`: every change of a database's records, handled in order, once.
//!
//! ```text
//!   args ──▶ config ──▶ setup: stores, captures ──▶ commands, one file each ──▶ output
//! ```
//!
//! Results go to the standard output, logs and errors to the standard error. It ends with 0 when it is done, with 1 when
//! it failed, and with 2 when the command line or the configuration is wrong. `once run` ends as the command that it ran, and with
//! 75 when somebody else is still at it.

mod args;
mod help;
mod config;
mod databases;
mod setup;
mod children;
mod handlers;
mod commands;
mod demo;
mod error;
mod logging;
mod metrics;
mod output;
mod unix_signals;

use std::process::ExitCode;

use args::LogFormat;
use error::{Error, Exit};

/// Changes are made on one thread and dropped on another: see docs/dependencies.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    children::launched().unwrap_or_else(run)
}

#[tokio::main]
async fn run() -> ExitCode {
    let arguments = help::arguments();
    let format = arguments.global.log_format;
    let done = match logging::start(format) {
        Ok(()) => commands::execute(arguments).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end(&error, format),
    }
}

fn end(error: &Error, format: LogFormat) -> ExitCode {
    for error in std::iter::once(error).chain(error.others()) {
        match (error.exit(), format) {
            (Exit::Quiet | Exit::Command(_), _) => {}
            (_, LogFormat::Text) => output::error(error),
            (_, LogFormat::Json) => tracing::error!(help = error.remedy(), "{}", error.sentence()),
        }
    }
    ExitCode::from(error.exit().code())
}
