//! Carries a plan out: the loop that does things to a fleet, and waits for it in the end.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;
use tokio::time::Instant;

use super::fleet::{Host, State, log_of};
use super::journal::{Journal, Line, Said};
use super::metronome::Metronome;
use super::place::Place;
use super::plan::{Name, Plan};
use super::story::Facts;
use super::trouble::Trouble;
use super::writer::Writers;

/// How often the loop looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long anything that must come may take, and how long nothing may move; a test machine can be very busy.
const BOUND: Duration = Duration::from_secs(90);

/// How long the writers may take for the changes that the next deed waits for: they may wait themselves.
const WRITERS: Duration = Duration::from_secs(15);

/// How long a process that goes on may be in the call that it was in.
const GRACE: Duration = Duration::from_millis(500);

/// Something that is due at a moment.
pub(super) enum Due {
    Start(String),
    Continue(u32),
    Resumed(u32),
    Connect(u32),
}

/// A run, while it is carried out.
pub struct Run<'a> {
    plan: &'a Plan,
    pub(super) place: Place,
    pub(super) journal: Journal,
    pub(super) random: Rng,
    pub(super) hosts: Vec<Host>,
    /// The next one's name, for those that were told to end.
    pub(super) successors: Vec<(u32, Name)>,
    due: Vec<(Instant, Due)>,
    machines: u32,
    names: u32,
    pub(super) poisoned: BTreeSet<u32>,
    /// What must not be, and no checker can see.
    pub wrong: Vec<String>,
    /// What processes said that could not begin because something was done to their servers.
    pub gave_up: Vec<String>,
}

impl<'a> Run<'a> {
    /// Starts the fleet.
    pub fn begin(plan: &'a Plan, place: Place) -> Result<Self, Trouble> {
        let journal = Journal::open(&place.path("journal"))?;
        let mut run = Run {
            plan,
            place,
            journal,
            random: Rng::with_seed(!plan.seed),
            hosts: Vec::new(),
            successors: Vec::new(),
            due: Vec::new(),
            machines: 0,
            names: 0,
            poisoned: BTreeSet::new(),
            wrong: Vec::new(),
            gave_up: Vec::new(),
        };
        for _ in 0..plan.hosts {
            let name = run.new_name();
            run.start(&name)?;
        }
        Ok(run)
    }

    /// Does everything that the plan says while writers write, lets the fleet come to rest, and returns what was noted and
    /// what the databases say.
    pub fn carry_out(&mut self) -> Result<(Vec<Line>, Facts), Trouble> {
        let _metronome = Metronome::start(&self.journal)?;
        let mut writers = Writers::start(self.plan, &self.place.source, &self.journal)?;
        for step in &self.plan.steps {
            let wanted = writers.written() + step.after;
            self.watch(WRITERS, |_| Ok(writers.written() >= wanted))?;
            self.act(&step.deed)?;
        }
        let wanted = writers.written() + 20;
        self.watch(WRITERS, |_| Ok(writers.written() >= wanted))?;
        writers.stop();
        self.calm_down()?;
        let healthy_are_done = self.come_to_rest(|run, key| !run.poisoned.contains(&key), |_| {})?;
        self.journal.note(0, Said::Cured)?;
        self.heal()?;
        if healthy_are_done {
            self.come_to_rest(|_, _| true, Self::retry_parked)?;
        }
        self.stop_all()?;
        self.journal.note(0, Said::Over)?;
        self.place.ask("run --once --host last")?;
        Ok((self.journal.lines()?, self.place.facts()?))
    }

    /// The place, when nothing runs there any more.
    pub fn into_place(self) -> Place {
        self.place
    }

    /// Keeps things going until the condition holds, or the time is over.
    fn watch(
        &mut self,
        bound: Duration,
        mut condition: impl FnMut(&mut Self) -> Result<bool, Trouble>,
    ) -> Result<bool, Trouble> {
        let began = seriatim::clock::now();
        loop {
            self.keep_going()?;
            if condition(self)? {
                return Ok(true);
            }
            if began.elapsed() > bound {
                return Ok(false);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn keep_going(&mut self) -> Result<(), Trouble> {
        let now = seriatim::clock::now();
        let (ready, rest) = std::mem::take(&mut self.due).into_iter().partition(|(at, _)| *at <= now);
        self.due = rest;
        for (_, due) in Vec::from_iter::<Vec<_>>(ready) {
            self.fulfil(due)?;
        }
        self.bury_the_dead()
    }

    pub(super) fn later(&mut self, wait: Duration, due: Due) {
        self.due.push((seriatim::clock::now() + wait, due));
    }

    fn fulfil(&mut self, due: Due) -> Result<(), Trouble> {
        match due {
            Due::Start(name) => self.start(&name)?,
            Due::Continue(machine) => self.go_on(machine)?,
            Due::Resumed(machine) => self.back_to_normal(machine, Said::Resumed)?,
            Due::Connect(machine) => {
                for host in self.hosts.iter().filter(|host| host.machine == machine) {
                    host.wires.each().for_each(|wire| wire.open());
                }
                self.back_to_normal(machine, Said::Connected)?;
            }
        }
        Ok(())
    }

    /// Lets a process go on when its command has done what it had: from then on it has no excuse.
    fn go_on(&mut self, machine: u32) -> Result<(), Trouble> {
        let lines = self.journal.lines()?;
        let Some(host) = self.hosts.iter().find(|host| host.machine == machine) else { return Ok(()) };
        if host.is_idle(&lines) {
            host.signal(Signal::CONT);
            self.later(GRACE, Due::Resumed(machine));
        } else {
            self.later(LOOK_EVERY, Due::Continue(machine));
        }
        Ok(())
    }

    fn back_to_normal(&mut self, machine: u32, said: Said) -> Result<(), Trouble> {
        self.journal.note(machine, said)?;
        let host = self.hosts.iter_mut().find(|host| host.machine == machine);
        host.into_iter().for_each(|host| host.state = State::Running);
        Ok(())
    }

    /// Processes that have ended, as they were told to or by themselves.
    fn bury_the_dead(&mut self) -> Result<(), Trouble> {
        for place in (0..self.hosts.len()).rev() {
            let Some(status) = self.hosts[place].ended() else { continue };
            let host = self.hosts.remove(place);
            self.journal.note(host.machine, Said::Ended { how: status.to_string() })?;
            let last_words = self.last_words(host.machine);
            let sentence =
                || format!("host {} (m{}) ended with {status}: {last_words}", host.name, host.machine);
            if host.state == State::Stopping {
                // One that has said nothing yet was not even there to hear it.
                if !status.success() && !host.hurt && !last_words.is_empty() {
                    self.wrong.push(format!("told to end, {}", sentence()));
                }
                let place = self.successors.iter().position(|(machine, _)| *machine == host.machine);
                if let Some((_, next)) = place.map(|place| self.successors.remove(place)) {
                    let name = self.next_name(&host.name, next);
                    self.later(Duration::ZERO, Due::Start(name));
                }
                continue;
            }
            // Whoever cannot reach a server when it begins says so and ends; nobody who was at work does.
            match host.hurt && !self.was_at_work(host.machine) {
                true => self.gave_up.push(sentence()),
                false => self.wrong.push(format!("by itself, {}", sentence())),
            }
            self.later(Duration::from_millis(200), Due::Start(host.name.clone()));
        }
        Ok(())
    }

    fn log(&self, machine: u32) -> String {
        std::fs::read_to_string(self.place.path(&log_of(machine))).unwrap_or_default()
    }

    fn last_words(&self, machine: u32) -> String {
        self.log(machine).lines().last().unwrap_or_default().to_owned()
    }

    fn was_at_work(&self, machine: u32) -> bool {
        self.log(machine).lines().any(|line| line.contains("\"acquired\""))
    }

    pub(super) fn new_name(&mut self) -> String {
        self.names += 1;
        format!("h{}", self.names)
    }

    pub(super) fn next_name(&mut self, name: &str, next: Name) -> String {
        match next {
            Name::Same => name.to_owned(),
            Name::New => self.new_name(),
        }
    }

    pub(super) fn start(&mut self, name: &str) -> Result<(), Trouble> {
        self.machines += 1;
        self.hosts.push(Host::start(self.machines, name, &self.place, &self.journal)?);
        Ok(())
    }

    /// May fail while a server is away: it is asked again in the end.
    pub(super) fn retry_parked(&self) {
        let feeds: &[&str] = if self.plan.site.is_one_database() { &["told", "exact"] } else { &["told"] };
        for feed in feeds {
            drop(self.place.ask(&format!("parked retry {feed} --all --no-wait")));
        }
    }

    /// Ends everything that is being done, and makes sure that somebody works.
    fn calm_down(&mut self) -> Result<(), Trouble> {
        self.watch(BOUND, |run| {
            let free = |host: &Host| host.state == State::Running;
            Ok(run.due.is_empty() && run.hosts.iter().all(free))
        })?;
        self.journal.note(0, Said::Calm)?;
        Ok(())
    }

    /// Waits until every change of these objects is handled, or nothing moves any more. Nudges the fleet every second.
    fn come_to_rest(
        &mut self,
        is_meant: impl Fn(&Self, u32) -> bool,
        nudge: impl Fn(&Self),
    ) -> Result<bool, Trouble> {
        let (mut last, mut moved, mut nudged) = (usize::MAX, seriatim::clock::now(), seriatim::clock::now());
        loop {
            self.watch(Duration::from_millis(100), |_| Ok(false))?;
            let left = self.left(|key| is_meant(self, key))?;
            if left != last {
                (last, moved) = (left, seriatim::clock::now());
            }
            if left == 0 || moved.elapsed() > BOUND {
                return Ok(left == 0);
            }
            if nudged.elapsed() > Duration::from_secs(1) {
                nudge(self);
                nudged = seriatim::clock::now();
            }
        }
    }

    /// How many changes of these objects are not handled yet, in all feeds together.
    fn left(&self, is_meant: impl Fn(u32) -> bool) -> Result<usize, Trouble> {
        let (facts, lines) = (self.place.facts()?, self.journal.lines()?);
        let handled = lines.iter().filter_map(|line| match &line.said {
            Said::Handled(seen) => Some((seen.key, seen.revision)),
            _ => None,
        });
        let told: BTreeSet<(u32, u64)> = handled.collect();
        let exact: BTreeSet<(u32, u64)> =
            facts.effects.iter().map(|(_, seen)| (seen.key, seen.revision)).collect();
        let meant = facts.committed.iter().filter(|seen| is_meant(seen.key));
        Ok(meant
            .map(|seen| {
                let place = (seen.key, seen.revision);
                usize::from(!told.contains(&place)) + usize::from(facts.exact && !exact.contains(&place))
            })
            .sum())
    }

    /// Ends all hosts in order.
    fn stop_all(&mut self) -> Result<(), Trouble> {
        for host in &mut self.hosts {
            (host.state, host.hurt) = (State::Stopping, false);
            self.journal.note(host.machine, Said::Stopping)?;
            host.signal(Signal::TERM);
        }
        self.successors.clear();
        if !self.watch(BOUND, |run| Ok(run.hosts.is_empty()))? {
            let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            self.wrong.push(format!("hosts that were told to end did not: {}", names.join(", ")));
            self.hosts.clear();
        }
        Ok(())
    }
}
