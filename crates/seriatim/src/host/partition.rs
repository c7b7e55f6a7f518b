//! One partition while this host owns it: reads, handles, checkpoints, until it is told to stop or loses the lease.
//!
//! ```text
//!          ┌────────── asks while it holds little ──────────┐
//!   reader ┴▶ lanes ──batch──▶ attempts (in flight) ──▶ lanes ┴▶ low-water mark ──▶ checkpoint
//! ```

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::FeedRuntime;
use super::reader::{Answer, OpenGuard};
use crate::change::Position;
use crate::clock;
use crate::handler::{Attempts, Batch, Handling, Lanes, Plain, Ran, Transactional, Try};
use crate::lease::{Lease, LeaseId};
use crate::source::SourceError;
use crate::store::{Checkpoint, CheckpointError, Parking, Store, StoreError};

/// A partition that only looked and found nothing moves its checkpoint this rarely.
const IDLE_CHECKPOINT: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a checkpoint that the store could not take waits for its next try.
const RETRY_CHECKPOINT: std::time::Duration = std::time::Duration::from_millis(100);

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
    /// Changes to park with the next checkpoint.
    parkings: Vec<Parking>,
    asked: Option<oneshot::Receiver<Answer>>,
    flying: JoinSet<(Batch, Position, Ran)>,
    saving: JoinSet<(Position, usize, Result<(), CheckpointError>)>,
    told_caught_up: bool,
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
            if !closing {
                self.start_work();
                self.ask_for_more();
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
            // Never falls behind on what is done: that is what makes room.
            biased;
            Some(landed) = self.flying.join_next() => match landed {
                Ok((batch, upto, ran)) => self.landed(batch, upto, ran),
                Err(error) => Some(Closed::Failed(format!("a handler's task ended badly: {error}"))),
            },
            Some(saved) = self.saving.join_next() => match saved {
                Ok((position, parked, result)) => self.checkpointed(position, parked, result),
                Err(error) => Some(Closed::Failed(format!("a checkpoint's task ended badly: {error}"))),
            },
            answer = ask(&mut self.asked) => {
                self.asked = None;
                self.take_in(answer)
            }
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
        // A transaction moves the checkpoint itself: one at a time, and never beside another checkpoint.
        let concurrency = if self.is_transactional() { 1 } else { settings.concurrency };
        if self.is_transactional() && !self.saving.is_empty() {
            return;
        }
        while self.flying.len() < concurrency {
            let Some(batch) = self.lanes.take(settings.batch) else {
                break;
            };
            let upto = self.lanes.low_water_after(&batch).unwrap_or(&self.saved).clone();
            let tail = if self.is_transactional() { tail(&mut self.lanes) } else { Vec::new() };
            let attempts = Work {
                tries: Arc::clone(&self.tries),
                lease: Arc::clone(&self.lease),
                retry: settings.retry,
                closing: self.setup.closing.clone(),
                tail: Checkpoint { position: self.saved.clone(), parked: tail },
            };
            self.flying.spawn(async move {
                let ran = attempts.run(&batch, &upto).await;
                (batch, upto, ran)
            });
        }
    }

    fn ask_for_more(&mut self) {
        let settings = &self.setup.feed.settings;
        let has_room = self.lanes.held() < settings.enough() && self.lanes.weight() < super::ENOUGH_BYTES;
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
        let tally = match ran {
            Ran::Finished(tally) => tally,
            Ran::Interrupted => {
                self.store_knows_better = self.is_transactional();
                return None;
            }
            Ran::Lost { why } => return Some(Closed::Lost(why)),
            Ran::Broken { why } => return Some(Closed::Failed(why)),
            Ran::Stopped { change, error } => {
                let why = format!("change {} at position {} failed: {error}", change.id, change.position);
                self.stopping = Some(why);
                self.store_knows_better = self.is_transactional();
                return None;
            }
        };
        let parked = tally.parked.len() as u64;
        let handled = batch.changes.len() as u64 - parked - tally.skipped;
        self.setup.feed.stats.count(handled, parked, tally.skipped, tally.failures);
        tally.parked.iter().for_each(|parking| self.lanes.park(parking.change.lane()));
        self.lanes.complete(batch);
        if self.is_transactional() {
            self.saved = upto;
            self.saved_at = clock::now();
        } else {
            self.worked = true;
            self.parkings.extend(tally.parked);
        }
        self.tell_when_caught_up();
        None
    }

    fn start_checkpoint(&mut self, closing: bool) {
        let due = closing || self.checkpoint_due().is_some_and(|due| due <= clock::now());
        let free = self.saving.is_empty() && (self.flying.is_empty() || !self.is_transactional());
        if !due || !free || !self.has_something_to_save() {
            return;
        }
        let tail = tail(&mut self.lanes);
        self.setup.feed.stats.count(0, tail.len() as u64, 0, 0);
        self.parkings.extend(tail);
        let position = self.lanes.low_water().unwrap_or(&self.saved).clone();
        let checkpoint = Checkpoint { position: position.clone(), parked: self.parkings.clone() };
        let (store, lease) = (Arc::clone(&self.setup.store), Arc::clone(&self.lease));
        self.worked = false;
        self.saving.spawn(async move {
            let result = store.checkpoint(&lease, &checkpoint).await;
            if let Err(CheckpointError::Store(_)) = result {
                tokio::time::sleep(RETRY_CHECKPOINT).await;
            }
            (position, checkpoint.parked.len(), result)
        });
    }

    fn has_something_to_save(&self) -> bool {
        if self.store_knows_better {
            return false;
        }
        let moved = self.lanes.low_water().is_some_and(|mark| *mark != self.saved);
        moved || !self.parkings.is_empty() || self.lanes.has_tail()
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
        let pause = if self.lanes.has_tail()
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

    fn checkpointed(
        &mut self,
        position: Position,
        parked: usize,
        result: Result<(), CheckpointError>,
    ) -> Option<Closed> {
        match result {
            Ok(()) => {
                self.saved = position;
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

    fn tell_when_caught_up(&mut self) {
        let idle = self.caught_up && self.lanes.held() == 0 && self.flying.is_empty();
        if idle && !self.told_caught_up && !self.has_something_to_save() {
            self.told_caught_up = true;
            drop(self.setup.news.send(News::CaughtUp(self.lease.id.clone())));
        }
    }
}

/// One batch on its way through the handler, on a task of its own.
struct Work {
    tries: Arc<dyn Try>,
    lease: Arc<Lease>,
    retry: crate::handler::Retry,
    closing: watch::Receiver<bool>,
    /// For transactional handlers: what has to be in the store before the batch may move the checkpoint past it.
    tail: Checkpoint,
}

impl Work {
    async fn run(self, batch: &Batch, upto: &Position) -> Ran {
        if !self.tail.parked.is_empty() {
            let parked = self.tries.give_up(&self.tail.parked, &self.tail.position, &self.lease).await;
            if let Err(error) = parked {
                return Ran::Lost { why: error.to_string() };
            }
        }
        let Work { tries, lease, retry, closing, .. } = self;
        Attempts { tries: &*tries, retry, lease, closing }.run(&batch.changes, upto).await
    }
}

fn tail(lanes: &mut Lanes) -> Vec<Parking> {
    lanes.take_tail().into_iter().map(|change| Parking { change, failure: None }).collect()
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
