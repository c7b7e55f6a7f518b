//! `seriatim demo`.

use std::time::Duration;

use crate::args::Demo;
use crate::demo;
use crate::error::Result;
use crate::unix_signals;

/// Runs the command.
pub async fn execute(arguments: &Demo) -> Result<()> {
    let shutdown = unix_signals::shutdown()?;
    tokio::select! {
        shown = demo::show(Duration::from_secs(arguments.seconds.into()), arguments.serve) => shown,
        () = shutdown => Ok(()),
    }
}
