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
//! whether it is expired is judged by [`Watch`], from a version that does not move; no two clocks are ever compared.
//! Who takes what is decided by [`balance`], a pure function.

mod balance;
mod watch;

use jiff::Timestamp;
use serde::Serialize;

pub use balance::{Action, balance};
pub use watch::{Judged, JudgedHost, JudgedLease, Watch};

use crate::change::Position;
use crate::name::{Epoch, FeedName, HostName, Partition, SessionId};
use crate::store::Trouble;

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
    /// Moves with every renewal: a version that stands still belongs to an owner in trouble.
    pub version: u64,
    /// The checkpoint: everything up to here is handled or parked.
    pub position: Position,
    /// The host that asked the owner to hand it over, or for which it was set free.
    pub hand_over_to: Option<HostName>,
    /// Moves whenever somebody asks for a retry or a discard of what is parked in the partition.
    pub asked: u64,
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
    /// When it last renewed, by the store's clock; for people to read.
    pub seen_at: Timestamp,
    /// What keeps it from going on with a feed, as of its last renewal.
    pub troubles: Vec<Trouble>,
    /// Whether its process is known to be gone.
    pub liveness: Liveness,
}

/// Everything a store knows about leases and hosts at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The leases of the feeds asked for, ordered by feed and partition.
    pub leases: Vec<LeaseView>,
    /// All hosts, ordered by name.
    pub hosts: Vec<HostView>,
}
