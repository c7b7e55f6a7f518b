//! A partition as a pure machine: events in, actions out. No I/O, no clock, no task.
//!
//! ```text
//!                  ┌──────── Read ◀── asks while it holds little ──────────┐
//!   Event::Read ───┴▶ lanes ──Call──▶ handler ──Event::Called──▶ lanes ────┴▶ low-water mark ──Save──▶ store
//!                       ▲                  └─ failed: its object steps aside ─────────────────────┘ │ parks it
//!                       └── rejoins ── Call ◀── Event::ParkedRead ◀── ReadParked, when it is due ◀──┘
//! ```
//!
//! Every event may bring a few actions; each action brings one event when it has been carried out. A crash loses the machine:
//! the next owner begins with what the store has. So each action is in the state before it is carried out, and nothing is
//! noted as done before its event has come.
//!
//! | part | holds |
//! |---|---|
//! | [`lanes`] | the changes that were read, by object; which may run, and how far everything is done |
//! | [`reading`] | how far it has read, and what it has asked for |
//! | [`in_flight`] | batches and parked objects that are with the handler ([`batch_run`], [`parked_run`]) |
//! | [`retries`] | parked objects, and when each is tried again |
//! | [`saving`] | what the store knows, and what the next checkpoint tells it |
//! | [`ending`] | whether it is closing, and whether all that was there is handled |
//! | [`failures`] | the table: what happens to a change that failed |

// The model checker sees it, and nobody else.
#![cfg_attr(feature = "simulation", allow(missing_docs))]

mod batch_run;
mod batches;
mod chain;
mod ending;
mod failure_log;
pub(crate) mod failures;
mod healing;
mod in_flight;
mod lanes;
mod manual_ack;
mod parked;
mod parked_run;
mod piece;
mod reading;
mod retries;
mod saving;
mod target;
mod told;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Closed;
use crate::change::{Change, Position};
use crate::handler::{Failure, Retry};
use crate::host::{CheckpointPolicy, ParkLimits, Stats};
use crate::lease::LeaseId;
use crate::source::Slice;
use crate::store::{Checkpoint, CheckpointError, DoneAbove, ParkedObject, StoreError};
use crate::value::Key;
use batch_run::Around;
use ending::Ending;
pub use healing::HealRules;
use in_flight::InFlight;
use lanes::Lanes;
use manual_ack::Unacked;
use reading::Reading;
use retries::Retries;
use saving::Saving;
pub use target::{Outage, Recovery, Target, Turn};

/// However little a partition holds, it reads no further ahead of its slowest change than this many places.
const MOST_AHEAD: usize = if cfg!(test) { 10_000 } else { 100_000 };

/// The moment of an event, and what is drawn for it.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// On this host's monotonic clock.
    pub now: Instant,
    /// By this host's time of day: for people, and for what is measured.
    pub wall: Timestamp,
    /// From `0.0..1.0`, for pauses.
    pub jitter: f64,
}

/// How a partition is run.
#[derive(Clone, Debug)]
pub struct Rules {
    pub lease: LeaseId,
    pub batch: usize,
    pub concurrency: usize,
    /// Holding fewer changes than this, it asks for more.
    pub enough: usize,
    pub retry: Retry,
    /// How parked objects are tried again by themselves.
    pub heal: HealRules,
    pub limits: ParkLimits,
    pub checkpoint: CheckpointPolicy,
    /// Whether each change names the one of the same object before it.
    pub chain: bool,
    pub until: Until,
    /// Effect and checkpoint are one step of the handler's.
    pub transactional: bool,
    /// The handler itself says what may be checkpointed.
    pub manual_ack: bool,
    /// What is handled beyond the checkpoint's position is kept with it.
    pub remembers: bool,
    /// The handler tells what is done before a call ends.
    pub tells: bool,
    /// How long to wait before the store is asked again.
    pub idle: Duration,
    /// Where the partition ends: nothing behind that is its own.
    pub upto: Option<Position>,
}

/// When a host ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    ShutDown,
    CaughtUp,
    /// As [`Until::ShutDown`], and it only tries what is parked again: nothing is read.
    ShutDownOnlyParked,
}

/// One of the things that are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// The partition was opened, or a moment has come for which the machine wanted to be woken.
    Woken,
    /// Finish what runs, checkpoint, and close.
    Close,
    /// The lease can be trusted until then.
    Trusted(Instant),
    /// Somebody asked for something about what is parked here.
    Asked,
    /// What was read, or why there is nothing more to read.
    Read(Result<Slice, Closed>),
    /// A task ended badly, which is a fault.
    Broken(String),
    /// What the store knows of the objects that were asked for.
    ChainFound(Result<Vec<Option<u64>>, StoreError>),
    /// What handlers have told of calls that still run.
    Told(Vec<(Ticket, Vec<Done>)>),
    /// A handler's call has ended.
    Called(Ticket, Called),
    /// It is durable that a change is not handled, or not.
    GaveUp(Ticket, Result<(), CheckpointError>),
    /// What the store has of a parked object.
    ParkedRead(Ticket, Result<(Option<ParkedObject>, Vec<Change>), StoreError>),
    /// The checkpoint was written, or not.
    Saved(Result<(), CheckpointError>),
    /// What the store has of all parked objects.
    Listed(Result<Vec<ParkedObject>, StoreError>),
}

/// A change that is done, while the call that it is in still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its place among the changes of the call.
    pub place: usize,
    pub id: u64,
}

/// A handler's call that has ended.
#[derive(Debug)]
pub struct Called {
    /// The changes that it was given.
    pub changes: Vec<Change>,
    pub answer: Answer,
    /// With manual acknowledgement: it acknowledged so many of them, and all that came before.
    pub acked: Option<usize>,
}

/// What came of a call.
#[derive(Debug)]
pub enum Answer {
    Done,
    Failed(Failure),
    /// It did not begin: the host is closing.
    NotBegun,
    /// The lease is lost, or whether the commit happened is not known, or the store needs a person.
    Closed(Closed),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Read what comes after this position.
    Read(Position),
    /// Ask the store for the last changes of these objects.
    FindChain(Vec<Key>),
    /// Give changes to the handler, with the checkpoint where effect and checkpoint are one.
    Call { ticket: Ticket, changes: Vec<Change>, then: Checkpoint, attempt: u32, is_first: bool },
    /// Look what the handlers of calls that run have told.
    LookAtCalls,
    /// Make durable that a change is not handled.
    GiveUp(Ticket, Checkpoint),
    /// Read a parked object, and so many of its changes.
    ReadParked(Ticket, Key, usize),
    /// Write a checkpoint.
    Save(Checkpoint),
    /// List what is parked, after this pause.
    ListParked(Duration),
    /// Tell everybody that the partition cannot go on, and why; or that it can.
    TellWaiting(Option<String>),
    /// Tell the host that all that was there is handled.
    TellCaughtUp,
    /// Close the partition.
    Close(Closed),
}

/// One partition while this host owns it.
#[derive(Clone)]
pub struct Machine {
    rules: Rules,
    at: At,
    lanes: Lanes,
    reading: Reading,
    in_flight: InFlight,
    retries: Retries,
    saving: Saving,
    /// With manual acknowledgement.
    unacked: Option<Unacked>,
    ending: Ending,
    /// How many outages of the target were over when this was last looked at, and whether it is in one.
    recoveries: u64,
    target_is_away: bool,
    stats: Arc<Stats>,
    actions: Vec<Action>,
}

impl Machine {
    /// A partition that was just acquired at this position, with what is handled beyond it and what the store has of parked
    /// objects.
    pub fn open(
        rules: Rules,
        (position, done): (Position, DoneAbove),
        parked: &[ParkedObject],
        stats: Arc<Stats>,
        trusted_until: Instant,
        at: At,
    ) -> Self {
        let retries = Retries::new(rules.limits, rules.heal, parked, at);
        Machine {
            at,
            lanes: Lanes::new(retries.lanes(), if rules.remembers { done } else { DoneAbove::default() }),
            reading: Reading::from(position.clone(), at.now),
            in_flight: InFlight::none(at.now),
            retries,
            saving: Saving::from(position, at.now),
            unacked: rules.manual_ack.then(Unacked::default),
            ending: Ending::new(trusted_until),
            recoveries: 0,
            target_is_away: false,
            stats,
            actions: Vec::new(),
            rules,
        }
    }

    /// Takes in an event, and says what is to be done now.
    pub fn on(&mut self, event: Event, at: At, target: &mut Target) -> std::vec::Drain<'_, Action> {
        self.at = at;
        let went = self.take_in(event, target).and_then(|()| {
            self.note_recovery(target);
            self.end_at_the_end(target)?;
            self.go_on()
        });
        if let Err(closed) = went {
            self.actions.push(Action::Close(closed));
        }
        self.actions.drain(..)
    }

    fn take_in(&mut self, event: Event, target: &mut Target) -> Result<(), Closed> {
        match event {
            Event::Woken => self.resume_paused(target),
            Event::Close => {
                self.ending.closing = true;
                self.resume_all_paused(target)
            }
            Event::Trusted(until) => {
                self.ending.trusted_until = until;
                Ok(())
            }
            Event::Asked => {
                self.on_asked();
                Ok(())
            }
            Event::Read(read) => self.on_read(read),
            Event::Broken(why) => Err(Closed::Failed(why)),
            Event::ChainFound(found) => self.on_chain_found(found),
            Event::Told(told) => {
                self.on_told(told);
                Ok(())
            }
            Event::Called(ticket, called) => self.on_called(ticket, called, target),
            Event::GaveUp(ticket, result) => self.on_gave_up(ticket, result, target),
            Event::ParkedRead(ticket, read) => self.on_parked_read(ticket, read, target),
            Event::Saved(result) => self.on_saved(result),
            Event::Listed(listed) => {
                self.on_listed(listed);
                Ok(())
            }
        }
    }

    /// When an outage of the target is over, nobody waits any longer who failed or was parked meanwhile.
    fn note_recovery(&mut self, target: &Target) {
        self.target_is_away = target.outage().is_some();
        let Recovery { number, since } = target.recovery();
        if std::mem::replace(&mut self.recoveries, number) != number {
            self.retries.release(since, self.at.now);
        }
    }

    /// Begins whatever may begin now.
    fn go_on(&mut self) -> Result<(), Closed> {
        if self.ending.has_lapsed(self.at.now) {
            return Err(Closed::Lost("it could not be renewed in time".to_owned()));
        }
        let closing = self.is_closing();
        if !closing {
            // Asks first: the reader reads on while this partition works.
            self.ask_for_more();
            self.resume_parked();
            self.start_work();
        } else if !self.rules.transactional && !self.rules.remembers {
            self.finish_what_is_behind();
        }
        self.look_at_calls();
        self.start_checkpoint(closing);
        self.close_when_drained(closing)
    }

    /// Whether no further attempt may begin.
    pub fn is_closing(&self) -> bool {
        self.ending.closing || self.ending.stopping.is_some()
    }

    /// How many objects are parked: they are not just being tried again.
    pub fn parked(&self) -> u64 {
        self.retries.parked()
    }

    /// When the machine wants to be woken, if nothing happens before.
    pub fn wake_at(&self) -> Instant {
        let closing = self.is_closing();
        let patience_ends = self.waits_to_be_filled().then_some(self.reading.patient_until);
        let parked_due = self.retries.next_due().filter(|_| !closing && self.has_room_for_a_parked_one());
        let (paused, look) = (self.in_flight.paused_until(), self.look_due());
        let healing = self.resume_due().filter(|_| !closing);
        let due = [self.checkpoint_due(), patience_ends, parked_due, healing, paused, look];
        let trusted = self.ending.wake_at();
        due.into_iter().flatten().fold(trusted, Instant::min)
    }

    /// What a run needs to know.
    fn around<'a>(rules: &'a Rules, at: At, closing: bool, target: &'a mut Target) -> Around<'a> {
        Around { rules, at, target, closing }
    }
}

/// Without counters, and without the moment of the last event: nothing that the machine does later depends on them.
impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("lanes", &self.lanes)
            .field("reading", &self.reading)
            .field("in_flight", &self.in_flight)
            .field("retries", &self.retries)
            .field("saving", &self.saving)
            .field("unacked", &self.unacked)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod purity;
