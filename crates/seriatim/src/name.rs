//! Names and numbers that must not be mixed up.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Names longer than this are refused: they are keys in stores and words on screens.
const LONGEST: usize = 200;

/// Signals' ids are others' words and may be longer; DynamoDB takes no longer ones for its keys.
const LONGEST_SIGNAL: usize = 1024;

/// What the ids of attempts end with whose record time alone does not remove. PostgreSQL's `once_start` writes the same.
const KEPT: &str = "-kept";

/// A name that cannot be used, and why.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{what} {name:?} is no good: {why}")]
pub struct BadName {
    what: &'static str,
    name: String,
    why: String,
}

fn checked(what: &'static str, name: &str, longest: usize) -> Result<Arc<str>, BadName> {
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > longest {
        format!("it is longer than {longest} bytes")
    } else if name.chars().any(char::is_control) {
        "it has a control character in it".to_owned()
    } else {
        return Ok(Arc::from(name));
    };
    Err(BadName { what, name: name.to_owned(), why })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        name!($(#[$doc])* $type, $what, LONGEST, "Accepts any text of 1 to 200 bytes without control characters.");
    };
    ($(#[$doc:meta])* $type:ident, $what:literal, $longest:ident, $accepts:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            #[doc = $accepts]
            pub fn new(name: &str) -> Result<Self, BadName> {
                checked($what, name, $longest).map($type)
            }

            /// The same name in memory of its own: threads that count references to it do not get into each other's way.
            pub fn apart(&self) -> Self {
                $type(Arc::from(&*self.0))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a feed.
    FeedName,
    "feed name"
);
name!(
    /// The name of a host: one running process that owns leases.
    HostName,
    "host name"
);
name!(
    /// Tells one store from every other, also from one that was deleted and made anew at the same place.
    StoreId,
    "store id"
);
name!(
    /// One life of one host: a host that starts again under its old name is another session.
    SessionId,
    "session id"
);

name!(
    /// The name of what handles signals; all instances of one service share it, and what each of them handled counts for all.
    ProcessorId,
    "processor id"
);
name!(
    /// What tells one signal from another: the same each time that the signal is received.
    SignalId,
    "signal id",
    LONGEST_SIGNAL,
    "Accepts any text of 1 to 1024 bytes without control characters."
);
name!(
    /// One attempt to handle one signal, drawn by whoever makes it: a claim is recognised by it, also after a lost answer.
    AttemptId,
    "attempt id"
);

impl AttemptId {
    /// An attempt id that nobody else draws.
    pub fn random() -> Self {
        AttemptId(random_id())
    }

    /// The same attempt, whose record is to be kept until somebody resolves it: a process that knows the id alone can tell.
    pub(crate) fn kept(self) -> Self {
        AttemptId(Arc::from(format!("{self}{KEPT}")))
    }

    /// Whether the attempt's record is to be kept until somebody resolves it.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.ends_with(KEPT)
    }
}

impl SessionId {
    /// A session id that no other process draws.
    pub fn random() -> Self {
        SessionId(random_id())
    }
}

impl StoreId {
    /// A store id that no other store has.
    pub fn random() -> Self {
        StoreId(random_id())
    }
}

fn random_id() -> Arc<str> {
    Arc::from(format!("{:032x}", fastrand::u128(..)))
}

/// What a chain of events is about: a work, an order, a user. Any text will do; it is never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectName(Arc<str>);

impl ObjectName {
    /// Longer names are refused: they are parts of keys.
    const LONGEST: usize = 1024;

    /// Accepts any text of 1 to 1024 bytes.
    pub fn new(name: &str) -> Result<Self, BadName> {
        let why = match name.len() {
            0 => "it is empty",
            length if length > Self::LONGEST => "it is longer than 1024 bytes",
            _ => return Ok(ObjectName(Arc::from(name))),
        };
        Err(BadName { what: "object name", name: name.chars().take(LONGEST).collect(), why: why.to_owned() })
    }

    /// The name as somebody else wrote it: for what is read back, where refusing would strand an object.
    pub fn found(name: &str) -> Self {
        ObjectName(Arc::from(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A slice of a feed, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing number of a lease: one more each time the lease changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next owner.
    pub fn next(self) -> Self {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_say_why() {
        assert_eq!(FeedName::new("").unwrap_err().to_string(), r#"feed name "" is no good: it is empty"#);
        assert!(HostName::new("a\nb").unwrap_err().to_string().contains("control character"));
        assert!(HostName::new(&"x".repeat(201)).is_err());
        assert!(SignalId::new(&"x".repeat(1024)).is_ok());
        assert!(SignalId::new(&"x".repeat(1025)).unwrap_err().to_string().contains("longer than 1024 bytes"));
        assert_eq!(FeedName::new("totals für Öl").unwrap().as_str(), "totals für Öl");
    }

    #[test]
    fn no_two_sessions_are_alike() {
        assert_ne!(SessionId::random(), SessionId::random());
    }
}
