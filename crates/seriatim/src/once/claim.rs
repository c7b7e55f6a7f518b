//! Getting a claim, keeping it and ending it: the parts that [`Once::protect`](super::Once::protect) is made of, for callers
//! whose effect is not a future.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::Instant;

use super::{
    AttemptId, Claim, Completion, Held, OnTimeout, Once, OnceError, Record, Recorded, Run, Signal, SignalId,
    Standstill, Started, State, Step, decide,
};
use crate::clock;
use crate::store::StoreError;

/// The first pause after a ledger failed; each is twice the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// The longest pause after a ledger failed.
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// How long a caller that is to stop waits for the answer to its claim, and then for the end of it.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(2);

/// For how long a ledger that is unavailable is asked again.
struct Patience {
    until: Instant,
    pause: Duration,
    tries: u32,
}

impl Patience {
    fn until(until: Instant) -> Self {
        Patience { until, pause: PAUSE_FIRST, tries: 0 }
    }

    /// Pauses after a failure that may pass, so that the caller can ask again; at least once, as an answer may just have
    /// been lost.
    async fn again_after(&mut self, error: StoreError) -> Result<(), StoreError> {
        let worth_it = self.tries == 0 || clock::now() + self.pause < self.until;
        match error {
            StoreError::Unavailable { .. } if worth_it => {
                tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                (self.pause, self.tries) = ((self.pause * 2).min(PAUSE_LONGEST), self.tries + 1);
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// Asks until there is an answer, or patience ends.
macro_rules! patiently {
    ($until:expr, $ask:expr) => {{
        let mut patience = Patience::until($until);
        loop {
            match $ask.await {
                Ok(answer) => break Ok(answer),
                Err(error) => {
                    if let Err(error) = patience.again_after(error).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}

/// The right to run an effect now, and to say afterwards what became of it.
///
/// Dropping it does nothing: the claim is left to time out, as after a crash.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(super) claim: Claim,
    /// Before the claim was asked for, or last extended: everybody else counts from later.
    pub(super) since: Instant,
    /// Which attempt it is, counted from one.
    pub number: u64,
}

impl Attempt {
    /// Its id: all that another process needs to [`Once::resume`] it.
    pub fn id(&self) -> &AttemptId {
        &self.claim.attempt
    }

    /// The signal that it is about.
    pub fn signal(&self) -> &Signal {
        &self.claim.signal
    }

    /// When others may take over at the earliest, unless it is extended.
    pub fn deadline(&self) -> Instant {
        self.since + self.claim.max_processing_time
    }

    pub(super) fn superseded(&self) -> OnceError {
        OnceError::Superseded { signal: self.signal().clone(), attempt: self.number }
    }
}

/// An attempt that another process began.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The attempt. Its deadline is counted from when it was resumed, and may be earlier.
    pub attempt: Attempt,
    /// Where its signal stands: a completed one has nothing left to extend or to give back.
    pub state: State,
}

/// How a signal stands when [`Once::start`] returns.
#[derive(Clone, Debug)]
pub enum Begun {
    /// It is the caller's to run.
    Run(Attempt),
    /// It took effect before: this is what it returned.
    Duplicate(Recorded),
}

/// How [`Once::start_unless`] ended.
#[derive(Clone, Debug)]
pub enum Entry<S> {
    /// As [`Once::start`] does.
    Begun(Begun),
    /// The wish to stop came first, and this is what it was. Nothing is held.
    Stopped(S),
}

/// One caller's way to a decision.
struct Search<'a> {
    once: &'a Once,
    signal: Signal,
    began: Instant,
    standstill: Standstill,
    pause: Duration,
}

/// What a caller does next, after a step.
enum Next {
    Start(Option<Run>),
    Look,
    /// Look again after this.
    Wait(Duration),
    Return(Begun),
}

impl Once {
    /// Claims a signal, waiting for somebody else's run where there is one.
    ///
    /// Dropping the future before it returns leaves at most a claim that times out; [`Once::start_unless`] leaves none.
    pub async fn start(&self, id: &str) -> Result<Begun, OnceError> {
        match self.start_unless(id, std::future::pending::<Infallible>()).await? {
            Entry::Begun(begun) => Ok(begun),
            Entry::Stopped(never) => match never {},
        }
    }

    /// As [`Once::start`], unless `stop` resolves first. A claim that is being asked for then is given back before this returns, within
    /// some seconds: the next caller does not wait for it, and nobody has to ask whether it took effect.
    pub async fn start_unless<S>(
        &self,
        id: &str,
        stop: impl Future<Output = S>,
    ) -> Result<Entry<S>, OnceError> {
        let signal = Signal { processor: self.processor()?, id: SignalId::new(id)? };
        let (began, pause) = (clock::now(), self.settings.poll_first);
        let mut search = Search { once: self, signal, began, standstill: Standstill::default(), pause };
        let mut next = Next::Start(None);
        tokio::pin!(stop);
        loop {
            next = match next {
                Next::Return(begun) => return Ok(Entry::Begun(begun)),
                Next::Start(replacing) => {
                    let claim = self.claim(&search.signal);
                    let mut starting = Box::pin(search.start(&claim, replacing.as_ref()));
                    tokio::select! {
                        biased;
                        next = &mut starting => next?,
                        stopped = &mut stop => {
                            self.withdraw(&claim, starting).await;
                            return Ok(Entry::Stopped(stopped));
                        }
                    }
                }
                // Whoever looks or waits holds nothing.
                Next::Look => tokio::select! {
                    biased;
                    next = search.look() => next?,
                    stopped = &mut stop => return Ok(Entry::Stopped(stopped)),
                },
                Next::Wait(pause) => tokio::select! {
                    biased;
                    () = tokio::time::sleep(pause) => Next::Look,
                    stopped = &mut stop => return Ok(Entry::Stopped(stopped)),
                },
            }
        }
    }

    /// Learns what became of a claim that was asked for, and gives it back. A request that is left alone could still arrive after
    /// the claim was given back.
    async fn withdraw(&self, claim: &Claim, starting: impl Future<Output = Result<Next, OnceError>>) {
        let given_back = async {
            match tokio::time::timeout(ANSWER_WITHIN, starting).await {
                Ok(Ok(Next::Return(Begun::Run(_)))) | Err(_) => self.ledger.fail(claim).await.map(drop),
                // It was not claimed, or the failure has given it back.
                Ok(_) => Ok(()),
            }
        };
        let left = match tokio::time::timeout(ANSWER_WITHIN + GIVE_BACK_WITHIN, given_back).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the ledger does not answer".to_owned(),
        };
        tracing::warn!("{} was being claimed and may be left to time out: {left}", claim.signal);
    }

    /// A sign of life: the attempt's time counts from now. Fails with [`OnceError::Superseded`] when somebody else has it.
    pub async fn extend(&self, attempt: &mut Attempt) -> Result<(), OnceError> {
        let asked = clock::now();
        match self.ledger.extend(&attempt.claim).await? {
            Held::Kept => attempt.since = asked,
            Held::Lost => return Err(attempt.superseded()),
        }
        Ok(())
    }

    /// Records that the effect happened. Fails with [`OnceError::Superseded`] when somebody else has the signal by now.
    pub async fn complete(&self, attempt: &Attempt, result: Recorded) -> Result<(), OnceError> {
        if let Recorded::NotKept(why) = &result {
            tracing::warn!("{} is handled, but {why}: duplicates of it will fail", attempt.signal());
        }
        let completion = Completion { result, expires_after: self.settings.expires_after };
        let until = clock::now() + self.settings.max_processing_time.max(self.settings.patience());
        let completed = patiently!(until, self.ledger.complete(&attempt.claim, &completion));
        match completed {
            Ok(Held::Kept) => self.sweep_now_and_then().await,
            Ok(Held::Lost) => return Err(attempt.superseded()),
            Err(cause) => return Err(OnceError::NotRecorded { signal: attempt.signal().clone(), cause }),
        }
        Ok(())
    }

    /// Gives the claim back: the next caller runs at once. A ledger that cannot be reached leaves it to time out.
    pub async fn fail(&self, attempt: &Attempt) {
        let failed = patiently!(attempt.deadline(), self.ledger.fail(&attempt.claim));
        if let Err(error) = failed {
            tracing::warn!("{} failed and is left to time out: {error}", attempt.signal());
        }
    }

    /// An attempt that another process began with [`Once::start`], to extend, complete or give it back from here.
    ///
    /// Fails with [`OnceError::Superseded`] when it no longer counts: another attempt has the signal, or none.
    pub async fn resume(&self, id: &str, attempt: &AttemptId) -> Result<Resumed, OnceError> {
        let signal = Signal { processor: self.processor()?, id: SignalId::new(id)? };
        let since = clock::now();
        let found = patiently!(since + self.settings.patience(), self.ledger.show(&signal))?;
        let Some(record) = found.filter(|record| record.run.attempt == *attempt) else {
            return Err(OnceError::Superseded { signal, attempt: 0 });
        };
        let kept_for = self.kept_for(attempt.is_kept());
        let max_processing_time = record.max_processing_time;
        let claim = Claim { signal, attempt: attempt.clone(), max_processing_time, kept_for };
        Ok(Resumed { attempt: Attempt { claim, since, number: record.number }, state: record.state })
    }

    fn claim(&self, signal: &Signal) -> Claim {
        let attempt = match self.settings.on_timeout {
            OnTimeout::Rerun => AttemptId::random(),
            OnTimeout::Unknown => AttemptId::random().kept(),
        };
        let kept_for = self.kept_for(attempt.is_kept());
        let max_processing_time = self.settings.max_processing_time;
        Claim { signal: signal.clone(), attempt, max_processing_time, kept_for }
    }

    /// For how long a run is remembered of which nothing is heard. One that may have happened and is not to be repeated blindly is
    /// not forgotten by the mere passing of time.
    fn kept_for(&self, until_resolved: bool) -> Option<Duration> {
        self.settings.expires_after.filter(|_| !until_resolved)
    }
}

impl Search<'_> {
    async fn start(&mut self, claim: &Claim, replacing: Option<&Run>) -> Result<Next, OnceError> {
        // If an answer was lost, the claim may be as old as the first time it was asked for.
        let since = clock::now();
        let mut asked;
        let ledger = &self.once.ledger;
        let started = patiently!(self.until(), {
            asked = clock::now();
            ledger.start(claim, replacing)
        });
        match started {
            Ok(Started::Claimed { number }) => {
                self.claimed(Attempt { claim: claim.clone(), since, number }).await
            }
            Ok(Started::Found(record)) => self.decide(Some(&record), asked, clock::now()).await,
            Err(error) => {
                // The claim may be there all the same, and nobody will run: better to give it back than to have others wait.
                drop(ledger.fail(claim).await);
                Err(error.into())
            }
        }
    }

    /// The answer may have been long on its way: the claim must not be running out when the effect begins.
    async fn claimed(&mut self, mut attempt: Attempt) -> Result<Next, OnceError> {
        while clock::now() >= attempt.since + attempt.claim.max_processing_time / 2 {
            match self.once.extend(&mut attempt).await {
                Ok(()) => {}
                Err(OnceError::Superseded { .. }) => return Ok(Next::Look),
                Err(error) => {
                    self.once.fail(&attempt).await;
                    return Err(error);
                }
            }
        }
        Ok(Next::Return(Begun::Run(attempt)))
    }

    async fn look(&mut self) -> Result<Next, OnceError> {
        let mut asked;
        let ledger = &self.once.ledger;
        let found = patiently!(self.until(), {
            asked = clock::now();
            ledger.show(&self.signal)
        })?;
        self.decide(found.as_ref(), asked, clock::now()).await
    }

    async fn decide(
        &mut self,
        found: Option<&Record>,
        asked: Instant,
        received: Instant,
    ) -> Result<Next, OnceError> {
        let settings = &self.once.settings;
        let stood_still = found.map(|record| self.standstill.observe(record, asked, received));
        let (stood_still, waited) = (stood_still.unwrap_or_default(), received - self.began);
        match decide(found, stood_still, waited, settings.patience(), settings.on_timeout) {
            Step::Claim { replacing } => Ok(Next::Start(replacing.cloned())),
            Step::Return(recorded) => {
                let missing = || Recorded::NotKept("its result is not there".to_owned());
                Ok(Next::Return(Begun::Duplicate(recorded.cloned().unwrap_or_else(missing))))
            }
            Step::Doubt(run) => {
                let ledger = &self.once.ledger;
                patiently!(self.until(), ledger.doubt(&self.signal, run))?;
                Ok(Next::Look)
            }
            Step::Wait { at_most } => Ok(Next::Wait(self.next_pause().min(at_most))),
            Step::AskSomebody => {
                Err(OnceError::Unknown { signal: self.signal.clone(), attempt: attempt_of(found) })
            }
            Step::GiveUp => {
                let attempt = attempt_of(found);
                Err(OnceError::StillRunning { signal: self.signal.clone(), attempt, waited })
            }
        }
    }

    /// Until when a ledger that fails is asked again.
    fn until(&self) -> Instant {
        self.began + self.once.settings.patience()
    }

    /// Longer each time, and not the same for all who wait.
    fn next_pause(&mut self) -> Duration {
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(self.once.settings.poll_longest);
        pause
    }
}

fn attempt_of(found: Option<&Record>) -> u64 {
    found.map_or(0, |record| record.number)
}
