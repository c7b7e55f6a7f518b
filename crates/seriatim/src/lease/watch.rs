//! Judging who is alive, without comparing clocks.
//!
//! A host raises the beat of its session with every renewal, and publishes its expiry there. Whoever sees a beat stand still
//! for that whole expiry, on its *own* monotonic clock, knows that the host has not renewed for that long. The host counts
//! from the moment at which it sent its last renewal, which is earlier, so it stops before anybody can judge it expired.
//! Where the store knows that the process is gone, nobody waits.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{HostView, LeaseId, LeaseView, Liveness, Sighting, View};
use crate::name::{Epoch, SessionId};

/// A host, and whether it counts.
#[derive(Clone, Debug)]
pub struct JudgedHost {
    /// What the store says.
    pub host: HostView,
    /// It renews, or has not been silent for long enough to say otherwise.
    pub live: bool,
    /// It has been there for longer than any host's expiry: it knows as well as anybody who has been silent for that long.
    pub seasoned: bool,
}

/// A lease, and whether it can be had.
#[derive(Clone, Debug)]
pub struct JudgedLease {
    /// What the store says.
    pub lease: LeaseView,
    /// The beat of its owner's session, if that is there.
    pub beat: Option<u64>,
    /// Nobody owns it, or its owner is dead or expired.
    pub available: bool,
    /// Its owner was seen renewing, or is known to be alive: not just not known to be dead.
    pub held: bool,
    /// It can be had only because its owner is silent: those who have not watched for long do not know that.
    pub silent: bool,
    /// It could be had for some time, and whoever should have taken it did not.
    pub left_over: bool,
}

impl JudgedLease {
    /// The lease as whoever takes it has to have seen it.
    pub fn sighting(&self) -> Sighting {
        Sighting { lease: self.lease.clone(), beat: self.beat }
    }
}

/// A view of the store, judged.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// All hosts.
    pub hosts: Vec<JudgedHost>,
    /// All leases, in the order of the view.
    pub leases: Vec<JudgedLease>,
}

/// Remembers since when each beat has stood still.
#[derive(Debug, Default)]
pub struct Watch {
    hosts: HashMap<SessionId, Still>,
    /// When each host was first seen.
    met: HashMap<SessionId, Instant>,
    /// Since when each lease can be had, and under which epoch.
    available: HashMap<LeaseId, (Epoch, Instant)>,
}

/// A lease that can be had for this part of the expiry is left over: long enough for anybody who is well to take it.
const LEFT_OVER: u32 = 4;

#[derive(Debug)]
struct Still {
    beat: u64,
    since: Instant,
    /// It was another one before.
    moved: bool,
}

/// What is known about a lease's owner.
#[derive(Clone, Copy)]
struct Judgement {
    liveness: Liveness,
    beat: Option<u64>,
    expired: bool,
    renewing: bool,
}

impl Judgement {
    /// Nobody owns it, or its owner has left.
    const NOBODY: Judgement =
        Judgement { liveness: Liveness::Dead, beat: None, expired: false, renewing: false };
}

impl Watch {
    /// Judges a view that was asked for at `asked` and came at `received`. The store looked some time in between, so beats seen
    /// in it stood at least until the one, and what is seen for the first time may have moved as late as the other. Each host
    /// is judged by the expiry that it has published; `patience` is how long this host leaves a lease to others.
    pub fn judge(&mut self, view: &View, asked: Instant, received: Instant, patience: Duration) -> Judged {
        let longest = view.hosts.iter().map(|host| host.expire).max().unwrap_or_default();
        let mut owners: HashMap<&SessionId, Judgement> = HashMap::new();
        let mut hosts = Vec::new();
        for host in &view.hosts {
            let judgement = self.judge_host(host, asked, received);
            let met = *self.met.entry(host.session.clone()).or_insert(received);
            let live = judgement.liveness != Liveness::Dead && !judgement.expired;
            let seasoned = asked.saturating_duration_since(met) >= longest;
            hosts.push(JudgedHost { host: host.clone(), live, seasoned });
            owners.insert(&host.session, judgement);
        }
        let mut leases = Vec::new();
        for lease in &view.leases {
            let owner = lease.owner.as_ref().and_then(|owner| owners.get(&owner.session));
            leases.push(self.judge_lease(lease, *owner.unwrap_or(&Judgement::NOBODY), asked, patience));
        }
        self.hosts.retain(|session, _| owners.contains_key(session));
        self.met.retain(|session, _| owners.contains_key(session));
        Judged { hosts, leases }
    }

    fn judge_host(&mut self, host: &HostView, asked: Instant, received: Instant) -> Judgement {
        let silent = match self.hosts.get(&host.session) {
            Some(still) if still.beat == host.beat => asked.saturating_duration_since(still.since),
            before => {
                let still = Still { beat: host.beat, since: received, moved: before.is_some() };
                self.hosts.insert(host.session.clone(), still);
                Duration::ZERO
            }
        };
        let renewing = self.hosts.get(&host.session).is_some_and(|still| still.moved);
        let expired = silent >= host.expire;
        Judgement { liveness: host.liveness, beat: Some(host.beat), expired, renewing }
    }

    fn judge_lease(
        &mut self,
        lease: &LeaseView,
        owner: Judgement,
        asked: Instant,
        patience: Duration,
    ) -> JudgedLease {
        let dead = owner.liveness == Liveness::Dead;
        let available = dead || owner.expired;
        let held = !available && (owner.liveness == Liveness::Alive || owner.renewing);
        let left_over = available && self.available_for(lease, asked) >= patience / LEFT_OVER;
        if !available {
            self.available.remove(&lease.id);
        }
        JudgedLease {
            lease: lease.clone(),
            beat: owner.beat,
            available,
            held,
            silent: available && !dead,
            left_over,
        }
    }

    fn available_for(&mut self, lease: &LeaseView, asked: Instant) -> Duration {
        let since = self.available.entry(lease.id.clone()).or_insert((lease.epoch, asked));
        if since.0 != lease.epoch {
            *since = (lease.epoch, asked);
        }
        asked.duration_since(since.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Position;
    use crate::lease::Owner;
    use crate::name::{FeedName, HostName, Partition};

    const EXPIRE: Duration = Duration::from_secs(10);

    fn view(beat: u64, liveness: Liveness) -> View {
        let (name, session) = (HostName::new("a").unwrap(), SessionId::new("s").unwrap());
        let owner = Some(Owner { host: name.clone(), session: session.clone() });
        let id = LeaseId { feed: FeedName::new("f").unwrap(), partition: Partition(0) };
        let position = Position::number(0);
        let lease = LeaseView {
            id,
            owner,
            epoch: Epoch(1),
            version: 0,
            position,
            hand_over_to: None,
            asked: 0,
            part: None,
        };
        let host = HostView {
            name,
            session,
            feeds: vec![],
            beat,
            expire: EXPIRE,
            progress: 0,
            seen_at: jiff::Timestamp::UNIX_EPOCH,
            troubles: vec![],
            liveness,
        };
        View { leases: vec![lease], hosts: vec![host], ..View::default() }
    }

    #[test]
    fn an_owner_that_stands_still_for_the_expiry_is_expired_and_not_before() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut available = |after: Duration| {
            let at = start + after;
            watch.judge(&view(1, Liveness::Unknown), at, at, EXPIRE).leases[0].available
        };
        assert!(!available(Duration::ZERO));
        assert!(!available(EXPIRE - Duration::from_millis(1)));
        assert!(available(EXPIRE));
    }

    #[test]
    fn a_renewal_starts_the_count_anew() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut judge = |beat, at| watch.judge(&view(beat, Liveness::Alive), at, at, EXPIRE);
        judge(1, start);
        judge(2, start + EXPIRE / 2);
        let judged = judge(2, start + EXPIRE);
        assert!(!judged.leases[0].available && judged.hosts[0].live);
    }

    #[test]
    fn a_look_that_took_long_does_not_make_an_owner_silent() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        // The store looked just before it answered, and the owner had renewed just before that.
        watch.judge(&view(7, Liveness::Unknown), start, start + EXPIRE, EXPIRE);
        let next = start + EXPIRE + Duration::from_millis(50);
        let judged = watch.judge(&view(7, Liveness::Unknown), next, next, EXPIRE);
        assert!(!judged.leases[0].available && judged.hosts[0].live);
    }

    #[test]
    fn a_host_is_judged_by_its_own_expiry_and_not_by_that_of_the_judge() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let impatient = Duration::from_secs(2);
        let mut available = |after: Duration| {
            let at = start + after;
            watch.judge(&view(1, Liveness::Unknown), at, at, impatient).leases[0].available
        };
        assert!(!available(Duration::ZERO));
        assert!(!available(EXPIRE - Duration::from_millis(1)));
        assert!(available(EXPIRE));
    }

    #[test]
    fn a_dead_process_is_not_waited_for() {
        let now = crate::clock::now();
        let judged = Watch::default().judge(&view(1, Liveness::Dead), now, now, EXPIRE);
        assert!(judged.leases[0].available && !judged.hosts[0].live);
    }

    #[test]
    fn a_lease_that_nobody_takes_is_left_over_after_a_while_and_a_host_is_seasoned_after_the_expiry() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut judge =
            |after: Duration, liveness| watch.judge(&view(1, liveness), start + after, start + after, EXPIRE);
        assert!(!judge(Duration::ZERO, Liveness::Dead).leases[0].left_over);
        let later = judge(EXPIRE / 2, Liveness::Dead);
        assert!(later.leases[0].left_over && !later.leases[0].silent && !later.hosts[0].seasoned);
        let at_last = judge(EXPIRE, Liveness::Alive);
        assert!(at_last.leases[0].silent && at_last.hosts[0].seasoned);
    }

    #[test]
    fn a_lease_whose_owner_left_is_free() {
        let mut left = view(1, Liveness::Alive);
        left.hosts.clear();
        let now = crate::clock::now();
        assert!(Watch::default().judge(&left, now, now, EXPIRE).leases[0].available);
    }
}
