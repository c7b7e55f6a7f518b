//! The wish that the program ends: SIGTERM or SIGINT.

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};

/// Starts to listen at once, and returns a future that is ready when either signal has come.
pub fn shutdown() -> Result<impl Future<Output = ()> + Send + 'static> {
    let listen =
        |kind| signal(kind).map_err(|cause| Error::failed("signals cannot be heard").caused_by(cause));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
