//! What is done to a fleet, one function for each deed.

use std::time::Duration;

use rustix::process::Signal;

use super::database::Database;
use super::fleet::{State, kill_command};
use super::journal::Said;
use super::plan::{Deed, EXPIRE, Name, Server};
use super::run::{Due, Run};
use super::trouble::Trouble;

impl Run<'_> {
    /// The host that a deed is for, if there is one that nothing is being done to.
    fn pick(&self, number: u32) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.hosts.len()).filter(|place| self.hosts[*place].state == State::Running).collect();
        free.get(number as usize % free.len().max(1)).copied()
    }

    /// Does it, if there is somebody to do it to.
    pub(super) fn act(&mut self, deed: &Deed) -> Result<(), Trouble> {
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
            Deed::Walsender => self.terminate_walsender(),
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

    fn terminate_walsender(&mut self) -> Result<(), Trouble> {
        self.hurt_all("the_relays_walsender_is_terminated")?;
        let sql = "select pg_terminate_backend(active_pid) from pg_replication_slots where active";
        Database::open(&self.place.source)?.rows(sql).map(drop)
    }

    fn poison(&mut self, key: u32) -> Result<(), Trouble> {
        self.poisoned.insert(key);
        self.journal.note(0, Said::Poisoned { key })?;
        std::fs::write(self.place.path(&format!("poison-{key}")), "")?;
        Database::open(&self.place.source)?.execute(&format!("insert into poison values ({key})"))
    }

    pub(super) fn heal(&mut self) -> Result<(), Trouble> {
        for key in &self.poisoned {
            drop(std::fs::remove_file(self.place.path(&format!("poison-{key}"))));
        }
        Database::open(&self.place.source)?.execute("delete from poison")?;
        self.journal.note(0, Said::Healed)?;
        self.retry_parked();
        Ok(())
    }
}
