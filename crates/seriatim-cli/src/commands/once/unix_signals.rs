//! Signals that reach the program while it waits, or while a command runs in its place.

use std::io::{self, IsTerminal};
use std::task::Poll;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};

/// The signals that end or speak to a program.
pub struct Signals {
    heard: Vec<(Signal, tokio::signal::unix::Signal)>,
    /// What a terminal's keys send reaches the command by itself.
    at_terminal: bool,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> Result<Self> {
        let kinds = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        let listen = |(number, kind)| signal(kind).map(|heard| (number, heard));
        let heard: io::Result<Vec<_>> = kinds.into_iter().map(listen).collect();
        let heard = heard.map_err(|cause| Error::failed("signals cannot be heard").caused_by(cause))?;
        Ok(Signals { heard, at_terminal: io::stdin().is_terminal() })
    }

    /// The next one that comes.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let come = self
                .heard
                .iter_mut()
                .find_map(|(number, heard)| heard.poll_recv(context).is_ready().then_some(*number));
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Passes a signal on to the command.
    pub fn pass_on(&self, signal: Signal, command: Option<Pid>) {
        if !(self.at_terminal && [Signal::INT, Signal::QUIT].contains(&signal)) {
            tell(command, signal);
        }
    }
}

/// Sends a signal to a command. One that has ended needs no telling.
pub fn tell(command: Option<Pid>, signal: Signal) {
    if let Some(command) = command {
        let _ = kill_process(command, signal);
    }
}
