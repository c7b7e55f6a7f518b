//! A feed's target, shared by all partitions of the feed on this host: who may call its handler now.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::super::pausing::Pause;
use super::machine::{Outage, Target, Turn};
use crate::clock;

/// What is known about a target, and the word that it has changed.
pub(crate) struct SharedTarget {
    state: Mutex<Target>,
    /// While it is on, nobody may call.
    pause: Pause,
    changed: watch::Sender<()>,
    /// How many outages are over.
    recovered: watch::Sender<u64>,
}

/// The right to call the handler. Given back when dropped.
pub(crate) struct Permit {
    target: Arc<SharedTarget>,
    is_probe: bool,
}

impl SharedTarget {
    pub fn new(target: Target, pause: Pause) -> Self {
        let (changed, recovered) = (watch::Sender::new(()), watch::Sender::new(0));
        SharedTarget { state: Mutex::new(target), pause, changed, recovered }
    }

    /// Moves when an outage is over.
    pub fn recovered(&self) -> watch::Receiver<u64> {
        self.recovered.subscribe()
    }

    /// What is wrong with it; `None` when it is there.
    pub fn outage(&self) -> Option<Outage> {
        self.with(|target| target.outage().cloned())
    }

    /// Looks at the target, or notes something about it. Calls that wait for it look again where that may concern them.
    pub fn with<R>(&self, work: impl FnOnce(&mut Target) -> R) -> R {
        let (result, concerns_others, recovered) = {
            let mut target = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let version = target.version();
            let result = work(&mut target);
            (result, target.version() != version, target.recovery().number)
        };
        if concerns_others {
            self.changed.send_replace(());
            self.recovered.send_if_modified(|number| std::mem::replace(number, recovered) != recovered);
        }
        result
    }

    /// Waits until the target is there, or it is the caller's turn to find out. `None` when it is closing. Where the target
    /// is there, the permit is given whether or not it is closing.
    pub async fn turn(self: &Arc<Self>, closing: &mut watch::Receiver<bool>) -> Option<Permit> {
        let (mut changed, mut paused) = (self.changed.subscribe(), self.pause.subscribe());
        loop {
            changed.mark_unchanged();
            paused.mark_unchanged();
            let due = match self.look(*closing.borrow()) {
                Some(Turn::Call) => return Some(self.permit(false)),
                Some(Turn::Probe) => return Some(self.permit(true)),
                Some(Turn::Wait(due)) => due,
                None => return None,
            };
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => {}
                _ = changed.changed() => {}
                _ = paused.changed() => {}
                () = super::sleep_until(due) => {}
            }
        }
    }

    /// Whose turn it is. To look changes nothing for the others but that one of them may find out: they need not be woken.
    fn look(&self, closing: bool) -> Option<Turn> {
        let mut target = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_paused = self.pause.is_on();
        let may_wait = !closing || (target.outage().is_none() && !is_paused);
        may_wait.then(|| if is_paused { Turn::Wait(None) } else { target.turn(clock::now()) })
    }

    fn permit(self: &Arc<Self>, is_probe: bool) -> Permit {
        Permit { target: Arc::clone(self), is_probe }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_probe {
            self.target.with(|target| target.probe_ended(super::this_moment()));
        }
    }
}
