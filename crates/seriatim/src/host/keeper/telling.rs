//! What a keeper says: to the log, and to the other hosts by way of the store.

use std::collections::BTreeSet;

use super::{Keeper, Until};
use crate::clock;
use crate::lease::Judged;
use crate::name::{FeedName, HostName};

impl Keeper {
    /// Says how many partitions this host has of each feed, when that has changed.
    pub(super) fn tell_what_is_owned(&mut self, judged: &Judged) {
        for feed in self.feed_names() {
            let owned = self.owned.keys().filter(|id| id.feed == feed).count();
            let all = judged.leases.iter().filter(|lease| lease.lease.id.feed == feed).count();
            if self.told.insert(feed.clone(), owned) != Some(owned) {
                tracing::info!(%feed, "owns {owned} of {all} partitions");
            }
        }
    }

    /// Has the store know soon what keeps this host from going on, or that nothing does any more.
    pub(super) fn tell_troubles(&mut self) {
        let troubles: Vec<_> = self.feeds.values().flat_map(|feed| feed.troubles()).collect();
        if troubles != self.session.troubles {
            self.session.troubles = troubles;
            self.renew_at = clock::now();
        }
    }

    pub(super) fn tell_what_is_left_to_others(&self, judged: &Judged) {
        let others = judged.leases.iter().filter(|lease| !self.owned.contains_key(&lease.lease.id));
        let owners: BTreeSet<&HostName> =
            others.filter_map(|lease| lease.lease.owner.as_ref()).map(|o| &o.host).collect();
        for owner in owners {
            tracing::info!(host = %owner, "partitions that this host owns are left to it");
        }
    }

    /// Has the others know soon of which feeds this host may get more: of none while it is closing, or has all that it may
    /// have. They share out what there is without it.
    pub(super) fn tell_feeds(&mut self) {
        let takes_more = self.until != Until::ShutDownOnlyParked && !self.is_closing && self.room() > 0;
        let feeds: Vec<FeedName> = if takes_more { self.feed_names() } else { Vec::new() };
        if feeds != self.session.feeds {
            self.session.feeds = feeds;
            self.renew_at = clock::now();
        }
    }

    /// How many more leases this host may have.
    pub(super) fn room(&self) -> usize {
        self.most.map_or(usize::MAX, |most| (most as usize).saturating_sub(self.owned.len()))
    }
}
