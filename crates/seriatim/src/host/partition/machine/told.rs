//! What is done of calls that still run: one slow change does not keep the others of its batch from being remembered.

use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Done, Machine, Ticket};
use crate::host::CheckpointPolicy;

/// How often calls are looked at where checkpoints are not written by time.
const PAUSE: Duration = Duration::from_secs(1);

impl Machine {
    fn look_pause(&self) -> Duration {
        match self.rules.checkpoint {
            CheckpointPolicy::Time(pause) => pause,
            _ => PAUSE,
        }
    }

    /// When the calls that run are to be looked at; `None` while there is nothing to see.
    pub(super) fn look_due(&self) -> Option<Instant> {
        let sees = self.rules.remembers && self.rules.tells && !self.in_flight.batches.is_empty();
        (sees && !self.in_flight.is_looking).then(|| self.in_flight.looked_at + self.look_pause())
    }

    pub(super) fn look_at_calls(&mut self) {
        if self.look_due().is_some_and(|due| due <= self.at.now) {
            self.in_flight.is_looking = true;
            self.actions.push(Action::LookAtCalls);
        }
    }

    pub(super) fn on_told(&mut self, told: Vec<(Ticket, Vec<Done>)>) {
        (self.in_flight.is_looking, self.in_flight.looked_at) = (false, self.at.now);
        for (ticket, done) in told {
            let Some(run) = self.in_flight.batches.get(&ticket) else { continue };
            for done in done {
                if let Some(number) = run.number_of(done)
                    && self.lanes.tell(number, done.id)
                {
                    (self.saving.worked, self.saving.untold) = (true, true);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Answer, At, Called, Event, HealRules, Rules, Target, Until};
    use super::*;
    use crate::change::{Change, Op, Position};
    use crate::handler::{Backoff, Failure, Retry};
    use crate::host::{ParkLimits, Stats};
    use crate::lease::LeaseId;
    use crate::name::{FeedName, Partition};
    use crate::source::Slice;
    use crate::store::DoneAbove;
    use crate::value::{Key, Value};

    fn feed() -> FeedName {
        FeedName::new("f").unwrap()
    }

    fn rules() -> Rules {
        Rules {
            upto: None,
            lease: LeaseId { feed: feed(), partition: Partition(0) },
            batch: 5,
            concurrency: 1,
            enough: 100,
            retry: Retry::default(),
            heal: HealRules { pauses: None, gap: Duration::ZERO },
            limits: ParkLimits::default(),
            checkpoint: CheckpointPolicy::Changes(1_000),
            chain: false,
            until: Until::ShutDown,
            transactional: false,
            manual_ack: false,
            remembers: true,
            tells: true,
            idle: Duration::from_secs(1),
        }
    }

    fn change(id: u64) -> Change {
        Change {
            feed: feed(),
            partition: Partition(0),
            position: Position::number(id),
            key: Some(Key::of("id", Value::Integer(id as i64))),
            op: Op::Update,
            at: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id,
            prev: None,
        }
    }

    fn call(actions: impl Iterator<Item = Action>) -> (Ticket, Vec<Change>) {
        let called = |action| match action {
            Action::Call { ticket, changes, .. } => Some((ticket, changes)),
            _ => None,
        };
        actions.filter_map(called).next().expect("a call")
    }

    /// Where the changes of a call lie depends on what of their batch was done before.
    #[tokio::test(start_paused = true)]
    async fn what_is_told_of_the_rest_of_a_batch_counts_at_its_own_place() {
        let at = At { now: crate::clock::now(), wall: jiff::Timestamp::UNIX_EPOCH, jitter: 0.5 };
        let forever = at.now + Duration::from_secs(1_000);
        let begin = (Position::number(0), DoneAbove::default());
        let mut machine = Machine::open(rules(), begin, &[], Arc::new(Stats::default()), forever, at);
        let mut target = Target::new(feed(), Backoff::default());
        machine.on(Event::Woken, at, &mut target);
        let changes: Vec<Change> = (1..=5).map(change).collect();
        let (partition, upto) = (Partition(0), Position::number(5));
        let slice = Slice { partition, changes: changes.into(), upto, caught_up: false };
        let (ticket, changes) = call(machine.on(Event::Read(Ok(slice)), at, &mut target));
        // The first and the fourth are done, the second fails, the others are given once more.
        let answer = Answer::Failed(Failure::change("no").at(1).with_done(vec![3]));
        let called = Event::Called(ticket, Called { changes, answer, acked: None });
        let (ticket, rest) = call(machine.on(called, at, &mut target));
        assert_eq!(rest.iter().map(|change| change.id).collect::<Vec<_>>(), [3, 5]);
        machine.on(Event::Told(vec![(ticket, vec![Done { place: 1, id: 5 }])]), at, &mut target);
        let told: Vec<Option<u64>> = (0..5).map(|number| machine.lanes.told_at(number)).collect();
        assert_eq!(told, [None, None, None, None, Some(5)]);
    }
}
