//! A parked object that is tried again: its changes from the first on, as far as they go.

use super::batch_run::Around;
use super::{Answer, Called, Closed};
use crate::change::{Change, Position};
use crate::handler::{Failure, FailureKind};
use crate::store::{Checkpoint, Unparking};
use crate::value::Key;

/// What is to be done next with a parked object.
#[derive(Debug)]
pub(super) enum ParkedStep {
    /// Give these changes to the handler. The checkpoint takes them out of the store.
    Call { changes: Vec<Change>, then: Checkpoint, attempt: u32 },
    /// So many are handled. With a transactional handler they are taken out of the store already. Then one failed, perhaps.
    Went { done: usize, failure: Option<Failure> },
    /// The host is closing, before anything happened.
    NotBegun,
    /// Nothing of this counts any more.
    Closed(Closed),
}

/// What it took.
#[derive(Clone, Debug, Default)]
pub(super) struct Effort {
    /// Attempts that failed.
    pub failures: u64,
    /// Changes that were given to the handler once more.
    pub redelivered: u64,
    /// The handler acknowledged so many of the changes that are done, and all that came before.
    pub acked: Option<usize>,
}

/// The first changes kept for an object, while they are tried.
#[derive(Clone, Debug)]
pub(super) struct ParkedRun {
    pub key: Key,
    /// Those that are not with the handler now.
    pub changes: Vec<Change>,
    /// No more than these are in the store.
    pub is_all: bool,
    /// How often the first of them has failed.
    pub failed: u32,
    pub effort: Effort,
    /// The partition's own position, which does not move.
    position: Position,
}

impl ParkedRun {
    pub fn new(key: Key, position: Position) -> Self {
        let effort = Effort::default();
        ParkedRun { key, changes: Vec::new(), is_all: false, failed: 0, effort, position }
    }

    /// These changes were read from the store; the first of them has failed so often.
    pub fn begin(&mut self, changes: Vec<Change>, is_all: bool, failed: u32) -> ParkedStep {
        (self.changes, self.is_all, self.failed) = (changes, is_all, failed);
        self.effort.redelivered = u64::from(failed > 0 && !self.changes.is_empty());
        match self.changes.len() {
            0 => ParkedStep::Went { done: 0, failure: None },
            all => self.call(all),
        }
    }

    fn call(&mut self, count: usize) -> ParkedStep {
        let rest = self.changes.split_off(count);
        let changes = std::mem::replace(&mut self.changes, rest);
        let ids = changes.iter().map(|change| change.id).collect();
        let unparked = vec![Unparking { key: self.key.clone(), ids }];
        let then = Checkpoint { unparked, ..Checkpoint::at(self.position.clone()) };
        ParkedStep::Call { changes, then, attempt: self.failed + 1 }
    }

    /// A call has ended. They are tried together, then fewer and fewer of them: until some are done, or the first has failed
    /// alone.
    pub fn called(&mut self, called: Called, around: &mut Around<'_>) -> ParkedStep {
        let Called { mut changes, answer, acked } = called;
        let count = changes.len();
        changes.append(&mut self.changes);
        self.changes = changes;
        self.effort.acked = acked.or(self.effort.acked);
        match answer {
            Answer::Done => {
                around.target.is_there();
                ParkedStep::Went { done: count, failure: None }
            }
            Answer::Failed(failure) => self.call_failed(count, failure, around),
            Answer::NotBegun => ParkedStep::NotBegun,
            Answer::Closed(closed) => ParkedStep::Closed(closed),
        }
    }

    fn call_failed(&mut self, count: usize, failure: Failure, around: &mut Around<'_>) -> ParkedStep {
        self.effort.failures += 1;
        let undoes = around.rules.transactional;
        let done = failure.culprit.filter(|culprit| *culprit < count && !undoes).unwrap_or(0);
        let is_alone = count == 1 || (failure.culprit == Some(done) && !undoes);
        // While the target is away, others find out whether it is back: this one waits for its next turn.
        if is_alone || failure.kind == FailureKind::Target {
            return ParkedStep::Went { done, failure: Some(failure) };
        }
        // What comes before the culprit, where all of it was undone; or half of it.
        let fewer = failure.culprit.filter(|culprit| (1..count).contains(culprit)).unwrap_or(count / 2);
        if done > 0 {
            return ParkedStep::Went { done, failure: None };
        }
        if around.closing {
            return ParkedStep::NotBegun;
        }
        self.effort.redelivered += fewer as u64;
        self.call(fewer)
    }
}
