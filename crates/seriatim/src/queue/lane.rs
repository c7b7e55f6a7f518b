//! What a worker does next with one object: pure, and the same in the worker and in the model checker.
//!
//! ```text
//!            take                 all sent
//!    idle ─────────▶ sending ───────────────▶ recording ──▶ more: sending
//!     ▲                │ gives an event up        └────────▶ none: released, idle
//!     │                ▼
//!     └─────────── parking, leaving        the hold is lost: idle, from everywhere
//! ```
//!
//! The state says what is to be done ([`Lane::action`]); what came of it moves the state ([`Lane::answer`]). When nobody knows what
//! came of an action, the state stays and the action is done again: every action of the queue may be repeated.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Event, Hold, Next, Taken};
use crate::handler::{Failure, FailureKind, Retry, Then};
use crate::host::failures::{Blame, Verdict, verdict};
use crate::order::EventId;
use crate::store::{ParkedFailure, ParkedState};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Take an object.
    Take,
    /// Record what was sent, and ask for more.
    Next {
        /// The object.
        hold: Hold,
        /// Up to here.
        sent: Option<EventId>,
    },
    /// Send this event.
    Send {
        /// The event.
        event: Event,
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// Wait before the event is sent again.
    Pause(Duration),
    /// Set the object aside.
    Park {
        /// The object.
        hold: Hold,
        /// Up to here it was sent.
        sent: Option<EventId>,
        /// Why the next event was not.
        failure: ParkedFailure,
    },
    /// Give the object up.
    Release {
        /// The object.
        hold: Hold,
        /// Up to here it was sent.
        sent: Option<EventId>,
    },
    /// The queue's rule for failed events is to stop.
    Stop {
        /// Which event, and why.
        why: String,
    },
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    /// An object was taken.
    Taken(Taken),
    /// There was none to take.
    Nothing,
    /// What the queue says comes next.
    Next(Next),
    /// The event was sent.
    Sent,
    /// The event was not sent.
    Failed(Failure),
    /// The pause is over.
    Paused,
    /// The object is parked.
    Parked,
    /// The object is given up.
    Released,
    /// The hold is lost, or not to be trusted any more.
    Lost,
}

/// One object at a time, from taking it to giving it up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    retry: Retry,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Sending {
        hold: Hold,
        events: VecDeque<Event>,
        sent: Option<EventId>,
        failed: u32,
        pause: Option<Duration>,
    },
    Recording {
        hold: Hold,
        sent: Option<EventId>,
    },
    Parking {
        hold: Hold,
        sent: Option<EventId>,
        failure: ParkedFailure,
    },
    Leaving {
        hold: Hold,
        sent: Option<EventId>,
        stop: Option<String>,
    },
    Stopped {
        why: String,
    },
}

impl Lane {
    /// A lane without an object, with this rule for events that fail.
    pub fn new(retry: Retry) -> Self {
        Lane { retry, state: State::Idle }
    }

    /// Goes on with an object that the queue says is held already: the answer that said so was lost.
    pub fn adopt(&mut self, hold: Hold) {
        self.state = State::Recording { hold, sent: None };
    }

    /// Whether it has no object.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Stopped { .. })
    }

    /// What it holds.
    pub fn hold(&self) -> Option<&Hold> {
        match &self.state {
            State::Idle | State::Stopped { .. } => None,
            State::Sending { hold, .. }
            | State::Recording { hold, .. }
            | State::Parking { hold, .. }
            | State::Leaving { hold, .. } => Some(hold),
        }
    }

    /// The worker wants to end: the object is given up, with what was sent of it recorded.
    pub fn close(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Sending { hold, sent, .. } | State::Recording { hold, sent } => {
                self.state = State::Leaving { hold, sent, stop: None };
            }
            other => self.state = other,
        }
    }

    /// What is to be done now.
    pub fn action(&self) -> Action {
        match &self.state {
            State::Idle => Action::Take,
            State::Sending { pause: Some(pause), .. } => Action::Pause(*pause),
            State::Sending { hold, events, sent, failed, .. } => match events.front() {
                Some(event) => Action::Send { event: event.clone(), attempt: failed + 1 },
                None => Action::Next { hold: hold.clone(), sent: *sent },
            },
            State::Recording { hold, sent } => Action::Next { hold: hold.clone(), sent: *sent },
            State::Parking { hold, sent, failure } => {
                Action::Park { hold: hold.clone(), sent: *sent, failure: failure.clone() }
            }
            State::Leaving { hold, sent, .. } => Action::Release { hold: hold.clone(), sent: *sent },
            State::Stopped { why } => Action::Stop { why: why.clone() },
        }
    }

    /// Moves on with what came of the action; `jitter` of `0.0..1.0` spreads retries. An answer that does not belong to the action
    /// changes nothing.
    pub fn answer(&mut self, answer: Answer, jitter: f64) {
        let state = std::mem::replace(&mut self.state, State::Idle);
        self.state = match (state, answer) {
            (State::Idle, Answer::Taken(Taken { hold, events })) => sending(hold, events, None),
            (State::Stopped { why }, _) => State::Stopped { why },
            (_, Answer::Lost) | (_, Answer::Next(Next::Lost | Next::Released)) => State::Idle,
            (State::Recording { hold, sent }, Answer::Next(Next::Events(events))) => {
                sending(hold, events, sent)
            }
            (State::Sending { hold, events, sent, failed, .. }, Answer::Paused) => {
                State::Sending { hold, events, sent, failed, pause: None }
            }
            (State::Sending { hold, events, .. }, Answer::Sent) => sent_first(hold, events),
            (State::Sending { hold, events, sent, failed, .. }, Answer::Failed(failure)) => {
                let blame = match failure.kind {
                    FailureKind::Target => Blame::PerhapsTarget,
                    _ => Blame::Object,
                };
                let verdict = verdict(&self.retry, &failure, failed + 1, blame, jitter);
                give_up_or_try_again(hold, events, sent, failed + 1, &failure, verdict)
            }
            (State::Parking { .. }, Answer::Parked) => State::Idle,
            (State::Leaving { stop: Some(why), .. }, Answer::Released) => State::Stopped { why },
            (State::Leaving { stop: None, .. }, Answer::Released) => State::Idle,
            (state, _) => state,
        };
    }
}

fn sending(hold: Hold, events: Vec<Event>, sent: Option<EventId>) -> State {
    State::Sending { hold, events: events.into(), sent, failed: 0, pause: None }
}

/// The first of the events is sent, or given up for good.
fn sent_first(hold: Hold, mut events: VecDeque<Event>) -> State {
    let sent = events.pop_front().map(|event| event.id());
    match events.is_empty() {
        true => State::Recording { hold, sent },
        false => State::Sending { hold, events, sent, failed: 0, pause: None },
    }
}

fn give_up_or_try_again(
    hold: Hold,
    events: VecDeque<Event>,
    sent: Option<EventId>,
    failed: u32,
    failure: &Failure,
    verdict: Verdict,
) -> State {
    match verdict {
        Verdict::Again(pause) => State::Sending { hold, events, sent, failed, pause: Some(pause) },
        Verdict::GiveUp(Then::Park) => {
            let failure = ParkedFailure {
                error: failure.to_string(),
                attempts: failed,
                state: ParkedState::Parked,
                next_try: None,
            };
            State::Parking { hold, sent, failure }
        }
        Verdict::GiveUp(Then::Skip) => sent_first(hold, events),
        Verdict::GiveUp(Then::Stop) => {
            let id = events.front().map_or(0, |event| event.id().0);
            let why = format!("event {id} of {} failed {failed} times: {failure}", hold.object);
            State::Leaving { hold, sent, stop: Some(why) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Epoch, HostName, ObjectName, SessionId};
    use crate::order::links;
    use crate::queue::{Body, WorkerSession};

    fn hold() -> Hold {
        let session = WorkerSession { worker: HostName::new("w").unwrap(), id: SessionId::new("s").unwrap() };
        Hold { object: ObjectName::found("work:1"), session, epoch: Epoch(1) }
    }

    fn taken(count: usize) -> Taken {
        let event = |link| Event {
            object: ObjectName::found("work:1"),
            link,
            at: jiff::Timestamp::UNIX_EPOCH,
            body: Body::from("{}"),
        };
        Taken { hold: hold(), events: links(EventId(1), None, count).map(event).collect() }
    }

    fn lane(then: Then, events: usize) -> Lane {
        let mut lane = Lane::new(Retry { attempts: 2, then, ..Retry::default() });
        lane.answer(Answer::Taken(taken(events)), 0.5);
        lane
    }

    fn sends(lane: &Lane) -> Option<(u64, u32)> {
        match lane.action() {
            Action::Send { event, attempt } => Some((event.id().0, attempt)),
            _ => None,
        }
    }

    #[test]
    fn events_are_sent_in_order_and_then_recorded() {
        let mut lane = lane(Then::Park, 2);
        assert_eq!(sends(&lane), Some((1, 1)));
        lane.answer(Answer::Sent, 0.5);
        assert_eq!(sends(&lane), Some((2, 1)));
        lane.answer(Answer::Sent, 0.5);
        assert_eq!(lane.action(), Action::Next { hold: hold(), sent: Some(EventId(2)) });
        lane.answer(Answer::Next(Next::Released), 0.5);
        assert!(lane.is_idle());
    }

    #[test]
    fn an_object_whose_event_fails_is_parked_with_what_was_sent() {
        let mut lane = lane(Then::Park, 3);
        lane.answer(Answer::Sent, 0.5);
        lane.answer(Answer::Failed(Failure::change("no")), 0.5);
        assert!(matches!(lane.action(), Action::Pause(_)));
        lane.answer(Answer::Paused, 0.5);
        assert_eq!(sends(&lane), Some((2, 2)));
        lane.answer(Answer::Failed(Failure::change("no")), 0.5);
        let failure =
            ParkedFailure { error: "no".to_owned(), attempts: 2, state: ParkedState::Parked, next_try: None };
        assert_eq!(lane.action(), Action::Park { hold: hold(), sent: Some(EventId(1)), failure });
    }

    #[test]
    fn a_missing_target_parks_nothing() {
        let mut lane = lane(Then::Park, 1);
        for _ in 0..50 {
            lane.answer(Answer::Failed(Failure::target("down")), 0.5);
            lane.answer(Answer::Paused, 0.5);
        }
        assert_eq!(sends(&lane), Some((1, 51)));
    }

    #[test]
    fn a_skipped_event_counts_as_sent_and_the_next_one_goes() {
        let mut lane = lane(Then::Skip, 2);
        lane.answer(Answer::Failed(Failure::poison("never")), 0.5);
        assert_eq!(sends(&lane), Some((2, 1)));
    }

    #[test]
    fn stopping_gives_the_object_up_first() {
        let mut lane = lane(Then::Stop, 2);
        lane.answer(Answer::Failed(Failure::poison("never")), 0.5);
        assert_eq!(lane.action(), Action::Release { hold: hold(), sent: None });
        lane.answer(Answer::Released, 0.5);
        assert_eq!(lane.action(), Action::Stop { why: "event 1 of work:1 failed 1 times: never".to_owned() });
    }

    #[test]
    fn a_lane_that_is_closed_records_what_it_sent() {
        let mut lane = lane(Then::Park, 2);
        lane.answer(Answer::Sent, 0.5);
        lane.close();
        assert_eq!(lane.action(), Action::Release { hold: hold(), sent: Some(EventId(1)) });
    }

    #[test]
    fn a_lost_hold_is_let_go_of() {
        let mut lane = lane(Then::Park, 2);
        lane.answer(Answer::Lost, 0.5);
        assert_eq!(lane.action(), Action::Take);
    }
}
