//! The world of the run that takes place on this thread: its hosts, what goes wrong with them, and what is written down.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use seriatim::simulation::{self, Mutant};
use tokio::sync::Notify;

use super::coverage::Coverage;
use super::history::{Entry, History, What};
use super::plan::{CallFault, Kind, Plan};
use super::scheduler::{Machine, Scheduler, WORLD};

/// What starts a life of a host, given its name and what asks it to stop.
pub type Life = Box<dyn Fn(Link, Arc<Notify>)>;

/// A host, through all its lives.
struct Slot {
    machine: Machine,
    name: String,
    lives: u32,
    cut_off: bool,
    /// Calls that meet a fault, by how many calls are still to pass before.
    armed: Vec<(u64, Option<&'static str>, CallFault)>,
    stop: Arc<Notify>,
    alive: bool,
    /// How many milliseconds after its end its next life begins.
    rest: u64,
}

/// The world of one run.
pub struct World {
    /// Which task runs next.
    pub scheduler: Rc<Scheduler>,
    /// What happened.
    pub history: History,
    /// What was planned.
    pub plan: Plan,
    /// What was met on the way.
    pub coverage: RefCell<Coverage>,
    random: RefCell<fastrand::Rng>,
    slots: RefCell<Vec<Slot>>,
    life: RefCell<Option<Rc<Life>>>,
    calm: RefCell<bool>,
    cured: RefCell<bool>,
    numbers: RefCell<u64>,
}

thread_local! {
    static WORLD_HERE: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world of this thread.
pub fn here() -> Rc<World> {
    WORLD_HERE.with(|world| world.borrow().clone()).expect("only asked for while a run takes place")
}

/// Draws from the seed of the run of this thread.
pub fn draw<T>(draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
    here().draw(draw)
}

/// Writes down what happened on the machine that runs now.
pub fn record(what: What) {
    here().record(what);
}

/// The world of this thread, if there still is one.
pub fn world_if_any() -> Option<Rc<World>> {
    WORLD_HERE.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// A process's end of its connections: calls through it meet what is planned for its host.
#[derive(Clone, Debug)]
pub struct Link {
    /// The host.
    pub slot: usize,
    /// This life's machine.
    pub machine: Machine,
    /// This life's name.
    pub name: String,
}

/// What becomes of one call.
pub(super) enum Fate {
    Prompt,
    Unreachable,
    Fault(CallFault),
}

impl World {
    /// Makes a world for this thread.
    pub fn begin(plan: Plan, mutant: Option<Mutant>) -> Rc<Self> {
        // Ids and pauses are drawn by the library itself.
        fastrand::seed(plan.seed);
        let world = Rc::new(World {
            scheduler: Scheduler::open(plan.seed ^ 0xc0ff_ee00, mutant),
            history: History::default(),
            coverage: RefCell::default(),
            random: RefCell::new(fastrand::Rng::with_seed(plan.seed ^ 0xfeed_5eed)),
            slots: RefCell::default(),
            life: RefCell::default(),
            calm: RefCell::new(false),
            cured: RefCell::new(false),
            numbers: RefCell::new(0),
            plan,
        });
        WORLD_HERE.with(|here| *here.borrow_mut() = Some(world.clone()));
        world
    }

    /// Closes everything; what still lives is dropped by the runtime.
    pub fn end() {
        WORLD_HERE.with(|here| *here.borrow_mut() = None);
        simulation::open(None);
    }

    /// Writes down what happened on the machine that runs now.
    pub fn record(&self, what: What) {
        self.record_on(self.scheduler.running(), what);
    }

    /// Writes down what happened on a machine.
    pub fn record_on(&self, machine: Machine, what: What) {
        let at = self.scheduler.elapsed().as_millis() as u64;
        self.coverage.borrow_mut().count(&what);
        self.history.push(Entry { step: self.scheduler.steps(), at, machine, what });
    }

    /// A number that nothing else in the run has.
    pub fn number(&self) -> u64 {
        let mut numbers = self.numbers.borrow_mut();
        *numbers += 1;
        *numbers
    }

    /// Draws from the run's seed.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// Starts something that never fails.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.scheduler.spawn_on(WORLD, future);
    }

    /// Whether the faults are over.
    pub fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    /// Whether everything that failed is mended.
    pub fn is_cured(&self) -> bool {
        *self.cured.borrow()
    }

    /// Mends everything that fails.
    pub fn cure(&self) {
        *self.cured.borrow_mut() = true;
        self.record_on(WORLD, What::Cured);
    }

    /// Starts the hosts, each of whose lives begins with `life`, and lets things go wrong as planned.
    pub fn start_hosts(self: &Rc<Self>, life: Life) {
        *self.life.borrow_mut() = Some(Rc::new(life));
        for slot in 0..self.plan.hosts {
            let machine = self.scheduler.machine();
            self.slots.borrow_mut().push(Slot {
                machine,
                name: format!("h{slot}"),
                lives: 0,
                cut_off: false,
                armed: Vec::new(),
                stop: Arc::default(),
                alive: false,
                rest: 1_000,
            });
            self.start(slot, false);
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            let (after, nth, slot) = (Duration::from_millis(fault.after), fault.nth, fault.host);
            let kind = fault.kind;
            self.spawn(async move {
                tokio::time::sleep(after).await;
                let world = here();
                match kind {
                    Kind::Call(fault) => world.slots.borrow_mut()[slot].armed.push((nth, None, fault)),
                    Kind::CallOf(call, fault) => {
                        world.slots.borrow_mut()[slot].armed.push((1, Some(call), fault));
                    }
                    _ => {
                        let machine = world.slots.borrow()[slot].machine;
                        world.scheduler.set_alarm_in(machine, nth, number);
                    }
                }
            });
        }
    }

    fn start(&self, slot: usize, renamed: bool) {
        let (link, stop) = {
            let mut slots = self.slots.borrow_mut();
            let state = &mut slots[slot];
            state.lives += 1;
            if renamed {
                state.name = format!("h{slot}-{}", state.lives);
            }
            if state.lives > 1 {
                state.machine = self.scheduler.machine();
            }
            state.stop = Arc::default();
            state.alive = true;
            (Link { slot, machine: state.machine, name: state.name.clone() }, state.stop.clone())
        };
        self.record_on(link.machine, What::Started { name: link.name.clone() });
        let life = self.life.borrow().clone();
        if let Some(life) = life {
            life(link, stop);
        }
    }

    /// A life has ended by itself.
    pub fn ended(&self, link: &Link, how: String) {
        self.record_on(link.machine, What::Stopped { how });
        let current = {
            let mut slots = self.slots.borrow_mut();
            let state = &mut slots[link.slot];
            let current = state.machine == link.machine;
            state.alive &= !current;
            current.then(|| std::mem::replace(&mut state.rest, 1_000))
        };
        // Somebody looks after hosts that end: they come back.
        if let Some(rest) = current {
            self.restart_in(link.slot, rest, self.draw(|random| random.bool()));
        }
    }

    fn restart_in(&self, slot: usize, millis: u64, renamed: bool) {
        self.spawn(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let world = here();
            let alive = world.slots.borrow()[slot].alive;
            if !alive {
                world.start(slot, renamed);
            }
        });
    }

    /// Lets go wrong what was planned, at this very step.
    pub fn strike(&self, number: usize) {
        if self.is_calm() {
            return;
        }
        let Some(fault) = self.plan.faults.get(number).copied() else { return };
        let machine = self.slots.borrow()[fault.host].machine;
        if !self.scheduler.is_well(machine) {
            return;
        }
        self.coverage.borrow_mut().struck(fault.kind);
        match fault.kind {
            Kind::Crash { restart, renamed } => {
                let stage = self.coverage.borrow().stage(machine);
                self.record_on(machine, What::Crashed { at: stage.to_owned() });
                self.coverage.borrow_mut().crashed_at(stage);
                self.slots.borrow_mut()[fault.host].alive = false;
                self.scheduler.crash(machine);
                self.restart_in(fault.host, restart, renamed);
            }
            Kind::Pause(millis) => {
                self.record_on(machine, What::Paused);
                self.scheduler.set_paused(machine, true);
                self.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    let world = here();
                    world.record_on(machine, What::Resumed);
                    world.scheduler.set_paused(machine, false);
                });
            }
            Kind::Stop(restart) => {
                self.record_on(machine, What::Stopping);
                let stop = {
                    let mut slots = self.slots.borrow_mut();
                    slots[fault.host].rest = restart;
                    slots[fault.host].stop.clone()
                };
                stop.notify_one();
            }
            Kind::ClockJump(seconds) => {
                self.record_on(machine, What::ClockJumped { seconds });
                self.scheduler.jump(machine, SignedDuration::from_secs(seconds));
            }
            Kind::CutOff(millis) => {
                self.record_on(machine, What::CutOff);
                self.slots.borrow_mut()[fault.host].cut_off = true;
                let slot = fault.host;
                self.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    let world = here();
                    world.record_on(machine, What::Connected);
                    world.slots.borrow_mut()[slot].cut_off = false;
                });
            }
            Kind::Twin => self.start_twin(fault.host),
            Kind::Call(_) | Kind::CallOf(..) => {}
        }
    }

    /// Starts another process under the name of one that lives.
    fn start_twin(&self, slot: usize) {
        let name = self.slots.borrow()[slot].name.clone();
        let link = Link { slot, machine: self.scheduler.machine(), name };
        self.record_on(link.machine, What::Started { name: link.name.clone() });
        let life = self.life.borrow().clone();
        if let Some(life) = life {
            life(link, Arc::default());
        }
    }

    /// From now on nothing goes wrong any more.
    pub fn calm_down(&self) {
        *self.calm.borrow_mut() = true;
        let mut slots = self.slots.borrow_mut();
        slots.iter_mut().for_each(|slot| {
            slot.cut_off = false;
            slot.armed.clear();
        });
        drop(slots);
        self.record_on(WORLD, What::Calm);
    }

    pub(super) fn fate(&self, link: &Link, call: &str) -> Fate {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[link.slot];
        if slot.machine != link.machine || slot.cut_off {
            // Also what a process of an earlier life still does.
            return if slot.cut_off { Fate::Unreachable } else { Fate::Prompt };
        }
        let meant = slot.armed.iter_mut().filter(|(_, name, _)| name.is_none_or(|name| name == call));
        meant.for_each(|(calls, ..)| *calls = calls.saturating_sub(1));
        match slot.armed.iter().position(|(calls, ..)| *calls == 0) {
            Some(due) => Fate::Fault(slot.armed.remove(due).2),
            None => Fate::Prompt,
        }
    }
}
