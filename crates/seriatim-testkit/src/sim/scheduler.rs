//! Which task runs next: one at a time, drawn from a seed.
//!
//! ```text
//!   a task is woken ──▶ ready ──▶ drawn by the seed ──▶ runs to its next await ──▶ waits
//!                         ▲              │
//!                         │              └─ its machine is paused: not now; has crashed: never, and it is dropped there
//!                         └── time moves only when nothing is ready
//! ```
//!
//! Tokio still polls the tasks, but each of them first asks here whether it is its turn. Wakers, timers and channels are
//! tokio's own; in which order they fire does not matter, because all that is ready is drawn from together.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use seriatim::simulation::{self, Doors, Mutant, Turn};
use tokio::time::Instant;

/// A process on a machine of its own. The first is the world, which never fails: databases, networks, people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine(pub u32);

/// Where databases, networks and people are.
pub const WORLD: Machine = Machine(0);

/// How a machine is.
#[derive(Clone, Debug, Default)]
struct Condition {
    paused: bool,
    crashed: bool,
    /// How often its tasks have run.
    runs: u64,
    /// How far its clock is off.
    offset: SignedDuration,
    /// What is to happen after so many runs.
    alarms: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct Known {
    machine: Machine,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Inner {
    tasks: BTreeMap<u64, Known>,
    ready: BTreeSet<u64>,
    machines: BTreeMap<Machine, Condition>,
    next_task: u64,
    next_machine: u32,
    granted: Option<u64>,
    main: Option<Waker>,
    steps: u64,
    /// Alarms that went off, for the director.
    rung: Vec<usize>,
    over: bool,
    panicked: Option<Machine>,
}

/// The scheduler of one run.
pub struct Scheduler {
    inner: RefCell<Inner>,
    random: RefCell<fastrand::Rng>,
    running: Cell<Machine>,
    began: Instant,
    mutant: Option<Mutant>,
}

/// When every run begins, on clocks that are right.
pub fn beginning() -> Timestamp {
    Timestamp::constant(1_790_000_000, 0)
}

impl Scheduler {
    /// A scheduler whose doors are open on this thread. There must be a paused runtime.
    pub fn open(seed: u64, mutant: Option<Mutant>) -> Rc<Self> {
        let scheduler = Rc::new(Scheduler {
            inner: RefCell::new(Inner { next_machine: 1, ..Inner::default() }),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            running: Cell::new(WORLD),
            began: seriatim::clock::now(),
            mutant,
        });
        scheduler.inner.borrow_mut().machines.insert(WORLD, Condition::default());
        simulation::open(Some(scheduler.clone()));
        scheduler
    }

    /// A new machine.
    pub fn machine(&self) -> Machine {
        let mut inner = self.inner.borrow_mut();
        let machine = Machine(inner.next_machine);
        inner.next_machine += 1;
        inner.machines.insert(machine, Condition::default());
        machine
    }

    /// Starts a task on a machine.
    pub fn spawn_on(&self, machine: Machine, future: impl Future<Output = ()> + Send + 'static) {
        let before = self.running.replace(machine);
        drop(simulation::spawn(future));
        self.running.set(before);
    }

    /// The machine that runs now.
    pub fn running(&self) -> Machine {
        self.running.get()
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.inner.borrow().steps
    }

    /// How long the run has taken, in simulated time.
    pub fn elapsed(&self) -> Duration {
        seriatim::clock::now() - self.began
    }

    /// What a clock that is right shows.
    pub fn true_time(&self) -> Timestamp {
        beginning() + SignedDuration::try_from(self.elapsed()).unwrap_or_default()
    }

    /// How far the clock of the machine that runs now is off.
    pub fn offset(&self) -> SignedDuration {
        let inner = self.inner.borrow();
        inner.machines.get(&self.running.get()).map(|machine| machine.offset).unwrap_or_default()
    }

    /// Sets a machine's clock.
    pub fn jump(&self, machine: Machine, by: SignedDuration) {
        if let Some(machine) = self.inner.borrow_mut().machines.get_mut(&machine) {
            machine.offset = machine.offset.saturating_add(by);
        }
    }

    /// Stops a machine in its tracks, or lets it go on.
    pub fn set_paused(&self, machine: Machine, paused: bool) {
        let mut inner = self.inner.borrow_mut();
        if let Some(machine) = inner.machines.get_mut(&machine) {
            machine.paused = paused;
        }
        inner.wake_main();
    }

    /// Kills a machine: each of its tasks is dropped where it stands.
    pub fn crash(&self, machine: Machine) {
        let wakers: Vec<Waker> = {
            let mut inner = self.inner.borrow_mut();
            if let Some(machine) = inner.machines.get_mut(&machine) {
                machine.crashed = true;
            }
            let of_machine: Vec<u64> =
                inner.tasks.iter().filter(|(_, task)| task.machine == machine).map(|(id, _)| *id).collect();
            inner.ready.retain(|task| !of_machine.contains(task));
            of_machine.iter().filter_map(|task| inner.tasks[task].waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether a machine has crashed.
    pub fn has_crashed(&self, machine: Machine) -> bool {
        self.inner.borrow().machines.get(&machine).is_some_and(|machine| machine.crashed)
    }

    /// Whether a machine is neither paused nor crashed.
    pub fn is_well(&self, machine: Machine) -> bool {
        self.inner.borrow().machines.get(&machine).is_some_and(|machine| !machine.crashed && !machine.paused)
    }

    /// Lets the director know when the machine's tasks have run so many times more.
    pub fn set_alarm_in(&self, machine: Machine, runs: u64, alarm: usize) {
        if let Some(machine) = self.inner.borrow_mut().machines.get_mut(&machine) {
            let at = (machine.runs + runs..).find(|at| !machine.alarms.contains_key(at));
            machine.alarms.extend(at.map(|at| (at, alarm)));
        }
    }

    /// The alarms that went off since this was last asked.
    pub fn rung(&self) -> Vec<usize> {
        std::mem::take(&mut self.inner.borrow_mut().rung)
    }

    /// Where a task panicked, if one did.
    pub fn panicked(&self) -> Option<Machine> {
        self.inner.borrow().panicked
    }

    /// Ends the run.
    pub fn finish(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.over = true;
        inner.wake_main();
    }

    /// Runs one task after another until the run is over, or there were more than so many steps. `on_alarm` is told of alarms
    /// before the next task runs. Returns whether it came to its end.
    pub async fn run(&self, most: u64, mut on_alarm: impl FnMut(usize)) -> bool {
        poll_fn(|context| {
            let rung = self.rung();
            rung.into_iter().for_each(&mut on_alarm);
            let mut inner = self.inner.borrow_mut();
            if inner.over || inner.steps >= most {
                return Poll::Ready(inner.over);
            }
            inner.main = Some(context.waker().clone());
            if inner.granted.is_none() {
                let waker = self.draw(&mut inner);
                drop(inner);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Poll::Pending
        })
        .await
    }

    fn draw(&self, inner: &mut Inner) -> Option<Waker> {
        let Inner { ready, tasks, machines, .. } = inner;
        let may_run = |task: &&u64| {
            let machine = machines.get(&tasks[*task].machine);
            machine.is_some_and(|machine| !machine.paused && !machine.crashed)
        };
        let count = ready.iter().filter(may_run).count();
        if count == 0 {
            return None;
        }
        let index = self.random.borrow_mut().usize(..count);
        let task = *ready.iter().filter(may_run).nth(index)?;
        ready.remove(&task);
        let known = tasks.get(&task)?;
        inner.granted = Some(task);
        inner.steps += 1;
        known.waker.clone()
    }
}

impl Inner {
    fn wake_main(&self) {
        if let Some(main) = &self.main {
            main.wake_by_ref();
        }
    }
}

impl Doors for Scheduler {
    fn started(&self) -> u64 {
        let mut inner = self.inner.borrow_mut();
        inner.next_task += 1;
        let task = inner.next_task;
        inner.tasks.insert(task, Known { machine: self.running.get(), waker: None });
        task
    }

    fn turn(&self, task: u64, waker: &Waker) -> Turn {
        let mut inner = self.inner.borrow_mut();
        let Some(known) = inner.tasks.get_mut(&task) else { return Turn::Gone };
        let machine = known.machine;
        if inner.machines.get(&machine).is_none_or(|machine| machine.crashed) {
            if inner.granted == Some(task) {
                inner.granted = None;
                inner.wake_main();
            }
            return Turn::Gone;
        }
        if inner.granted == Some(task) {
            self.running.set(machine);
            return Turn::Run;
        }
        known_waker(inner.tasks.get_mut(&task), waker);
        if inner.ready.insert(task) {
            inner.wake_main();
        }
        Turn::Wait
    }

    fn has_run(&self, task: u64) {
        let mut inner = self.inner.borrow_mut();
        if inner.granted != Some(task) {
            return;
        }
        inner.granted = None;
        let running = self.running.replace(WORLD);
        let rung = inner.machines.get_mut(&running).and_then(|machine| {
            machine.runs += 1;
            machine.alarms.remove(&machine.runs)
        });
        inner.rung.extend(rung);
        inner.wake_main();
    }

    fn ended(&self, task: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.tasks.remove(&task);
        inner.ready.remove(&task);
        if inner.granted == Some(task) {
            // It ended without coming to its next await.
            inner.panicked = Some(self.running.replace(WORLD));
            inner.granted = None;
            inner.wake_main();
        }
    }

    fn wall(&self) -> Timestamp {
        self.true_time().saturating_add(self.offset()).unwrap_or(Timestamp::MAX)
    }

    fn offset(&self) -> SignedDuration {
        Scheduler::offset(self)
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

fn known_waker(known: Option<&mut Known>, waker: &Waker) {
    if let Some(known) = known {
        known.waker = Some(waker.clone());
    }
}
