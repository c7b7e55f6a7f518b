//! One round of claims: as many changes of a batch as can be had without waiting for anybody.

use std::time::Duration;

use futures_util::future::join_all;

use super::signal_id;
use crate::change::Change;
use crate::clock;
use crate::handler::Failure;
use crate::once::{Attempt, Begun, Once, OnceError};

/// So many claims are asked for at the same time.
const AT_ONCE: usize = 32;

/// What was claimed of a batch up to a place; what is not among it there is done already.
pub(super) struct Round {
    /// The places of those to run, in order, with the right to it.
    pub claims: Vec<(usize, Attempt)>,
    pub upto: usize,
    /// Why the change at `upto` could not be claimed; `None` at the end of the batch.
    pub obstacle: Option<OnceError>,
}

impl Round {
    /// Claims what can be had from this place on; the first of them may be in hand already.
    pub(super) async fn claim(
        once: &Once,
        changes: &[Change],
        from: usize,
        in_hand: Option<Attempt>,
    ) -> Self {
        let now = once.clone().max_wait(Duration::ZERO);
        let next = from + usize::from(in_hand.is_some());
        let claims = in_hand.map(|attempt| (from, attempt)).into_iter().collect();
        let mut round = Round { claims, upto: next, obstacle: None };
        for changes in changes[next..].chunks(AT_ONCE) {
            let ids: Vec<String> = changes.iter().map(signal_id).collect();
            let begun = join_all(ids.iter().map(|id| now.start(id))).await;
            for begun in begun {
                round.take(once, begun).await;
            }
            if round.obstacle.is_some() {
                break;
            }
        }
        round.refresh(once).await;
        round
    }

    async fn take(&mut self, once: &Once, begun: Result<Begun, OnceError>) {
        match (&self.obstacle, begun) {
            (None, Err(error)) => self.obstacle = Some(error),
            (None, Ok(begun)) => {
                if let Begun::Run(attempt) = begun {
                    self.claims.push((self.upto, attempt));
                }
                self.upto += 1;
            }
            // Nothing is held while somebody else is waited for.
            (Some(_), Ok(Begun::Run(attempt))) => once.fail(&attempt).await,
            (Some(_), _) => {}
        }
    }

    /// Claims that were long on their way must not be running out when the handler begins.
    async fn refresh(&mut self, once: &Once) {
        let half = once.settings.max_processing_time / 2;
        for index in 0..self.claims.len() {
            let (place, attempt) = &mut self.claims[index];
            if clock::now() < attempt.since + half {
                continue;
            }
            if let Err(error) = once.extend(attempt).await {
                self.upto = *place;
                self.obstacle = Some(error);
                for (_, attempt) in self.claims.drain(index..) {
                    once.fail(&attempt).await;
                }
                return;
            }
        }
    }

    /// A failure of those that were handed on, as one of the whole batch.
    pub(super) fn translated(&self, failure: Failure, changes: &[Change]) -> Failure {
        let place = |claim: usize| self.claims.get(claim).map(|(place, _)| *place);
        let alone = (self.claims.len() == 1).then_some(0);
        let culprit = failure.culprit.or(alone).and_then(place);
        let unanswered = failure.unanswered.iter().filter_map(|claim| place(*claim)).collect();
        let Some(at) = culprit else { return Failure { culprit, done: Vec::new(), unanswered, ..failure } };
        let is_claimed = |place: &usize| self.claims.iter().any(|(claimed, _)| claimed == place);
        let is_another_object = |place: &usize| changes[*place].lane() != changes[at].lane();
        let before = (at + 1..self.upto).filter(|place| !is_claimed(place) && is_another_object(place));
        let done = failure.done.iter().filter_map(|claim| place(*claim)).chain(before).collect();
        Failure { culprit, done, unanswered, ..failure }
    }
}
