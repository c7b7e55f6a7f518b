//! Leases that this host has and does not run, and a store that does not know this host any more.

use std::collections::HashMap;

use tokio::time::Instant;

use super::super::partition::Halt;
use super::{Abandoned, Keeper};
use crate::clock;
use crate::lease::{HostView, Judged, Lease, LeaseId, LeaseView};
use crate::store::{DoneAbove, JoinError, Release};

impl Keeper {
    /// Whether the trust in its leases has ended: the answer to a sign of life came so late that it may have been silent for its
    /// expiry.
    pub(super) fn is_too_late(&self) -> bool {
        self.trust.is_over()
    }

    /// Halts the partitions whose leases others have by now. `false` when the store cannot be asked.
    pub(super) async fn find_losses(&mut self) -> bool {
        if self.owned.is_empty() {
            return true;
        }
        let view = match self.store.view(&self.all_feed_names()).await {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!(%error, "cannot look whether leases are lost; trying again");
                return false;
            }
        };
        let now: HashMap<&LeaseId, &LeaseView> = view.leases.iter().map(|lease| (&lease.id, lease)).collect();
        for owned in self.owned.values_mut() {
            let held = now.get(&owned.lease.id).is_some_and(|now| {
                let owner = now.owner.as_ref().map(|owner| &owner.session);
                now.epoch == owned.lease.epoch && owner == Some(&owned.lease.session)
            });
            if !held {
                owned.halt(Halt::Lost);
            }
        }
        true
    }

    /// Has a lease given up as soon as that can be done: its session lives, so it would never expire.
    pub(super) fn abandon(&mut self, release: Release, not_before: Option<Instant>) {
        self.abandoned.insert(release.lease.id.clone(), Abandoned { release, not_before });
    }

    /// Gives up what has waited for it.
    pub(super) async fn give_up_abandoned(&mut self, now: Instant) {
        let due = |abandoned: &&Abandoned| abandoned.not_before.is_none_or(|due| due <= now);
        let releases: Vec<Release> =
            self.abandoned.values().filter(due).map(|abandoned| abandoned.release.clone()).collect();
        if releases.is_empty() {
            return;
        }
        match self.store.release_all(&releases).await {
            Ok(()) => releases.iter().for_each(|release| _ = self.abandoned.remove(&release.lease.id)),
            Err(error) => {
                tracing::warn!(leases = releases.len(), %error, "cannot give leases up; trying again")
            }
        }
    }

    /// Leases that the store says are this host's and that it neither runs nor may take: those of feeds that have stopped, and
    /// those for which it has no room.
    pub(super) fn abandon_strays(&mut self, judged: &Judged) {
        let no_room = self.room() == 0;
        for seen in &judged.leases {
            let seen = &seen.lease;
            let mine = seen.owner.as_ref().is_some_and(|owner| owner.session == self.session.id);
            let is_known = self.owned.contains_key(&seen.id) || self.abandoned.contains_key(&seen.id);
            if mine && !is_known && (no_room || !self.feeds.contains_key(&seen.id.feed)) {
                let (id, session) = (seen.id.clone(), self.session.id.clone());
                let (position, done) = (seen.position.clone(), DoneAbove::default());
                let lease = Lease { id, session, epoch: seen.epoch, position, done, part: None };
                self.abandon(Release { lease, keep_for: None }, None);
            }
        }
    }

    /// Whether this host is among those that the store knows. One whose name is another session's by now is replaced; one
    /// that is not there at all joins again.
    pub(super) async fn is_among(&mut self, hosts: &[HostView]) -> bool {
        match hosts.iter().find(|host| host.name == self.session.host) {
            Some(host) if host.session == self.session.id => true,
            Some(_) => {
                self.replaced = true;
                false
            }
            None => {
                self.join_again().await;
                false
            }
        }
    }

    /// Enters a store that has forgotten this host: it was emptied, or somebody took this host for dead. Nothing that it owned
    /// is its own any more.
    async fn join_again(&mut self) {
        self.owned.values_mut().for_each(|owned| owned.halt(Halt::Lost));
        self.abandoned.clear();
        self.sight.forget();
        match self.store.adopt(&self.identity).await {
            Ok(id) if id == self.identity => {}
            Ok(_) => return self.is_another_store(),
            Err(error) => return tracing::warn!(%error, "cannot look at the store; trying again"),
        }
        let asked = clock::now();
        let (host, feeds) = (&self.session.host, &self.session.feeds);
        match self.store.join(host, feeds, self.settings.expire, None).await {
            Ok(session) => {
                tracing::warn!(%host, "the store did not know this host any more: it was emptied, or took the host for dead; joined again");
                self.session = crate::store::Session { troubles: self.session.troubles.clone(), ..session };
                self.renew_at = asked + self.settings.renew;
                self.trust.renewed(asked);
                self.look_at = Some(clock::now());
                self.orphaned = self.feeds.keys().cloned().collect();
            }
            Err(JoinError::NameTaken { .. }) => self.replaced = true,
            Err(JoinError::Store(error)) => tracing::warn!(%error, "cannot join again; trying again"),
        }
    }

    /// Stops the feeds of which the store has no checkpoints any more: nobody can say what of them is handled.
    pub(super) fn stop_orphans(&mut self) {
        for feed in std::mem::take(&mut self.orphaned) {
            let has_leases = self.sight.leases().iter().any(|lease| lease.id.feed == feed);
            if !has_leases && self.feeds.contains_key(&feed) {
                let why = format!(
                    "the store has lost its checkpoints: it was emptied, or started again without what it had saved; \
                     `seriatim rewind {feed} --to TIME` goes on from there, `--to beginning` does everything again"
                );
                self.stop_feed(&feed, why);
            }
        }
    }

    fn is_another_store(&mut self) {
        let why = "the store was replaced by another one while this host ran, so its checkpoints are gone; \
                   start the host again to use that store";
        for feed in self.feed_names() {
            self.stop_feed(&feed, why.to_owned());
        }
    }
}
