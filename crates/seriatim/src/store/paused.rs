//! Feeds that an operator has paused.

use jiff::Timestamp;

use super::StoreError;
use crate::name::FeedName;

/// A feed, or a queue, that nobody is to go on with until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The feed.
    pub feed: FeedName,
    /// Since when, by the store's clock.
    pub since: Timestamp,
}

pub(super) fn cannot_pause(feed: &FeedName) -> StoreError {
    StoreError::needs_attention(
        format!("this store cannot remember that feed {feed} is paused"),
        "stop the hosts that run it instead",
    )
}
