//! What holds from any state, with any hosts coming and going.
//!
//! A round is as in life: all hosts look at the same moment, decide, and act; of two that want the same, the first gets it.
//! A lease that is asked for is set free by its owner in the next round, for the host that asked.

use proptest::prelude::*;

use super::tests::{feed, host, lease};
use super::*;
use crate::lease::{JudgedHost, Owner};

/// What happened in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Happened {
    taken: usize,
    asked: usize,
    /// Wishes that came too late.
    in_vain: usize,
}

struct World {
    judged: Judged,
    feeds: Vec<FeedName>,
}

impl World {
    /// Feeds of so many partitions, owned by the hosts of these numbers, or by nobody.
    fn new(partitions: &[u32], hosts: usize, mut owners: impl Iterator<Item = usize>) -> Self {
        let feeds: Vec<FeedName> = (0..partitions.len()).map(|i| feed(&format!("f{i}"))).collect();
        let names: Vec<String> = (0..hosts).map(World::name).collect();
        let mut leases = Vec::new();
        for (feed, count) in feeds.iter().zip(partitions) {
            for partition in 0..*count {
                let owner = owners.next().and_then(|owner| names.get(owner));
                leases.push(lease(feed, partition, owner.map(String::as_str)));
            }
        }
        let hosts = names.iter().map(|name| host(name, &feeds)).collect();
        World { judged: Judged { hosts, leases }, feeds }
    }

    fn name(number: usize) -> String {
        format!("h{number:03}")
    }

    fn round(&mut self) -> Happened {
        let seen = self.judged.clone();
        self.hand_over();
        let mut happened = Happened::default();
        for host in &seen.hosts {
            let me = Owner { host: host.host.name.clone(), session: host.host.session.clone() };
            for action in balance(&seen, &me.host, &me.session, &self.feeds) {
                let (Action::Acquire(Sighting { lease: wanted, .. }) | Action::Ask(wanted)) = &action;
                let lease = self.judged.leases.iter_mut().find(|lease| lease.lease.id == wanted.id).unwrap();
                let as_seen = lease.lease.owner == wanted.owner && lease.lease.epoch == wanted.epoch;
                match action {
                    Action::Acquire(_) if as_seen => {
                        lease.lease.owner = Some(me.clone());
                        lease.lease.epoch = lease.lease.epoch.next();
                        lease.lease.hand_over_to = None;
                        (lease.available, lease.held) = (false, true);
                        happened.taken += 1;
                    }
                    Action::Ask(_) if as_seen && lease.lease.hand_over_to.is_none() => {
                        lease.lease.hand_over_to = Some(me.host.clone());
                        happened.asked += 1;
                    }
                    _ => happened.in_vain += 1,
                }
            }
        }
        happened
    }

    fn hand_over(&mut self) {
        for lease in self.judged.leases.iter_mut().filter(|lease| lease.lease.hand_over_to.is_some()) {
            lease.lease.owner = None;
            (lease.available, lease.held) = (true, false);
        }
    }

    fn join(&mut self, number: usize) {
        let newcomer = host(&World::name(number), &self.feeds);
        if !self.judged.hosts.iter().any(|host| host.host.name == newcomer.host.name) {
            self.judged.hosts.push(newcomer);
        }
    }

    /// Some host dies; its leases can be had from then on.
    fn leave(&mut self, number: usize) {
        if self.judged.hosts.len() == 1 {
            return;
        }
        let index = number % self.judged.hosts.len();
        let gone = self.judged.hosts.remove(index).host.name;
        for lease in &mut self.judged.leases {
            if lease.lease.owner.as_ref().is_some_and(|owner| owner.host == gone) {
                (lease.available, lease.held) = (true, false);
            }
        }
    }

    fn counts(&self, feed: Option<&FeedName>) -> Vec<usize> {
        let count = |host: &JudgedHost| {
            let theirs =
                self.judged.leases.iter().filter(|lease| feed.is_none_or(|f| lease.lease.id.feed == *f));
            let of_host = |lease: &&JudgedLease| {
                lease.lease.owner.as_ref().is_some_and(|owner| owner.host == host.host.name)
            };
            theirs.filter(of_host).count()
        };
        self.judged.hosts.iter().map(count).collect()
    }

    fn spread(&self, feed: Option<&FeedName>) -> usize {
        let counts = self.counts(feed);
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    /// How many leases must change hands at least, once those that can be had have fallen to those who have the least.
    fn moves_needed(&self, feed: &FeedName) -> usize {
        let mut counts = self.counts(Some(feed));
        for _ in 0..self.judged.leases.len() - counts.iter().sum::<usize>() {
            *counts.iter_mut().min().unwrap() += 1;
        }
        counts.sort_by(|one, other| other.cmp(one));
        let (each, over) = (self.judged.leases.len() / counts.len(), self.judged.leases.len() % counts.len());
        let quota = |place: usize| each + usize::from(place < over);
        counts.iter().enumerate().map(|(place, has)| has.saturating_sub(quota(place))).sum()
    }

    fn is_balanced(&self) -> bool {
        let all_owned = self.judged.leases.iter().all(|lease| !lease.available);
        let settled = self.judged.leases.iter().all(|lease| lease.lease.hand_over_to.is_none());
        let even = self.feeds.iter().all(|feed| self.spread(Some(feed)) <= 1);
        all_owned && settled && even && self.spread(None) <= 1
    }

    /// Rounds until nothing happens any more, and what happened in them.
    fn settle(&mut self, within: usize) -> Result<(usize, Happened), TestCaseError> {
        let mut all = Happened::default();
        for round in 0..=within {
            let now = self.round();
            all.taken += now.taken;
            all.asked += now.asked;
            all.in_vain += now.in_vain;
            let nothing_pends = self.judged.leases.iter().all(|lease| lease.lease.hand_over_to.is_none());
            if now == Happened::default() && nothing_pends {
                return Ok((round, all));
            }
        }
        Err(TestCaseError::fail(format!("not settled within {within} rounds: {all:?}")))
    }
}

proptest! {
    /// From any ownership, any number of hosts: every feed and the totals get within one, and then nothing moves.
    #[test]
    fn balance_is_reached_and_stays(
        partitions in prop::collection::vec(1u32..20, 1..4),
        hosts in 1usize..8,
        owners in prop::collection::vec(0usize..12, 80),
    ) {
        let mut world = World::new(&partitions, hosts, owners.into_iter());
        let all: u32 = partitions.iter().sum();
        // Each host asks for one at a time, and each takes three rounds: to ask, to be given, to take.
        world.settle(3 * all as usize + 6)?;
        prop_assert!(world.is_balanced(), "{:?}", world.counts(None));
        prop_assert_eq!(world.settle(1)?.1, Happened::default(), "it flaps");
    }

    /// One feed, from any ownership: as few leases change hands as can be, nobody asks in vain, and it takes no more rounds
    /// than the host that needs most has to ask.
    #[test]
    fn no_more_leases_change_hands_than_needed(
        partitions in 1u32..60,
        hosts in 1usize..12,
        owners in prop::collection::vec(0usize..16, 60),
    ) {
        let mut world = World::new(&[partitions], hosts, owners.into_iter());
        let needed = world.moves_needed(&world.feeds[0].clone());
        let share = (partitions as usize).div_ceil(hosts);
        let (_, happened) = world.settle(3 * share + 6)?;
        prop_assert!(world.is_balanced(), "{:?}", world.counts(None));
        prop_assert_eq!((happened.asked, happened.in_vain), (needed, 0));
    }

    /// Hosts come and go while it happens; once they stop, balance comes within as many rounds as ever.
    #[test]
    fn hosts_may_come_and_go_at_any_moment(
        partitions in prop::collection::vec(1u32..20, 1..3),
        churn in prop::collection::vec((any::<bool>(), 0usize..12), 0..30),
    ) {
        let mut world = World::new(&partitions, 3, std::iter::repeat(usize::MAX));
        for (joins, number) in churn {
            if joins { world.join(number) } else { world.leave(number) }
            world.round();
        }
        let all: u32 = partitions.iter().sum();
        world.settle(3 * all as usize + 6)?;
        prop_assert!(world.is_balanced(), "{:?}", world.counts(None));
    }
}

#[test]
fn a_thousand_partitions_and_a_hundred_hosts_that_start_together_are_balanced_in_one_round() {
    let mut world = World::new(&[1000], 100, std::iter::repeat(usize::MAX));
    assert_eq!(world.round(), Happened { taken: 1000, asked: 0, in_vain: 0 });
    assert!(world.is_balanced());
}

#[test]
fn a_hundred_hosts_that_join_one_that_has_a_thousand_ask_for_different_leases() {
    let mut world = World::new(&[1000], 100, std::iter::repeat(0));
    let (rounds, happened) = world.settle(40).unwrap();
    assert_eq!((happened.asked, happened.in_vain), (990, 0), "after {rounds} rounds");
    assert!(world.is_balanced());
}
