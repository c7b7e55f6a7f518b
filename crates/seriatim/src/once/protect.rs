//! The front door: an effect that happens once for each signal.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Attempt, Begun, Held, Ledger, OnTimeout, OnceError, Overrun, ProtectError, Recorded, Settings};
use crate::clock;
use crate::name::{BadName, ProcessorId};
use crate::store::StoreError;

/// One completion in so many sweeps, and then removes a multiple of what was added since the last sweep: the ledger stays bounded
/// however short-lived the callers are.
const SWEEP_ONE_IN: u32 = 256;
const SWEEP_AT_MOST: usize = 1024;

/// An effect that was protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It ran now, and returned this.
    Ran(T),
    /// It had run before, and returned this.
    Duplicate(T),
}

impl<T> Outcome<T> {
    /// What the effect returned, now or before.
    pub fn into_inner(self) -> T {
        match self {
            Outcome::Ran(result) | Outcome::Duplicate(result) => result,
        }
    }
}

/// Has effects happen once for each signal.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use seriatim::once::{MemoryLedger, Once, Outcome};
///
/// let once = Once::new(Arc::new(MemoryLedger::new()), "mailer")
///     .max_processing_time(Duration::from_secs(30))
///     .expires_after(Duration::from_secs(30 * 24 * 3600));
///
/// async fn send_mail(to: &str) -> Result<u32, std::io::Error> {
///     Ok(to.len() as u32)
/// }
/// assert_eq!(once.protect("signal-1", || send_mail("ada@example.org")).await?, Outcome::Ran(15));
/// // The same signal again, perhaps in another process:
/// assert_eq!(once.protect("signal-1", || send_mail("ada@example.org")).await?, Outcome::Duplicate(15));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Once {
    pub(super) ledger: Arc<dyn Ledger>,
    processor: String,
    pub(super) settings: Settings,
}

impl Once {
    /// A processor of this id, with the usual [`Settings`]. All instances of one service share the id, on one ledger.
    pub fn new(ledger: Arc<dyn Ledger>, processor: &str) -> Self {
        Once { ledger, processor: processor.to_owned(), settings: Settings::default() }
    }

    /// Takes all settings at once.
    pub fn settings(self, settings: Settings) -> Self {
        Once { settings, ..self }
    }

    /// The most time that a run takes: strictly after it, another caller takes over.
    pub fn max_processing_time(mut self, limit: Duration) -> Self {
        self.settings.max_processing_time = limit;
        self
    }

    /// After how long a completed signal may run again.
    pub fn expires_after(mut self, after: Duration) -> Self {
        self.settings.expires_after = Some(after);
        self
    }

    /// How long to wait for somebody else's run before giving up with [`OnceError::StillRunning`].
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.settings.max_wait = Some(wait);
        self
    }

    /// How soon to look again at somebody else's run, at first and at the slowest.
    pub fn poll(mut self, first: Duration, longest: Duration) -> Self {
        (self.settings.poll_first, self.settings.poll_longest) = (first, longest);
        self
    }

    /// Runs give signs of life three times in each `max_processing_time`, and may so take longer. A run that cannot give them, or that
    /// lost its claim, is stopped: its future is dropped.
    pub fn heartbeat(mut self) -> Self {
        self.settings.heartbeat = true;
        self
    }

    /// What a run that timed out becomes.
    pub fn on_timeout(mut self, policy: OnTimeout) -> Self {
        self.settings.on_timeout = policy;
        self
    }

    /// What happens to a run that takes longer than `max_processing_time`.
    pub fn overrun(mut self, policy: Overrun) -> Self {
        self.settings.overrun = policy;
        self
    }

    /// The longest result, in bytes of JSON, that is kept. The signal of an effect that returns more is completed all the
    /// same; duplicates of it then get [`OnceError::ResultNotKept`].
    pub fn result_limit(mut self, bytes: usize) -> Self {
        self.settings.result_limit = bytes;
        self
    }

    /// The longest result that is kept: what was asked for, or what the ledger can take.
    pub fn largest_result(&self) -> usize {
        self.settings.result_limit.min(self.ledger.largest_result())
    }

    pub(super) fn processor(&self) -> Result<ProcessorId, BadName> {
        ProcessorId::new(&self.processor)
    }

    /// Runs the effect, unless the signal has been handled: then returns what the effect returned that time.
    ///
    /// Of any number of callers in any number of processes, one runs at a time. An effect that fails gives its claim back at
    /// once. A process that dies leaves its claim; strictly after `max_processing_time`, exactly one other caller takes over.
    ///
    /// Dropping the future while the effect runs drops the effect and *leaves the claim to time out*, as a crash would: nobody
    /// knows how far the effect had come. Dropping it while it waits leaves nothing. A panic of the effect goes on to the
    /// caller, and is a crash to the ledger too.
    pub async fn protect<T, E, Effect, Running>(
        &self,
        id: &str,
        effect: Effect,
    ) -> Result<Outcome<T>, ProtectError<E>>
    where
        T: Serialize + DeserializeOwned,
        Effect: FnOnce() -> Running,
        Running: Future<Output = Result<T, E>>,
    {
        match self.start(id).await? {
            Begun::Duplicate(recorded) => {
                let signal = super::Signal {
                    processor: self.processor().map_err(OnceError::from)?,
                    id: super::SignalId::new(id).map_err(OnceError::from)?,
                };
                Ok(Outcome::Duplicate(recorded.read(&signal)?))
            }
            Begun::Run(attempt) => self.run(attempt, effect()).await.map(Outcome::Ran),
        }
    }

    async fn run<T, E>(
        &self,
        attempt: Attempt,
        effect: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ProtectError<E>>
    where
        T: Serialize,
    {
        let ended = tokio::select! {
            biased;
            ended = effect => ended,
            stopped = self.watch_over(attempt.clone()) => return Err(stopped.into()),
        };
        match ended {
            Ok(result) => {
                self.complete(&attempt, Recorded::json(&result, self.largest_result())).await?;
                Ok(result)
            }
            Err(failure) => {
                self.fail(&attempt).await;
                Err(ProtectError::Failed(failure))
            }
        }
    }

    /// Returns when the effect of this attempt is to be stopped, and why. Never returns when it may take what time it
    /// wants.
    pub async fn watch_over(&self, mut attempt: Attempt) -> OnceError {
        if self.settings.heartbeat {
            return self.beat(&mut attempt).await;
        }
        match self.settings.overrun {
            Overrun::Finish => std::future::pending().await,
            Overrun::Stop => tokio::time::sleep_until(attempt.deadline()).await,
        }
        too_long(&attempt)
    }

    async fn beat(&self, attempt: &mut Attempt) -> OnceError {
        let every = self.settings.max_processing_time / 3;
        loop {
            tokio::time::sleep(every).await;
            // Others may take over after the deadline: an attempt that could not say by then that it is alive stops.
            let beating = self.beat_until_heard(attempt);
            match tokio::time::timeout_at(attempt.deadline(), beating).await {
                Ok(Ok((Held::Kept, asked))) => attempt.since = asked,
                Ok(Ok((Held::Lost, _))) => return attempt.superseded(),
                Ok(Err(error)) => return error.into(),
                Err(_) => return too_long(attempt),
            }
        }
    }

    async fn beat_until_heard(&self, attempt: &Attempt) -> Result<(Held, tokio::time::Instant), StoreError> {
        loop {
            let asked = clock::now();
            match self.ledger.extend(&attempt.claim).await {
                Err(StoreError::Unavailable { .. }) => {
                    tokio::time::sleep(self.settings.max_processing_time / 20).await;
                }
                answered => return Ok((answered?, asked)),
            }
        }
    }

    pub(super) async fn sweep_now_and_then(&self) {
        if fastrand::u32(..SWEEP_ONE_IN) > 0 {
            return;
        }
        if let Err(error) = self.ledger.sweep(SWEEP_AT_MOST).await {
            tracing::debug!("expired signals are swept another time: {error}");
        }
    }
}

fn too_long(attempt: &Attempt) -> OnceError {
    OnceError::TookTooLong { signal: attempt.signal().clone(), limit: attempt.claim.max_processing_time }
}
