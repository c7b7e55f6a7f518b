//! What a number of runs met on their way: the proof that the simulation goes to the places that matter.

use std::collections::BTreeMap;
use std::fmt;

use super::history::{EVERYTHING, What};
use super::plan::Kind;
use super::scheduler::Machine;

/// Counted things.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// How often each thing happened.
    pub happened: BTreeMap<&'static str, u64>,
    /// How many processes crashed while they were doing what.
    pub crashes: BTreeMap<&'static str, u64>,
    /// What each machine did last.
    doing: BTreeMap<Machine, &'static str>,
}

impl Coverage {
    fn add(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    pub(super) fn count(&mut self, what: &What) {
        match what {
            What::Committed { key: EVERYTHING, .. } => self.add("changes of everything committed"),
            What::Committed { .. } => self.add("changes committed"),
            What::Acquired { from: Some(_), .. } => self.add("leases taken over"),
            What::Acquired { from: None, .. } => self.add("leases taken"),
            What::AskedFor { .. } => self.add("hand-overs asked for"),
            What::Released { .. } => self.add("leases given up"),
            What::Checkpointed { parked, unparked, .. } => {
                self.add("checkpoints");
                (0..parked.len()).for_each(|_| self.add("changes parked"));
                (0..unparked.len()).for_each(|_| self.add("parked changes handled"));
            }
            What::Fenced { .. } => self.add("writes of zombies refused"),
            What::Discarded { .. } => self.add("discards"),
            What::Rewound { .. } => self.add("rewinds"),
            What::Handled { .. } => self.add("changes handled"),
            What::Effect { .. } => self.add("transactions with effects"),
            What::Failed { .. } => self.add("handler failures"),
            What::RunBegan { .. } => self.add("protected effects run"),
            What::Told { ran: false, .. } => self.add("duplicates told"),
            What::Completed { recorded: false, .. } => self.add("completions refused"),
            What::Pushed { .. } => self.add("events pushed"),
            What::Sending { .. } => self.add("events sent"),
            What::Applied { .. } => self.add("events applied"),
            What::Written { .. } => self.add("records written"),
            What::Processed { .. } => self.add("records processed"),
            _ => {}
        }
    }

    pub(super) fn struck(&mut self, kind: Kind) {
        self.add(match kind {
            Kind::Crash { .. } => "fault: crash",
            Kind::Pause(_) => "fault: pause",
            Kind::Stop(_) => "fault: stop and restart",
            Kind::ClockJump(_) => "fault: clock jump",
            Kind::CutOff(_) => "fault: cut off",
            Kind::Twin => "fault: second process of a name",
            Kind::Call(_) | Kind::CallOf(..) => "fault: call",
        });
    }

    pub(super) fn call_fault(&mut self, fault: &'static str) {
        self.add(match fault {
            "fails" => "fault: call fails",
            "answer lost" => "fault: answer lost",
            "slow" => "fault: call slow",
            "late" => "fault: call takes effect late",
            _ => "fault: call while cut off",
        });
    }

    /// Notes what a machine is doing.
    pub fn calls(&mut self, machine: Machine, doing: &'static str) {
        self.doing.insert(machine, doing);
    }

    pub(super) fn stage(&self, machine: Machine) -> &'static str {
        self.doing.get(&machine).copied().unwrap_or("starting")
    }

    pub(super) fn crashed_at(&mut self, stage: &'static str) {
        *self.crashes.entry(stage).or_default() += 1;
    }

    /// Adds what another run met.
    pub fn merge(&mut self, other: Coverage) {
        other.happened.into_iter().for_each(|(what, count)| *self.happened.entry(what).or_default() += count);
        other.crashes.into_iter().for_each(|(what, count)| *self.crashes.entry(what).or_default() += count);
    }

    /// Counts something that a scene has to say.
    pub fn note(&mut self, what: &'static str) {
        self.add(what);
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.happened.iter().try_for_each(|(what, count)| writeln!(f, "{count:>12} {what}"))?;
        writeln!(f, "crashes, by what the process did last:")?;
        self.crashes.iter().try_for_each(|(what, count)| writeln!(f, "{count:>12} {what}"))
    }
}
