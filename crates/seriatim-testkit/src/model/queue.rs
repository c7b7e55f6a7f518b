//! The queue's protocol as a model: the worker's own state machine ([`Lane`]) on the plainest queue ([`Books`]), with crashes, lost
//! answers and a zombie at every step.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use seriatim::HostName;
use seriatim::backend::{Action, Answer, Books, Lane};
use seriatim::handler::{Failure, Retry};
use seriatim::name::{ObjectName, SessionId};
use seriatim::order::{Admit, EventId, admit};
use seriatim::queue::{Body, Event, Hold, Next, Take, WorkerSession};

use super::Model;

/// The protocol as it is, or with a fault that the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// As it is.
    AsItIs,
    /// What a dead worker held is only given back when the worker's name is `2`, as in the printed restart that inspired this.
    NameMistakenInRestart,
    /// A worker sees that no event is left, and gives the object up in a second step.
    ReleaseInTwoSteps,
    /// Whoever once held an object may record: whatever is being sent counts as sent, and is the last event then.
    RecordWithoutEpoch,
    /// Who takes an object over draws new ids for what was stamped already.
    StampAnew,
}

/// How much there is to explore.
#[derive(Clone, Debug)]
pub struct QueueModel {
    /// The protocol.
    pub protocol: Protocol,
    /// How many workers.
    pub workers: usize,
    /// What is pushed, one after another: the object, and how many events at once.
    pub pushes: Vec<(&'static str, usize)>,
    /// How many events are taken at once.
    pub batch: usize,
    /// How often a worker may crash.
    pub crashes: u8,
    /// How often a worker that lives may be taken for dead.
    pub zombies: u8,
    /// How often an answer may be lost.
    pub lost_answers: u8,
}

/// Everything there is at one moment.
#[derive(Clone, Hash)]
pub struct State {
    books: Books,
    workers: Vec<Option<Life>>,
    /// How often each worker has joined.
    lives: Vec<u8>,
    pushed: usize,
    crashes: u8,
    zombies: u8,
    lost_answers: u8,
    /// What consumers have seen of each object: each event once, in the order in which it came first.
    seen: BTreeMap<ObjectName, Vec<Event>>,
    wrong: Option<String>,
}

/// A worker that runs.
#[derive(Clone, Hash)]
struct Life {
    session: WorkerSession,
    lane: Lane,
    /// Only where the release takes two steps: it is about to.
    releasing: Option<Hold>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// The producer pushes.
    Push,
    /// A worker joins, replacing a dead one of its name.
    Join(usize),
    /// A worker does what it is to do next.
    Act(usize, String),
    /// It does so, and does not learn what came of it.
    ActUnheard(usize, String),
    /// A worker finds that it holds what it does not know of.
    Beat(usize),
    /// A worker dies.
    Crash(usize),
    /// A worker is found to be silent.
    Recover(usize),
    /// A worker that lives is found to be silent.
    RecoverZombie(usize),
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn name(worker: usize) -> HostName {
    HostName::new(&(worker + 1).to_string()).expect("a good name")
}

/// The body of the nth event of an object.
fn body(nth: usize) -> Body {
    Body::from(nth.to_string().as_str())
}

impl QueueModel {
    fn push(&self, state: &mut State) {
        let (object, count) = self.pushes[state.pushed];
        let before: usize =
            self.pushes[..state.pushed].iter().filter(|push| push.0 == object).map(|push| push.1).sum();
        let events: Vec<Body> = (before..before + count).map(body).collect();
        state.books.push(&ObjectName::found(object), &events, u64::MAX).expect("there is no limit");
        state.pushed += 1;
    }

    fn total(&self, object: &ObjectName) -> usize {
        self.pushes.iter().filter(|push| push.0 == object.as_str()).map(|push| push.1).sum()
    }

    /// The session under a name is gone; what it held goes back.
    fn remove(&self, books: &mut Books, worker: &HostName) {
        let Some(entry) = books.workers.get(worker).cloned() else { return };
        let session = WorkerSession { worker: worker.clone(), id: entry.session.clone() };
        let holds = books.holds(&session);
        match self.protocol {
            Protocol::NameMistakenInRestart if worker.as_str() != "2" => drop(books.workers.remove(worker)),
            _ => drop(books.recover(worker, &entry.session, entry.beat)),
        }
        if self.protocol == Protocol::StampAnew {
            for hold in holds {
                let object = books.objects.get_mut(&hold.object).expect("it was held");
                object.first = None;
                object.sending.drain(..).rev().for_each(|event| object.events.push_front(event));
            }
        }
    }

    fn join(&self, state: &mut State, worker: usize) {
        let name = name(worker);
        self.remove(&mut state.books, &name);
        state.lives[worker] += 1;
        let id = SessionId::new(&format!("{name}.{}", state.lives[worker])).expect("a good name");
        let session =
            state.books.join(&name, id, Duration::from_secs(10), None, NOW).expect("the name is free");
        state.workers[worker] = Some(Life { session, lane: Lane::new(Retry::default()), releasing: None });
    }

    /// Does what the worker is to do next; it learns what came of it if it is `heard`.
    fn act(&self, state: &mut State, worker: usize, heard: bool) {
        let Some(mut life) = state.workers[worker].clone() else { return };
        let answer = match life.lane.action() {
            Action::Take => match state.books.take(&life.session, self.batch, NOW) {
                Take::Taken(taken) => Some(Answer::Taken(taken)),
                Take::Nothing => Some(Answer::Nothing),
                Take::SessionLost => {
                    // It ends this life and may join anew.
                    state.workers[worker] = None;
                    return;
                }
            },
            Action::Next { hold, sent } => self.next(&mut state.books, &mut life, &hold, sent),
            Action::Send { event, .. } => {
                see(state, event);
                Some(if heard { Answer::Sent } else { Answer::Failed(Failure::target("no answer")) })
            }
            Action::Pause(_) => Some(Answer::Paused),
            other => unreachable!("no event fails for good here: {other:?}"),
        };
        let sends = matches!(life.lane.action(), Action::Send { .. });
        if let Some(answer) = answer.filter(|_| heard || sends) {
            life.lane.answer(answer, 0.0);
        }
        state.workers[worker] = Some(life);
    }

    fn next(&self, books: &mut Books, life: &mut Life, hold: &Hold, sent: Option<EventId>) -> Option<Answer> {
        match self.protocol {
            Protocol::ReleaseInTwoSteps => {
                if life.releasing.take().is_some() {
                    if let Some(object) = books.held(hold) {
                        object.hold = None;
                    }
                    return Some(Answer::Next(Next::Released));
                }
                let before = books.clone();
                let answer = books.next(hold, sent, self.batch, NOW);
                if answer == Next::Released {
                    // It has only seen that nothing is left.
                    let kept = before.objects.get(&hold.object).and_then(|object| object.hold.clone());
                    books.objects.get_mut(&hold.object).expect("it was held").hold = kept;
                    life.releasing = Some(hold.clone());
                    return None;
                }
                Some(Answer::Next(answer))
            }
            Protocol::RecordWithoutEpoch => {
                let object = books.objects.get_mut(&hold.object)?;
                if let (Some(sent), Some(_)) = (sent, object.sending.pop_front()) {
                    object.last = Some(sent);
                    object.first = None;
                }
                Some(Answer::Next(books.next(hold, None, self.batch, NOW)))
            }
            _ => Some(Answer::Next(books.next(hold, sent, self.batch, NOW))),
        }
    }

    /// What the worker holds and does not know of, found by its next sign of life.
    fn forgotten(&self, state: &State, life: &Life) -> Option<Hold> {
        if !life.lane.is_idle() || state.books.workers.get(&life.session.worker)?.session != life.session.id {
            return None;
        }
        state.books.holds(&life.session).into_iter().next()
    }
}

/// A consumer gets an event. What it has seen already must be the same; what it has not must be the next of its chain.
fn see(state: &mut State, event: Event) {
    let seen = state.seen.entry(event.object.clone()).or_default();
    if let Some(before) = seen.iter().find(|before| before.id() == event.id()) {
        if *before != event {
            state.wrong = Some(format!("sent again, but not the same: {before:?}, then {event:?}"));
        }
        return;
    }
    let last = seen.last().map(Event::id);
    if admit(last, event.link) != Ok(Admit::Apply) {
        state.wrong = Some(format!("the chain is broken: {event:?} came after {last:?}"));
    } else if event.body != body(seen.len()) {
        state.wrong = Some(format!("out of order: {event:?} instead of event {}", seen.len()));
    }
    seen.push(event);
}

impl Model for QueueModel {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        let mut state = State {
            books: Books::default(),
            workers: vec![None; self.workers],
            lives: vec![0; self.workers],
            pushed: 0,
            crashes: 0,
            zombies: 0,
            lost_answers: 0,
            seen: BTreeMap::new(),
            wrong: None,
        };
        (0..self.workers).for_each(|worker| self.join(&mut state, worker));
        state
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        let mut add = |step: Step, change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            steps.push((step, next));
        };
        if state.pushed < self.pushes.len() {
            add(Step::Push, &|next| self.push(next));
        }
        for worker in 0..self.workers {
            let joined = state.books.workers.contains_key(&name(worker));
            let Some(life) = &state.workers[worker] else {
                add(Step::Join(worker), &|next| self.join(next, worker));
                if joined {
                    add(Step::Recover(worker), &|next| self.remove(&mut next.books, &name(worker)));
                }
                continue;
            };
            let doing = describe(&life.lane.action());
            add(Step::Act(worker, doing.clone()), &|next| self.act(next, worker, true));
            if state.lost_answers < self.lost_answers {
                add(Step::ActUnheard(worker, doing), &|next| {
                    next.lost_answers += 1;
                    self.act(next, worker, false);
                });
            }
            if let Some(hold) = self.forgotten(state, life) {
                add(Step::Beat(worker), &|next| {
                    let life = next.workers[worker].as_mut().expect("it lives");
                    life.lane.adopt(hold.clone());
                });
            }
            if state.crashes < self.crashes {
                add(Step::Crash(worker), &|next| {
                    next.crashes += 1;
                    next.workers[worker] = None;
                });
            }
            if joined && state.zombies < self.zombies {
                add(Step::RecoverZombie(worker), &|next| {
                    next.zombies += 1;
                    self.remove(&mut next.books, &name(worker));
                });
            }
        }
        steps
    }

    fn is_fault(&self, step: &Step) -> bool {
        matches!(step, Step::Crash(_) | Step::RecoverZombie(_) | Step::ActUnheard(..))
    }

    fn wrong(&self, state: &State) -> Option<String> {
        let broken = state.books.objects().into_iter().filter_map(|object| state.books.inspect(&object));
        let broken = broken.flat_map(|view| view.broken()).next();
        state.wrong.clone().or_else(|| broken.map(|broken| broken.to_string()))
    }

    fn is_done(&self, state: &State) -> bool {
        let all_seen = state.seen.iter().all(|(object, seen)| seen.len() == self.total(object));
        state.pushed == self.pushes.len()
            && state.seen.len() == state.books.objects.len()
            && all_seen
            && state.books.objects().is_empty()
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::Take => "take".to_owned(),
        Action::Next { hold, sent } => {
            format!("next of {} after {:?}, epoch {}", hold.object, sent.map(|id| id.0), hold.epoch)
        }
        Action::Send { event, .. } => format!("send {}", event.to_json()),
        other => format!("{other:?}"),
    }
}
