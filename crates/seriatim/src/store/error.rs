//! What can go wrong with a store, by what the caller can do about it.

use std::time::Duration;

use thiserror::Error;

use crate::lease::Liveness;
use crate::name::{Epoch, FeedName, HostName, SessionId};
use crate::source::Cause;

/// A store did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be reached or is busy just now: the same call may succeed later. It may also have happened.
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

impl StoreError {
    /// An error that is worth another try.
    pub fn unavailable(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        StoreError::Unavailable { doing: doing.into(), cause: cause.into() }
    }

    /// An error that waits for a person.
    pub fn needs_attention(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        StoreError::NeedsAttention { what: what.into(), remedy: remedy.into() }
    }
}

/// A host could not enter.
#[derive(Debug, Error)]
pub enum JoinError {
    /// Another process runs under this name.
    #[error("a host named {host} is already there")]
    NameTaken {
        /// The name.
        host: HostName,
        /// The session that holds it.
        session: SessionId,
        /// Moves while the holder renews.
        beat: u64,
        /// How long the holder may be silent.
        expire: Duration,
        /// What the store knows about the holder's process.
        liveness: Liveness,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A feed could not be set up.
#[derive(Debug, Error)]
pub enum EnsureError {
    /// The feed exists with another number of partitions.
    #[error(
        "feed {feed} has {existing} partitions in the store, and now {wanted} are asked for; keys would change places \
         and lose their order: set partitions = {existing}, or give the feed a new name to start it afresh (then everything is \
         handled again: empty totals that are kept by differences first)"
    )]
    PartitionCount {
        /// The feed.
        feed: FeedName,
        /// How many it has.
        existing: u32,
        /// How many were asked for.
        wanted: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A checkpoint did not happen.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The lease has changed hands: this owner's word counts no more.
    #[error("the lease is lost: its epoch is {by} now")]
    Fenced {
        /// The epoch that the lease has now.
        by: Epoch,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
