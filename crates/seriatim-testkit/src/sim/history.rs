//! What happened in a run, as the world saw it: written down where it took effect, not where somebody believed it did.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::scheduler::Machine;

/// The key of a change that is of all objects of its partition.
pub const EVERYTHING: i64 = i64::MIN;

/// One thing that happened. Changes, events and records are named by numbers that are unique in the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum What {
    // The run itself.
    Started {
        name: String,
    },
    Stopping,
    Stopped {
        how: String,
    },
    Crashed {
        at: String,
    },
    Paused,
    Resumed,
    CutOff,
    Connected,
    ClockJumped {
        seconds: i64,
    },
    CallFault {
        call: &'static str,
        fault: &'static str,
    },
    /// Something was done to a server, a connection or a handler's process.
    Hurt {
        what: String,
    },
    /// No fault happens from here on.
    Calm,
    /// From here on no handler fails any more, and what is parked is retried.
    Cured,
    /// The run was given the time that it must need at most.
    Over,

    // The source. A change of [`EVERYTHING`] is one of all objects of its partition.
    Committed {
        feed: u32,
        partition: u32,
        key: i64,
        change: u64,
    },
    /// How a reader's position maps to what lies before it.
    Sequenced {
        feed: u32,
        change: u64,
        position: u64,
    },

    // Leases.
    Joined {
        session: String,
    },
    Acquired {
        feed: u32,
        partition: u32,
        epoch: u64,
        from: Option<String>,
        seen: u64,
    },
    Renewed {
        session: String,
    },
    Released {
        feed: u32,
        partition: u32,
        epoch: u64,
    },
    AskedFor {
        feed: u32,
        partition: u32,
    },
    Checkpointed {
        feed: u32,
        partition: u32,
        epoch: u64,
        position: u64,
        unparked: Vec<u64>,
        parked: Vec<u64>,
    },
    Fenced {
        feed: u32,
        partition: u32,
        epoch: u64,
    },
    Discarded {
        feed: u32,
        changes: Vec<u64>,
    },
    /// Somebody set a partition back, whoever owned it, and dropped these of its parked changes: all after it come again.
    Rewound {
        feed: u32,
        partition: u32,
        epoch: u64,
        position: u64,
        dropped: Vec<u64>,
    },

    // Handlers. A call is one run of the handler over some changes.
    Began {
        call: u64,
        feed: u32,
        partition: u32,
        epoch: u64,
        changes: Vec<u64>,
    },
    /// What a handler is told of the change before it, in a feed with a chain.
    Linked {
        change: u64,
        prev: Option<u64>,
    },
    Handled {
        call: u64,
        change: u64,
    },
    Failed {
        call: u64,
        change: u64,
    },
    Ended {
        call: u64,
    },
    /// An effect that is in the database for good, in one transaction with its checkpoint.
    Effect {
        feed: u32,
        partition: u32,
        epoch: u64,
        changes: Vec<u64>,
    },
    /// What is parked in the store when the run is over.
    LeftParked {
        feed: u32,
        change: u64,
    },

    // Signals.
    /// `alone`: no other run may be alive, however long this one takes. `first`: no other may ever have succeeded, or may yet.
    RunBegan {
        signal: u32,
        run: u64,
        alone: bool,
        first: bool,
    },
    RunEnded {
        signal: u32,
        run: u64,
        done: bool,
    },
    Completed {
        signal: u32,
        run: u64,
        recorded: bool,
    },
    Told {
        signal: u32,
        run: u64,
        ran: bool,
    },
    /// What the ledger says when the run is over.
    LastlyRecorded {
        signal: u32,
        run: Option<u64>,
    },

    // Queues.
    Pushed {
        object: u32,
        event: u64,
    },
    Taken {
        object: u32,
        epoch: u64,
    },
    Beat {
        worker: String,
        kept: bool,
    },
    Recovered {
        worker: String,
    },
    Sending {
        send: u64,
        object: u32,
        event: u64,
        id: u64,
        prev: Option<u64>,
    },
    Sent {
        send: u64,
    },
    SendEnded {
        send: u64,
    },
    Recorded {
        object: u32,
        epoch: u64,
        upto: u64,
    },
    Applied {
        object: u32,
        id: u64,
        event: u64,
    },
    LeftQueued {
        object: u32,
        event: u64,
    },
    BrokenQueue {
        what: String,
    },

    // Windows.
    Written {
        record: u64,
        version: u64,
    },
    Processed {
        record: u64,
        version: u64,
    },
}

/// One thing that happened, when and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// How many steps the run had made.
    pub step: u64,
    /// When, in milliseconds since the run began.
    pub at: u64,
    /// On which machine.
    pub machine: Machine,
    /// What.
    pub what: What,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.at / 1000, self.at % 1000);
        let who = match self.machine.0 {
            0 => "world".to_owned(),
            number => format!("m{number}"),
        };
        write!(f, "{:>7} {seconds:>4}.{millis:03} {who:>6}  {:?}", self.step, self.what)
    }
}

/// What happened so far; clones share it.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Vec<Entry>>>);

impl History {
    /// Writes something down.
    pub fn push(&self, entry: Entry) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Everything so far.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A history as text, a line for each thing.
pub fn render(entries: &[Entry]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}
