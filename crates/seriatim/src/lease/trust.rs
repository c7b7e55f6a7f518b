//! How long one who has given a sign of life can trust that nobody has judged it dead. Hosts and queues' workers ask here.
//!
//! It is counted from when the sign of life was *sent*, on one's own monotonic clock. Others count the whole expiry from when they
//! saw it, which is later. So it ends before anybody can take over, however late the answer came.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock;

/// Until when one's own leases or holds can be trusted.
#[derive(Debug)]
pub(crate) struct Trust {
    lasts: Duration,
    until: watch::Sender<Instant>,
}

impl Trust {
    /// For this long after each sign of life; the first was sent at this moment, by joining.
    pub(crate) fn begin(lasts: Duration, joining: Instant) -> Self {
        Trust { lasts, until: watch::Sender::new(joining + lasts) }
    }

    /// A sign of life that was sent at this moment was accepted.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.until.send_replace(sent + self.lasts);
    }

    /// When it ends, unless another sign of life is given.
    pub(crate) fn until(&self) -> Instant {
        *self.until.borrow()
    }

    /// Whether somebody may have judged this one dead.
    pub(crate) fn is_over(&self) -> bool {
        clock::now() >= self.until()
    }

    /// The moment at which it ends, whenever that moves.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Instant> {
        self.until.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_counted_from_when_a_sign_of_life_was_sent() {
        let second = Duration::from_secs(1);
        let sent = clock::now();
        let trust = Trust::begin(9 * second, sent);
        tokio::time::advance(8 * second).await;
        assert!(!trust.is_over());
        tokio::time::advance(second).await;
        assert!(trust.is_over());
        // The answer comes only now.
        trust.renewed(sent + 5 * second);
        assert!(!trust.is_over());
        tokio::time::advance(5 * second).await;
        assert!(trust.is_over());
    }
}
