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
use crate::name::{Epoch, HostName, SessionId};

/// A host, and whether it counts.
#[derive(Clone, Debug)]
pub struct JudgedHost {
    /// What the store says.
    pub host: HostView,
    /// It renews, or has not been silent for long enough to say otherwise.
    pub live: bool,
}

/// A lease, and whether it can be had.
#[derive(Clone, Debug)]
pub struct JudgedLease {
    /// What the store says.
    pub lease: LeaseView,
    /// Nobody owns it, or its owner is dead or expired.
    pub available: bool,
}

/// A view of the store, judged.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// All hosts.
    pub hosts: Vec<JudgedHost>,
    /// All leases, in the order of the view.
    pub leases: Vec<JudgedLease>,
}

impl Judged {
    /// Whether a host of this name counts as live.
    pub fn is_live(&self, name: &HostName) -> bool {
        self.hosts.iter().any(|host| host.live && host.host.name == *name)
    }
}

/// Remembers since when each version has stood still.
#[derive(Debug, Default)]
pub struct Watch {
    hosts: HashMap<SessionId, Still<u64>>,
    leases: HashMap<LeaseId, Still<(Epoch, u64)>>,
}

#[derive(Debug)]
struct Still<V> {
    version: V,
    since: Instant,
}

impl Watch {
    /// Judges a view that was asked for at `asked`: versions seen in it stood at least until then.
    pub fn judge(&mut self, view: &View, asked: Instant, expire: Duration) -> Judged {
        let hosts = view.hosts.iter().map(|host| {
            let silent = silent_for(&mut self.hosts, &host.session, host.beat, asked);
            let live = host.liveness != Liveness::Dead && silent < expire;
            JudgedHost { host: host.clone(), live }
        });
        let hosts: Vec<JudgedHost> = hosts.collect();
        let leases = view.leases.iter().map(|lease| {
            let silent = silent_for(&mut self.leases, &lease.id, (lease.epoch, lease.version), asked);
            let owner_gone = match &lease.owner {
                None => true,
                Some(owner) => hosts
                    .iter()
                    .find(|host| host.host.session == owner.session)
                    .is_none_or(|host| host.host.liveness == Liveness::Dead),
            };
            JudgedLease { lease: lease.clone(), available: owner_gone || silent >= expire }
        });
        let leases = leases.collect();
        self.hosts.retain(|session, _| view.hosts.iter().any(|host| host.session == *session));
        Judged { hosts, leases }
    }
}

fn silent_for<K, V>(seen: &mut HashMap<K, Still<V>>, key: &K, version: V, asked: Instant) -> Duration
where
    K: std::hash::Hash + Eq + Clone,
    V: PartialEq,
{
    match seen.get(key) {
        Some(still) if still.version == version => asked.duration_since(still.since),
        _ => {
            seen.insert(key.clone(), Still { version, since: asked });
            Duration::ZERO
        }
    }
}
