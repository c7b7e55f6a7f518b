//! How far a batch is: which of its changes may be sent, which are done, which have failed. Pure.

use std::collections::HashSet;

use seriatim::handler::FailureKind;
use seriatim::{Change, Failure};

/// The first failure of a batch, and those of others beside it, by their places.
type FirstAndOthers = (Failure, Vec<(usize, Failure)>);

/// How far a batch is.
pub struct Progress {
    /// Which object each change is about.
    lanes: Vec<u64>,
    states: Vec<State>,
    /// The places of those that were not sent yet.
    rest: Vec<usize>,
}

#[derive(Debug)]
enum State {
    Open,
    Done,
    Failed(Failure),
}

impl Progress {
    pub fn of(changes: &[Change]) -> Self {
        let lanes: Vec<u64> = changes.iter().map(Change::lane).collect();
        let states = changes.iter().map(|_| State::Open).collect();
        Progress { rest: (0..lanes.len()).collect(), lanes, states }
    }

    /// The places of those that may be sent now: of each object the next one, unless one before it has failed.
    pub fn next_wave(&mut self) -> Option<Vec<usize>> {
        if self.is_hopeless() {
            return None;
        }
        let failed =
            self.states.iter().zip(&self.lanes).filter(|(state, _)| matches!(state, State::Failed(_)));
        let mut taken: HashSet<u64> = failed.map(|(_, lane)| *lane).collect();
        let (wave, rest) = self.rest.iter().partition(|place| taken.insert(self.lanes[**place]));
        self.rest = rest;
        Some(wave).filter(|wave: &Vec<usize>| !wave.is_empty())
    }

    pub fn note(&mut self, place: usize, answer: Result<(), Failure>) {
        self.states[place] = answer.map_or_else(State::Failed, |()| State::Done);
    }

    /// The target is not there: whatever else would be sent would fail too.
    pub fn is_hopeless(&self) -> bool {
        self.states
            .iter()
            .any(|state| matches!(state, State::Failed(failure) if failure.kind == FailureKind::Target))
    }

    /// Whether all is done; else the first that is not, and which later ones are; and the failures of others beside it.
    pub fn result(mut self) -> Result<(), Box<FirstAndOthers>> {
        let is_done = |state: &State| matches!(state, State::Done);
        let Some(culprit) = self.states.iter().position(|state| !is_done(state)) else { return Ok(()) };
        let done = (culprit + 1..self.states.len()).filter(|place| is_done(&self.states[*place])).collect();
        let first = std::mem::replace(&mut self.states[culprit], State::Open);
        let failed = |(place, state)| match state {
            State::Failed(failure) => Some((place, failure)),
            State::Open | State::Done => None,
        };
        let (mut targets, others): (Vec<_>, Vec<_>) =
            (self.states.into_iter().enumerate().filter_map(failed))
                .partition(|(_, failure)| failure.kind == FailureKind::Target);
        let failure = match first {
            State::Failed(failure) => failure,
            // It was not sent because another one found that the target is not there.
            _ => targets
                .pop()
                .map_or_else(|| Failure::target("the command did not answer"), |(_, failure)| failure),
        };
        let is_unanswered = |failure: &Failure| !failure.unanswered.is_empty();
        let beside = others.iter().filter(|(_, failure)| is_unanswered(failure)).map(|(place, _)| *place);
        let unanswered: Vec<usize> =
            is_unanswered(&failure).then_some(culprit).into_iter().chain(beside).collect();
        Err(Box::new((failure.at(culprit).with_done(done).unanswered_at(unanswered), others)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(lanes: &[u64]) -> Progress {
        let states = lanes.iter().map(|_| State::Open).collect();
        Progress { lanes: lanes.to_vec(), states, rest: (0..lanes.len()).collect() }
    }

    #[test]
    fn of_each_object_one_change_at_a_time() {
        let mut progress = progress(&[1, 2, 1, 3, 1]);
        assert_eq!(progress.next_wave(), Some(vec![0, 1, 3]));
        (0..5).for_each(|place| progress.note(place, Ok(())));
        assert_eq!(progress.next_wave(), Some(vec![2]));
        assert_eq!(progress.next_wave(), Some(vec![4]));
        assert_eq!(progress.next_wave(), None);
        assert!(progress.result().is_ok());
    }

    #[test]
    fn nothing_of_an_object_is_sent_after_one_of_its_changes_failed() {
        let mut progress = progress(&[1, 2, 1, 2]);
        assert_eq!(progress.next_wave(), Some(vec![0, 1]));
        progress.note(0, Err(Failure::change("no")));
        progress.note(1, Ok(()));
        assert_eq!(progress.next_wave(), Some(vec![3]));
        progress.note(3, Ok(()));
        assert_eq!(progress.next_wave(), None);
        let (failure, others) = *progress.result().unwrap_err();
        assert!(others.is_empty());
        assert_eq!((failure.culprit, failure.done), (Some(0), vec![1, 3]));
    }

    #[test]
    fn a_target_that_is_not_there_ends_the_batch() {
        let mut progress = progress(&[1, 2, 3, 1]);
        progress.next_wave();
        progress.note(0, Ok(()));
        progress.note(2, Err(Failure::target("down")));
        assert_eq!(progress.next_wave(), None);
        let (failure, _) = *progress.result().unwrap_err();
        assert_eq!((failure.kind, failure.culprit), (FailureKind::Target, Some(1)));
    }

    #[test]
    fn the_first_failure_is_named_and_the_others_are_kept() {
        let mut progress = progress(&[1, 2, 3]);
        progress.next_wave();
        progress.note(0, Ok(()));
        progress.note(1, Err(Failure::change("first")));
        progress.note(2, Err(Failure::poison("second")));
        let (failure, others) = *progress.result().unwrap_err();
        assert_eq!((failure.culprit, failure.to_string().as_str()), (Some(1), "first"));
        assert_eq!(others.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [2]);
    }
}
