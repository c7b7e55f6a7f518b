//! Saying that a partition cannot go on, for as long as that is so and the partition is run here: it can park no more, or
//! something waits for what is parked.

use std::sync::{Arc, PoisonError};

use super::FeedRuntime;
use crate::lease::LeaseId;

/// A partition's word on whether it cannot go on. Taken back when dropped.
pub(super) struct Full {
    feed: Arc<FeedRuntime>,
    lease: LeaseId,
}

impl Full {
    pub fn new(feed: &Arc<FeedRuntime>, lease: &LeaseId) -> Self {
        Full { feed: Arc::clone(feed), lease: lease.clone() }
    }

    /// Says why, or that it is not so any more.
    pub fn tell(&self, why: Option<String>) {
        let mut full = self.feed.full.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(why) = why else {
            if full.remove(&self.lease.partition).is_some() {
                tracing::info!(lease = %self.lease, "it goes on");
            }
            return;
        };
        if !full.contains_key(&self.lease.partition) {
            tracing::error!(lease = %self.lease, "it waits: {why}");
        }
        full.insert(self.lease.partition, why);
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        self.feed.full.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lease.partition);
    }
}
