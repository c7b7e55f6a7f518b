//! Judging who is alive, without comparing clocks.
//!
//! An owner raises its versions with every renewal. Whoever sees a version stand still for the whole expiry, on its *own*
//! monotonic clock, knows that the owner has not renewed for that long. The owner counts from the moment at which it sent
//! its last renewal, which is earlier, so it stops before anybody can judge it expired. Where the store knows that the
//! process is gone, nobody waits.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{HostView, LeaseId, LeaseView, Liveness, View};
use crate::name::{Epoch, SessionId};

/// A host, and whether it counts.
#[derive(Clone, Debug)]
pub struct JudgedHost {
    /// What the store says.
    pub host: HostView,
    /// It renews, or has not been silent for long enough to say otherwise.
    pub live: bool,
    /// It has been there for the whole expiry: it knows as well as anybody who has been silent for that long.
    pub seasoned: bool,
}

/// A lease, and whether it can be had.
#[derive(Clone, Debug)]
pub struct JudgedLease {
    /// What the store says.
    pub lease: LeaseView,
    /// Nobody owns it, or its owner is dead or expired.
    pub available: bool,
    /// Its owner was seen renewing, or is known to be alive: not just not known to be dead.
    pub held: bool,
    /// It can be had only because its owner is silent: those who have not watched for long do not know that.
    pub silent: bool,
    /// It could be had for some time, and whoever should have taken it did not.
    pub left_over: bool,
}

/// A view of the store, judged.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// All hosts.
    pub hosts: Vec<JudgedHost>,
    /// All leases, in the order of the view.
    pub leases: Vec<JudgedLease>,
}

/// Remembers since when each version has stood still.
#[derive(Debug, Default)]
pub struct Watch {
    hosts: HashMap<SessionId, Still<u64>>,
    leases: HashMap<LeaseId, Still<(Epoch, u64)>>,
    /// When each host was first seen.
    met: HashMap<SessionId, Instant>,
    /// Since when each lease can be had, and under which epoch.
    available: HashMap<LeaseId, (Epoch, Instant)>,
}

/// A lease that can be had for this part of the expiry is left over: long enough for anybody who is well to take it.
const LEFT_OVER: u32 = 4;

#[derive(Debug)]
struct Still<V> {
    version: V,
    since: Instant,
    /// It was another one before.
    moved: bool,
}

impl Watch {
    /// Judges a view that was asked for at `asked` and came at `received`. The store looked some time in between, so versions seen
    /// in it stood at least until the one, and what is seen for the first time may have moved as late as the other.
    pub fn judge(&mut self, view: &View, asked: Instant, received: Instant, expire: Duration) -> Judged {
        let looked = (asked, received);
        let hosts = view.hosts.iter().map(|host| {
            let silent = silent_for(&mut self.hosts, &host.session, host.beat, looked);
            let live = host.liveness != Liveness::Dead && silent < expire;
            let met = *self.met.entry(host.session.clone()).or_insert(received);
            JudgedHost { host: host.clone(), live, seasoned: asked.saturating_duration_since(met) >= expire }
        });
        let hosts: Vec<JudgedHost> = hosts.collect();
        let by_session: HashMap<&SessionId, &HostView> =
            view.hosts.iter().map(|host| (&host.session, host)).collect();
        let leases = view.leases.iter().map(|lease| {
            let silent = silent_for(&mut self.leases, &lease.id, (lease.epoch, lease.version), looked);
            let owner = lease.owner.as_ref().and_then(|owner| by_session.get(&owner.session));
            let liveness = owner.map_or(Liveness::Dead, |owner| owner.liveness);
            let available = liveness == Liveness::Dead || silent >= expire;
            let renewing = self.leases.get(&lease.id).is_some_and(|still| still.moved);
            let held = !available && (liveness == Liveness::Alive || renewing);
            let left_over = available && self.available_for(lease, asked) >= expire / LEFT_OVER;
            if !available {
                self.available.remove(&lease.id);
            }
            JudgedLease {
                lease: lease.clone(),
                available,
                held,
                silent: available && liveness != Liveness::Dead,
                left_over,
            }
        });
        let leases = leases.collect();
        self.hosts.retain(|session, _| by_session.contains_key(session));
        self.met.retain(|session, _| by_session.contains_key(session));
        Judged { hosts, leases }
    }

    fn available_for(&mut self, lease: &LeaseView, asked: Instant) -> Duration {
        let since = self.available.entry(lease.id.clone()).or_insert((lease.epoch, asked));
        if since.0 != lease.epoch {
            *since = (lease.epoch, asked);
        }
        asked.duration_since(since.1)
    }
}

fn silent_for<K, V>(
    seen: &mut HashMap<K, Still<V>>,
    key: &K,
    version: V,
    (asked, received): (Instant, Instant),
) -> Duration
where
    K: std::hash::Hash + Eq + Clone,
    V: PartialEq,
{
    match seen.get(key) {
        Some(still) if still.version == version => asked.saturating_duration_since(still.since),
        before => {
            let moved = before.is_some();
            seen.insert(key.clone(), Still { version, since: received, moved });
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Position;
    use crate::lease::Owner;
    use crate::name::{FeedName, HostName, Partition};

    const EXPIRE: Duration = Duration::from_secs(10);

    fn view(beat: u64, version: u64, liveness: Liveness) -> View {
        let (name, session) = (HostName::new("a").unwrap(), SessionId::new("s").unwrap());
        let owner = Some(Owner { host: name.clone(), session: session.clone() });
        let id = LeaseId { feed: FeedName::new("f").unwrap(), partition: Partition(0) };
        let position = Position::number(0);
        let lease = LeaseView { id, owner, epoch: Epoch(1), version, position, hand_over_to: None, asked: 0 };
        let seen_at = jiff::Timestamp::UNIX_EPOCH;
        View {
            leases: vec![lease],
            hosts: vec![HostView { name, session, feeds: vec![], beat, seen_at, troubles: vec![], liveness }],
        }
    }

    #[test]
    fn an_owner_that_stands_still_for_the_expiry_is_expired_and_not_before() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut available = |after: Duration| {
            let at = start + after;
            watch.judge(&view(1, 1, Liveness::Unknown), at, at, EXPIRE).leases[0].available
        };
        assert!(!available(Duration::ZERO));
        assert!(!available(EXPIRE - Duration::from_millis(1)));
        assert!(available(EXPIRE));
    }

    #[test]
    fn a_renewal_starts_the_count_anew() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut judge = |beat, at| watch.judge(&view(beat, beat, Liveness::Alive), at, at, EXPIRE);
        judge(1, start);
        judge(2, start + EXPIRE / 2);
        let judged = judge(2, start + EXPIRE);
        assert!(!judged.leases[0].available && judged.hosts[0].live);
    }

    #[test]
    fn a_look_that_took_long_does_not_make_an_owner_silent() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        // The store looked just before it answered, and the owner had renewed just before that.
        watch.judge(&view(7, 7, Liveness::Unknown), start, start + EXPIRE, EXPIRE);
        let next = start + EXPIRE + Duration::from_millis(50);
        let judged = watch.judge(&view(7, 7, Liveness::Unknown), next, next, EXPIRE);
        assert!(!judged.leases[0].available && judged.hosts[0].live);
    }

    #[test]
    fn a_dead_process_is_not_waited_for() {
        let now = crate::clock::now();
        let judged = Watch::default().judge(&view(1, 1, Liveness::Dead), now, now, EXPIRE);
        assert!(judged.leases[0].available && !judged.hosts[0].live);
    }

    #[test]
    fn a_lease_that_nobody_takes_is_left_over_after_a_while_and_a_host_is_seasoned_after_the_expiry() {
        let (mut watch, start) = (Watch::default(), crate::clock::now());
        let mut judge = |after: Duration, liveness| {
            watch.judge(&view(1, 1, liveness), start + after, start + after, EXPIRE)
        };
        assert!(!judge(Duration::ZERO, Liveness::Dead).leases[0].left_over);
        let later = judge(EXPIRE / 2, Liveness::Dead);
        assert!(later.leases[0].left_over && !later.leases[0].silent && !later.hosts[0].seasoned);
        let at_last = judge(EXPIRE, Liveness::Alive);
        assert!(at_last.leases[0].silent && at_last.hosts[0].seasoned);
    }

    #[test]
    fn a_lease_whose_owner_left_is_free() {
        let mut left = view(1, 1, Liveness::Alive);
        left.hosts.clear();
        let now = crate::clock::now();
        assert!(Watch::default().judge(&left, now, now, EXPIRE).leases[0].available);
    }
}
