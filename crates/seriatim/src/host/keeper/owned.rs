//! A partition that this host runs, as its keeper holds it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::super::observer::{CloseReason, Observers};
use super::super::partition::{self, Closed, Halt, Setup};
use super::Keeper;
use crate::lease::{Lease, LeaseId};
use crate::name::HostName;

pub(super) struct Owned {
    pub lease: Lease,
    pub closing: watch::Sender<Option<CloseReason>>,
    /// What the lease's `asked` was when it was last looked at.
    pub asked: watch::Sender<u64>,
    pub halt: Option<oneshot::Sender<Halt>>,
    /// Once it is closing: when it is cut off.
    pub cut_off: Option<Instant>,
    /// Set when it is halted: no attempt begins any more, whichever task runs first.
    pub gone: Arc<AtomicBool>,
}

impl Owned {
    pub fn begin_closing(&mut self, reason: CloseReason, cut_off: Instant) {
        if self.cut_off.is_none() {
            self.cut_off = Some(cut_off);
            self.closing.send_replace(Some(reason));
        }
    }

    /// For whom the lease is kept when it is given up.
    pub fn keep_for(&self) -> Option<HostName> {
        match &*self.closing.borrow() {
            Some(CloseReason::HandedOver { to }) => Some(to.clone()),
            _ => None,
        }
    }

    pub fn halt(&mut self, why: Halt) {
        self.gone.store(true, Ordering::Relaxed);
        if let Some(halt) = self.halt.take() {
            // A partition that has just ended by itself does not listen any more.
            let _ = halt.send(why);
        }
    }
}

impl Keeper {
    /// Runs the partition of a lease that was just taken.
    pub(super) fn start(&mut self, lease: Lease, asked: u64) {
        let part = self.part_of(&lease);
        let Some(feed) = self.feeds.get(&lease.id.feed) else {
            return;
        };
        tracing::debug!(lease = %lease.id, epoch = %lease.epoch, position = %lease.position, "acquired");
        feed.stats.count_acquired();
        self.observers.acquired(&lease);
        let (closing, is_closing) = watch::channel(None);
        let (halt, halted) = oneshot::channel();
        let (asked, has_asked) = watch::channel(asked);
        let gone: Arc<AtomicBool> = Arc::default();
        let setup = Setup {
            lease: lease.clone(),
            part,
            store: Arc::clone(&self.store),
            feed: Arc::clone(feed),
            closing: is_closing,
            asked: has_asked,
            trusted_until: self.trust.subscribe(),
            news: self.news.0.clone(),
            observers: Arc::clone(&self.observers),
            gone: Arc::clone(&gone),
        };
        self.caught_up.remove(&lease.id);
        self.partitions.spawn(run(setup, halted));
        let owned = Owned { closing, asked, halt: Some(halt), cut_off: None, gone, lease };
        self.owned.insert(owned.lease.id.clone(), owned);
    }
}

/// Runs a partition to its end and tells those who observe it, while the lease is still held where it ended in peace.
async fn run(setup: Setup, halted: oneshot::Receiver<Halt>) -> (LeaseId, Closed) {
    let (lease, asked_to, observers) =
        (setup.lease.clone(), setup.closing.clone(), Arc::clone(&setup.observers));
    let running = AssertUnwindSafe(partition::run(setup)).catch_unwind();
    let closed = tokio::select! {
        biased;
        Ok(why) = halted => Closed::Halted(why),
        closed = running => closed.unwrap_or_else(|_| Closed::panicked()),
    };
    let reason = reason(&closed, asked_to.borrow().clone());
    tell_closed(&observers, &lease, &reason).await;
    (lease.id, closed)
}

async fn tell_closed(observers: &Observers, lease: &Lease, reason: &CloseReason) {
    if let CloseReason::Lost { why } = reason {
        observers.lost(lease, why);
    }
    observers.closed(lease, reason).await;
}

fn reason(closed: &Closed, asked_to: Option<CloseReason>) -> CloseReason {
    match closed {
        Closed::Lost(why) => CloseReason::Lost { why: why.clone() },
        Closed::Halted(Halt::Lost) => CloseReason::Lost { why: "it has another owner now".to_owned() },
        Closed::Failed(why) => CloseReason::Failed { why: why.clone() },
        // Nobody asked: it has come to its end.
        Closed::Drained => asked_to.unwrap_or(CloseReason::Repartitioned),
        Closed::Halted(Halt::TooLate) => asked_to.unwrap_or(CloseReason::ShutDown),
    }
}
