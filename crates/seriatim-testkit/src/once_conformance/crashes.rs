//! Processes that die between start, effect and completion, and answers that are lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seriatim::once::{Held, Ledger, Once, Outcome, ProtectError, State};

use super::LedgerHarness;
use super::stage::{SHORT, Stage, completion, kept, once};
use crate::faulty::{Fault, FaultyLedger, LedgerOperation};

/// A ledger with faults, a processor on it whose runs have little time, and how often its effect ran.
struct Doomed {
    stage: Stage,
    faulty: Arc<FaultyLedger>,
    once: Once,
    runs: Arc<AtomicUsize>,
}

impl Doomed {
    async fn set(harness: &impl LedgerHarness) -> Self {
        let stage = Stage::set(harness).await;
        let faulty = Arc::new(FaultyLedger::new(stage.ledger.clone()));
        let ledger: Arc<dyn Ledger> = faulty.clone();
        let once = once(&ledger).max_processing_time(SHORT);
        Doomed { stage, faulty, once, runs: Arc::default() }
    }

    async fn protect(&self, once: &Once) -> Outcome<usize> {
        let effect = async || Ok::<_, Infallible>(self.runs.fetch_add(1, Ordering::SeqCst) + 1);
        once.protect("1", effect).await.unwrap()
    }

    /// A process that runs until this operation, and dies there: before it happens.
    async fn dies_at(&self, operation: LedgerOperation) {
        let hold = self.faulty.hold(operation);
        tokio::select! {
            outcome = self.protect(&self.once) => panic!("it should have died: {outcome:?}"),
            () = hold.reached() => {}
        }
    }

    /// Somebody else comes, and everybody after that gets what it got.
    async fn is_handled_by_others(&self) -> Outcome<usize> {
        let other = once(&self.stage.other);
        let outcome = self.protect(&other).await;
        let result = outcome.clone().into_inner();
        for _ in 0..2 {
            assert_eq!(self.protect(&other).await, Outcome::Duplicate(result));
        }
        assert_eq!(self.stage.sees("1").await.result, Some(kept(&result.to_string())));
        outcome
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// Whether it died before its claim, or after.
pub async fn a_crash_before_the_effect_loses_nothing(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    doomed.dies_at(LedgerOperation::Start).await;
    assert!(doomed.stage.is_gone("1").await);
    doomed.stage.dies("1").await;
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Ran(1));
    assert_eq!(doomed.stage.sees("1").await.number, 2);
}

/// The effect happens twice, as nobody can know; its completion is one.
pub async fn a_crash_after_the_effect_completes_once(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    doomed.dies_at(LedgerOperation::Complete).await;
    assert_eq!(doomed.runs(), 1);
    assert_eq!(doomed.stage.sees("1").await.state, State::Running);
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Ran(2));
    assert_eq!(doomed.runs(), 2);
}

/// Although the dead one's caller never heard of it.
pub async fn a_crash_after_the_completion_is_a_duplicate(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    let claim = doomed.stage.claims("1").await;
    doomed.stage.ledger.complete(&claim, &completion("7", None)).await.unwrap();
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Duplicate(7));
    assert_eq!(doomed.runs(), 0);
}

/// The retry recognises its own claim, and waits for nobody.
pub async fn a_lost_answer_to_a_start_is_no_second_claim(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    doomed.faulty.next(LedgerOperation::Start, Fault::After);
    let once = once(&(doomed.faulty.clone() as Arc<dyn Ledger>));
    assert_eq!(doomed.protect(&once).await, Outcome::Ran(1));
    assert_eq!(doomed.faulty.calls(LedgerOperation::Start), 2);
    assert_eq!(doomed.stage.sees("1").await.number, 1);
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Duplicate(1));
}

/// It is recorded, and the retry says so.
pub async fn a_lost_answer_to_a_completion_is_no_second_run(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    doomed.faulty.next(LedgerOperation::Complete, Fault::After);
    doomed.faulty.next(LedgerOperation::Complete, Fault::Before);
    let once = once(&(doomed.faulty.clone() as Arc<dyn Ledger>));
    assert_eq!(doomed.protect(&once).await, Outcome::Ran(1));
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Duplicate(1));
    assert_eq!(doomed.runs(), 1);
}

/// The successor recognises its own claim too.
pub async fn a_lost_answer_to_a_take_over_is_no_second_claim(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    let dead = doomed.stage.dies("1").await;
    doomed.faulty.next(LedgerOperation::Start, Fault::Before);
    doomed.faulty.next(LedgerOperation::Start, Fault::After);
    doomed.faulty.next(LedgerOperation::Start, Fault::After);
    let once = once(&(doomed.faulty.clone() as Arc<dyn Ledger>));
    assert_eq!(doomed.protect(&once).await, Outcome::Ran(1));
    assert_eq!(doomed.stage.sees("1").await.number, 2);
    assert_eq!(doomed.stage.ledger.complete(&dead, &completion("0", None)).await.unwrap(), Held::Lost);
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Duplicate(1));
}

/// It is given back, and nobody's new claim with it.
pub async fn a_lost_answer_to_giving_back_runs_once_more(harness: &impl LedgerHarness) {
    let doomed = Doomed::set(harness).await;
    doomed.faulty.next(LedgerOperation::Fail, Fault::After);
    let once = once(&(doomed.faulty.clone() as Arc<dyn Ledger>));
    let failed = once.protect("1", async || Err::<usize, _>("no")).await;
    assert!(matches!(failed, Err(ProtectError::Failed("no"))), "{failed:?}");
    assert_eq!(doomed.faulty.calls(LedgerOperation::Fail), 2);
    assert_eq!(doomed.is_handled_by_others().await, Outcome::Ran(1));
    assert_eq!(doomed.stage.sees("1").await.number, 1);
}
