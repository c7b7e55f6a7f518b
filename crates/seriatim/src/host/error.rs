//! Why a host could not run.

use std::fmt;

use thiserror::Error;

use super::patience::Patience;
use super::rounded::Rounded;
use crate::name::{BadName, FeedName, HostName};
use crate::source::{Lost, SourceError};
use crate::store::{EnsureError, StoreError, Trouble};

/// A host did not run, or had to stop.
#[derive(Debug, Error)]
pub enum HostError {
    /// The host's name is no good.
    #[error(transparent)]
    Name(#[from] BadName),
    /// Another process runs under the same name.
    #[error("a host named {0} is already running; give this one another name")]
    NameTaken(HostName),
    /// Hosts of an older version run on this store.
    #[error(
        "hosts of an older version run on this store: {}; stop them first: they would not see that this one is alive, and would \
         take its leases", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    OlderHosts(Vec<HostName>),
    /// A feed's source is not usable.
    #[error("feed {feed}: {error}")]
    Source {
        /// The feed.
        feed: FeedName,
        /// What is wrong with its source.
        #[source]
        error: SourceError,
    },
    /// The store has checkpoints of the feed, but its source has never heard of it.
    #[error(
        "feed {feed}: the store has checkpoints of it, but the source does not know it: the source was replaced, restored \
         or unwatched; run `seriatim rewind {feed} --to beginning` to start it afresh on this source"
    )]
    SourceReplaced {
        /// The feed.
        feed: FeedName,
    },
    /// The source knows a consumer of the feed, and the store has no checkpoints of it.
    #[error("feed {feed}: {}; {}", .lost.what(), .lost.remedy())]
    StoreLost {
        /// The feed.
        feed: FeedName,
        /// What the source knows.
        lost: Box<Lost>,
    },
    /// A feed could not be set up in the store.
    #[error(transparent)]
    Feed(#[from] EnsureError),
    /// The store is not usable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Settings that cannot work.
    #[error("{0}")]
    Settings(String),
    /// Feeds have stopped: all of them, or some of a host that was to handle what is there.
    #[error("stopped: {}", .0.iter().map(|(feed, why)| format!("{feed}: {why}")).collect::<Vec<_>>().join("; "))]
    Stopped(Vec<(FeedName, String)>),
    /// A host that was to handle what is there gave up before it was done.
    #[error("{0}")]
    Unfinished(Unfinished),
    /// A host has handled what is there, and objects of these feeds are parked, so many of each.
    #[error("{}", .0.iter().map(|(feed, objects)| are_parked(feed, *objects)).collect::<Vec<_>>().join("; "))]
    Parked(Vec<(FeedName, u64)>),
}

/// Why a host gave up that was to handle what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// How long it tried.
    pub patience: Patience,
    /// What kept it, as far as it knows.
    pub troubles: Vec<Trouble>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patience {
            Patience::WithoutProgress(time) => {
                write!(f, "gave up: not everything is handled, and nothing has moved for {}", Rounded(time))?;
            }
            Patience::Within(time) => {
                write!(f, "gave up: not everything is handled within {}", Rounded(time))?
            }
        }
        self.troubles.iter().try_for_each(|trouble| write!(f, "; feed {}: {}", trouble.feed, trouble.what))
    }
}

fn are_parked(feed: &FeedName, objects: u64) -> String {
    match objects {
        1 => format!("feed {feed}: 1 object is parked"),
        objects => format!("feed {feed}: {objects} objects are parked"),
    }
}
