//! How partitions end: one by one, a feed's, or all of them.

use tokio::time::Instant;

use super::super::observer::CloseReason;
use super::super::partition::{Closed, Halt};
use super::Keeper;
use super::owned::Owned;
use crate::clock;
use crate::lease::LeaseId;
use crate::name::FeedName;

impl Keeper {
    pub(super) async fn ended(&mut self, ended: Result<(LeaseId, Closed), tokio::task::JoinError>) {
        let (id, closed) = match ended {
            Ok(ended) => ended,
            Err(error) => return tracing::error!(%error, "a partition's task ended badly"),
        };
        let Some(owned) = self.owned.remove(&id) else {
            return;
        };
        let keep_for = owned.keep_for();
        match closed {
            Closed::Drained => {
                tracing::debug!(lease = %id, "released");
                self.release(&owned).await;
            }
            Closed::Lost(why) => self.lost(&id, &why),
            Closed::Halted(Halt::Lost) => self.lost(&id, "it has another owner now"),
            Closed::Halted(Halt::TooLate) if keep_for.is_some() => {
                tracing::error!(lease = %id, "its handler did not finish in time and was cut off; the lease is handed over");
                self.release(&owned).await;
            }
            Closed::Halted(Halt::TooLate) => {
                self.cut_off = true;
                tracing::error!(lease = %id, "its handler did not finish in time and was cut off; the lease is left to expire");
            }
            Closed::Failed(why) => {
                self.release(&owned).await;
                self.stop_feed(&id.feed, why);
            }
        }
    }

    fn lost(&self, id: &LeaseId, why: &str) {
        tracing::warn!(lease = %id, %why, "lost");
        if let Some(feed) = self.feeds.get(&id.feed) {
            feed.stats.count_lost();
        }
    }

    async fn release(&self, owned: &Owned) {
        if let Err(error) = self.store.release(&owned.lease, owned.keep_for().as_ref()).await {
            tracing::warn!(lease = %owned.lease.id, %error, "cannot release the lease; it will expire");
        }
    }

    fn stop_feed(&mut self, feed: &FeedName, why: String) {
        if self.feeds.remove(feed).is_some() {
            tracing::error!(%feed, %why, "feed stopped");
            self.stopped.push((feed.clone(), why.clone()));
            // The others learn with the next renewal that this host's share of it is theirs now.
            self.tell_feeds();
        }
        let cut_off = clock::now() + self.close_within;
        for owned in self.owned.values_mut().filter(|owned| owned.lease.id.feed == *feed) {
            owned.begin_closing(CloseReason::Failed { why: why.clone() }, cut_off);
        }
    }

    pub(super) fn cut_off_late_ones(&mut self, now: Instant) {
        for owned in self.owned.values_mut().filter(|owned| owned.cut_off.is_some_and(|due| due <= now)) {
            owned.halt(Halt::TooLate);
        }
    }

    /// Closes all partitions, gives their leases back and leaves; bounded in time.
    pub(super) async fn close(&mut self) {
        let deadline = clock::now() + self.close_within;
        self.is_closing = true;
        // A handler may take its time; what is given back meanwhile is for the others to take.
        self.tell_feeds();
        self.owned.values_mut().for_each(|owned| owned.begin_closing(CloseReason::ShutDown, deadline));
        while !self.owned.is_empty() {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.renew_at) => self.renew().await,
                ended = self.partitions.join_next() => match ended {
                    Some(ended) => self.ended(ended).await,
                    None => break,
                },
                () = tokio::time::sleep_until(deadline), if self.owned.values().any(|owned| owned.halt.is_some()) => {
                    self.cut_off_late_ones(clock::now());
                }
            }
        }
        self.pruning.stop().await;
        if self.cut_off {
            return;
        }
        if let Err(error) = self.store.leave(&self.session).await {
            tracing::warn!(%error, "cannot sign off; the leases will expire");
        }
    }
}
