//! A model checker: explores everything that can happen, breadth first, and shows the shortest way to what must not.
//!
//! A [`Model`] says which steps are possible in a state and what must hold in each. [`explore`] visits every state that can be reached
//! and checks two things: nothing that must not be is ever so, and from every state there is still a way, without further
//! faults, to one in which all is done. States are remembered by a hash of 128 bits, so a run needs little memory; that two states
//! share one is less likely than a fault of the machine.

pub mod partition;
pub mod queue;

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What can happen, and what must hold.
pub trait Model {
    /// Everything there is at one moment.
    type State: Clone + Hash;
    /// One thing that happens.
    type Step: Clone + Debug;

    /// How it begins.
    fn initial(&self) -> Self::State;

    /// Everything that can happen next, and what comes of it.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;

    /// Whether this step is a fault: what is to be done must get done without further ones.
    fn is_fault(&self, step: &Self::Step) -> bool;

    /// What must not be, if it is so.
    fn wrong(&self, state: &Self::State) -> Option<String>;

    /// Whether everything that was to be done is done.
    fn is_done(&self, state: &Self::State) -> bool;
}

/// Something that must not be, and the shortest way to it.
pub struct Counterexample {
    /// What is wrong.
    pub wrong: String,
    /// What happened.
    pub steps: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after:", self.wrong)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{:>4}. {step}", number + 1))
    }
}

impl Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How much there was to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States.
    pub states: usize,
    /// States in which all was done.
    pub done: usize,
}

/// The states seen so far, by number, and how each was reached first.
struct Seen<S> {
    numbers: HashMap<u128, u32>,
    reached: Vec<Option<(u32, S)>>,
    /// For each state, those from which a step that is no fault leads to it.
    before: Vec<Vec<u32>>,
}

impl<S: Clone + Debug> Seen<S> {
    /// The number of a state, and whether it is new.
    fn number<T: Hash>(&mut self, state: &T, reached: Option<(u32, S)>) -> (u32, bool) {
        let next = self.reached.len() as u32;
        let number = *self.numbers.entry(fingerprint(state)).or_insert(next);
        if number == next {
            self.reached.push(reached);
            self.before.push(Vec::new());
        }
        (number, number == next)
    }

    fn counterexample(&self, wrong: String, mut at: u32) -> Counterexample {
        let mut steps = Vec::new();
        while let Some((from, step)) = &self.reached[at as usize] {
            steps.push(format!("{step:?}"));
            at = *from;
        }
        steps.reverse();
        Counterexample { wrong, steps }
    }

    /// The first state from which none of `done` can be reached without a fault.
    fn stuck(&self, done: &[u32]) -> Option<u32> {
        let mut reaches = vec![false; self.reached.len()];
        let mut open: Vec<u32> = done.to_vec();
        while let Some(state) = open.pop() {
            if !std::mem::replace(&mut reaches[state as usize], true) {
                open.extend(&self.before[state as usize]);
            }
        }
        reaches.iter().position(|reaches| !reaches).map(|state| state as u32)
    }
}

fn fingerprint(state: &impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        state.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

/// Visits every state that can be reached.
pub fn explore<M: Model>(model: &M) -> Result<Explored, Counterexample> {
    let mut seen = Seen { numbers: HashMap::new(), reached: Vec::new(), before: Vec::new() };
    let initial = model.initial();
    let (number, _) = seen.number(&initial, None);
    let mut open = VecDeque::from([(number, initial)]);
    let mut done = Vec::new();
    while let Some((number, state)) = open.pop_front() {
        if let Some(wrong) = model.wrong(&state) {
            return Err(seen.counterexample(wrong, number));
        }
        if model.is_done(&state) {
            done.push(number);
        }
        for (step, next) in model.steps(&state) {
            let fault = model.is_fault(&step);
            let (to, new) = seen.number(&next, Some((number, step)));
            if !fault && to != number {
                seen.before[to as usize].push(number);
            }
            if new {
                open.push_back((to, next));
            }
        }
    }
    match seen.stuck(&done) {
        Some(stuck) => Err(seen.counterexample("from here on, something is never done".to_owned(), stuck)),
        None => Ok(Explored { states: seen.reached.len(), done: done.len() }),
    }
}
