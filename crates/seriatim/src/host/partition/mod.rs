//! One partition while this host owns it: reads, handles, checkpoints, until it is told to stop or loses the lease.
//!
//! ```text
//!          ┌────────── asks while it holds little ──────────┐
//!   reader ┴▶ lanes ──batch──▶ attempts (in flight) ──▶ lanes ┴▶ low-water mark ──▶ checkpoint
//!                ▲                  └─ failed: its object steps aside ──────────────────┘ │ parks it
//!                └── rejoins ── tail (in flight) ◀── when it is due, or somebody asked ◀──┘
//! ```

mod chain;
mod full;
mod landing;
mod objects;
mod reading;
mod saving;
mod tails;
mod word;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::observer::{CloseReason, Observers};
use super::reader::{Answer, OpenGuard};
use super::{CheckpointPolicy, FeedRuntime, Until};
use crate::change::Position;
use crate::clock;
use crate::handler::{
    Attempts, Batch, Checkpointer, Handling, Lanes, Plain, Ran, Rules, Tally, Transactional, Try,
};
use crate::lease::{Lease, LeaseId};
#[cfg(feature = "simulation")]
use crate::simulation::{self, Mutant};
use crate::store::{Parking, Store, StoreError, Unparking};
use crate::tasks::JoinSet;
use chain::{Chain, Linked};
use full::Full;
use objects::Objects;
use reading::ask;
use saving::Saved;
use tails::{Heard, TailLanded};
use word::Unsaid;

/// However little a partition holds, it reads no further ahead of its slowest change than this many places.
const MOST_AHEAD: usize = if cfg!(test) { 10_000 } else { 100_000 };

/// Why a partition was closed.
#[derive(Debug)]
pub(super) enum Closed {
    /// As asked: what ran is finished and checkpointed.
    Drained,
    /// The lease is gone, or may be.
    Lost(String),
    /// It cannot go on until somebody does something.
    Failed(String),
    /// It was ended from outside.
    Halted(Halt),
}

/// Why a partition is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The lease has another owner.
    Lost,
    /// It did not finish in time.
    TooLate,
}

impl Closed {
    fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Closed::Lost(error.to_string()),
            StoreError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
        }
    }

    pub(super) fn panicked() -> Self {
        Closed::Failed("its task panicked, which is a fault in Seriatim: please report it".to_owned())
    }
}

/// What a partition tells the host while it runs.
#[derive(Debug)]
pub(super) enum News {
    /// Everything that was committed when it last looked is handled and checkpointed.
    CaughtUp(LeaseId),
}

/// What a partition is run with.
pub(super) struct Setup {
    pub lease: Lease,
    pub store: Arc<dyn Store>,
    pub feed: Arc<FeedRuntime>,
    /// Says why once the partition is to finish and close.
    pub closing: watch::Receiver<Option<CloseReason>>,
    /// Until when the lease can be trusted.
    pub trusted_until: watch::Receiver<Instant>,
    /// Moves when somebody asked for something about what is parked here.
    pub asked: watch::Receiver<u64>,
    pub news: mpsc::UnboundedSender<News>,
    pub observers: Arc<Observers>,
    /// Turns true when the partition is halted.
    pub gone: Arc<AtomicBool>,
}

struct Running {
    setup: Setup,
    lease: Arc<Lease>,
    tries: Arc<dyn Try>,
    lanes: Lanes,
    /// How far it has read.
    read: Position,
    caught_up: bool,
    /// The checkpoint in the store.
    saved: Position,
    /// When it was written, or the partition was opened.
    saved_at: Instant,
    has_saved: bool,
    /// Something was handled since the last checkpoint, and so many changes.
    worked: bool,
    done: u64,
    /// Where the handler vouches for what it has done, and what it has not vouched for yet.
    unsaid: Option<Unsaid>,
    /// What is parked here.
    objects: Objects,
    /// Changes to park with the next checkpoint, which has passed them.
    parkings: Vec<Parking>,
    /// Parked changes that are done, to be taken out of the store with the next checkpoint.
    unparkings: Vec<Unparking>,
    asked: Option<oneshot::Receiver<Answer>>,
    /// So long a batch may wait for the answer, to be filled.
    patient_until: Instant,
    flying: JoinSet<(Batch, Position, Ran)>,
    /// Parked objects that are being tried again.
    tailing: JoinSet<TailLanded>,
    /// With a transactional handler, which does one thing at a time: what was tried last was a live batch.
    tails_turn: bool,
    /// What the store says is parked, after somebody asked for something.
    hearing: JoinSet<Heard>,
    /// Somebody asked while a transaction was under way, which may have parked something that is not known here yet.
    hear_again: bool,
    /// The changes that are under way, where each names the one before it.
    chain: Chain,
    /// What was read, while the store is asked what came before it.
    linking: JoinSet<Result<Linked, StoreError>>,
    saving: JoinSet<Saved>,
    told_caught_up: bool,
    /// The end of the first slice that saw the end of what was committed, by the number of its place in the lanes.
    caught_up_at: Option<u64>,
    /// Parked objects that were being tried when everything before that end was behind the checkpoint.
    awaited: Option<HashSet<String>>,
    /// Every place before this number is behind the checkpoint in the store.
    saved_upto: u64,
    /// Turns true when no further attempt may begin.
    quit: watch::Sender<bool>,
    /// A transactional batch was interrupted between two of its commits: the store knows better than this host.
    store_knows_better: bool,
    /// The feed is to stop, for this reason, once what runs has finished.
    stopping: Option<String>,
    /// Says so while no more can be parked.
    full: Full,
    _open: OpenGuard,
}

/// Runs a partition until it is closed, and says why it was.
pub(super) async fn run(setup: Setup) -> Closed {
    match Running::open(setup).await {
        Ok(mut running) => {
            let timeout = running.setup.feed.settings.timeout;
            running.setup.observers.opened(&running.lease, timeout).await;
            running.run().await
        }
        Err(closed) => closed,
    }
}

impl Running {
    async fn open(setup: Setup) -> Result<Self, Closed> {
        let id = &setup.lease.id;
        let parked = setup.store.parked(&id.feed, Some(id.partition)).await.map_err(Closed::of_store)?;
        let limits = setup.feed.settings.parked.share(setup.feed.feed.partitions());
        let objects = Objects::new(limits, &parked, clock::now());
        let tries: Arc<dyn Try> = match &setup.feed.handling {
            Handling::AtLeastOnce(handler) => {
                Arc::new(Plain { handler: Arc::clone(handler), timeout: setup.feed.settings.timeout })
            }
            Handling::ExactlyOnce(handler) => {
                Arc::new(Transactional { handler: Arc::clone(handler), store: Arc::clone(&setup.store) })
            }
        };
        Ok(Running {
            lease: Arc::new(setup.lease.clone()),
            tries,
            lanes: Lanes::new(objects.lanes()),
            objects,
            read: setup.lease.position.clone(),
            caught_up: false,
            saved: setup.lease.position.clone(),
            saved_at: clock::now(),
            has_saved: false,
            worked: false,
            done: 0,
            unsaid: Unsaid::of(&setup.feed.settings),
            parkings: Vec::new(),
            unparkings: Vec::new(),
            asked: None,
            patient_until: clock::now(),
            flying: JoinSet::new(),
            tailing: JoinSet::new(),
            tails_turn: false,
            hearing: JoinSet::new(),
            hear_again: false,
            chain: Chain::default(),
            linking: JoinSet::new(),
            saving: JoinSet::new(),
            told_caught_up: false,
            caught_up_at: None,
            awaited: None,
            saved_upto: 0,
            quit: watch::Sender::new(false),
            store_knows_better: false,
            stopping: None,
            full: Full::new(&setup.feed, &setup.lease.id),
            _open: setup.feed.reader.enter(setup.lease.id.partition),
            setup,
        })
    }

    async fn run(&mut self) -> Closed {
        loop {
            let closing = self.setup.closing.borrow().is_some() || self.stopping.is_some();
            if self.lease_has_lapsed() {
                return Closed::Lost("it could not be renewed in time".to_owned());
            }
            self.quit.send_if_modified(|quit| std::mem::replace(quit, closing) != closing);
            if !closing {
                // Asks first: the reader reads on while this partition works.
                self.ask_for_more();
                self.start_work();
            } else if !self.is_transactional() {
                self.finish_what_is_behind();
            }
            self.start_checkpoint(closing);
            #[cfg(feature = "simulation")]
            if closing && simulation::has(Mutant::HandOverWithoutDraining) {
                self.flying.detach_all();
                return Closed::Drained;
            }
            if closing && self.flying.is_empty() && self.tailing.is_empty() && self.saving.is_empty() {
                return self.stopping.take().map_or(Closed::Drained, Closed::Failed);
            }
            if let Some(closed) = self.next_event(closing).await {
                return closed;
            }
        }
    }

    /// Others may take the lease now.
    fn lease_has_lapsed(&self) -> bool {
        #[cfg(feature = "simulation")]
        if simulation::has(Mutant::TrustForever) {
            return false;
        }
        clock::now() >= *self.setup.trusted_until.borrow()
    }

    async fn next_event(&mut self, closing: bool) -> Option<Closed> {
        let trusted_until = *self.setup.trusted_until.borrow();
        #[cfg(feature = "simulation")]
        let trusted_until = match simulation::has(Mutant::TrustForever) {
            true => clock::now() + std::time::Duration::from_secs(3600),
            false => trusted_until,
        };
        let checkpoint_due = self.checkpoint_due();
        let patience_ends = self.waits_to_be_filled().then_some(self.patient_until);
        let tail_due = self.objects.next_due().filter(|_| !closing && self.has_room_for_a_tail());
        tokio::select! {
            // What was read comes first: the reader waits for this partition to ask again.
            biased;
            answer = ask(&mut self.asked) => {
                self.asked = None;
                self.take_in(answer)
            }
            Some(linked) = self.linking.join_next() => match linked {
                Ok(Ok(linked)) => self.take_in_linked(linked),
                Ok(Err(error)) => Some(Closed::of_store(error)),
                Err(error) => Some(Closed::Failed(format!("the task that links changes ended badly: {error}"))),
            },
            Some(landed) = self.flying.join_next() => match landed {
                Ok((batch, upto, ran)) => {
                    let closed = self.landed(batch, upto, ran);
                    self.hear_what_was_missed();
                    closed
                }
                Err(error) => Some(Closed::Failed(format!("a handler's task ended badly: {error}"))),
            },
            Some(landed) = self.tailing.join_next() => match landed {
                Ok(landed) => {
                    let closed = self.tail_landed(landed);
                    self.hear_what_was_missed();
                    closed
                }
                Err(error) => Some(Closed::Failed(format!("a handler's task ended badly: {error}"))),
            },
            Some(saved) = self.saving.join_next() => match saved {
                Ok(saved) => self.checkpointed(saved),
                Err(error) => Some(Closed::Failed(format!("a checkpoint's task ended badly: {error}"))),
            },
            Some(heard) = self.hearing.join_next() => {
                self.heard(heard);
                None
            }
            Ok(()) = self.setup.asked.changed() => {
                self.hear();
                None
            }
            _ = self.setup.closing.changed() => None,
            _ = self.setup.trusted_until.changed() => None,
            () = tokio::time::sleep_until(trusted_until) => None,
            () = sleep_until(checkpoint_due) => None,
            () = sleep_until(tail_due) => None,
            () = sleep_until(patience_ends) => None,
        }
    }

    fn is_transactional(&self) -> bool {
        matches!(self.setup.feed.handling, Handling::ExactlyOnce(_))
    }

    /// A transaction moves the checkpoint itself: one at a time, never beside another checkpoint, and never past a change that
    /// is still to be parked.
    fn may_start_transaction(&self) -> bool {
        let nothing_runs = self.flying.is_empty() && self.tailing.is_empty() && self.saving.is_empty();
        nothing_runs && self.parkings.is_empty() && self.unparkings.is_empty()
    }

    fn start_work(&mut self) {
        if !self.is_transactional() {
            while self.has_room_for_a_tail() && self.start_tail() {}
            while self.flying.len() + self.tailing.len() < self.concurrency()
                && !self.waits_to_be_filled()
                && self.start_batch()
            {}
        } else if self.may_start_transaction() {
            // In turns: neither waits for the other.
            let tail_first = std::mem::take(&mut self.tails_turn);
            if tail_first && self.has_room_for_a_tail() && self.start_tail() {
                return;
            }
            self.tails_turn = self.start_batch();
            if !self.tails_turn && self.has_room_for_a_tail() {
                self.start_tail();
            }
        }
    }

    /// Handles what lies before something that is done: the checkpoint could not pass that, and it would come again.
    fn finish_what_is_behind(&mut self) {
        if self.tailing.is_empty() {
            self.lanes.park_held();
        }
        let most = self.setup.feed.settings.batch;
        while self.flying.len() + self.tailing.len() < self.concurrency() {
            let Some(batch) = self.lanes.take_behind(most) else { return };
            self.start(batch);
        }
    }

    /// There is less than a batch, others run, and more is on its way: it comes soon, or this is started without it. Fewer calls
    /// with more in each cost handlers and their targets less.
    fn waits_to_be_filled(&self) -> bool {
        let more_comes = self.asked.is_some() && !self.caught_up && clock::now() < self.patient_until;
        more_comes && !self.flying.is_empty() && self.lanes.in_line() < self.setup.feed.settings.batch
    }

    /// Starts the next batch, if there is one.
    fn start_batch(&mut self) -> bool {
        let batch = self.lanes.take(self.setup.feed.settings.batch);
        batch.map(|batch| self.start(batch)).is_some()
    }

    fn start(&mut self, batch: Batch) {
        let upto = self.lanes.low_water_after(&batch).unwrap_or_else(|| self.saved.clone());
        let aside = if self.is_transactional() { self.take_aside() } else { BTreeMap::new() };
        let (tries, lease, rules) = (Arc::clone(&self.tries), Arc::clone(&self.lease), self.rules());
        let observers = Arc::clone(&self.setup.observers);
        self.flying.spawn(async move {
            observers.changes(&lease, &batch.changes, rules.timeout).await;
            let attempts = Attempts::new(&*tries, rules, lease, batch.numbers(), aside);
            // In a box: the task is moved several times before it runs, and this is most of it.
            let ran = Box::pin(attempts.run(&batch.changes, &upto)).await;
            (batch, upto, ran)
        });
    }

    fn rules(&self) -> Rules {
        let settings = &self.setup.feed.settings;
        let target = Arc::clone(&self.setup.feed.target);
        let word = self.unsaid.as_ref().map(Unsaid::checkpointer);
        Rules {
            retry: settings.retry,
            timeout: settings.timeout,
            closing: self.quit.subscribe(),
            trusted_until: self.setup.trusted_until.clone(),
            gone: Arc::clone(&self.setup.gone),
            target,
            word,
            chain: settings.chain,
        }
    }

    /// How many calls may run at the same time.
    fn concurrency(&self) -> usize {
        // What a handler vouches for is clear only if there is an order in which it got it.
        if self.unsaid.is_some() { 1 } else { self.setup.feed.settings.concurrency }
    }

    /// All that is set aside, for a transaction that passes it.
    fn take_aside(&mut self) -> BTreeMap<u64, Parking> {
        let aside = self.lanes.take_aside();
        aside.values().for_each(|parking| self.note_kept(parking));
        aside
    }

    /// A change is on its way into the store, or there.
    fn note_kept(&mut self, parking: &Parking) {
        if !parking.steps_aside() {
            self.setup.feed.stats.count(0, 1, 0, 0);
        }
        self.objects.keeps(parking, clock::now());
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
