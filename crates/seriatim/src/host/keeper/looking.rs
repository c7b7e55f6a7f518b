//! A look at the store: cheap while nothing changes hands.

use std::time::Duration;

use tokio::time::Instant;

use super::super::pruning;
use super::{Keeper, reshaping};
use crate::clock;
use crate::lease::{Action, HostView, Judged, LeaseView, Pulse, View, balance};
use crate::name::FeedName;

/// How old the positions may be from which sources are told what is consumed, while checkpoints are written.
const POSITIONS_AT_MOST: Duration = Duration::from_secs(1);

/// However still the mark stands, the leases are read again after this: whoever moves a lease and dies before it can move the
/// mark is noticed in the end, on a store that cannot do both in one step.
const LEASES_AT_MOST: Duration = Duration::from_secs(300);

/// The leases as they were last read.
#[derive(Default)]
pub(super) struct Sight {
    view: View,
    feeds: Vec<FeedName>,
    read_at: Option<Instant>,
    /// The checkpoints that all hosts had written then, this one included.
    progress: u64,
}

impl Sight {
    pub(super) fn leases(&self) -> &[LeaseView] {
        &self.view.leases
    }

    /// Reads the leases again with the next look.
    pub(super) fn forget(&mut self) {
        self.read_at = None;
    }

    fn shows(&self, pulse: &Pulse, feeds: &[FeedName], now: Instant) -> bool {
        let is_young = self.read_at.is_some_and(|read_at| now < read_at + LEASES_AT_MOST);
        is_young && self.view.mark == pulse.mark && self.feeds == feeds
    }
}

/// Whether leases were read just now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Now,
    Before,
}

impl Keeper {
    /// What this host knows about leases and hosts, and what it should do. What is to be done is decided on leases that were
    /// read just then. `None` when the store cannot be asked, or does not know this host.
    pub(super) async fn look(&mut self) -> Option<(Judged, Vec<Action>)> {
        let asked = clock::now();
        let pulse = match self.store.pulse().await {
            Ok(pulse) => pulse,
            Err(error) => return self.cannot_look(&error),
        };
        if !self.is_among(&pulse.hosts).await {
            return None;
        }
        let feeds = self.all_feed_names();
        let shows = self.sight.shows(&pulse, &feeds, asked);
        if !shows {
            self.pausing.forget_mark();
        }
        self.pausing.look(&*self.store, &pulse.mark).await;
        let read = match shows && !self.positions_are_old(&pulse.hosts, asked) {
            true => Read::Before,
            false => Read::Now,
        };
        let (judged, actions) = self.decide(pulse, feeds.clone(), read, asked).await?;
        if read == Read::Now || actions.is_empty() {
            return Some((judged, actions));
        }
        let asked = clock::now();
        let pulse = Pulse { mark: self.sight.view.mark.clone(), hosts: Vec::new() };
        self.decide(pulse, feeds, Read::Now, asked).await
    }

    async fn decide(
        &mut self,
        pulse: Pulse,
        feeds: Vec<FeedName>,
        read: Read,
        asked: Instant,
    ) -> Option<(Judged, Vec<Action>)> {
        match read {
            Read::Before => self.sight.view.hosts = pulse.hosts,
            Read::Now => match self.store.view(&feeds).await {
                Ok(view) => {
                    let progress = self.all_progress(&view.hosts);
                    self.sight = Sight { view, feeds, read_at: Some(asked), progress };
                    self.stop_orphans();
                }
                Err(error) => return self.cannot_look(&error),
            },
        }
        #[cfg(feature = "simulation")]
        let asked = crate::simulation::by_host_clock(asked);
        let mut judged = self.watch.judge(&self.sight.view, asked, clock::now(), self.settings.expire);
        self.settle_own(&mut judged);
        let runnable = reshaping::runnable(&judged);
        let actions = balance(&runnable, &self.session.host, &self.session.id, &self.feed_names());
        Some((judged, actions))
    }

    fn cannot_look<T>(&mut self, error: &crate::store::StoreError) -> Option<T> {
        tracing::warn!(%error, "cannot look at the leases; trying again");
        None
    }

    /// The feeds that it runs, and those that it has stopped: leases of these may still have to be given up.
    pub(super) fn all_feed_names(&self) -> Vec<FeedName> {
        let stopped = self.stopped.iter().map(|(feed, _)| feed.clone());
        let mut names: Vec<FeedName> = self.feeds.keys().cloned().chain(stopped).collect();
        names.sort();
        names
    }

    /// Whether this host tells sources what is consumed, and checkpoints were written since positions were read.
    fn positions_are_old(&self, hosts: &[HostView], now: Instant) -> bool {
        let leases = self.sight.leases();
        let tells =
            |feed: &FeedName| pruning::teller(leases, feed).is_some_and(|id| self.owned.contains_key(id));
        let prunes = self.feeds.keys().any(tells);
        let is_time = self.sight.read_at.is_none_or(|read_at| now >= read_at + POSITIONS_AT_MOST);
        prunes && is_time && self.all_progress(hosts) != self.sight.progress
    }

    fn all_progress(&self, hosts: &[HostView]) -> u64 {
        let others = hosts.iter().filter(|host| host.session != self.session.id);
        others.map(|host| host.progress).fold(self.checkpoints(), u64::wrapping_add)
    }
}
