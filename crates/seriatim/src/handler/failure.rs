//! What a handler says when it could not.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::name::Epoch;
use crate::source::Cause;
use crate::store::StoreError;

/// What kind of failure: it decides what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// This change failed: try again, and park its object after the last attempt.
    Change,
    /// This change will never succeed: park its object now.
    Poison,
    /// The target itself is not there: every change would fail. Wait for it; park nothing.
    Target,
}

/// Why a handler could not handle changes.
#[derive(Debug)]
pub struct Failure {
    /// What to do about it.
    pub kind: FailureKind,
    /// What went wrong.
    pub cause: Cause,
    /// The target asked not to be tried again before this has passed.
    pub retry_after: Option<Duration>,
    /// Which of the changes failed, where the handler knows: all before it are done, and of those after it only `done`. With a
    /// transactional handler none at all is done. Without it, a failed batch is halved until the culprit is alone.
    pub culprit: Option<usize>,
    /// Which of the changes after the culprit are done all the same, by their places, where the handler knows.
    pub done: Vec<usize>,
    /// Which of the changes may have been done all the same, by their places: they were begun, and no answer came.
    pub unanswered: Box<[usize]>,
}

impl Failure {
    /// This change failed; it may succeed another time.
    pub fn change(cause: impl Into<Cause>) -> Self {
        Failure {
            kind: FailureKind::Change,
            cause: cause.into(),
            retry_after: None,
            culprit: None,
            done: Vec::new(),
            unanswered: Box::default(),
        }
    }

    /// This change can never succeed.
    pub fn poison(cause: impl Into<Cause>) -> Self {
        Failure { kind: FailureKind::Poison, ..Failure::change(cause) }
    }

    /// The target is not there.
    pub fn target(cause: impl Into<Cause>) -> Self {
        Failure { kind: FailureKind::Target, ..Failure::change(cause) }
    }
}

impl Failure {
    /// The handler panicked: a failure of the change, like any other.
    pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a message");
        Failure::change(format!("the handler panicked: {text}"))
    }

    pub(crate) fn too_slow(timeout: Duration) -> Self {
        Failure::change(format!("the handler took longer than {timeout:?}"))
    }

    /// It was this change of the batch that failed; those before it are done.
    pub fn at(self, culprit: usize) -> Self {
        Failure { culprit: Some(culprit), ..self }
    }

    /// These changes after the culprit are done too: they are not handled again. No change of the culprit's object may be among
    /// them.
    pub fn with_done(self, done: Vec<usize>) -> Self {
        Failure { done, ..self }
    }
}

impl Failure {
    /// Whether these changes were done is not known: they were begun, and no answer came.
    pub fn unanswered_at(self, places: impl IntoIterator<Item = usize>) -> Self {
        Failure { unanswered: places.into_iter().collect(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Any error of a handler of one's own is a failure of that change.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(cause: E) -> Self {
        Failure::change(cause)
    }
}

/// What a closure that handles changes may fail with: a [`Failure`], or any error, `anyhow::Error` and texts included, which is a failure
/// of that change.
///
/// Not for implementing: everything that becomes a `Box<dyn Error + Send + Sync>` has it.
#[diagnostic::on_unimplemented(
    message = "a handler cannot fail with `{Self}`",
    note = "return a `seriatim::Failure`, or any error that is `Send`, `Sync` and `'static`, such as `anyhow::Error`"
)]
pub trait IntoFailure {
    /// The failure that it is.
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }
}

impl<E: Into<Cause>> IntoFailure for E {
    fn into_failure(self) -> Failure {
        Failure::change(self)
    }
}

/// Why effect and checkpoint did not happen: neither of them did, unless the store could not say ([`StoreError::Unavailable`]).
#[derive(Debug, Error)]
pub enum CommitError {
    /// The lease has changed hands.
    #[error("the lease is lost: its epoch is {by} now")]
    Fenced {
        /// The epoch that the lease has now.
        by: Epoch,
    },
    /// The handler failed.
    #[error("{0}")]
    Failed(Failure),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_is_a_failure_of_its_change_and_a_failure_stays_what_it_is() {
        assert_eq!(Failure::target("away").into_failure().kind, FailureKind::Target);
        assert_eq!(std::io::Error::other("broken").into_failure().kind, FailureKind::Change);
        assert_eq!("a text".into_failure().to_string(), "a text");
        // As `anyhow::Error` is one.
        let boxed: Cause = "in a box".into();
        assert_eq!(boxed.into_failure().to_string(), "in a box");
    }
}
