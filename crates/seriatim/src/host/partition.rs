//! One partition while this host owns it: reads, handles, checkpoints, until it is told to stop or loses the lease.
//!
//! ```text
//!          ┌────────── asks while it holds little ──────────┐
//!   reader ┴▶ lanes ──batch──▶ attempts (in flight) ──▶ lanes ┴▶ low-water mark ──▶ checkpoint
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::FeedRuntime;
use super::reader::{Answer, OpenGuard};
use crate::change::Position;
use crate::clock;
use crate::handler::{Attempts, Batch, Handling, Lanes, Plain, Ran, Rules, Tally, Transactional, Try};
use crate::lease::{Lease, LeaseId};
use crate::source::SourceError;
use crate::store::{Checkpoint, CheckpointError, Parking, Store, StoreError};

/// A partition that only looked and found nothing moves its checkpoint this rarely.
const IDLE_CHECKPOINT: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a checkpoint that the store could not take waits for its next try.
const RETRY_CHECKPOINT: std::time::Duration = std::time::Duration::from_millis(100);

/// However little a partition holds, it reads no further ahead of its slowest change than this many places.
const MOST_AHEAD: usize = 100_000;

/// Why a partition was closed.
#[derive(Debug)]
pub(super) enum Closed {
    /// As asked: what ran is finished and checkpointed.
    Drained,
    /// The lease is gone, or may be.
    Lost(String),
    /// It cannot go on until somebody does something.
    Failed(String),
    /// It did not finish in time and was cut off.
    Halted,
}

impl Closed {
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
    /// Turns true when the partition is to finish and close.
    pub closing: watch::Receiver<bool>,
    /// Until when the lease can be trusted.
    pub trusted_until: watch::Receiver<Instant>,
    pub news: mpsc::UnboundedSender<News>,
}

/// A checkpoint that was tried: where, the first place it did not pass, how many parked, and what the store said.
type Saved = (Position, u64, usize, Result<(), CheckpointError>);

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
    saved_at: Instant,
    /// Something was handled since the last checkpoint.
    worked: bool,
    /// Changes to park with the next checkpoint, which has passed them.
    parkings: Vec<Parking>,
    asked: Option<oneshot::Receiver<Answer>>,
    flying: JoinSet<(Batch, Position, Ran)>,
    saving: JoinSet<Saved>,
    told_caught_up: bool,
    /// The end of the first slice that saw the end of what was committed, by the number of its place in the lanes.
    caught_up_at: Option<u64>,
    /// Every place before this number is behind the checkpoint in the store.
    saved_upto: u64,
    /// Turns true when no further attempt may begin.
    quit: watch::Sender<bool>,
    /// A transactional batch was interrupted between two of its commits: the store knows better than this host.
    store_knows_better: bool,
    /// The feed is to stop, for this reason, once what runs has finished.
    stopping: Option<String>,
    _open: OpenGuard,
}

/// Runs a partition until it is closed, and says why it was.
pub(super) async fn run(setup: Setup) -> Closed {
    match Running::open(setup).await {
        Ok(mut running) => running.run().await,
        Err(closed) => closed,
    }
}

impl Running {
    async fn open(setup: Setup) -> Result<Self, Closed> {
        let id = &setup.lease.id;
        let parked = setup.store.parked(&id.feed, Some(id.partition)).await.map_err(|error| match error {
            StoreError::Unavailable { .. } => Closed::Lost(error.to_string()),
            StoreError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
        })?;
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
            lanes: Lanes::new(parked.iter().map(|object| object.key.hash())),
            read: setup.lease.position.clone(),
            caught_up: false,
            saved: setup.lease.position.clone(),
            saved_at: clock::now(),
            worked: false,
            parkings: Vec::new(),
            asked: None,
            flying: JoinSet::new(),
            saving: JoinSet::new(),
            told_caught_up: false,
            caught_up_at: None,
            saved_upto: 0,
            quit: watch::Sender::new(false),
            store_knows_better: false,
            stopping: None,
            _open: setup.feed.reader.enter(),
            setup,
        })
    }

    async fn run(&mut self) -> Closed {
        loop {
            let closing = *self.setup.closing.borrow() || self.stopping.is_some();
            if clock::now() >= *self.setup.trusted_until.borrow() {
                return Closed::Lost("it could not be renewed in time".to_owned());
            }
            self.quit.send_if_modified(|quit| std::mem::replace(quit, closing) != closing);
            if !closing {
                // Asks first: the reader reads on while this partition works.
                self.ask_for_more();
                self.start_work();
            }
            self.start_checkpoint(closing);
            if closing && self.flying.is_empty() && self.saving.is_empty() {
                return self.stopping.take().map_or(Closed::Drained, Closed::Failed);
            }
            if let Some(closed) = self.next_event().await {
                return closed;
            }
        }
    }

    async fn next_event(&mut self) -> Option<Closed> {
        let trusted_until = *self.setup.trusted_until.borrow();
        let checkpoint_due = self.checkpoint_due();
        tokio::select! {
            // What was read comes first: the reader waits for this partition to ask again.
            biased;
            answer = ask(&mut self.asked) => {
                self.asked = None;
                self.take_in(answer)
            }
            Some(landed) = self.flying.join_next() => match landed {
                Ok((batch, upto, ran)) => self.landed(batch, upto, ran),
                Err(error) => Some(Closed::Failed(format!("a handler's task ended badly: {error}"))),
            },
            Some(saved) = self.saving.join_next() => match saved {
                Ok(saved) => self.checkpointed(saved),
                Err(error) => Some(Closed::Failed(format!("a checkpoint's task ended badly: {error}"))),
            },
            _ = self.setup.closing.changed() => None,
            _ = self.setup.trusted_until.changed() => None,
            () = tokio::time::sleep_until(trusted_until) => None,
            () = sleep_until(checkpoint_due) => None,
        }
    }

    fn is_transactional(&self) -> bool {
        matches!(self.setup.feed.handling, Handling::ExactlyOnce(_))
    }

    fn start_work(&mut self) {
        let settings = &self.setup.feed.settings;
        // A transaction moves the checkpoint itself: one at a time, never beside another checkpoint, and never past a change
        // that is still to be parked.
        let transactional = self.is_transactional();
        if transactional && !(self.saving.is_empty() && self.parkings.is_empty()) {
            return;
        }
        let concurrency = if transactional { 1 } else { settings.concurrency };
        while self.flying.len() < concurrency {
            let Some(batch) = self.lanes.take(settings.batch) else { break };
            let upto = self.lanes.low_water_after(&batch).unwrap_or(&self.saved).clone();
            let aside = if transactional { self.lanes.take_aside() } else { Vec::new() };
            self.setup.feed.stats.count(0, aside.len() as u64, 0, 0);
            let (tries, lease) = (Arc::clone(&self.tries), Arc::clone(&self.lease));
            let (retry, timeout, closing) = (settings.retry, settings.timeout, self.quit.subscribe());
            self.flying.spawn(async move {
                let rules = Rules { retry, timeout, closing };
                let ran = Attempts::new(&*tries, rules, lease, aside).run(&batch.changes, &upto).await;
                (batch, upto, ran)
            });
        }
    }

    fn ask_for_more(&mut self) {
        let has_room = self.lanes.held() + self.parkings.len() < self.setup.feed.settings.enough()
            && self.lanes.weight() < super::ENOUGH_BYTES
            && self.lanes.span() < MOST_AHEAD;
        if self.asked.is_none() && has_room {
            self.asked = Some(self.setup.feed.reader.want(self.lease.id.partition, self.read.clone()));
        }
    }

    fn take_in(&mut self, answer: Result<Answer, oneshot::error::RecvError>) -> Option<Closed> {
        match answer {
            Ok(Ok(slice)) => {
                self.read = slice.upto.clone();
                self.caught_up = slice.caught_up;
                self.lanes.push(slice);
                if self.caught_up && self.caught_up_at.is_none() {
                    self.caught_up_at = Some(self.lanes.end());
                }
                self.tell_when_caught_up();
                None
            }
            Ok(Err(error)) => Some(match &*error {
                SourceError::Unavailable { .. } => Closed::Lost(error.to_string()),
                SourceError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
            }),
            Err(_) => Some(Closed::Failed("the feed's reader ended".to_owned())),
        }
    }

    fn landed(&mut self, batch: Batch, upto: Position, ran: Ran) -> Option<Closed> {
        match ran {
            Ran::Finished(tally) => self.finished(batch, upto, tally),
            Ran::Interrupted { unfinished, tally } => self.gave_up(batch, &unfinished, tally),
            Ran::Stopped { change, error, unfinished, tally } => {
                let why = format!("change {} at position {} failed: {error}", change.id, change.position);
                self.stopping.get_or_insert(why);
                self.gave_up(batch, &unfinished, tally);
            }
            Ran::Lost { why } => return Some(Closed::Lost(why)),
            Ran::Broken { why } => return Some(Closed::Failed(why)),
        }
        None
    }

    fn finished(&mut self, batch: Batch, upto: Position, tally: Tally) {
        self.count(batch.changes.len(), &tally);
        if self.is_transactional() {
            // What was parked on the way is in the store already: only its objects are to be remembered.
            tally.parked.iter().for_each(|parking| self.lanes.park(parking.change.lane()));
            self.lanes.complete(batch, Vec::new());
            self.saved = upto;
            self.saved_at = clock::now();
            self.saved_upto = self.lanes.passed();
        } else {
            self.lanes.complete(batch, tally.parked);
            self.worked = true;
        }
        self.tell_when_caught_up();
    }

    /// The batch did not get to its end: what it did counts, unless the store knows that better.
    fn gave_up(&mut self, batch: Batch, unfinished: &HashSet<u64>, tally: Tally) {
        self.count(batch.changes.len() - unfinished.len(), &tally);
        if self.is_transactional() {
            self.store_knows_better = true;
        } else {
            self.lanes.abandon(batch, unfinished, tally.parked);
            self.worked = true;
        }
    }

    fn count(&self, done: usize, tally: &Tally) {
        let parked = tally.parked.len() as u64;
        let handled = done as u64 - parked - tally.skipped;
        self.setup.feed.stats.count(handled, parked, tally.skipped, tally.failures);
    }

    fn start_checkpoint(&mut self, closing: bool) {
        let due = closing || self.checkpoint_due().is_some_and(|due| due <= clock::now());
        let free = self.saving.is_empty() && (self.flying.is_empty() || !self.is_transactional());
        if !due || !free || !self.has_something_to_save() {
            return;
        }
        self.parkings.extend(self.lanes.take_passed_aside());
        let passed = self.lanes.passed();
        let position = self.lanes.low_water().unwrap_or(&self.saved).clone();
        let checkpoint = Checkpoint { position: position.clone(), parked: self.parkings.clone() };
        let (store, lease) = (Arc::clone(&self.setup.store), Arc::clone(&self.lease));
        self.worked = false;
        self.saving.spawn(async move {
            let result = store.checkpoint(&lease, &checkpoint).await;
            if let Err(CheckpointError::Store(_)) = result {
                tokio::time::sleep(RETRY_CHECKPOINT).await;
            }
            (position, passed, checkpoint.parked.len(), result)
        });
    }

    fn has_something_to_save(&self) -> bool {
        if self.store_knows_better {
            return false;
        }
        let moved = self.lanes.low_water().is_some_and(|mark| *mark != self.saved);
        moved || !self.parkings.is_empty() || self.lanes.has_passed_aside()
    }

    /// When the next checkpoint should be written; `None` while there is nothing to write.
    fn checkpoint_due(&self) -> Option<Instant> {
        if !self.saving.is_empty() || !self.has_something_to_save() {
            return None;
        }
        if self.is_transactional() && !self.flying.is_empty() {
            return None;
        }
        let settings = &self.setup.feed.settings;
        let pause = if self.lanes.has_passed_aside()
            || !self.parkings.is_empty()
            || (self.worked && self.lanes.held() == 0)
        {
            std::time::Duration::ZERO
        } else if self.worked {
            settings.checkpoint_every
        } else if self.setup.feed.once && self.caught_up {
            std::time::Duration::ZERO
        } else {
            IDLE_CHECKPOINT
        };
        Some(self.saved_at + pause)
    }

    fn checkpointed(&mut self, (position, passed, parked, result): Saved) -> Option<Closed> {
        match result {
            Ok(()) => {
                self.saved = position;
                self.saved_upto = passed;
                self.saved_at = clock::now();
                self.parkings.drain(..parked);
                self.tell_when_caught_up();
                None
            }
            Err(CheckpointError::Fenced { by }) => Some(Closed::Lost(format!("its epoch is {by} now"))),
            Err(CheckpointError::Store(error @ StoreError::Unavailable { .. })) => {
                tracing::warn!(lease = %self.lease.id, %error, "no checkpoint; trying again");
                // Tried again by the rule for new work, until the lease cannot be trusted any more.
                self.worked = true;
                self.saved_at = clock::now();
                None
            }
            Err(CheckpointError::Store(error)) => Some(Closed::Failed(error.to_string())),
        }
    }

    /// Says, once, that everything is behind the checkpoint that was committed when it first saw the end.
    fn tell_when_caught_up(&mut self) {
        if !self.has_something_to_save() {
            self.saved_upto = self.lanes.passed();
        }
        if !self.told_caught_up && self.caught_up_at.is_some_and(|end| end <= self.saved_upto) {
            self.told_caught_up = true;
            drop(self.setup.news.send(News::CaughtUp(self.lease.id.clone())));
        }
    }
}

async fn ask(asked: &mut Option<oneshot::Receiver<Answer>>) -> Result<Answer, oneshot::error::RecvError> {
    match asked {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
