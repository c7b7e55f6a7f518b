//! **Own.** Who may handle a partition now.
//!
//! ```text
//!              acquire (epoch + 1)             renew, checkpoint (same epoch)
//!    free ───────────────────────────▶ owned ◀──────────────┐
//!     ▲                                 │ │ └────────────────┘
//!     │        release (position kept)  │ │  request hand-over: the owner finishes, checkpoints, releases
//!     └─────────────────────────────────┘ └─▶ expired: anybody may acquire; the old owner's epoch is refused
//! ```
//!
//! There is one lease for each partition. The **epoch** is what makes it safe: it goes up whenever the lease changes
//! hands, every write names it, and the store refuses an old one. Time only decides how soon a lost owner is replaced:
//! whether it is expired is judged by [`Watch`], from a sign of life that does not move; no two clocks are ever compared.
//! Who takes what is decided by [`balance`], a pure function.
//!
//! The **sign of life** is the host's session: one beat for all its leases, however many they are. A lease only names its
//! session. A take-over names the beat that was seen ([`Sighting`]), and the store refuses it when the session has beaten
//! since. The session also publishes the expiry by which its owner wants to be judged, so hosts with different settings can
//! share a store.

mod balance;
mod naming;
mod trust;
mod part;
mod watch;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

pub use balance::{Action, balance};
pub(crate) use naming::{Holder, Joined, Naming, Step};
pub use part::{Layout, NextStep, Part, Reshape};
pub(crate) use trust::Trust;
pub use watch::{Judged, JudgedHost, JudgedLease, Watch};

use crate::change::Position;
use crate::name::{Epoch, FeedName, HostName, Partition, SessionId};
use crate::store::{DoneAbove, Trouble};

/// The expiry of one who has not published any: a host of an older version, or a queue's worker.
pub const EXPIRE_UNSAID: Duration = Duration::from_secs(10);

/// Which lease: one partition of one feed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct LeaseId {
    /// The feed.
    pub feed: FeedName,
    /// The partition.
    pub partition: Partition,
}

impl std::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.feed, self.partition)
    }
}

/// The right to handle a partition, as its owner holds it. Every write of the owner carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it is a lease on.
    pub id: LeaseId,
    /// The session that owns it.
    pub session: SessionId,
    /// Its fencing number.
    pub epoch: Epoch,
    /// The checkpoint when it was acquired: where to go on.
    pub position: Position,
    /// What is handled beyond it already.
    pub done: DoneAbove,
    /// Which part of its feed it is on; `None` as long as the number of the feed's partitions was never changed.
    pub part: Option<Part>,
}

/// Who holds a lease, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The host's name.
    pub host: HostName,
    /// Its session.
    pub session: SessionId,
}

/// A lease as everybody can see it in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// What it is a lease on.
    pub id: LeaseId,
    /// Who owns it, if anybody does.
    pub owner: Option<Owner>,
    /// Its fencing number; zero when it never had an owner.
    pub epoch: Epoch,
    /// Moves with every write to the lease: a checkpoint, a new owner, a release. Not with a renewal, which is the session's.
    pub version: u64,
    /// The checkpoint: everything up to here is handled or parked.
    pub position: Position,
    /// The host that asked the owner to hand it over, or for which it was set free.
    pub hand_over_to: Option<HostName>,
    /// Moves whenever somebody asks for a retry or a discard of what is parked in the partition.
    pub asked: u64,
    /// Which part of its feed it is on; `None` as long as the number of the feed's partitions was never changed.
    pub part: Option<Part>,
}

/// What a store knows about a host's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The system has freed what the process held: it is gone.
    Dead,
    /// The process exists. It may still hang.
    Alive,
    /// The store cannot tell.
    Unknown,
}

/// A host as everybody can see it in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// The host's name.
    pub name: HostName,
    /// Its session.
    pub session: SessionId,
    /// The feeds it runs.
    pub feeds: Vec<FeedName>,
    /// Moves with every renewal.
    pub beat: u64,
    /// How long it may be silent before others take its leases: its own setting, by which all others judge it.
    pub expire: Duration,
    /// Moves when it has written checkpoints, as of its last renewal: positions that were read before are old.
    pub progress: u64,
    /// When it last renewed, by the store's clock; for people to read.
    pub seen_at: Timestamp,
    /// What keeps it from going on with a feed, as of its last renewal.
    pub troubles: Vec<Trouble>,
    /// Whether its process is known to be gone.
    pub liveness: Liveness,
}

/// A lease to be taken, exactly as it was seen: itself, and the sign of life of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The lease.
    pub lease: LeaseView,
    /// The beat of its owner's session; `None` when nobody owns it, or its owner was not among the hosts.
    pub beat: Option<u64>,
}

/// Tells one state of all leases from another. It moves whenever a lease comes or goes, changes hands or is asked for, or
/// something is asked for in its partition; not with checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub String);

/// All hosts, and whether the leases are as they were: what a host looks at while nothing happens.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    /// The same as that of a view: then its leases have the same owners still.
    pub mark: Mark,
    /// All hosts, ordered by name.
    pub hosts: Vec<HostView>,
}

/// Everything a store knows about leases and hosts at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// As of when the leases are, at the latest: what came after it may be seen too.
    pub mark: Mark,
    /// The leases of the feeds asked for, ordered by feed and partition.
    pub leases: Vec<LeaseView>,
    /// All hosts, ordered by name.
    pub hosts: Vec<HostView>,
}

impl View {
    /// A lease of this view as whoever takes it has to have seen it.
    pub fn sighting(&self, lease: &LeaseView) -> Sighting {
        let owner = lease.owner.as_ref();
        let host = owner.and_then(|owner| self.hosts.iter().find(|host| host.session == owner.session));
        Sighting { lease: lease.clone(), beat: host.map(|host| host.beat) }
    }
}
