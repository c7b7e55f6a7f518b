//! What can go wrong with a source, by what the caller can do about it.

use thiserror::Error;

/// The cause under an error, kept for its chain.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A source did not do what it was asked.
#[derive(Debug, Error)]
pub enum SourceError {
    /// It cannot be reached or is busy just now: the same call may succeed later.
    #[error("{doing}: {cause}")]
    Unavailable {
        /// What was being done, and to what.
        doing: String,
        /// Why it failed.
        #[source]
        cause: Cause,
    },
    /// It will not work until somebody does something; trying again is no use.
    #[error("{what}; {remedy}")]
    NeedsAttention {
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
}

impl SourceError {
    /// An error that is worth another try.
    pub fn unavailable(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        SourceError::Unavailable { doing: doing.into(), cause: cause.into() }
    }

    /// An error that waits for a person.
    pub fn needs_attention(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        SourceError::NeedsAttention { what: what.into(), remedy: remedy.into() }
    }
}
