//! The log line of a change that failed: one for each failure, with its object, and the command that shows more.

use std::time::Duration;

use super::failures::Blame;
use crate::change::Change;
use crate::handler::Failure;
use crate::host::rounded::Rounded;
use crate::lease::LeaseId;

/// A change that failed so often.
pub(super) struct Told<'a> {
    pub lease: &'a LeaseId,
    pub change: &'a Change,
    pub failure: &'a Failure,
    pub failed: u32,
}

impl Told<'_> {
    fn key(&self) -> String {
        self.change.key.as_ref().map_or_else(|| "null".to_owned(), ToString::to_string)
    }

    /// It is tried again after this pause. While the target may be to blame, the word on that is enough.
    pub fn tried_again(&self, pause: Duration, blame: Blame) {
        let Told { lease, change, failure, failed } = self;
        let (key, id, pause) = (self.key(), change.id, Rounded(pause));
        if blame == Blame::PerhapsTarget {
            tracing::debug!(%lease, %key, id, attempt = failed, error = %failure, "failed; trying again in {pause}");
            return;
        }
        tracing::warn!(%lease, %key, id, attempt = failed, error = %failure, "failed; trying again in {pause}");
    }

    pub fn skipped(&self) {
        let Told { lease, change, failure, failed } = self;
        let (key, id, attempts) = (self.key(), change.id, attempts(*failed));
        tracing::error!(%lease, %key, id, error = %failure, "skipped after {attempts}: it is not handled");
    }

    /// It is parked, and tried again by itself after this pause, or when somebody asks.
    pub fn parked(&self, pause: Option<Duration>) {
        let Told { lease, change, failure, failed } = self;
        let (key, id, feed) = (self.key(), change.id, &lease.feed);
        let help = format!("seriatim parked show {feed} --key '{key}'");
        let next = pause.map_or_else(String::new, |pause| format!("; trying again in {}", Rounded(pause)));
        let attempts = attempts(*failed);
        tracing::error!(%lease, %key, id, error = %failure, %help, "parked after {attempts}{next}");
    }
}

fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}
