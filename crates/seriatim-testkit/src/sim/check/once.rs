//! G3: once.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use super::places::Places;
use crate::sim::history::{Entry, What};
use crate::sim::scheduler::Machine;

/// Effects that are in one transaction with their checkpoint happen once.
#[derive(Default)]
pub struct Effects {
    places: Places,
    happened: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
}

impl Checker for Effects {
    fn guarantee(&self) -> &'static str {
        "G3 Once"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        self.places.see(&entry.what);
        match &entry.what {
            What::Effect { changes, .. } => {
                for change in changes {
                    if !self.happened.insert(*change) {
                        return Err(format!("the effect of change {change} happened twice"));
                    }
                    if self.dropped.contains(change) {
                        return Err(format!("change {change} was discarded, and then took effect"));
                    }
                }
            }
            What::Discarded { changes, .. } => {
                if let Some(change) = changes.iter().find(|change| self.happened.contains(change)) {
                    return Err(format!("change {change} took effect, and was discarded then"));
                }
                self.dropped.extend(changes);
            }
            What::Rewound { feed, partition, position, .. } => {
                for change in self.places.after((*feed, *partition), *position) {
                    self.happened.remove(&change);
                    self.dropped.remove(&change);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// How long a run of a signal may take, in milliseconds, and how much of it may have gone when its effect begins.
pub const LIMIT: u64 = 10_000;

#[derive(Debug)]
struct Run {
    signal: u32,
    machine: Machine,
    began: u64,
    alone: bool,
    paused: bool,
}

/// One live run at a time, one recorded completion, one answer for everybody.
#[derive(Default)]
pub struct Signals {
    running: BTreeMap<u64, Run>,
    succeeded: BTreeMap<u64, u32>,
    completed: BTreeMap<u32, u64>,
    told: BTreeMap<u32, u64>,
}

impl Signals {
    fn begins(
        &mut self,
        entry: &Entry,
        signal: u32,
        run: u64,
        alone: bool,
        first: bool,
    ) -> Result<(), String> {
        let other = self.succeeded.iter().find(|(_, of)| **of == signal).map(|(run, _)| run);
        let other = other
            .or_else(|| self.running.iter().find(|(_, other)| other.signal == signal).map(|(run, _)| run));
        if let (true, Some(other)) = (first, other) {
            return Err(format!("signal {signal}: run {run} began although run {other} may have happened"));
        }
        if let Some(completed) = self.completed.get(&signal) {
            return Err(format!("signal {signal}: run {run} began after run {completed} was completed"));
        }
        let in_its_time = |other: &Run| other.alone || entry.at < other.began + LIMIT / 2;
        let together = |other: &&Run| other.signal == signal && !other.paused && in_its_time(other);
        if let Some(other) = self.running.values().find(together) {
            return Err(format!(
                "signal {signal}: run {run} on m{} began at {} while the one of {} on m{} was in its time",
                entry.machine.0, entry.at, other.began, other.machine.0
            ));
        }
        self.running
            .insert(run, Run { signal, machine: entry.machine, began: entry.at, alone, paused: false });
        Ok(())
    }
}

impl Checker for Signals {
    fn guarantee(&self) -> &'static str {
        "G3 Once"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::RunBegan { signal, run, alone, first } => {
                return self.begins(entry, *signal, *run, *alone, *first);
            }
            What::RunEnded { signal, run, done } => {
                self.running.remove(run);
                if *done {
                    self.succeeded.insert(*run, *signal);
                }
            }
            What::Paused => {
                let here = self.running.values_mut().filter(|run| run.machine == entry.machine);
                here.for_each(|run| run.paused = true);
            }
            What::Completed { signal, run, recorded: true } => {
                if !self.succeeded.contains_key(run) {
                    return Err(format!("signal {signal}: run {run} is recorded, and did not succeed"));
                }
                if let Some(other) = self.completed.insert(*signal, *run)
                    && other != *run
                {
                    return Err(format!("signal {signal}: run {other} was completed, and then run {run}"));
                }
            }
            What::Told { signal, run, .. } => {
                let told = *self.told.entry(*signal).or_insert(*run);
                if told != *run {
                    return Err(format!(
                        "signal {signal}: one caller was told of run {told}, another of {run}"
                    ));
                }
            }
            What::LastlyRecorded { signal, run: None } => {
                return Err(format!("signal {signal} is not completed, and nothing fails any more"));
            }
            What::LastlyRecorded { signal, run: Some(run) }
                if self.told.get(signal).is_some_and(|told| told != run) =>
            {
                return Err(format!("signal {signal}: callers were told of another run than {run}"));
            }
            _ => {}
        }
        Ok(())
    }
}
