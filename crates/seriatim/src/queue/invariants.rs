//! What must hold of every object at every moment.

use std::fmt;

use serde::Serialize;

use super::{Hold, ParkedEvents};
use crate::name::{HostName, ObjectName};
use crate::order::EventId;

/// An object as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// The object.
    pub object: ObjectName,
    /// How many events wait to be stamped.
    pub waiting: u64,
    /// The ids of the events that are stamped and not recorded as sent.
    pub sending: Vec<EventId>,
    /// The last event that was recorded as sent.
    pub last: Option<EventId>,
    /// Who holds it.
    pub holder: Option<Hold>,
    /// Whether that worker's session is the one that has joined under its name.
    pub holder_is_joined: bool,
    /// Whether the holder has it among what it holds.
    pub listed_by_holder: bool,
    /// Workers that have it among what they hold, and do not hold it.
    pub listed_by_others: Vec<HostName>,
    /// Whether it is queued for a worker.
    pub queued: bool,
    /// Why it is set aside.
    pub parked: Option<ParkedEvents>,
    /// The id that was given out last, of all objects.
    pub counter: u64,
}

/// Something that should not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The object.
    pub object: ObjectName,
    /// The invariant that does not hold.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.invariant, self.found)
    }
}

impl ObjectView {
    /// Everything that should not be.
    pub fn broken(&self) -> Vec<Broken> {
        let checks = [
            self.stranded(),
            self.held_by_nobody(),
            self.not_listed(),
            self.listed_wrongly(),
            self.out_of_order(),
        ];
        checks.into_iter().flatten().collect()
    }

    fn breaks(&self, invariant: &'static str, found: String) -> Option<Broken> {
        Some(Broken { object: self.object.clone(), invariant, found })
    }

    fn stranded(&self) -> Option<Broken> {
        let events = self.waiting + self.sending.len() as u64;
        if events == 0 || self.queued || self.holder.is_some() || self.parked.is_some() {
            return None;
        }
        let found = format!("{events} events, and it is neither");
        self.breaks("an object with events is queued, held or parked", found)
    }

    fn held_by_nobody(&self) -> Option<Broken> {
        let hold = self.holder.as_ref().filter(|_| !self.holder_is_joined)?;
        let found = format!("{} does, with a session that is gone", hold.session.worker);
        self.breaks("only a worker that has joined holds an object", found)
    }

    fn not_listed(&self) -> Option<Broken> {
        let hold = self.holder.as_ref().filter(|_| self.holder_is_joined && !self.listed_by_holder)?;
        let found = format!("{} does not list it", hold.session.worker);
        self.breaks("a worker lists the objects that it holds", found)
    }

    fn listed_wrongly(&self) -> Option<Broken> {
        let worker = self.listed_by_others.first()?;
        self.breaks("a worker lists only objects that it holds", format!("{worker} does"))
    }

    fn out_of_order(&self) -> Option<Broken> {
        let ids: Vec<u64> = self.last.iter().chain(&self.sending).map(|id| id.0).collect();
        let rising = ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|id| *id <= self.counter);
        if rising {
            return None;
        }
        let found = format!("sent or being sent {ids:?}, counter {}", self.counter);
        self.breaks("ids rise, and none is greater than the counter", found)
    }
}
