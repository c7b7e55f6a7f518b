//! One partition as a model: the host's own machine, with the plainest source, handler and store, and failures, crashes, lost
//! answers, hand-overs and a zombie at every action.

mod kept;
mod outcomes;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use seriatim::change::{Change, Op, Position};
use seriatim::handler::{Backoff, Retry, Then};
use seriatim::host::{CheckpointPolicy, ParkLimits, Stats};
use seriatim::lease::LeaseId;
use seriatim::name::{Epoch, FeedName, Partition};
use seriatim::simulation::machine::{
    Action, Answer, At, Called, Closed, Event, HealRules, Machine, Rules, Target, Until,
};
use seriatim::source::Slice;
use seriatim::store::{Checkpoint, CheckpointError, DoneAbove, ParkedObject, ParkedState};
use tokio::time::Instant;

use super::Model;
use kept::{Kept, Object, key};

/// How much there is to explore.
#[derive(Clone, Debug)]
pub struct PartitionModel {
    /// The keys of the changes, one after another.
    pub changes: Vec<i64>,
    /// Whether effect and checkpoint are one step.
    pub transactional: bool,
    /// How many changes a call gets at most.
    pub batch: usize,
    /// How often a call may fail.
    pub failures: u8,
    /// How often the owner may crash.
    pub crashes: u8,
    /// How often an answer of the store may be lost, after or before it did what it was asked for.
    pub lost_answers: u8,
    /// How often the partition may be handed over in order.
    pub hand_overs: u8,
    /// How often an owner that lives may be taken for dead.
    pub zombies: u8,
    /// Whether parked objects are tried again by themselves.
    pub heals: bool,
}

/// Everything there is at one moment.
#[derive(Clone)]
pub struct State {
    /// The owner, and zombies before it.
    lives: Vec<Life>,
    store: Kept,
    now: Instant,
    /// The changes that were handled at least once.
    handled: BTreeSet<u64>,
    /// What may still go wrong.
    left: PartitionModel,
    wrong: Option<String>,
}

/// A partition that a host runs.
#[derive(Clone)]
struct Life {
    machine: Machine,
    target: Target,
    epoch: u64,
    /// What it is doing.
    pending: Vec<Action>,
    /// The last change of each object that it has handled.
    last: BTreeMap<i64, u64>,
    closing: bool,
}

/// One thing that happens: to the life of this number, with its pending action of this number.
#[derive(Clone, Debug)]
pub enum Step {
    /// An action is carried out.
    Does(usize, usize, String),
    /// A call fails: all of it, or at this change.
    Fails(usize, usize, Option<usize>),
    /// The store does it, and the answer is lost.
    Unheard(usize, usize),
    /// The store does not do it, and the answer is lost.
    Undone(usize, usize),
    /// Time passes.
    Time(usize),
    /// The owner is asked to hand the partition over.
    HandOver,
    /// The owner dies.
    Crash,
    /// Somebody takes the lease.
    Acquire,
    /// Somebody takes the lease of an owner that lives.
    TakeOver,
    /// Somebody asks for a parked object to be tried again.
    Retry,
}

impl PartitionModel {
    fn change(&self, id: u64) -> Change {
        let of = self.changes[id as usize - 1];
        Change {
            feed: FeedName::new("f").expect("a good name"),
            partition: Partition(0),
            position: Position::number(id),
            key: (of >= 0).then(|| key(of)),
            op: if of >= 0 { Op::Update } else { Op::Truncate },
            at: Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id,
            prev: None,
        }
    }

    fn key_of(&self, id: u64) -> i64 {
        self.changes[id as usize - 1]
    }

    fn last_id(&self) -> u64 {
        self.changes.len() as u64
    }

    fn rules(&self) -> Rules {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(1) };
        Rules {
            upto: None,
            lease: LeaseId { feed: FeedName::new("f").expect("a good name"), partition: Partition(0) },
            batch: self.batch,
            concurrency: 2,
            enough: 100,
            retry: Retry { attempts: 2, backoff, then: Then::Park },
            heal: HealRules { pauses: self.heals.then_some(backoff), gap: Duration::ZERO },
            limits: ParkLimits::default(),
            checkpoint: CheckpointPolicy::Batch,
            chain: false,
            until: Until::ShutDown,
            transactional: self.transactional,
            manual_ack: false,
            remembers: !self.transactional,
            tells: false,
            idle: Duration::from_secs(1),
        }
    }

    fn at(&self, state: &State) -> At {
        At { now: state.now, wall: Timestamp::UNIX_EPOCH, jitter: 1.0 }
    }

    fn acquire(&self, state: &mut State) {
        state.store.epoch += 1;
        state.store.owned = true;
        let parked: Vec<ParkedObject> = state.store.objects();
        let forever = state.now + Duration::from_secs(1_000_000);
        let begin = (Position::number(state.store.position), state.store.done.clone());
        let machine =
            Machine::open(self.rules(), begin, &parked, Arc::new(Stats::default()), forever, self.at(state));
        let target = Target::new(FeedName::new("f").expect("a good name"), Backoff::default());
        let (epoch, last) = (state.store.epoch, BTreeMap::new());
        state.lives.push(Life { machine, target, epoch, pending: Vec::new(), last, closing: false });
        self.tell(state, state.lives.len() - 1, Event::Woken);
    }

    /// Tells a life's machine what has happened, and begins what it says.
    fn tell(&self, state: &mut State, number: usize, event: Event) {
        let at = self.at(state);
        let life = &mut state.lives[number];
        let actions: Vec<Action> = life.machine.on(event, at, &mut life.target).collect();
        for action in actions {
            match action {
                Action::TellWaiting(_) | Action::TellCaughtUp => {}
                Action::Close(closed) => {
                    let life = state.lives.remove(number);
                    if matches!(closed, Closed::Drained) && !life.pending.iter().all(is_idle) {
                        state.wrong = Some("a partition was given up while something of it ran".to_owned());
                    }
                    if life.epoch == state.store.epoch {
                        state.store.owned = false;
                    }
                    if let Closed::Failed(why) = closed {
                        state.wrong = Some(format!("the partition failed: {why}"));
                    }
                    return;
                }
                action => state.lives[number].begin(action, &mut state.wrong),
            }
        }
    }

    /// The handler has handled these changes.
    fn handle(&self, state: &mut State, number: usize, changes: &[Change]) {
        for change in changes {
            let of = self.key_of(change.id);
            let earlier = (1..change.id).filter(|id| {
                let other = self.key_of(*id);
                other == of || other < 0 || of < 0
            });
            if let Some(skipped) = earlier.into_iter().find(|id| !state.handled.contains(id)) {
                state.wrong = Some(format!("change {} was handled before change {skipped}", change.id));
            }
            let owns = state.lives[number].epoch == state.store.epoch;
            if owns && state.store.done.contains(change.id) {
                state.wrong = Some(format!("change {} came again, and the checkpoint knew of it", change.id));
            }
            if self.transactional && state.handled.contains(&change.id) {
                state.wrong = Some(format!("change {} took effect twice", change.id));
            }
            let last = state.lives[number].last.insert(of, change.id);
            if last.is_some_and(|last| last >= change.id) {
                state.wrong = Some(format!("change {} came again, after {last:?}, to one owner", change.id));
            }
            state.handled.insert(change.id);
        }
    }

    /// Carries out an action as it should be.
    fn carry_out(&self, state: &mut State, number: usize, action: Action) {
        let epoch = state.lives[number].epoch;
        let event = match action {
            Action::Read(after) => {
                let after = after.as_number().unwrap_or(0);
                let upto = (after + 2).min(self.last_id());
                let changes: Vec<Change> = (after + 1..=upto).map(|id| self.change(id)).collect();
                let caught_up = upto == self.last_id();
                let upto = Position::number(upto);
                Event::Read(Ok(Slice { partition: Partition(0), changes: changes.into(), upto, caught_up }))
            }
            Action::Call { ticket, changes, then, .. } => {
                let answer = match self.transactional {
                    true => self.commit(state, number, &changes, &then),
                    false => {
                        self.handle(state, number, &changes);
                        Answer::Done
                    }
                };
                Event::Called(ticket, Called { changes, answer, acked: None })
            }
            Action::GiveUp(ticket, then) => Event::GaveUp(ticket, self.save(state, epoch, &then)),
            Action::Save(then) => Event::Saved(self.save(state, epoch, &then)),
            Action::ReadParked(ticket, key, limit) => {
                let found = state.store.objects().into_iter().find(|object| object.key == key);
                let kept = state.store.parked.iter().find(|(of, _)| kept::key(**of) == key);
                let changes = kept.map(|(_, object)| object.changes.values().take(limit).cloned().collect());
                Event::ParkedRead(ticket, Ok((found, changes.unwrap_or_default())))
            }
            Action::ListParked(_) => Event::Listed(Ok(state.store.objects())),
            _ => return,
        };
        self.tell(state, number, event);
    }

    /// Effect and checkpoint in one step.
    fn commit(&self, state: &mut State, number: usize, changes: &[Change], then: &Checkpoint) -> Answer {
        let epoch = state.lives[number].epoch;
        if epoch != state.store.epoch {
            return Answer::Closed(Closed::Lost("it has another owner".to_owned()));
        }
        self.handle(state, number, changes);
        match self.save(state, epoch, then) {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Closed(Closed::Lost(error.to_string())),
        }
    }

    fn save(&self, state: &mut State, epoch: u64, then: &Checkpoint) -> Result<(), CheckpointError> {
        let store = &mut state.store;
        if epoch != store.epoch {
            return Err(CheckpointError::Fenced { by: Epoch(store.epoch) });
        }
        let position = then.position.as_number().unwrap_or(0);
        if position < store.position {
            state.wrong = Some(format!("the checkpoint went back from {} to {position}", store.position));
        }
        store.position = position;
        store.done = then.done.clone();
        let told = (1..=self.last_id()).find(|id| then.done.contains(*id) && !state.handled.contains(id));
        if let Some(told) = told {
            state.wrong = Some(format!("the checkpoint tells that change {told} is handled, and it is not"));
        }
        store.resume(then);
        store.take_out(then);
        store.park(then, self);
        let kept: BTreeSet<u64> =
            store.parked.values().flat_map(|object| object.changes.keys().copied()).collect();
        let lost = (1..=position).find(|id| !state.handled.contains(id) && !kept.contains(id));
        if let Some(lost) = lost {
            state.wrong = Some(format!(
                "the checkpoint is at {position}, and change {lost} is neither handled nor parked"
            ));
        }
        Ok(())
    }
}

/// Whether it may wait for ever.
fn is_idle(action: &Action) -> bool {
    matches!(action, Action::Read(_) | Action::ListParked(_))
}

impl Life {
    fn begin(&mut self, action: Action, wrong: &mut Option<String>) {
        if let Action::Call { changes, .. } = &action {
            let lanes = |changes: &[Change]| changes.iter().map(Change::lane).collect::<BTreeSet<_>>();
            let mine = lanes(changes);
            let others = self.pending.iter().filter_map(|other| match other {
                Action::Call { changes, .. } => Some(lanes(changes)),
                _ => None,
            });
            if others.into_iter().any(|others| !others.is_disjoint(&mine)) {
                *wrong = Some("two calls at the same time have changes of one object".to_owned());
            }
        }
        self.pending.push(action);
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for life in &self.lives {
            format!("{:?} {:?} {:?}", life.machine, life.pending, life.target).hash(hasher);
            (life.epoch, &life.last, life.closing).hash(hasher);
        }
        let left = &self.left;
        format!("{:?}", self.store).hash(hasher);
        (left.failures, left.crashes, left.lost_answers, left.hand_overs, left.zombies).hash(hasher);
        (self.now, &self.handled, &self.wrong).hash(hasher);
    }
}

impl Model for PartitionModel {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        let store =
            Kept { position: 0, epoch: 0, owned: false, done: DoneAbove::default(), parked: BTreeMap::new() };
        State {
            lives: Vec::new(),
            store,
            now: moment(),
            handled: BTreeSet::new(),
            left: self.clone(),
            wrong: None,
        }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        let mut can = |step: Step, happens: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            happens(&mut next);
            steps.push((step, next));
        };
        if !state.store.owned {
            can(Step::Acquire, &|next| self.acquire(next));
        }
        let owner = state.lives.iter().rposition(|life| life.epoch == state.store.epoch);
        if let Some(owner) = owner.filter(|_| state.store.owned) {
            if state.left.crashes > 0 {
                can(Step::Crash, &|next| {
                    next.left.crashes -= 1;
                    next.lives.remove(owner);
                    next.store.owned = false;
                });
            }
            if state.left.zombies > 0 {
                can(Step::TakeOver, &|next| {
                    next.left.zombies -= 1;
                    self.acquire(next);
                });
            }
            if state.left.hand_overs > 0 && !state.lives[owner].closing {
                can(Step::HandOver, &|next| {
                    next.left.hand_overs -= 1;
                    next.lives[owner].closing = true;
                    self.tell(next, owner, Event::Close);
                });
            }
            let waits = |object: &Object| object.failure.state == ParkedState::Parked;
            if state.store.parked.values().any(waits) {
                can(Step::Retry, &|next| {
                    for object in next.store.parked.values_mut() {
                        (object.failure.state, object.failure.attempts) = (ParkedState::Retrying, 0);
                    }
                    self.tell(next, owner, Event::Asked);
                });
            }
        }
        for (number, life) in state.lives.iter().enumerate() {
            let wake_at = life.machine.wake_at();
            if life.pending.iter().all(is_idle) && wake_at < state.now + Duration::from_secs(100) {
                can(Step::Time(number), &|next| {
                    next.now = next.now.max(wake_at);
                    self.tell(next, number, Event::Woken);
                });
            }
        }
        for (number, life) in state.lives.iter().enumerate() {
            for index in 0..life.pending.len() {
                self.outcomes(state, number, index, &mut steps);
            }
        }
        steps
    }

    fn is_fault(&self, step: &Step) -> bool {
        !matches!(step, Step::Does(..) | Step::Time(_) | Step::Acquire | Step::Retry)
    }

    fn wrong(&self, state: &State) -> Option<String> {
        state.wrong.clone()
    }

    fn is_done(&self, state: &State) -> bool {
        let all = state.handled.len() == self.changes.len();
        all && state.store.position == self.last_id() && state.store.parked.is_empty()
    }
}

/// Any moment: all others are counted from it.
#[allow(clippy::disallowed_methods)]
fn moment() -> Instant {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BEGIN.get_or_init(Instant::now)
}
