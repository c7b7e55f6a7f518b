//! Who takes what: a pure function of what the store says.
//!
//! Each host decides for itself, and all of them from the same view, so each can work out what the others will do. Leases
//! that can be had are shared out on paper, free ones first, then those of dead or silent owners, each to the host that has
//! the least; a host takes those that fall to it. So a hundred hosts that start together do not run after the same lease.
//! Only a host to which none falls asks for leases, each from the host that has the most, and only if that brings the two
//! closer: all those that it lacks at once, as everybody works out on paper. What somebody has asked for counts as its own
//! already. A spread of one is balance: nobody asks any more, so nothing flaps. A lease that stays free although it fell to somebody is anybody's after a while. Among feeds that are balanced in themselves, a host asks for one more where that evens out the totals.
//!
//! A host that does not say (any more) that it runs a feed gets nothing of it: it is closing, or has all that it may have.

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{Judged, JudgedHost, JudgedLease, LeaseView, Sighting};
use crate::name::{FeedName, HostName, SessionId};

/// One thing for a host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a lease that can be had.
    Acquire(Sighting),
    /// Ask the owner to hand a lease over.
    Ask(LeaseView),
}

/// What the host with this name and session, running these feeds, should do now.
pub fn balance(judged: &Judged, name: &HostName, session: &SessionId, feeds: &[FeedName]) -> Vec<Action> {
    let crowd = Crowd::of(judged, name, session);
    let Some(me) = crowd.find(name) else { return Vec::new() };
    let mut scene = Scene::of(judged, &crowd, me, feeds);
    let mine: Vec<Action> = scene
        .share_out(me, session)
        .into_iter()
        .filter(|(host, _)| *host == me)
        .map(|(_, lease)| Action::Acquire(Sighting { lease: lease.lease.clone(), beat: lease.beat }))
        .collect();
    // What was asked for and is not here yet counts as mine already: one wish at a time.
    if !mine.is_empty() || scene.waiting.contains(&me) {
        return mine;
    }
    scene.ask(me).into_iter().map(|lease| Action::Ask(lease.lease.clone())).collect()
}

/// A host, by its place in the order of names.
type Place = usize;

/// Everybody who counts, in the order of their names: the same for all who look.
struct Crowd<'a>(Vec<(&'a HostName, Option<&'a JudgedHost>)>);

impl<'a> Crowd<'a> {
    fn of(judged: &'a Judged, me: &'a HostName, session: &SessionId) -> Self {
        let live = judged.hosts.iter().filter(|host| host.live || host.host.session == *session);
        let mut names: Vec<_> = live.map(|host| (&host.host.name, Some(host))).collect();
        // An owner that is not live counts as long as its lease cannot be had.
        let owned = judged.leases.iter().filter(|lease| !lease.available);
        names.extend(owned.filter_map(|lease| lease.lease.owner.as_ref()).map(|owner| (&owner.host, None)));
        names.push((me, None));
        names.sort_by_key(|(name, host)| (*name, host.is_none()));
        names.dedup_by_key(|(name, _)| *name);
        Crowd(names)
    }

    fn find(&self, name: &HostName) -> Option<Place> {
        self.0.binary_search_by_key(&name, |(known, _)| known).ok()
    }
}

/// What one host has of a feed, on paper.
#[derive(Default)]
struct Share<'a> {
    leases: usize,
    /// It runs the feed, so it may get more.
    runs: bool,
    /// It has watched for long enough to know whose leases are expired.
    seasoned: bool,
    /// What it could be asked for, the next one last.
    askable: Vec<&'a JudgedLease>,
}

/// One feed: who has how much of it.
struct Field<'a> {
    leases: Vec<&'a JudgedLease>,
    /// For each of these, the host that runs the feed and has asked for it, or for which it was set free.
    reserved: Vec<Option<Place>>,
    shares: Vec<Share<'a>>,
}

/// All feeds of a host, as every host sees them.
struct Scene<'a> {
    fields: Vec<Field<'a>>,
    /// Leases of all these feeds by host.
    totals: Vec<usize>,
    /// Hosts that have asked for a lease that its owner still has.
    waiting: BTreeSet<Place>,
}

impl<'a> Scene<'a> {
    fn of(judged: &'a Judged, crowd: &Crowd<'a>, me: Place, feeds: &[FeedName]) -> Self {
        let fields: Vec<Field<'_>> = feeds.iter().map(|feed| Field::of(judged, crowd, me, feed)).collect();
        let total = |host: Place| fields.iter().map(|field| field.shares[host].leases).sum();
        let totals = (0..crowd.0.len()).map(total).collect();
        let owned = judged.leases.iter().filter(|lease| !lease.available);
        let askers = owned.filter_map(|lease| lease.lease.hand_over_to.as_ref());
        let waiting = askers.filter_map(|asker| crowd.find(asker)).collect();
        Scene { fields, totals, waiting }
    }

    /// To whom each lease falls that can be had, as this host sees it: to the host for which it was set free, as long as that
    /// wants it; otherwise to the one that has the least.
    fn share_out(&mut self, me: Place, session: &SessionId) -> Vec<(Place, &'a JudgedLease)> {
        let mut given = Vec::new();
        for field in &mut self.fields {
            for index in field.to_be_had() {
                let Some(host) = field.heir(index, me, session, &self.totals) else { continue };
                field.shares[host].leases += 1;
                self.totals[host] += 1;
                given.push((host, field.leases[index]));
            }
        }
        given
    }

    /// The leases that this host should ask for. Those who have less choose first, one lease each in turn, and each choice
    /// counts for the next: so no two ask for the same, and together they ask for no more than it takes.
    fn ask(&mut self, me: Place) -> Vec<&'a JudgedLease> {
        let mut askers: Vec<Place> =
            (0..self.totals.len()).filter(|host| !self.waiting.contains(host)).collect();
        askers.sort_by_key(|host| (self.totals[*host], *host));
        let mut mine = Vec::new();
        // Whoever finds nothing is done for this round: the others only come closer to it.
        while !askers.is_empty() {
            askers.retain(|asker| match self.choose(*asker) {
                Some(lease) => {
                    mine.extend((*asker == me).then_some(lease));
                    true
                }
                None => false,
            });
        }
        mine
    }

    /// One lease of the host that has the most, if that is for the better; it is the asker's then, on paper.
    fn choose(&mut self, asker: Place) -> Option<&'a JudgedLease> {
        let totals = &self.totals;
        let evens_out_feed = |field: &Field<'a>| field.richer(asker, totals).filter(|(_, more)| *more >= 2);
        let evens_out_totals = |field: &Field<'a>| {
            let is_better = |host: Place, more| more == 1 && totals[host] >= totals[asker] + 2;
            field.richer(asker, totals).filter(|(host, more)| is_better(*host, *more))
        };
        let mut fields = self.fields.iter().enumerate();
        let by_feed = fields.find_map(|(feed, field)| Some((feed, evens_out_feed(field)?.0)));
        let mut fields = self.fields.iter().enumerate();
        let (feed, richest) =
            by_feed.or_else(|| fields.find_map(|(feed, field)| Some((feed, evens_out_totals(field)?.0))))?;
        let shares = &mut self.fields[feed].shares;
        let lease = shares[richest].askable.pop()?;
        shares[richest].leases -= 1;
        shares[asker].leases += 1;
        self.totals[richest] -= 1;
        self.totals[asker] += 1;
        Some(lease)
    }
}

impl<'a> Field<'a> {
    fn of(judged: &'a Judged, crowd: &Crowd<'a>, me: Place, feed: &FeedName) -> Self {
        let leases: Vec<_> = judged.leases.iter().filter(|lease| lease.lease.id.feed == *feed).collect();
        let share = |(place, (_, host)): (Place, &(_, Option<&JudgedHost>))| Share {
            runs: place == me || host.is_some_and(|host| host.host.feeds.contains(feed)),
            seasoned: place == me || host.is_some_and(|host| host.seasoned),
            ..Share::default()
        };
        let mut shares: Vec<Share<'_>> = crowd.0.iter().enumerate().map(share).collect();
        let asker = |lease: &&JudgedLease| {
            let asker = lease.lease.hand_over_to.as_ref().and_then(|asker| crowd.find(asker));
            asker.filter(|asker| shares[*asker].runs)
        };
        let reserved: Vec<Option<Place>> = leases.iter().map(asker).collect();
        for (lease, asker) in leases.iter().zip(&reserved).filter(|(lease, _)| !lease.available) {
            let owner = lease.lease.owner.as_ref().and_then(|owner| crowd.find(&owner.host));
            match (owner, asker) {
                (_, Some(asker)) => shares[*asker].leases += 1,
                (Some(owner), None) if lease.lease.hand_over_to.is_none() => {
                    shares[owner].leases += 1;
                    shares[owner].askable.push(lease);
                }
                // Asked for by somebody who is gone: it will be set free.
                _ => {}
            }
        }
        Field { leases, reserved, shares }
    }

    /// The leases that can be had, in the order in which they are shared out: those that are reserved, free ones, and those of
    /// dead or silent owners.
    fn to_be_had(&self) -> Vec<usize> {
        let mut had: Vec<usize> =
            (0..self.leases.len()).filter(|index| self.leases[*index].available).collect();
        had.sort_by_key(|index| (self.reserved[*index].is_none(), self.leases[*index].lease.owner.is_some()));
        had
    }

    /// To whom a lease falls that can be had.
    fn heir(&self, index: usize, me: Place, session: &SessionId, totals: &[usize]) -> Option<Place> {
        let lease = self.leases[index];
        // Nobody else knows that a host has given up a lease that the store says it has.
        let only_i_know = lease.lease.owner.as_ref().is_some_and(|owner| owner.session == *session);
        // Whoever should have taken it sees things differently, or is not well.
        if only_i_know || lease.left_over {
            return Some(me);
        }
        let knows = |host: &Place| self.shares[*host].seasoned || !lease.silent;
        let wanted = self.reserved[index].filter(knows).filter(|host| self.wants_more(*host));
        wanted.or_else(|| {
            self.runners().filter(knows).min_by_key(|host| (self.shares[*host].leases, totals[*host]))
        })
    }

    fn runners(&self) -> impl Iterator<Item = Place> {
        (0..self.shares.len()).filter(|host| self.shares[*host].runs)
    }

    /// Whether the host has less than its share: the partitions divided by the hosts that run the feed, rounded up.
    fn wants_more(&self, host: Place) -> bool {
        self.shares[host].leases < self.leases.len().div_ceil(self.runners().count().max(1))
    }

    /// The host that has the most and can be asked, and how many more than the asker it has.
    fn richer(&self, asker: Place, totals: &[usize]) -> Option<(Place, usize)> {
        if !self.shares[asker].runs {
            return None;
        }
        let can_be_asked = (0..self.shares.len()).filter(|host| !self.shares[*host].askable.is_empty());
        let richest = can_be_asked.max_by_key(|host| (self.shares[*host].leases, totals[*host]))?;
        Some((richest, self.shares[richest].leases.checked_sub(self.shares[asker].leases)?))
    }
}
