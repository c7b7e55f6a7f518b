//! Redis' errors, in sentences that say what to do.

use redis::{ErrorKind, ServerErrorKind};
use seriatim::source::SourceError;
use seriatim::store::StoreError;
use thiserror::Error;

/// Redis could not do something.
#[derive(Debug, Error)]
#[error("{doing}: {said}")]
pub struct RedisError {
    doing: String,
    said: String,
    remedy: Option<String>,
    #[source]
    cause: Option<redis::RedisError>,
}

impl RedisError {
    pub(crate) fn new(doing: impl Into<String>, cause: redis::RedisError) -> Self {
        let remedy = remedy(&cause).map(str::to_owned);
        RedisError { doing: doing.into(), said: cause.to_string(), remedy, cause: Some(cause) }
    }

    /// A URL that is none; `why` repeats nothing of it.
    pub(crate) fn url(why: &str) -> Self {
        let remedy = "write it as redis://[user:password@]host[:port][/db], or rediss://… for TLS, with what is special in the password as %XX";
        let (said, remedy) = (why.to_owned(), Some(remedy.to_owned()));
        RedisError { doing: "reading the URL of Redis".into(), said, remedy, cause: None }
    }

    /// Something that only a person can change.
    pub(crate) fn settings(what: impl Into<String>, remedy: &str) -> Self {
        RedisError {
            doing: "using Redis".into(),
            said: what.into(),
            remedy: Some(remedy.to_owned()),
            cause: None,
        }
    }

    /// An answer that no script of ours gives.
    pub(crate) fn answer(doing: impl Into<String>, said: impl Into<String>) -> Self {
        let remedy =
            Some("somebody else writes to these keys, or another version of Seriatim does".to_owned());
        RedisError { doing: doing.into(), said: said.into(), remedy, cause: None }
    }

    /// A call that was refused, and does no good when it is repeated.
    pub(crate) fn refused(doing: impl Into<String>, said: impl Into<String>, remedy: &str) -> Self {
        RedisError { doing: doing.into(), said: said.into(), remedy: Some(remedy.to_owned()), cause: None }
    }

    /// The same call may succeed later.
    pub(crate) fn for_now(doing: impl Into<String>, said: impl Into<String>) -> Self {
        RedisError { doing: doing.into(), said: said.into(), remedy: None, cause: None }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.remedy.is_none()
    }

    /// What a person can do about it, when trying again is no use.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

/// What somebody has to do; nothing when it is worth another try: a server that is gone, loads, fails over or is full comes back.
fn remedy(cause: &redis::RedisError) -> Option<&'static str> {
    match cause.kind() {
        ErrorKind::AuthenticationFailed => Some("check the user name and password in the URL"),
        ErrorKind::InvalidClientConfig => Some("check the URL"),
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Some(
            "check that the URL leads to a Redis server, version 7 or newer, and that nobody else uses these keys",
        ),
        ErrorKind::Server(ServerErrorKind::CrossSlot) => {
            Some("give all keys of one push the hash tag of the queue's prefix")
        }
        _ if matches!(cause.code(), Some("WRONGTYPE")) => {
            Some("somebody else uses a key with the queue's prefix: give the queue a prefix of its own")
        }
        _ if matches!(cause.code(), Some("NOPERM")) => {
            Some("give the user the right to run scripts on these keys")
        }
        _ if matches!(cause.code(), Some("WRONGPASS" | "NOAUTH")) => {
            Some("check the user name and password in the URL")
        }
        _ => None,
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        match error.remedy.clone() {
            None => StoreError::unavailable("Redis", error),
            Some(remedy) => StoreError::needs_attention(error.to_string(), remedy),
        }
    }
}

impl From<RedisError> for SourceError {
    fn from(error: RedisError) -> Self {
        match error.remedy.clone() {
            None => SourceError::unavailable("Redis", error),
            Some(remedy) => SourceError::needs_attention(error.to_string(), remedy),
        }
    }
}
