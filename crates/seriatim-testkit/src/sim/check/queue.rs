//! G1 to G5 for queues and gates.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, EXPIRE};
use crate::sim::history::{Entry, What};
use crate::sim::scheduler::Machine;

#[derive(Debug)]
struct Send {
    object: u32,
    event: u64,
    machine: Machine,
    paused: bool,
}

#[derive(Debug, Default)]
struct Object {
    /// In the order in which they were pushed.
    pushed: Vec<u64>,
    /// How many of them, from the first, were sent.
    sent: usize,
    /// How many of them, from the first, were applied.
    applied: usize,
    epoch: u64,
}

/// Follows each event from its push to where it is applied.
#[derive(Default)]
pub struct Queues {
    objects: BTreeMap<u32, Object>,
    /// What each event was sent as.
    links: BTreeMap<u64, (u64, Option<u64>)>,
    ids: BTreeMap<u64, u64>,
    sends: BTreeMap<u64, Send>,
    beats: BTreeMap<String, u64>,
    paused: BTreeSet<Machine>,
}

impl Queues {
    fn sends(
        &mut self,
        entry: &Entry,
        send: u64,
        object: u32,
        event: u64,
        link: (u64, Option<u64>),
    ) -> Result<(), String> {
        let as_before = *self.links.entry(event).or_insert(link);
        if as_before != link {
            return Err(format!("event {event} was sent as {as_before:?}, and then as {link:?}"));
        }
        if *self.ids.entry(link.0).or_insert(event) != event {
            return Err(format!("two events were sent with the id {}", link.0));
        }
        let state = self.objects.entry(object).or_default();
        let Some(place) = state.pushed.iter().position(|pushed| *pushed == event) else {
            return Err(format!("event {event} of object {object} was sent and not pushed"));
        };
        let before = place.checked_sub(1).map(|before| state.pushed[before]);
        let prev = before.and_then(|before| self.links.get(&before)).map(|(id, _)| *id);
        if link.1 != prev {
            return Err(format!(
                "event {event} of object {object} follows {:?}, and the one before it is {prev:?}",
                link.1
            ));
        }
        if place > state.sent {
            return Err(format!("object {object}: event {event} is sent before the one before it was"));
        }
        let together = |other: &&Send| other.object == object && !other.paused;
        if let Some(other) = self.sends.values().find(together) {
            return Err(format!(
                "object {object}: m{} sends event {event} while m{}, which never stood still, sends event {}",
                entry.machine.0, other.machine.0, other.event
            ));
        }
        let paused = self.paused.contains(&entry.machine);
        self.sends.insert(send, Send { object, event, machine: entry.machine, paused });
        Ok(())
    }

    fn over(&self) -> Result<(), String> {
        for (number, object) in &self.objects {
            if object.applied < object.pushed.len() {
                return Err(format!(
                    "event {} of object {number} was never applied",
                    object.pushed[object.applied]
                ));
            }
        }
        Ok(())
    }
}

impl Checker for Queues {
    fn guarantee(&self) -> &'static str {
        "G1-G4 of queues"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Pushed { object, event } => self.objects.entry(*object).or_default().pushed.push(*event),
            What::Taken { object, epoch } => self.objects.entry(*object).or_default().epoch = *epoch,
            What::Recorded { object, epoch, .. } => {
                let current = self.objects.entry(*object).or_default().epoch;
                if current != *epoch {
                    return Err(format!(
                        "object {object}: what was sent was recorded under epoch {epoch}, and it is {current}"
                    ));
                }
            }
            What::Beat { worker, kept: true } => drop(self.beats.insert(worker.clone(), entry.at)),
            What::Recovered { worker } => {
                let last = self.beats.get(worker).copied().unwrap_or(0);
                if last > 0 && entry.at < last + EXPIRE {
                    return Err(format!(
                        "a worker was taken out {} ms after a sign of life",
                        entry.at - last
                    ));
                }
            }
            What::Sending { send, object, event, id, prev } => {
                return self.sends(entry, *send, *object, *event, (*id, *prev));
            }
            What::Sent { send } => {
                if let Some(Send { object, event, .. }) = self.sends.get(send) {
                    let state = self.objects.entry(*object).or_default();
                    let place = state.pushed.iter().position(|pushed| pushed == event).unwrap_or(0);
                    state.sent = state.sent.max(place + 1);
                }
            }
            What::SendEnded { send } => drop(self.sends.remove(send)),
            What::Paused => {
                self.paused.insert(entry.machine);
                let here = self.sends.values_mut().filter(|send| send.machine == entry.machine);
                here.for_each(|send| send.paused = true);
            }
            What::Resumed => {
                self.paused.remove(&entry.machine);
            }
            What::Applied { object, event, .. } => {
                let state = self.objects.entry(*object).or_default();
                if state.pushed.get(state.applied) != Some(event) {
                    return Err(format!("object {object}: event {event} was applied out of its turn"));
                }
                state.applied += 1;
            }
            What::BrokenQueue { what } => return Err(what.clone()),
            What::Over => return self.over(),
            _ => {}
        }
        Ok(())
    }
}
