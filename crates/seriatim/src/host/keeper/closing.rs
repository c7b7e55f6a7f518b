//! How partitions end: one by one, a feed's, or all of them.

use tokio::time::Instant;

use super::super::observer::CloseReason;
use super::super::partition::{Closed, Halt};
use super::{Keeper, Until};
use crate::clock;
use crate::lease::LeaseId;
use crate::name::FeedName;
use crate::store::Release;

/// How a partition's task ended.
type Ended = Result<(LeaseId, Closed), tokio::task::JoinError>;

impl Keeper {
    /// Some partitions have ended: gives back together what is to be given back.
    pub(super) async fn have_ended(&mut self, first: Ended) {
        let mut releases = Vec::new();
        let mut next = Some(first);
        while let Some(ended) = next {
            releases.extend(self.ended(ended));
            next = self.partitions.try_join_next();
        }
        if releases.is_empty() {
            return;
        }
        if let Err(error) = self.store.release_all(&releases).await {
            tracing::warn!(leases = releases.len(), %error, "cannot give leases back; trying again");
            releases.into_iter().for_each(|release| self.abandon(release, None));
        }
    }

    /// What is to be given back of a partition that has ended.
    fn ended(&mut self, ended: Ended) -> Option<Release> {
        let (id, closed) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a partition's task ended badly");
                return None;
            }
        };
        let owned = self.owned.remove(&id)?;
        let release = Release { keep_for: owned.keep_for(), lease: owned.lease };
        match closed {
            // Its session is not this host's any more: it has joined again.
            _ if release.lease.session != self.session.id => {
                self.lost(&id, "the store did not know this host any more");
                None
            }
            Closed::Drained => {
                tracing::debug!(lease = %id, "released");
                Some(release)
            }
            Closed::Lost(why) => {
                self.lost(&id, &why);
                None
            }
            Closed::Halted(Halt::Lost) => {
                self.lost(&id, "it has another owner now");
                None
            }
            Closed::Halted(Halt::TooLate) if release.keep_for.is_some() => {
                tracing::error!(lease = %id, "its handler did not finish in time and was cut off; the lease is handed over");
                Some(release)
            }
            Closed::Halted(Halt::TooLate) => {
                tracing::error!(lease = %id, "its handler did not finish in time and was cut off; the lease is given up after its expiry");
                // The session lives, so the lease would not expire by itself.
                self.abandon(release, Some(clock::now() + self.settings.expire));
                None
            }
            Closed::Failed(why) => {
                self.stop_feed(&id.feed, why);
                Some(release)
            }
        }
    }

    fn lost(&self, id: &LeaseId, why: &str) {
        tracing::warn!(lease = %id, %why, "lost");
        if let Some(feed) = self.feeds.get(&id.feed) {
            feed.stats.count_lost();
        }
    }

    pub(super) fn stop_feed(&mut self, feed: &FeedName, why: String) {
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

    /// A host that is to end when all is done does not wait for a feed that is paused.
    pub(super) fn stop_paused(&mut self) {
        if self.until == Until::ShutDown {
            return;
        }
        let since = |feed: &FeedName| self.feeds.get(feed).and_then(|feed| feed.pause.since());
        let names = self.feed_names();
        let paused: Vec<_> = names.iter().filter_map(|feed| Some((feed, since(feed)?))).collect();
        for (feed, since) in paused {
            self.stop_feed(
                feed,
                format!("it is paused since {since:.0}; `seriatim resume {feed}` lets it go on"),
            );
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
                    Some(ended) => self.have_ended(ended).await,
                    None => break,
                },
                () = tokio::time::sleep_until(deadline), if self.owned.values().any(|owned| owned.halt.is_some()) => {
                    self.cut_off_late_ones(clock::now());
                }
            }
        }
        self.pruning.stop().await;
        // A handler that hung may still be at it elsewhere: nobody takes its lease before the expiry.
        if self.abandoned.values().any(|abandoned| abandoned.not_before.is_some()) {
            return;
        }
        if let Err(error) = self.store.leave(&self.session).await {
            tracing::warn!(%error, "cannot sign off; the leases will expire");
        }
    }
}
