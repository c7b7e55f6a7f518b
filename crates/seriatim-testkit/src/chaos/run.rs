//! Carries a plan out: the loop that does things to a fleet, and waits for it in the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;
use tokio::time::Instant;

use super::database::Database;
use super::fleet::{Host, State, kill_command, log_of};
use super::journal::{Journal, Line, Said};
use super::place::Place;
use super::plan::{Deed, EXPIRE, Name, Plan, Server};
use super::story::Facts;
use super::trouble::Trouble;
use super::writer::Writers;

/// How often the loop looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long anything that must come may take; a test machine can be very busy.
const BOUND: Duration = Duration::from_secs(180);

/// How long the writers may take for the changes that the next deed waits for: they may wait themselves.
const WRITERS: Duration = Duration::from_secs(15);

/// How long a process that goes on may be in the call that it was in.
const GRACE: Duration = Duration::from_millis(500);

/// A gap of so many milliseconds between two looks at the clock means that nobody ran.
const STALL: u128 = 80;

/// Something that is due at a moment.
enum Due {
    Start(String),
    Continue(u32),
    Resumed(u32),
    Connect(u32),
}

/// A run, while it is carried out.
pub struct Run<'a> {
    plan: &'a Plan,
    place: Place,
    journal: Journal,
    random: Rng,
    hosts: Vec<Host>,
    /// The next one's name, for those that were told to end.
    successors: Vec<(u32, Name)>,
    due: Vec<(Instant, Due)>,
    machines: u32,
    names: u32,
    poisoned: BTreeSet<u32>,
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
        self.watch(BOUND, |run| run.has_handled_all(|key| !run.poisoned.contains(&key)))?;
        self.journal.note(0, Said::Cured)?;
        self.heal()?;
        let mut retried = seriatim::clock::now();
        self.watch(BOUND, |run| {
            if retried.elapsed() > Duration::from_secs(1) {
                run.retry_parked();
                retried = seriatim::clock::now();
            }
            run.has_handled_all(|_| true)
        })?;
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

    fn later(&mut self, wait: Duration, due: Due) {
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

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("h{}", self.names)
    }

    fn next_name(&mut self, name: &str, next: Name) -> String {
        match next {
            Name::Same => name.to_owned(),
            Name::New => self.new_name(),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), Trouble> {
        self.machines += 1;
        self.hosts.push(Host::start(self.machines, name, &self.place, &self.journal)?);
        Ok(())
    }

    /// The host that a deed is for, if there is one that nothing is being done to.
    fn pick(&self, number: u32) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.hosts.len()).filter(|place| self.hosts[*place].state == State::Running).collect();
        free.get(number as usize % free.len().max(1)).copied()
    }

    fn act(&mut self, deed: &Deed) -> Result<(), Trouble> {
        match *deed {
            Deed::Kill { host, whole, next } => self.kill(host, whole, next),
            Deed::Stand { host, hundredths } => self.stand(host, hundredths),
            Deed::Stop { host, next } => self.stop(host, next),
            Deed::Join => {
                let name = self.new_name();
                self.start(&name)
            }
            Deed::Command { host } => self.kill_its_command(host),
            Deed::Cut { host } => self.on_wires(host, "its_connections_are_cut", |wire, _| wire.cut()),
            Deed::LoseAnswer { host } => {
                self.on_wires(host, "an_answer_to_it_is_lost", |wire, request| wire.lose_answer_to(request))
            }
            Deed::CutOff { host, hundredths } => self.cut_off(host, hundredths),
            Deed::Restart(server) => self.restart(server),
            Deed::Backends { percent } => self.terminate(percent),
            Deed::Poison { key } => self.poison(key),
            Deed::Heal => self.heal(),
        }
    }

    fn kill(&mut self, host: u32, whole: bool, next: Name) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let lines = self.journal.lines()?;
        let mut host = self.hosts.remove(place);
        let commands = if whole { host.commands(&lines) } else { Vec::new() };
        self.journal.note(host.machine, Said::Killed)?;
        // The command first: a host that is gone would leave it to somebody else as a child.
        commands.into_iter().for_each(kill_command);
        host.kill();
        let name = self.next_name(&host.name, next);
        let wait = Duration::from_millis(self.random.u64(..EXPIRE));
        self.later(wait, Due::Start(name));
        Ok(())
    }

    fn stand(&mut self, host: u32, hundredths: u64) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let host = &mut self.hosts[place];
        let machine = host.machine;
        host.state = State::Standing;
        self.journal.note(machine, Said::Paused)?;
        host.signal(Signal::STOP);
        self.later(Duration::from_millis(EXPIRE * hundredths / 100), Due::Continue(machine));
        Ok(())
    }

    fn stop(&mut self, host: u32, next: Name) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let host = &mut self.hosts[place];
        host.state = State::Stopping;
        self.successors.push((host.machine, next));
        self.journal.note(host.machine, Said::Stopping)?;
        host.signal(Signal::TERM);
        Ok(())
    }

    fn kill_its_command(&mut self, host: u32) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let host = &self.hosts[place];
        self.journal.note(host.machine, Said::Hurt { what: "its_command_is_killed".to_owned() })?;
        host.commands(&self.journal.lines()?).into_iter().for_each(kill_command);
        Ok(())
    }

    fn on_wires(
        &mut self,
        host: u32,
        what: &str,
        act: impl Fn(&crate::servers::Proxy, &str),
    ) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let host = &mut self.hosts[place];
        host.hurt = true;
        self.journal.note(host.machine, Said::Hurt { what: what.to_owned() })?;
        host.wires.each().for_each(|wire| act(wire, self.place.write_request()));
        Ok(())
    }

    fn cut_off(&mut self, host: u32, hundredths: u64) -> Result<(), Trouble> {
        let Some(place) = self.pick(host) else { return Ok(()) };
        let host = &mut self.hosts[place];
        (host.hurt, host.state) = (true, State::CutOff);
        let machine = host.machine;
        self.journal.note(machine, Said::CutOff)?;
        host.wires.each().for_each(|wire| wire.close());
        self.later(Duration::from_millis(EXPIRE * hundredths / 100), Due::Connect(machine));
        Ok(())
    }

    fn hurt_all(&mut self, what: &str) -> Result<(), Trouble> {
        self.hosts.iter_mut().for_each(|host| host.hurt = true);
        Ok(self.journal.note(0, Said::Hurt { what: what.to_owned() })?)
    }

    fn restart(&mut self, server: Server) -> Result<(), Trouble> {
        self.hurt_all(&format!("{server:?}_is_killed_and_restarted"))?;
        self.place.restart(server)
    }

    fn terminate(&mut self, percent: u32) -> Result<(), Trouble> {
        self.hurt_all("connections_are_terminated_by_the_server")?;
        let database = Database::open(&self.place.source)?;
        let sql = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and random() * 100 < {percent}"
        );
        database.rows(&sql).map(drop)
    }

    fn poison(&mut self, key: u32) -> Result<(), Trouble> {
        self.poisoned.insert(key);
        self.journal.note(0, Said::Poisoned { key })?;
        std::fs::write(self.place.path(&format!("poison-{key}")), "")?;
        Database::open(&self.place.source)?.execute(&format!("insert into poison values ({key})"))
    }

    fn heal(&mut self) -> Result<(), Trouble> {
        for key in &self.poisoned {
            drop(std::fs::remove_file(self.place.path(&format!("poison-{key}"))));
        }
        Database::open(&self.place.source)?.execute("delete from poison")?;
        self.journal.note(0, Said::Healed)?;
        self.retry_parked();
        Ok(())
    }

    /// May fail while a server is away: it is asked again in the end.
    fn retry_parked(&self) {
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

    /// Whether every change of these objects was handled, in every feed.
    fn has_handled_all(&self, is_meant: impl Fn(u32) -> bool) -> Result<bool, Trouble> {
        let (facts, lines) = (self.place.facts()?, self.journal.lines()?);
        let told: BTreeSet<(u32, u64)> = lines
            .iter()
            .filter_map(|line| match &line.said {
                Said::Handled(seen) => Some((seen.key, seen.revision)),
                _ => None,
            })
            .collect();
        let exact: BTreeSet<(u32, u64)> =
            facts.effects.iter().map(|(_, seen)| (seen.key, seen.revision)).collect();
        let mut meant = facts.committed.iter().filter(|seen| is_meant(seen.key));
        Ok(meant.all(|seen| {
            let place = (seen.key, seen.revision);
            told.contains(&place) && (!facts.exact || exact.contains(&place))
        }))
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

/// Notes when nobody ran: then everybody stood still, though nobody was told to.
struct Metronome(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Metronome {
    fn start(journal: &Journal) -> Result<Self, Trouble> {
        let (stop, journal) = (Arc::new(AtomicBool::new(false)), journal.again()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut last = seriatim::clock::now();
            while !stopped.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(10));
                let (now, before) = (seriatim::clock::now(), last);
                last = now;
                let gap = (now - before).as_millis();
                if gap > STALL {
                    drop(journal.note(0, Said::Stalled { millis: u64::try_from(gap).unwrap_or(u64::MAX) }));
                }
            }
        });
        Ok(Metronome(stop, Some(thread)))
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
