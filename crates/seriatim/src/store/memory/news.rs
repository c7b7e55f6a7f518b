//! Who waits for leases to change hands hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// Counts what may concern those who wait. Each clone remembers for itself what it has seen.
#[derive(Debug)]
pub(super) struct News {
    count: Arc<watch::Sender<u64>>,
    /// The count when the last view of this clone began.
    seen: AtomicU64,
}

impl Default for News {
    fn default() -> Self {
        News { count: Arc::new(watch::Sender::new(0)), seen: AtomicU64::new(0) }
    }
}

impl Clone for News {
    fn clone(&self) -> Self {
        News { count: Arc::clone(&self.count), seen: AtomicU64::new(0) }
    }
}

impl News {
    /// Something has changed.
    pub(super) fn tell(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// A view begins: it shows all that was told so far.
    pub(super) fn note(&self) {
        self.seen.store(*self.count.borrow(), Ordering::Relaxed);
    }

    /// Returns when something was told since the last view began, or after the timeout.
    pub(super) async fn wait(&self, timeout: Duration) {
        let seen = self.seen.load(Ordering::Relaxed);
        let mut count = self.count.subscribe();
        // Either way another look is due.
        drop(tokio::time::timeout(timeout, count.wait_for(|count| *count != seen)).await);
    }
}
