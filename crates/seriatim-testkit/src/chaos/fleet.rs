//! The hosts of a run: real processes, each with connections of its own that can be cut.

use std::fs::File;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::journal::{Journal, Line, Said};
use super::place::{Place, Wires};
use super::trouble::Trouble;

/// What is being done to a host. While something is, nothing else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Running,
    /// It was stopped, or goes on since a moment ago.
    Standing,
    /// It cannot reach its servers.
    CutOff,
    /// It was told to end.
    Stopping,
}

/// A process.
pub struct Host {
    /// Its number; no other process of the run has or had it.
    pub machine: u32,
    /// What it calls itself.
    pub name: String,
    /// What is being done to it.
    pub state: State,
    /// Its servers or connections had trouble since it began.
    pub hurt: bool,
    /// Its connections.
    pub wires: Wires,
    process: Child,
}

impl Host {
    /// Starts a process.
    pub fn start(machine: u32, name: &str, place: &Place, journal: &Journal) -> Result<Self, Trouble> {
        let (wires, told) = place.wires()?;
        let mut command = place.command(&format!("run --host {name} --log-format json"));
        command.env("CHAOS_MACHINE", machine.to_string()).env("SERIATIM_LOG", "warn,seriatim=debug");
        let log = File::create(place.path(&log_of(machine)))?;
        journal.note(machine, Said::Started { name: name.to_owned() })?;
        let process = command.envs(told).stdout(Stdio::null()).stderr(log).spawn()?;
        let state = State::Running;
        Ok(Host { machine, name: name.to_owned(), state, hurt: false, wires, process })
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // Fails only when it has ended.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    /// Ends it with -9.
    pub fn kill(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// The commands that it runs now.
    pub fn commands(&self, lines: &[Line]) -> Vec<u32> {
        let of_it = |line: &&Line| line.machine == self.machine && line.said == Said::Command;
        let all = lines.iter().filter(of_it).map(|line| line.process);
        all.filter(|process| is_child(*process, self.process.id())).collect()
    }

    /// Whether its commands have done all that they were given.
    pub fn is_idle(&self, lines: &[Line]) -> bool {
        let last = |process: u32| lines.iter().rev().find(|line| line.process == process);
        let commands = self.commands(lines);
        commands.into_iter().all(|process| last(process).is_some_and(|line| line.said == Said::Idle))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The file that a process logs to.
pub fn log_of(machine: u32) -> String {
    format!("host-{machine}.log")
}

/// Ends a process that is known to be a command of the run.
pub fn kill_command(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Numbers of processes are used again: whether this one is still the child of that one.
fn is_child(process: u32, parent: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["PPid:", &parent.to_string()]))
}
