//! Doors for the simulator of `seriatim-testkit`. Compiled only with the feature `simulation`, which no product has.
//!
//! Whoever opens the doors on a thread decides there which task runs next, what time of day it is, and which deliberate bugs
//! are switched on. On every other thread all is as usual.

mod mutant;

/// The machine of a partition, for the model checker.
pub mod machine {
    pub use crate::host::partition::Closed;
    pub use crate::host::partition::machine::{
        Action, Answer, At, Called, Event, HealRules, Machine, Rules, Target, Ticket, Until,
    };
}

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

pub use mutant::Mutant;

/// What is to become of a task that could run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs.
    Run,
    /// It is not its turn: it is woken when it is.
    Wait,
    /// Its machine has crashed.
    Gone,
}

/// What a simulator decides.
pub trait Doors {
    /// A task is started by the one that runs now. Returns its number.
    fn started(&self) -> u64;
    /// A task could run.
    fn turn(&self, task: u64, waker: &Waker) -> Turn;
    /// A task has run.
    fn has_run(&self, task: u64);
    /// A task is over.
    fn ended(&self, task: u64);
    /// The time of day on the machine that runs now.
    fn wall(&self) -> Timestamp;
    /// How far that is off.
    fn offset(&self) -> SignedDuration;
    /// Whether this bug is switched on.
    fn has(&self, mutant: Mutant) -> bool;
}

thread_local! {
    static DOORS: RefCell<Option<Rc<dyn Doors>>> = const { RefCell::new(None) };
}

/// Opens the doors on this thread; closes them with `None`.
pub fn open(doors: Option<Rc<dyn Doors>>) {
    DOORS.with(|open| *open.borrow_mut() = doors);
}

fn doors() -> Option<Rc<dyn Doors>> {
    // None too while the thread ends.
    DOORS.try_with(|open| open.borrow().clone()).ok().flatten()
}

pub(crate) fn wall() -> Option<Timestamp> {
    doors().map(|doors| doors.wall())
}

/// A moment as [`Mutant::ExpiryByHostClock`] takes it.
pub(crate) fn by_host_clock(moment: Instant) -> Instant {
    let Some(doors) = doors().filter(|doors| doors.has(Mutant::ExpiryByHostClock)) else { return moment };
    let offset = doors.offset();
    let shifted = match offset.is_negative() {
        true => moment.checked_sub(offset.unsigned_abs()),
        false => moment.checked_add(offset.unsigned_abs()),
    };
    shifted.unwrap_or(moment)
}

/// Whether this bug is switched on, on this thread.
pub fn has(mutant: Mutant) -> bool {
    doors().is_some_and(|doors| doors.has(mutant))
}

/// A future that runs when the simulator says so.
struct Task<F: Future> {
    number: Option<u64>,
    inner: Option<Pin<Box<F>>>,
}

impl<F: Future> Task<F> {
    fn new(inner: F) -> Self {
        Task { number: doors().map(|doors| doors.started()), inner: Some(Box::pin(inner)) }
    }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (number, doors) = (self.number, doors());
        if let (Some(number), Some(doors)) = (number, &doors) {
            match doors.turn(number, context.waker()) {
                Turn::Run => {}
                Turn::Wait => return Poll::Pending,
                Turn::Gone => {
                    self.inner = None;
                    return Poll::Pending;
                }
            }
        }
        let polled = match &mut self.inner {
            Some(inner) => inner.as_mut().poll(context),
            None => Poll::Pending,
        };
        if let (Some(number), Some(doors)) = (number, &doors) {
            doors.has_run(number);
        }
        polled
    }
}

impl<F: Future> Drop for Task<F> {
    fn drop(&mut self) {
        self.inner = None;
        if let (Some(number), Some(doors)) = (self.number, doors()) {
            doors.ended(number);
        }
    }
}

/// As [`tokio::spawn`], on the machine that runs now.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(Task::new(future))
}

/// As [`tokio::task::JoinSet`], on the machine that runs now.
#[derive(Debug)]
pub struct JoinSet<T>(tokio::task::JoinSet<T>);

impl<T: 'static> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

#[allow(missing_docs)]
impl<T: 'static> JoinSet<T> {
    pub fn new() -> Self {
        JoinSet(tokio::task::JoinSet::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn abort_all(&mut self) {
        self.0.abort_all();
    }

    pub fn detach_all(&mut self) {
        self.0.detach_all();
    }

    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.0.join_next().await
    }

    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.0.try_join_next()
    }

    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Starts a task.
    pub fn spawn<F: Future<Output = T> + Send + 'static>(&mut self, future: F) {
        self.0.spawn(Task::new(future));
    }
}
