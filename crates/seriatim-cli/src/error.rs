//! What the program says when it could not do what it was asked.

use std::error::Error as StdError;
use std::io;

use seriatim::source::SourceError;
use seriatim::store::{EnsureError, StoreError};

type Cause = Box<dyn StdError + Send + Sync>;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How the program ends when it did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Whoever read the output has gone: nothing is wrong, and nothing is left to say.
    Quiet,
    /// It was asked rightly and failed.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// Not now: the same may succeed later.
    TryLater,
    /// A command that was run for somebody ended so: it has said what there is to say.
    Command(u8),
}

impl Exit {
    /// The code that the program ends with.
    pub fn code(self) -> u8 {
        match self {
            Exit::Quiet => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            // What <sysexits.h> calls EX_TEMPFAIL.
            Exit::TryLater => 75,
            Exit::Command(code) => code,
        }
    }
}

/// What happened, why, and what to do about it.
#[derive(Debug)]
pub struct Error {
    exit: Exit,
    what: String,
    help: Option<String>,
    cause: Option<Cause>,
    may_pass: bool,
    others: Vec<Error>,
}

impl Error {
    /// The command line or the configuration is wrong: exit code 2.
    pub fn usage(what: impl Into<String>) -> Self {
        let (help, cause, others) = (None, None, Vec::new());
        Error { exit: Exit::Usage, what: what.into(), help, cause, may_pass: false, others }
    }

    /// It failed: exit code 1.
    pub fn failed(what: impl Into<String>) -> Self {
        Error { exit: Exit::Failed, ..Error::usage(what) }
    }

    /// It cannot be done now: exit code 75.
    pub fn try_later(what: impl Into<String>) -> Self {
        Error { exit: Exit::TryLater, ..Error::usage(what) }
    }

    /// A command that was run for somebody failed with this code, which is passed on.
    pub fn command(code: u8) -> Self {
        Error { exit: Exit::Command(code), ..Error::usage(format!("the command ended with {code}")) }
    }

    /// Adds what to do about it.
    pub fn help(self, help: impl Into<String>) -> Self {
        Error { help: Some(help.into()), ..self }
    }

    /// Adds what else is wrong.
    pub fn and(self, others: Vec<Error>) -> Self {
        Error { others, ..self }
    }

    /// What else is wrong.
    pub fn others(&self) -> &[Error] {
        &self.others
    }

    /// Adds why it happened.
    pub fn caused_by(self, cause: impl Into<Cause>) -> Self {
        Error { cause: Some(cause.into()), ..self }
    }

    /// Says first what it happened to, such as `feed totals`, unless it does so already.
    pub fn about(self, subject: &str) -> Self {
        if self.what.starts_with(subject) {
            return self;
        }
        Error { what: format!("{subject}: {}", self.what), ..self }
    }

    /// Marks it as one that may pass by itself: a database that is away or busy.
    pub fn passing(self) -> Self {
        Error { may_pass: true, ..self }
    }

    /// Whether the same may succeed later without anybody doing something.
    pub fn may_pass(&self) -> bool {
        self.may_pass
    }

    /// How the program ends.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// What happened, in one line, causes included.
    pub fn sentence(&self) -> String {
        self.causes().fold(self.what.clone(), |sentence, cause| format!("{sentence}: {cause}"))
    }

    /// What to do about it, where there is an answer.
    pub fn remedy(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The causes that the sentence does not say already, outermost first.
    fn causes(&self) -> impl Iterator<Item = String> {
        let mut said = self.what.clone();
        let first = self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static));
        std::iter::successors(first, |cause: &&(dyn StdError + 'static)| (*cause).source())
            .map(ToString::to_string)
            .filter(move |cause| {
                let new = !said.contains(cause.as_str());
                said.push_str(cause);
                new
            })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NeedsAttention { what, remedy } => Error::failed(what).help(remedy),
            StoreError::Unavailable { doing, cause } => Error::failed(doing).caused_by(cause).passing(),
        }
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::NeedsAttention { what, remedy } => Error::failed(what).help(remedy),
            SourceError::Unavailable { doing, cause } => Error::failed(doing).caused_by(cause).passing(),
        }
    }
}

impl From<EnsureError> for Error {
    fn from(error: EnsureError) -> Self {
        match error {
            EnsureError::Store(error) => error.into(),
            count @ EnsureError::PartitionCount { .. } => Error::usage(count.to_string()),
        }
    }
}

/// An error of the standard output, the only file that commands write to without naming it.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error { exit: Exit::Quiet, ..Error::failed("the output is closed") },
            _ => Error::failed("the output cannot be written").caused_by(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let inner = io::Error::other("disk on fire");
        let error = Error::from(StoreError::unavailable("opening a.db", inner));
        assert_eq!(error.sentence(), "opening a.db: disk on fire");
        let repeated =
            Error::failed("opening a.db: disk on fire").caused_by(io::Error::other("disk on fire"));
        assert_eq!(repeated.sentence(), "opening a.db: disk on fire");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert_eq!(Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit(), Exit::Quiet);
    }
}
