//! Trying a parked object again: its changes from the first on, as far as they go.

use std::sync::Arc;

use super::attempt::Gone;
use super::tries::Try;
use super::{CommitError, Failure, FailureKind, Rules};
use crate::change::{Change, Position};
use crate::lease::Lease;
use crate::store::{Checkpoint, Unparking};
use crate::value::Key;

/// The first changes kept for an object that is to be tried again.
pub(crate) struct Tail {
    pub key: Key,
    pub changes: Vec<Change>,
    /// How often the first of them has failed.
    pub failed: u32,
}

/// How far an object's changes went.
pub(crate) enum Tailed {
    /// So many are handled. With a transactional handler they are taken out of the store already. Then one failed, perhaps.
    Went { done: usize, failure: Option<Failure>, effort: Effort },
    /// The host is closing, before anything happened.
    Interrupted,
    /// Nothing of this counts any more: the lease is lost, or whether the commit happened is not known.
    Lost { why: String },
    /// The store needs a person.
    Broken { why: String },
}

/// What it took.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    /// Attempts that failed.
    pub failures: u64,
    /// Changes that were given to the handler once more.
    pub redelivered: u64,
    /// The handler vouched for so many of the changes that are done, and for all that came before.
    pub vouched: Option<usize>,
}

impl Tail {
    /// Tries the changes together, then fewer and fewer of them: until some are done, or the first has failed alone.
    /// `position` is the partition's own, which does not move.
    pub async fn run(
        &self,
        tries: &dyn Try,
        rules: &mut Rules,
        lease: &Arc<Lease>,
        position: &Position,
    ) -> Tailed {
        let mut count = self.changes.len();
        let mut effort = Effort::default();
        loop {
            let Some(_turn) = rules.target.turn(&mut rules.closing).await else { return Tailed::Interrupted };
            let context = rules.context(lease, self.failed + 1);
            effort.redelivered += match effort.failures {
                0 => u64::from(self.failed > 0),
                _ => count as u64,
            };
            let tried = match rules.may_begin() {
                Ok(()) => tries.attempt(&self.changes[..count], &self.done(count, position), &context).await,
                Err(lapsed) => Err(lapsed),
            };
            effort.vouched = rules.word.as_ref().and_then(|word| word.take()).or(effort.vouched);
            let failure = match tried {
                Ok(()) => {
                    rules.target.is_there();
                    return Tailed::Went { done: count, failure: None, effort };
                }
                Err(CommitError::Failed(failure)) => failure,
                Err(CommitError::Fenced { by }) => return Tailed::of(Gone::fenced(by)),
                Err(CommitError::Store(error)) => return Tailed::of(Gone::of_store(&error)),
            };
            effort.failures += 1;
            let done = match failure.culprit {
                Some(culprit) if culprit < count && !tries.undoes() => culprit,
                _ => 0,
            };
            let is_alone = count == 1 || (failure.culprit == Some(done) && !tries.undoes());
            match failure.kind {
                FailureKind::Target => rules.target.is_gone(&failure),
                _ if is_alone => return Tailed::Went { done, failure: Some(failure), effort },
                // What comes before the culprit, where all of it was undone; or half of it.
                _ => {
                    count =
                        failure.culprit.filter(|culprit| (1..count).contains(culprit)).unwrap_or(count / 2)
                }
            }
            if done > 0 {
                return Tailed::Went { done, failure: None, effort };
            }
        }
    }

    /// What is true once so many are handled.
    fn done(&self, count: usize, position: &Position) -> Checkpoint {
        let ids = self.changes[..count].iter().map(|change| change.id).collect();
        Checkpoint {
            unparked: vec![Unparking { key: self.key.clone(), ids }],
            ..Checkpoint::at(position.clone())
        }
    }
}

impl Tailed {
    fn of(gone: Gone) -> Self {
        match gone {
            Gone::Broken(why) => Tailed::Broken { why },
            Gone::Lost(why) => Tailed::Lost { why },
        }
    }
}
