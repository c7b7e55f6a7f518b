//! G3: at least once does not mean as often as one likes.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use super::places::Lease;
use crate::sim::history::{Entry, What};

/// An owner's time with a partition.
type Tenure = (Lease, u64);

/// What was handled does not come again under the next owner when the one before gave the partition up in order, nor when all
/// hosts have ended and the next one starts.
#[derive(Default)]
pub struct Again {
    handled: BTreeMap<u64, Option<Tenure>>,
    calls: BTreeMap<u64, Tenure>,
    /// Something failed in these: what was done beside it may not be known.
    failed: BTreeSet<Tenure>,
    /// Something went wrong with a process or a call.
    trouble: bool,
    over: bool,
}

impl Again {
    fn handled(&mut self, call: u64, change: u64) -> Result<(), String> {
        let now = self.calls.get(&call).copied();
        let Some(before) = self.handled.insert(change, now) else { return Ok(()) };
        if self.over {
            return Err(format!("all was handled and every host had ended, and {change} came again"));
        }
        let in_order = before.is_some_and(|before| !self.failed.contains(&before)) && before != now;
        match in_order && !self.trouble {
            false => Ok(()),
            true => {
                Err(format!("nothing had gone wrong, and change {change} came again under the next owner"))
            }
        }
    }
}

impl Checker for Again {
    fn guarantee(&self) -> &'static str {
        "G3 Once"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Over => self.over = true,
            What::Crashed { .. }
            | What::Paused
            | What::CutOff
            | What::CallFault { .. }
            | What::Hurt { .. }
            | What::Fenced { .. }
            | What::Rewound { .. } => self.trouble = true,
            What::Began { call, feed, partition, epoch, .. } => {
                self.calls.insert(*call, ((*feed, *partition), *epoch));
            }
            What::Failed { call, .. } => self.failed.extend(self.calls.get(call)),
            What::Handled { call, change } => return self.handled(*call, *change),
            _ => {}
        }
        Ok(())
    }
}
