//! Who takes what: a pure function of what the store says.
//!
//! Each host decides for itself, from the same view. Its target for a feed is the number of partitions divided by the
//! live hosts that run the feed, rounded up. It fills up to the target with leases that can be had: free ones first, then
//! those of dead or silent owners. Only when there are none does it ask for **one**, from the host that has the most, and
//! only if that brings the two closer. A spread of one is balance: nobody asks any more, so nothing flaps.
//! Among feeds that are balanced in themselves, a host asks for one more where that evens out the totals.

use std::collections::BTreeMap;

use super::{Judged, JudgedLease, LeaseView};
use crate::name::{FeedName, HostName, SessionId};

/// One thing for a host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a lease that can be had.
    Acquire(LeaseView),
    /// Ask the owner to hand a lease over.
    Ask(LeaseView),
}

/// What the host with this name and session, running these feeds, should do now.
pub fn balance(judged: &Judged, name: &HostName, session: &SessionId, feeds: &[FeedName]) -> Vec<Action> {
    let scenes: Vec<Scene> = feeds.iter().map(|feed| Scene::of(judged, name, session, feed)).collect();
    let had: Vec<Action> = scenes.iter().flat_map(Scene::acquire).collect();
    // What was asked for and is not here yet counts as mine already: one at a time.
    let asked =
        judged.leases.iter().any(|lease| !lease.available && lease.lease.hand_over_to.as_ref() == Some(name));
    if !had.is_empty() || asked {
        return had;
    }
    let evens_out_feed = scenes.iter().find_map(|scene| scene.ask(Scene::evens_out_feed));
    let one = evens_out_feed.or_else(|| scenes.iter().find_map(|scene| scene.ask(Scene::evens_out_totals)));
    one.into_iter().collect()
}

/// One feed, seen by one host.
struct Scene<'a> {
    me: &'a HostName,
    leases: Vec<&'a JudgedLease>,
    /// Leases of this feed by live host that runs it, also those with none.
    counts: BTreeMap<&'a HostName, usize>,
    /// Leases of all feeds by live host.
    totals: BTreeMap<&'a HostName, usize>,
}

impl<'a> Scene<'a> {
    fn of(judged: &'a Judged, me: &'a HostName, session: &SessionId, feed: &FeedName) -> Self {
        let live = judged.hosts.iter().filter(|host| host.live || host.host.session == *session);
        let mut totals: BTreeMap<&HostName, usize> = live.clone().map(|host| (&host.host.name, 0)).collect();
        let mut counts: BTreeMap<&HostName, usize> =
            live.filter(|host| host.host.feeds.contains(feed)).map(|host| (&host.host.name, 0)).collect();
        counts.entry(me).or_default();
        let leases: Vec<&JudgedLease> =
            judged.leases.iter().filter(|lease| lease.lease.id.feed == *feed).collect();
        for lease in judged.leases.iter().filter(|lease| !lease.available) {
            let Some(owner) = &lease.lease.owner else { continue };
            *totals.entry(&owner.host).or_default() += 1;
            if lease.lease.id.feed == *feed {
                *counts.entry(&owner.host).or_default() += 1;
            }
        }
        Scene { me, leases, counts, totals }
    }

    /// The leases to fill up with: free ones first, then those of dead or silent owners.
    fn acquire(&self) -> Vec<Action> {
        let wanted = self.target().saturating_sub(self.counts[self.me]);
        let (free, expired): (Vec<&JudgedLease>, Vec<&JudgedLease>) = self
            .leases
            .iter()
            .filter(|lease| self.can_be_mine(lease))
            .partition(|lease| lease.lease.owner.is_none());
        free.into_iter()
            .chain(expired)
            .take(wanted)
            .map(|lease| Action::Acquire(lease.lease.clone()))
            .collect()
    }

    /// A lease that was set free for another host is left to it, as long as that host can still want it.
    fn can_be_mine(&self, lease: &JudgedLease) -> bool {
        let reserved = lease.lease.hand_over_to.as_ref();
        lease.available && reserved.is_none_or(|host| host == self.me || !self.wants_more(host))
    }

    fn wants_more(&self, host: &HostName) -> bool {
        self.counts.get(host).is_some_and(|count| *count < self.target())
    }

    fn target(&self) -> usize {
        self.leases.len().div_ceil(self.counts.len()).max(1)
    }

    /// One lease of the host that has the most, if that is for the better.
    fn ask(&self, better: impl Fn(&Self, &HostName, usize) -> bool) -> Option<Action> {
        let (richest, most) = self.counts.iter().max_by_key(|(host, count)| (**count, self.total(host)))?;
        if !better(self, richest, *most) {
            return None;
        }
        let theirs = self.leases.iter().filter(|lease| {
            let owner = lease.lease.owner.as_ref();
            lease.lease.hand_over_to.is_none() && owner.is_some_and(|owner| owner.host == **richest)
        });
        theirs.map(|lease| Action::Ask(lease.lease.clone())).next_back()
    }

    fn evens_out_feed(&self, _: &HostName, most: usize) -> bool {
        most >= self.counts[self.me] + 2
    }

    fn evens_out_totals(&self, richest: &HostName, most: usize) -> bool {
        most == self.counts[self.me] + 1 && self.total(richest) >= self.total(self.me) + 2
    }

    fn total(&self, host: &HostName) -> usize {
        self.totals.get(host).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Position;
    use crate::lease::{HostView, JudgedHost, LeaseId, Liveness, Owner};
    use crate::name::{Epoch, Partition};
    use proptest::prelude::*;

    fn name(host: &str) -> HostName {
        HostName::new(host).unwrap()
    }

    fn session(host: &str) -> SessionId {
        SessionId::new(host).unwrap()
    }

    fn feed(name: &str) -> FeedName {
        FeedName::new(name).unwrap()
    }

    fn host(named: &str, feeds: &[FeedName]) -> JudgedHost {
        let host = HostView {
            name: name(named),
            session: session(named),
            feeds: feeds.to_vec(),
            beat: 0,
            seen_at: jiff::Timestamp::UNIX_EPOCH,
            troubles: vec![],
            liveness: Liveness::Unknown,
        };
        JudgedHost { host, live: true }
    }

    fn lease(feed: &FeedName, partition: u32, owner: Option<&str>) -> JudgedLease {
        let owner = owner.map(|owner| Owner { host: name(owner), session: session(owner) });
        let available = owner.is_none();
        let id = LeaseId { feed: feed.clone(), partition: Partition(partition) };
        let position = Position::number(0);
        let lease =
            LeaseView { id, owner, epoch: Epoch(0), version: 0, position, hand_over_to: None, asked: 0 };
        JudgedLease { lease, available, held: !available }
    }

    /// Lets every host act once, in turn; a lease that is asked for is handed over at once. Returns the moves.
    fn round(world: &mut Judged, feeds: &[FeedName]) -> usize {
        let mut moves = 0;
        for host in world.hosts.clone() {
            for action in balance(world, &host.host.name, &host.host.session, feeds) {
                let (Action::Acquire(taken) | Action::Ask(taken)) = action;
                let lease = world.leases.iter_mut().find(|lease| lease.lease.id == taken.id).unwrap();
                let owner = Owner { host: host.host.name.clone(), session: host.host.session.clone() };
                lease.lease.owner = Some(owner);
                lease.available = false;
                moves += 1;
            }
        }
        moves
    }

    fn spread(world: &Judged, feed: Option<&FeedName>) -> usize {
        let count = |host: &JudgedHost| {
            let mine =
                |lease: &&JudgedLease| lease.lease.owner.as_ref().is_some_and(|o| o.host == host.host.name);
            world
                .leases
                .iter()
                .filter(|lease| feed.is_none_or(|f| lease.lease.id.feed == *f))
                .filter(mine)
                .count()
        };
        let counts: Vec<usize> = world.hosts.iter().map(count).collect();
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    #[test]
    fn the_first_host_takes_everything() {
        let feeds = [feed("f")];
        let leases = (0..16).map(|p| lease(&feeds[0], p, None)).collect();
        let world = Judged { hosts: vec![host("a", &feeds)], leases };
        assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 16);
    }

    #[test]
    fn a_newcomer_asks_the_richest_for_one() {
        let feeds = [feed("f")];
        let owners = ["a", "a", "a", "b", "b"];
        let leases = (0..5).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
        let world = Judged { hosts: vec![host("a", &feeds), host("b", &feeds), host("c", &feeds)], leases };
        let actions = balance(&world, &name("c"), &session("c"), &feeds);
        let [Action::Ask(asked)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(asked.owner.as_ref().unwrap().host, name("a"));
    }

    #[test]
    fn a_lease_set_free_for_another_is_left_to_it() {
        let feeds = [feed("f")];
        let mut reserved = lease(&feeds[0], 0, None);
        reserved.lease.hand_over_to = Some(name("b"));
        let mut world = Judged { hosts: vec![host("a", &feeds), host("b", &feeds)], leases: vec![reserved] };
        assert_eq!(balance(&world, &name("a"), &session("a"), &feeds), []);
        world.hosts[1].live = false;
        assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 1, "unless it is gone");
        world.hosts[1] = host("b", &[]);
        assert_eq!(balance(&world, &name("a"), &session("a"), &feeds).len(), 1, "or runs the feed no more");
    }

    #[test]
    fn a_lease_set_free_for_a_host_that_has_enough_is_taken_by_another() {
        let feeds = [feed("f")];
        let owners = ["a", "a", "a", "c", "c", "c", "c"];
        let mut leases: Vec<JudgedLease> =
            (0..7).map(|p| lease(&feeds[0], p, Some(owners[p as usize]))).collect();
        let mut reserved = lease(&feeds[0], 7, None);
        reserved.lease.hand_over_to = Some(name("c"));
        leases.push(reserved);
        let world = Judged { hosts: vec![host("a", &feeds), host("c", &feeds)], leases };
        assert_eq!(balance(&world, &name("c"), &session("c"), &feeds), []);
        assert!(matches!(
            balance(&world, &name("a"), &session("a"), &feeds).as_slice(),
            [Action::Acquire(_)]
        ));
    }

    proptest! {
        /// From any ownership, any number of hosts: every feed and the totals get within one, and then nothing moves.
        #[test]
        fn balance_is_reached_and_stays(
            partitions in prop::collection::vec(1u32..20, 1..4),
            hosts in 1usize..8,
            owners in prop::collection::vec(0usize..12, 80),
        ) {
            let feeds: Vec<FeedName> = (0..partitions.len()).map(|i| feed(&format!("f{i}"))).collect();
            let names: Vec<String> = (0..hosts).map(|i| format!("h{i}")).collect();
            let mut owners = owners.into_iter();
            let mut leases = Vec::new();
            for (feed, count) in feeds.iter().zip(&partitions) {
                for partition in 0..*count {
                    let owner = owners.next().and_then(|owner| names.get(owner));
                    leases.push(lease(feed, partition, owner.map(String::as_str)));
                }
            }
            let all: usize = leases.len();
            let mut world = Judged { hosts: names.iter().map(|name| host(name, &feeds)).collect(), leases };
            let mut moves = 0;
            while let moved @ 1.. = round(&mut world, &feeds) {
                moves += moved;
                prop_assert!(moves <= 4 * all + 16, "it flaps");
            }
            for feed in &feeds {
                prop_assert!(spread(&world, Some(feed)) <= 1, "feed {} is not balanced", feed);
            }
            prop_assert!(spread(&world, None) <= 1, "the totals are not balanced");
            prop_assert!(world.leases.iter().all(|lease| !lease.available), "a lease is left over");
        }
    }
}
