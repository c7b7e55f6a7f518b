//! Failures that wait to be told.
//!
//! A batch can name one culprit. If several of its changes failed, the others come again in the next call, as if they had not been
//! tried: then their failure is told, and they are not sent a second time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use seriatim::lease::Lease;
use seriatim::name::{Epoch, Partition};
use seriatim::{Change, Failure};

use super::batch::Progress;

/// Failures that wait to be told, with the epoch in which they happened: in a later one everything is tried anew.
#[derive(Default)]
pub struct DeferredFailures(Mutex<HashMap<(Partition, u64), (Epoch, Failure)>>);

impl DeferredFailures {
    /// Keeps failures for the next call.
    pub fn keep(&self, lease: &Lease, failures: impl Iterator<Item = (u64, Failure)>) {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What an earlier owner of the partition left behind is of no use any more.
        untold.retain(|(partition, _), (epoch, _)| *partition != lease.id.partition || *epoch == lease.epoch);
        untold.extend(failures.map(|(id, failure)| ((lease.id.partition, id), (lease.epoch, failure))));
    }

    /// Notes what is known about these changes already.
    pub fn tell(&self, lease: &Lease, changes: &[Change], progress: &mut Progress) {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if untold.is_empty() {
            return;
        }
        for (place, change) in changes.iter().enumerate() {
            match untold.remove(&(lease.id.partition, change.id)) {
                Some((epoch, failure)) if epoch == lease.epoch => progress.note(place, Err(failure)),
                _ => {}
            }
        }
    }
}
