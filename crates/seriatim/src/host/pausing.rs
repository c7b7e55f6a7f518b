//! Feeds that an operator has paused: hosts keep their leases, and neither read nor handle anything until they are resumed.
//!
//! ```text
//!   store.paused() ──keeper's look──▶ Pause of each feed ──▶ the reader begins no pass, no call of the handler begins
//! ```
//!
//! Calls that run when a feed is paused come to their end, and what they did is checkpointed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::FeedRuntime;
use crate::lease::Mark;
use crate::name::FeedName;
use crate::store::{Paused, Store, StoreError};

/// Since when a feed is paused, for everybody who works on it; `None` while it is not.
#[derive(Clone, Debug)]
pub(crate) struct Pause(watch::Sender<Option<Timestamp>>);

impl Default for Pause {
    fn default() -> Self {
        Pause(watch::Sender::new(None))
    }
}

impl Pause {
    pub fn since(&self) -> Option<Timestamp> {
        *self.0.borrow()
    }

    pub fn is_on(&self) -> bool {
        self.since().is_some()
    }

    pub fn subscribe(&self) -> watch::Receiver<Option<Timestamp>> {
        self.0.subscribe()
    }

    fn set(&self, feed: &FeedName, since: Option<Timestamp>) {
        let changed = self.0.send_if_modified(|now| std::mem::replace(now, since) != since);
        match since {
            Some(since) if changed => {
                tracing::warn!(%feed, "paused since {since:.0}; `seriatim resume {feed}` lets it go on");
            }
            None if changed => tracing::info!(%feed, "resumed"),
            _ => {}
        }
    }
}

/// The pauses of a host's feeds, and the state of the store that they were read in.
#[derive(Default)]
pub(super) struct Pausing {
    pauses: BTreeMap<FeedName, Pause>,
    mark: Option<Mark>,
}

impl Pausing {
    /// Looks at once, so that nothing of a paused feed is handled.
    pub async fn begin(store: &dyn Store, feeds: &[Arc<FeedRuntime>]) -> Result<Self, StoreError> {
        if !store.pauses() {
            return Ok(Pausing::default());
        }
        let pauses = feeds.iter().map(|feed| (feed.consumer.feed.clone(), feed.pause.clone())).collect();
        let pausing = Pausing { pauses, mark: None };
        pausing.note(&store.paused().await?);
        Ok(pausing)
    }

    /// Looks again, unless nothing was paused or resumed since: the mark, which the caller read before, moves with both. So a
    /// host that idles asks for nothing.
    pub async fn look(&mut self, store: &dyn Store, mark: &Mark) {
        if self.pauses.is_empty() || self.mark.as_ref() == Some(mark) {
            return;
        }
        // What is wrong with the store, the keeper tells; until then all is as it was.
        if let Ok(paused) = store.paused().await {
            self.note(&paused);
            self.mark = Some(mark.clone());
        }
    }

    /// Looks the next time whatever the mark says: on a store that pauses and moves the mark in two steps, somebody may have
    /// died between them.
    pub fn forget_mark(&mut self) {
        self.mark = None;
    }

    fn note(&self, paused: &[Paused]) {
        for (feed, pause) in &self.pauses {
            let since = paused.iter().find(|paused| paused.feed == *feed).map(|paused| paused.since);
            pause.set(feed, since);
        }
    }
}
