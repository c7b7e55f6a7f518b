//! The handler `stdout`: one line of JSON for each change.

use std::io::{ErrorKind, Write};
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::{Change, Context, Failure, Handler};
use tokio::sync::Notify;

use crate::{Envelope, Sink};

/// Writes changes to the standard output. Changes count as handled once they are flushed.
pub struct Stdout {
    closed: Arc<Notify>,
    envelope: Envelope,
}

impl Stdout {
    /// Tells `closed` when nobody reads any more.
    pub fn new(closed: Arc<Notify>) -> Self {
        Stdout { closed, envelope: Envelope::default() }
    }

    /// The same, with changes in this form.
    pub fn in_form(self, envelope: Envelope) -> Self {
        Stdout { envelope, ..self }
    }
}

impl Sink for Stdout {}

#[async_trait]
impl Handler for Stdout {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        let mut lines = Vec::with_capacity(changes.len() * 256);
        self.envelope.write_all(changes, "\n", &mut lines);
        lines.push(b'\n');
        // A full pipe blocks: that must not hold up the threads that renew leases.
        let written = tokio::task::spawn_blocking(move || {
            let mut out = std::io::stdout().lock();
            out.write_all(&lines).and_then(|()| out.flush())
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                if error.kind() == ErrorKind::BrokenPipe {
                    self.closed.notify_one();
                }
                // Every line would fail: nothing of this is a change's fault.
                Err(Failure::target(error))
            }
            Err(error) => Err(Failure::target(error)),
        }
    }
}
