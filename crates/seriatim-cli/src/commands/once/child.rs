//! A command, as a child process: its output goes through and is recorded, signals are passed on to it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use seriatim::clock;
use seriatim::once::Recorded;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStdout, Command};

use super::unix_signals::{Signals, tell};
use crate::children;
use crate::error::{Error, Result};

/// What shells answer for a command that is not there, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// After its end, output that comes without a pause is still the command's, for so long.
const SILENCE: Duration = Duration::from_millis(100);
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// A command that runs.
pub struct Child {
    process: tokio::process::Child,
    id: Option<Pid>,
    stdout: ChildStdout,
    signals: Signals,
}

/// How a command ended.
pub enum Ended {
    /// With 0, and this output.
    Well(Recorded),
    /// With another code; of a command that a signal ended, 128 and the signal's number, as shells have it.
    Badly(u8),
}

impl Child {
    /// Starts the command with this process's input and error output.
    pub fn start(command: &[OsString], signals: Signals) -> Result<Self> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| Error::usage("there is no command"))?;
        let mut starting = Command::new(program);
        starting.args(arguments).stdout(Stdio::piped());
        // The rest of the environment is the caller's own, and for the command.
        for name in children::own() {
            starting.env_remove(name);
        }
        let mut process = starting.spawn().map_err(|cause| not_started(program, cause))?;
        let id = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let stdout = process.stdout.take().ok_or_else(|| Error::failed("the command has no output"))?;
        Ok(Child { process, id, stdout, signals })
    }

    /// Passes output and signals on until the command has ended. At most `limit` bytes of its output are recorded.
    ///
    /// Its exit is its end: a process that it leaves behind may hold its output open for ever.
    pub async fn run(&mut self, limit: usize) -> Result<Ended> {
        let mut output = Output::new(limit);
        let mut buffer = vec![0; 64 * 1024];
        let mut is_open = true;
        let status = loop {
            tokio::select! {
                read = self.stdout.read(&mut buffer), if is_open => match read {
                    Ok(0) => is_open = false,
                    Ok(read) => output.pass(&buffer[..read]),
                    Err(cause) => return Err(unreadable(cause)),
                },
                status = self.process.wait() => break status,
                signal = self.signals.next() => self.signals.pass_on(signal, self.id),
            }
        };
        let status =
            status.map_err(|cause| Error::failed("the command cannot be waited for").caused_by(cause))?;
        if is_open {
            self.drain(&mut output, &mut buffer).await?;
        }
        Ok(if status.success() { Ended::Well(output.recorded()) } else { Ended::Badly(code(status)) })
    }

    /// Reads what the command printed before its end: that is in the pipe already.
    async fn drain(&mut self, output: &mut Output, buffer: &mut [u8]) -> Result<()> {
        let deadline = clock::now() + DRAIN_WITHIN;
        while clock::now() < deadline {
            match tokio::time::timeout(SILENCE, self.stdout.read(buffer)).await {
                Ok(Ok(0)) => return Ok(()),
                Ok(Ok(read)) => output.pass(&buffer[..read]),
                Ok(Err(cause)) => return Err(unreadable(cause)),
                Err(_) => break,
            }
        }
        tracing::warn!(
            "the command has ended and left a process that holds its output open; what that prints is not recorded"
        );
        Ok(())
    }

    /// Ends the command: somebody else runs it now.
    pub async fn stop(&mut self) {
        tell(self.id, Signal::KILL);
        drop(self.process.wait().await);
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn unreadable(cause: io::Error) -> Error {
    Error::failed("the command's output cannot be read").caused_by(cause)
}

fn not_started(program: &OsString, cause: io::Error) -> Error {
    let program = program.to_string_lossy();
    let code = match cause.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUNNABLE,
    };
    tracing::error!("{program} cannot be run: {cause}");
    Error::command(code)
}

/// What a command prints: passed on as it comes, and kept up to a limit.
struct Output {
    kept: Vec<u8>,
    printed: usize,
    limit: usize,
    reader_is_there: bool,
}

impl Output {
    fn new(limit: usize) -> Self {
        Output { kept: Vec::new(), printed: 0, limit, reader_is_there: true }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.printed += bytes.len();
        if self.printed <= self.limit {
            self.kept.extend_from_slice(bytes);
        }
        // Whoever reads may go; the command is to end and be recorded all the same.
        if self.reader_is_there {
            let mut out = io::stdout().lock();
            self.reader_is_there = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    fn recorded(self) -> Recorded {
        if self.printed <= self.limit {
            return Recorded::Kept(self.kept);
        }
        Recorded::NotKept(format!(
            "its output has {} bytes, and at most {} are kept",
            self.printed, self.limit
        ))
    }
}
