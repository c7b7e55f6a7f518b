//! Logs: on the standard error, for people or as JSON.

mod repeats;
mod writer;

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use crate::error::{Error, Result};

/// The variable that says what is logged.
const VARIABLE: &str = "SERIATIM_LOG";

/// What is logged when nobody says: what Seriatim does, and what worries others.
const USUAL: &str = "warn,seriatim=info,seriatim_sqlite=info,seriatim_postgres=info,seriatim_handlers=info";

/// Starts logging. Fails when `SERIATIM_LOG` is no filter.
pub fn start(format: LogFormat) -> Result<()> {
    let logs = tracing_subscriber::fmt().with_writer(writer::Logs::default()).with_env_filter(filter()?);
    match format {
        LogFormat::Text => logs.with_ansi(colours()).with_target(false).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Keeps logs back while a command draws on the terminal that they would go to.
pub fn hold() {
    if io::stderr().is_terminal() {
        writer::hold();
    }
}

/// Writes the logs that were kept back, and those to come.
pub fn release() {
    writer::release();
}

fn filter() -> Result<EnvFilter> {
    let wanted = std::env::var(VARIABLE).ok().filter(|wanted| !wanted.trim().is_empty());
    EnvFilter::try_new(wanted.as_deref().unwrap_or(USUAL)).map_err(|cause| {
        Error::usage(format!("{VARIABLE} is no filter for logs")).caused_by(cause).help(
            "it can be a level (error, warn, info, debug, trace) or a list such as \"warn,seriatim=debug\"",
        )
    })
}

fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
