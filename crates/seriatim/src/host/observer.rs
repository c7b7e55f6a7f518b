//! Watching a host at work: what it opens and closes, and what becomes of its leases.
//!
//! Nothing that an observer does can stop a host: errors and panics are logged, and what takes too long is not waited for.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::change::Change;
use crate::lease::Lease;
use crate::name::HostName;
use crate::source::Cause;
use crate::tasks;

/// How long a host waits for observers of a closed partition, and of its leases.
const OBSERVE_WITHIN: Duration = Duration::from_secs(2);

/// So many events of leases wait for a slow observer at most; what comes on top is not told.
const MOST_EVENTS: usize = 4096;

/// What an observer says about its own call. An error is logged and changes nothing.
pub type Observed = Result<(), Cause>;

/// Why a partition was closed on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The lease is gone, or may be: another host goes on from the last checkpoint.
    Lost {
        /// How that came to be known.
        why: String,
    },
    /// Another host asked for it. All that ran is finished and checkpointed.
    HandedOver {
        /// The host that asked.
        to: HostName,
    },
    /// The number of the feed's partitions changes, or the partition has come to its end in such a change. All that ran is finished
    /// and checkpointed.
    Repartitioned,
    /// The host is shutting down. All that ran is finished and checkpointed.
    ShutDown,
    /// The feed cannot go on until somebody does something.
    Failed {
        /// What is wrong.
        why: String,
    },
}

/// Watches a host at work. All calls have a default that does nothing.
///
/// `opened`, `changes` and `closed` of one lease come in this order. `acquired`, `renewed` and `lost` are for monitoring: they
/// come in the order in which they happened, a moment later, and some are left out when the observer is slower than they come.
///
/// ```
/// # use seriatim::host::{CloseReason, Observed, Observer};
/// # use seriatim::lease::Lease;
/// struct Log;
///
/// #[async_trait::async_trait]
/// impl Observer for Log {
///     async fn closed(&self, lease: &Lease, reason: &CloseReason) -> Observed {
///         println!("{} was closed: {reason:?}", lease.id);
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Observer: Send + Sync + 'static {
    /// A partition is about to be handled on this host. Its first change waits for this call, for as long as one for a handler
    /// may take.
    async fn opened(&self, lease: &Lease) -> Observed {
        let _ = lease;
        Ok(())
    }

    /// These changes are about to be given to the handler for the first time since the partition was opened. They wait for this
    /// call, for as long as one for a handler may take.
    async fn changes(&self, lease: &Lease, changes: &[Change]) -> Observed {
        let _ = (lease, changes);
        Ok(())
    }

    /// The partition is not handled here any more. Unless the lease is lost, it is still held and given up after this call, which
    /// may take two seconds.
    async fn closed(&self, lease: &Lease, reason: &CloseReason) -> Observed {
        let _ = (lease, reason);
        Ok(())
    }

    /// The host has taken a lease.
    async fn acquired(&self, lease: &Lease) -> Observed {
        let _ = lease;
        Ok(())
    }

    /// The host has renewed a lease.
    async fn renewed(&self, lease: &Lease) -> Observed {
        let _ = lease;
        Ok(())
    }

    /// The host has lost a lease, or must assume so.
    async fn lost(&self, lease: &Lease, why: &str) -> Observed {
        let _ = (lease, why);
        Ok(())
    }
}

/// Something that became of a lease.
enum Event {
    Acquired(Lease),
    Renewed(Lease),
    Lost(Lease, String),
}

type All = Arc<[Arc<dyn Observer>]>;

/// All observers of a host.
pub(super) struct Observers {
    all: All,
    events: mpsc::Sender<Event>,
}

impl Observers {
    /// The observers, and the task that tells them what becomes of leases. It ends when the observers are dropped.
    pub fn start(all: Vec<Arc<dyn Observer>>) -> (Arc<Self>, JoinHandle<()>) {
        let all: All = all.into();
        let (events, mut told) = mpsc::channel::<Event>(MOST_EVENTS);
        let tell = Arc::clone(&all);
        let telling = tasks::spawn(async move {
            // With nobody to tell, nobody waits for the end of it.
            if tell.is_empty() {
                return;
            }
            while let Some(event) = told.recv().await {
                for observer in &*tell {
                    match &event {
                        Event::Acquired(lease) => {
                            call("acquired", OBSERVE_WITHIN, observer.acquired(lease)).await
                        }
                        Event::Renewed(lease) => {
                            call("renewed", OBSERVE_WITHIN, observer.renewed(lease)).await
                        }
                        Event::Lost(lease, why) => {
                            call("lost", OBSERVE_WITHIN, observer.lost(lease, why)).await
                        }
                    }
                }
            }
        });
        (Arc::new(Observers { all, events }), telling)
    }

    pub async fn opened(&self, lease: &Lease, within: Duration) {
        for observer in &*self.all {
            call("opened", within, observer.opened(lease)).await;
        }
    }

    pub async fn changes(&self, lease: &Lease, changes: &[Change], within: Duration) {
        for observer in &*self.all {
            call("changes", within, observer.changes(lease, changes)).await;
        }
    }

    pub async fn closed(&self, lease: &Lease, reason: &CloseReason) {
        for observer in &*self.all {
            call("closed", OBSERVE_WITHIN, observer.closed(lease, reason)).await;
        }
    }

    pub fn acquired(&self, lease: &Lease) {
        self.tell(|| Event::Acquired(lease.clone()));
    }

    pub fn renewed(&self, lease: &Lease) {
        self.tell(|| Event::Renewed(lease.clone()));
    }

    pub fn lost(&self, lease: &Lease, why: &str) {
        self.tell(|| Event::Lost(lease.clone(), why.to_owned()));
    }

    fn tell(&self, event: impl FnOnce() -> Event) {
        if self.all.is_empty() {
            return;
        }
        if self.events.try_send(event()).is_err() {
            tracing::debug!("an observer is too slow: an event of a lease is not told");
        }
    }
}

/// Calls an observer; whatever comes of it, the host goes on.
async fn call(what: &str, within: Duration, calling: impl Future<Output = Observed>) {
    match tokio::time::timeout(within, AssertUnwindSafe(calling).catch_unwind()).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!(%error, "an observer failed in `{what}`; the host goes on"),
        Ok(Err(_)) => tracing::error!("an observer panicked in `{what}`; the host goes on"),
        Err(_) => tracing::warn!("an observer took longer than {within:?} in `{what}`; the host goes on"),
    }
}

/// Lets the observers hear of what has happened so far, for a moment.
pub(super) async fn end(telling: JoinHandle<()>) {
    let abort = telling.abort_handle();
    if tokio::time::timeout(OBSERVE_WITHIN, telling).await.is_err() {
        abort.abort();
    }
}
