//! One session of a worker, shared by its lanes and its keeper.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Mutex, RwLock, watch};
use tokio::time::Instant;

use super::run::Until;
use super::{Sender, WorkerSettings};
use crate::clock;
use crate::handler::Failure;
use crate::host::Stats;
use crate::lease::{Joined, Trust};
use crate::name::Epoch;
use crate::queue::{Action, Answer, Event, Hold, Lane, Next, Queue, Take, WorkerSession};
use crate::store::StoreError;

/// How long a lane waits after the queue did not answer.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Working,
    Closing,
    Lost,
    Stopped(String),
}

/// One session and what it does.
pub(super) struct Life {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) session: WorkerSession,
    pub(super) settings: WorkerSettings,
    until: Until,
    phase: watch::Sender<Phase>,
    /// One idle lane at a time waits for objects; the others queue behind it.
    turn: Mutex<()>,
    /// Shared by those who take objects; who has it alone knows that nothing is held that is not known.
    taking: RwLock<()>,
    /// What lanes hold.
    known: StdMutex<Known>,
    trust: Trust,
    /// When the first sign of life after joining is due.
    pub(super) first_beat: Instant,
    stats: Arc<Stats>,
}

#[derive(Default)]
struct Known {
    /// The epochs under which lanes hold objects.
    epochs: HashSet<Epoch>,
    /// Held by the session, and by no lane: an answer was lost.
    forgotten: Vec<Hold>,
}

impl Life {
    pub(super) fn new(
        queue: Arc<dyn Queue>,
        joined: Joined<WorkerSession>,
        settings: WorkerSettings,
        until: Until,
        stats: Arc<Stats>,
    ) -> Arc<Self> {
        let Joined { session, asked } = joined;
        let trust = Trust::begin(settings.leases.trust(), asked);
        let first_beat = asked + settings.leases.renew;
        Arc::new(Life {
            queue,
            session,
            settings,
            until,
            phase: watch::Sender::new(Phase::Working),
            turn: Mutex::default(),
            taking: RwLock::default(),
            known: StdMutex::default(),
            trust,
            first_beat,
            stats,
        })
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(super) fn close(&self) {
        self.move_to(Phase::Closing);
    }

    fn move_to(&self, phase: Phase) -> bool {
        self.phase.send_if_modified(|now| {
            // Lost and stopped are the end, whatever comes after.
            let moves = matches!(now, Phase::Working | Phase::Closing) && *now != phase;
            if moves {
                *now = phase;
            }
            moves
        })
    }

    /// The session was replaced.
    pub(super) fn lost(&self) {
        if self.move_to(Phase::Lost) {
            self.known().epochs.iter().for_each(|_| self.stats.count_lost());
        }
    }

    /// Trying again is no use: the worker stops, and says why.
    pub(super) fn stop(&self, why: String) {
        if self.move_to(Phase::Stopped(why.clone())) {
            tracing::error!(worker = %self.session.worker, "stops: {why}");
        }
    }

    /// Gives a sign of life, and finds what is held without a lane knowing it.
    pub(super) async fn beat(&self) -> Result<(), StoreError> {
        // A call that hangs keeps nobody from giving a sign of life: what is held unknown is then found another time.
        let patience = self.settings.leases.renew / 3;
        let nobody_takes = tokio::time::timeout(patience, self.taking.write()).await;
        let asked = clock::now();
        match self.queue.beat(&self.session).await? {
            None => self.lost(),
            Some(holds) => {
                self.trust.renewed(asked);
                if nobody_takes.is_ok() {
                    let mut known = self.known();
                    known.forgotten =
                        holds.into_iter().filter(|hold| !known.epochs.contains(&hold.epoch)).collect();
                }
            }
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody can have judged this worker dead yet.
    fn is_trusted(&self) -> bool {
        clock::now() < self.trusted_until()
    }

    fn trusted_until(&self) -> Instant {
        #[cfg(feature = "simulation")]
        if crate::simulation::has(crate::simulation::Mutant::SendWithoutTrust) {
            return clock::now() + Duration::from_secs(3600);
        }
        self.trust.until()
    }

    /// Returns when somebody may have judged this worker dead.
    async fn until_untrusted(&self) {
        while self.is_trusted() {
            tokio::time::sleep_until(self.trusted_until()).await;
        }
    }

    /// Works on one object after another until the life ends.
    pub(super) async fn run_lane(self: Arc<Self>, sender: Arc<dyn Sender>) {
        let mut lane = Lane::new(self.settings.retry);
        let mut phase = self.phase.subscribe();
        loop {
            match self.phase() {
                Phase::Lost => return,
                Phase::Closing | Phase::Stopped(_) if lane.is_idle() => return,
                Phase::Closing | Phase::Stopped(_) => lane.close(),
                Phase::Working => {}
            }
            let held = lane.hold().map(|hold| hold.epoch);
            // What the queue is asked to do is never given up halfway: whether it happened must be learnt, or found out.
            let more = match lane.action() {
                Action::Take => self.take(&mut lane, &mut phase).await,
                Action::Send { event, attempt } => {
                    self.stats.count_redelivered(u64::from(attempt > 1));
                    self.send(&mut lane, event, &*sender, &mut phase).await
                }
                Action::Pause(pause) => self.pause(&mut lane, pause, &mut phase).await,
                Action::Stop { why } => {
                    self.stop(why);
                    false
                }
                action => self.tell(&mut lane, action).await,
            };
            if let Some(epoch) = held.filter(|_| lane.is_idle()) {
                self.known().epochs.remove(&epoch);
            }
            if !more {
                return;
            }
        }
    }

    /// Takes an object, or waits until there may be one. `false` when the lane is to end.
    async fn take(&self, lane: &mut Lane, phase: &mut watch::Receiver<Phase>) -> bool {
        let mut taken = self.take_one(lane).await;
        let mut turn = None;
        if matches!(taken, Ok(Answer::Nothing)) && self.until == Until::ShutDown {
            turn = tokio::select! {
                biased;
                turn = self.turn.lock() => Some(turn),
                _ = phase.changed() => return true,
            };
            if self.phase() != Phase::Working {
                return true;
            }
            taken = self.take_one(lane).await;
        }
        match taken {
            Ok(Answer::Nothing) if self.until == Until::Drained => return false,
            Ok(Answer::Nothing) => tokio::select! {
                biased;
                () = self.queue.wait(self.settings.idle) => {}
                _ = phase.changed() => {}
            },
            Ok(answer) => lane.answer(answer, fastrand::f64()),
            Err(error @ StoreError::NeedsAttention { .. }) => self.stop(error.to_string()),
            Err(error) => {
                tracing::warn!(worker = %self.session.worker, "could not take an object, trying again: {error}");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
        drop(turn);
        true
    }

    async fn take_one(&self, lane: &mut Lane) -> Result<Answer, StoreError> {
        let _taking = self.taking.read().await;
        let forgotten = self.known().forgotten.pop();
        if let Some(hold) = forgotten {
            self.known().epochs.insert(hold.epoch);
            lane.adopt(hold);
            // The state has moved already; this answer belongs to no action of it.
            return Ok(Answer::Paused);
        }
        match self.queue.take(&self.session, self.settings.batch).await? {
            Take::Taken(taken) => {
                self.known().epochs.insert(taken.hold.epoch);
                self.stats.count_acquired();
                Ok(Answer::Taken(taken))
            }
            Take::Nothing => Ok(Answer::Nothing),
            Take::SessionLost => {
                self.lost();
                Ok(Answer::Lost)
            }
        }
    }

    async fn send(
        &self,
        lane: &mut Lane,
        event: Event,
        sender: &dyn Sender,
        phase: &mut watch::Receiver<Phase>,
    ) -> bool {
        if !self.is_trusted() {
            // Somebody else may be at it. If not, the next sign of life will find it held by no lane.
            lane.answer(Answer::Lost, 0.0);
            tokio::time::sleep(AFTER_ERROR).await;
            return true;
        }
        let at = event.at;
        let sending = AssertUnwindSafe(sender.send(event)).catch_unwind();
        let sent = tokio::select! {
            biased;
            () = until_lost(phase) => return false,
            // Somebody else may be about to send it.
            () = self.until_untrusted() => {
                lane.answer(Answer::Lost, 0.0);
                return true;
            }
            sent = tokio::time::timeout(self.settings.timeout, sending) => sent,
        };
        let answer = match sent {
            Ok(Ok(Ok(()))) => Answer::Sent,
            Ok(Ok(Err(failure))) => Answer::Failed(failure),
            Ok(Err(panic)) => Answer::Failed(Failure::panicked(&*panic)),
            Err(_) => Answer::Failed(Failure::too_slow(self.settings.timeout)),
        };
        let is_sent = matches!(answer, Answer::Sent);
        lane.answer(answer, fastrand::f64());
        match is_sent {
            true => {
                self.stats.count(1, 0, 0, 0);
                self.stats.count_times(std::iter::once(at), clock::wall());
            }
            false => self.stats.count(0, 0, u64::from(has_passed_it(lane)), 1),
        }
        true
    }

    async fn pause(&self, lane: &mut Lane, pause: Duration, phase: &mut watch::Receiver<Phase>) -> bool {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => lane.answer(Answer::Paused, 0.0),
            _ = phase.changed() => {}
        }
        true
    }

    /// Has the queue do something with the held object; again, when it did not answer.
    async fn tell(&self, lane: &mut Lane, action: Action) -> bool {
        match self.told(action).await {
            Ok(answer) => {
                match answer {
                    Answer::Parked => self.stats.count(0, 1, 0, 0),
                    Answer::Next(Next::Events(_) | Next::Released) => self.stats.count_checkpoint(),
                    Answer::Lost | Answer::Next(Next::Lost) => self.stats.count_lost(),
                    _ => {}
                }
                lane.answer(answer, 0.0);
            }
            Err(error @ StoreError::NeedsAttention { .. }) => {
                self.stop(error.to_string());
                // The queue cannot be told. The next worker sends what was not recorded, the same byte for byte.
                lane.answer(Answer::Lost, 0.0);
            }
            Err(error) => {
                tracing::warn!(worker = %self.session.worker, "the queue did not answer, trying again: {error}");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
        true
    }

    async fn told(&self, action: Action) -> Result<Answer, StoreError> {
        Ok(match action {
            Action::Next { hold, sent } => {
                Answer::Next(self.queue.next(&hold, sent, self.settings.batch).await?)
            }
            Action::Park { hold, sent, failure } => {
                tracing::warn!(object = %hold.object, attempts = failure.attempts, "parked: {}", failure.error);
                match self.queue.park(&hold, sent, &failure).await? {
                    true => Answer::Parked,
                    false => Answer::Lost,
                }
            }
            Action::Release { hold, sent } => {
                self.queue.release(&hold, sent).await?;
                Answer::Released
            }
            Action::Take | Action::Send { .. } | Action::Pause(_) | Action::Stop { .. } => Answer::Paused,
        })
    }
}

/// Whether an event that failed was skipped: the next one is to be sent, or what was sent is to be recorded.
fn has_passed_it(lane: &Lane) -> bool {
    matches!(lane.action(), Action::Send { attempt: 1, .. } | Action::Next { .. })
}

/// Returns when the session is lost, never otherwise.
async fn until_lost(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::Lost).await.is_err() {
        std::future::pending::<()>().await;
    }
}
