//! What can come of each thing that a partition does.

use seriatim::handler::Failure;
use seriatim::simulation::machine::{Action, Answer, Called, Closed, Event};
use seriatim::store::{CheckpointError, StoreError};

use super::{PartitionModel, State, Step};

fn unavailable() -> StoreError {
    StoreError::unavailable("asking the store", "the answer was lost")
}

impl PartitionModel {
    /// Everything that can come of a pending action.
    pub(super) fn outcomes(
        &self,
        state: &State,
        number: usize,
        index: usize,
        steps: &mut Vec<(Step, State)>,
    ) {
        let action = &state.lives[number].pending[index];
        if let Action::Read(after) = action
            && after.as_number().unwrap_or(0) >= self.last_id()
        {
            return;
        }
        let taken = || {
            let mut next = state.clone();
            let action = next.lives[number].pending.remove(index);
            (next, action)
        };
        let (mut next, does) = taken();
        let shown = format!("{does:?}");
        let shown = shown.split(['(', ' ']).next().unwrap_or_default().to_owned();
        self.carry_out(&mut next, number, does);
        steps.push((Step::Does(number, index, shown), next));
        if let Action::Call { changes, .. } = action
            && state.left.failures > 0
        {
            let culprits = (0..changes.len()).map(Some).filter(|_| changes.len() > 1);
            for culprit in std::iter::once(None).chain(culprits) {
                let (mut next, call) = taken();
                next.left.failures -= 1;
                self.fail(&mut next, number, call, culprit);
                steps.push((Step::Fails(number, index, culprit), next));
            }
        }
        let is_write = match action {
            Action::Call { .. } => self.transactional,
            Action::Save(_) | Action::GiveUp(..) => true,
            _ => false,
        };
        if is_write && state.left.lost_answers > 0 {
            for applied in [true, false] {
                let (mut next, write) = taken();
                next.left.lost_answers -= 1;
                self.lose_answer(&mut next, number, write, applied);
                let step = if applied { Step::Unheard(number, index) } else { Step::Undone(number, index) };
                steps.push((step, next));
            }
        }
    }

    fn fail(&self, state: &mut State, number: usize, call: Action, culprit: Option<usize>) {
        let Action::Call { ticket, changes, .. } = call else { return };
        let mut failure = Failure::change("no");
        if let Some(culprit) = culprit {
            failure = failure.at(culprit);
            if !self.transactional {
                // Those before it are done.
                self.handle(state, number, &changes[..culprit]);
            }
        }
        let called = Called { changes, answer: Answer::Failed(failure), acked: None };
        self.tell(state, number, Event::Called(ticket, called));
    }

    fn lose_answer(&self, state: &mut State, number: usize, write: Action, applied: bool) {
        let epoch = state.lives[number].epoch;
        let lost = || CheckpointError::Store(unavailable());
        let event = match write {
            Action::Call { ticket, changes, then, .. } => {
                if applied {
                    self.commit(state, number, &changes, &then);
                }
                let answer = Answer::Closed(Closed::Lost("the answer was lost".to_owned()));
                Event::Called(ticket, Called { changes, answer, acked: None })
            }
            Action::Save(then) => {
                if applied {
                    drop(self.save(state, epoch, &then));
                }
                Event::Saved(Err(lost()))
            }
            Action::GiveUp(ticket, then) => {
                if applied {
                    drop(self.save(state, epoch, &then));
                }
                Event::GaveUp(ticket, Err(lost()))
            }
            _ => return,
        };
        self.tell(state, number, event);
    }
}
