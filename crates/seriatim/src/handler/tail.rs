//! Trying a parked object again: its changes from the first on, as far as they go.

use std::sync::Arc;

use super::attempt::Gone;
use super::tries::Try;
use super::{CommitError, Context, Failure, FailureKind, Rules};
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
    Went { done: usize, failure: Option<Failure>, failures: u64 },
    /// The host is closing, before anything happened.
    Interrupted,
    /// Nothing of this counts any more: the lease is lost, or whether the commit happened is not known.
    Lost { why: String },
    /// The store needs a person.
    Broken { why: String },
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
        let mut failures = 0;
        loop {
            let Some(_turn) = rules.target.turn(&mut rules.closing).await else { return Tailed::Interrupted };
            let context =
                Context { lease: Arc::clone(lease), attempt: self.failed + 1, timeout: rules.timeout };
            let failure =
                match tries.attempt(&self.changes[..count], &self.done(count, position), &context).await {
                    Ok(()) => {
                        rules.target.is_there();
                        return Tailed::Went { done: count, failure: None, failures };
                    }
                    Err(CommitError::Failed(failure)) => failure,
                    Err(CommitError::Fenced { by }) => return Tailed::of(Gone::fenced(by)),
                    Err(CommitError::Store(error)) => return Tailed::of(Gone::of_store(&error)),
                };
            failures += 1;
            let done = match failure.culprit {
                Some(culprit) if culprit < count && !tries.undoes() => culprit,
                _ => 0,
            };
            let is_alone = count == 1 || (failure.culprit == Some(done) && !tries.undoes());
            match failure.kind {
                FailureKind::Target => rules.target.is_gone(&failure),
                _ if is_alone => return Tailed::Went { done, failure: Some(failure), failures },
                // What comes before the culprit, where all of it was undone; or half of it.
                _ => {
                    count =
                        failure.culprit.filter(|culprit| (1..count).contains(culprit)).unwrap_or(count / 2)
                }
            }
            if done > 0 {
                return Tailed::Went { done, failure: None, failures };
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
