//! Many callers at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{Held, Ledger, Once, OnceError, Outcome, ProtectError, State};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::LedgerHarness;
use super::stage::{LONG, SHORT, Stage, completion, kept, once, signal, timed, until};
use crate::faulty::{FaultyLedger, LedgerOperation};

const CALLERS: usize = 100;

/// What a crowd of callers of one signal came to.
struct Crowd {
    ran: usize,
    duplicates: usize,
    began: Vec<Instant>,
}

/// A hundred callers of the signal `1`, on both handles; each would return its own number.
async fn crowd(stage: &Stage) -> Crowd {
    let mut callers = JoinSet::new();
    let barrier = Arc::new(Barrier::new(CALLERS));
    for number in 0..CALLERS {
        let once = if number % 2 == 0 { once(&stage.ledger) } else { once(&stage.other) };
        let barrier = barrier.clone();
        callers.spawn(async move {
            barrier.wait().await;
            let mut began = None;
            let effect = async {
                began = Some(clock::now());
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(number)
            };
            let outcome = once.protect("1", || effect).await.unwrap();
            (outcome, began)
        });
    }
    let outcomes = callers.join_all().await;
    let ran = outcomes.iter().filter(|(outcome, _)| matches!(outcome, Outcome::Ran(_))).count();
    let began = outcomes.iter().filter_map(|(_, began)| *began).collect();
    let results: Vec<usize> = outcomes.into_iter().map(|(outcome, _)| outcome.into_inner()).collect();
    assert!(results.iter().all(|result| *result == results[0]), "all get the same result: {results:?}");
    Crowd { ran, duplicates: results.len() - ran, began }
}

/// The others are told that they are duplicates.
pub async fn of_a_hundred_callers_one_runs_and_all_get_its_result(harness: &impl LedgerHarness) {
    let crowd = crowd(&Stage::set(harness).await).await;
    assert_eq!((crowd.ran, crowd.duplicates, crowd.began.len()), (1, CALLERS - 1, 1));
}

/// Not at it: by whichever clock, nobody is early.
pub async fn a_dead_run_is_taken_over_by_one_strictly_after_its_time(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let before = clock::now();
    let dead = stage.dies("1").await;
    let crowd = crowd(&stage).await;
    assert_eq!((crowd.ran, crowd.duplicates, crowd.began.len()), (1, CALLERS - 1, 1));
    assert!(crowd.began[0] - before > SHORT, "taken over after {:?}", crowd.began[0] - before);
    assert_eq!(stage.sees("1").await.number, 2);
    assert_eq!(stage.ledger.complete(&dead, &completion("old", None)).await.unwrap(), Held::Lost);
}

/// The seed of many doubled mails: whoever waits must claim before it runs.
pub async fn a_record_forgotten_while_two_wait_is_run_by_one(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.claims("1").await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut waiters = JoinSet::new();
    let watched = [&stage.ledger, &stage.other].map(|ledger| Arc::new(FaultyLedger::new(ledger.clone())));
    for ledger in &watched {
        let (once, runs) = (once(&(ledger.clone() as Arc<dyn Ledger>)), runs.clone());
        waiters.spawn(async move {
            let effect = async || Ok::<_, Infallible>(runs.fetch_add(1, Ordering::SeqCst));
            once.protect("1", effect).await.unwrap()
        });
    }
    // Who looks for the second time has found somebody else's run and waits for it.
    until(async || watched.iter().all(|ledger| ledger.calls(LedgerOperation::Show) > 0)).await;
    let seen = stage.sees("1").await.run;
    assert!(stage.ledger.forget(&signal("1"), &seen).await.unwrap());
    let outcomes = waiters.join_all().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(outcomes.contains(&Outcome::Ran(0)) && outcomes.contains(&Outcome::Duplicate(0)), "{outcomes:?}");
}

/// Nobody waits for the time of a run that has ended.
pub async fn a_failed_effect_gives_its_claim_back_at_once(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let (running, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let failing = {
        let (once, running, go) = (once(&stage.ledger), running.clone(), go.clone());
        tokio::spawn(async move {
            let effect = async || {
                running.notify_one();
                go.notified().await;
                Err::<(), _>("no")
            };
            once.protect("1", effect).await
        })
    };
    running.notified().await;
    let waiting = {
        let once = once(&stage.other);
        tokio::spawn(timed(async move { once.protect("1", async || Ok::<_, Infallible>(())).await.unwrap() }))
    };
    go.notify_one();
    assert!(matches!(failing.await.unwrap(), Err(ProtectError::Failed("no"))));
    let (outcome, waited) = waiting.await.unwrap();
    assert_eq!(outcome, Outcome::Ran(()));
    assert!(waited < LONG / 2, "{waited:?}");
    assert_eq!(stage.sees("1").await.number, 1, "nothing was taken over");
}

/// And says who is at it.
pub async fn waiting_has_a_bound(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.claims("1").await;
    let impatient = once(&stage.other).max_wait(SHORT);
    let refused = impatient.protect("1", async || -> Result<(), Infallible> { panic!("it ran") }).await;
    let Err(ProtectError::Once(OnceError::StillRunning { attempt, waited, .. })) = refused else {
        panic!("somebody is at it: {refused:?}")
    };
    assert!(attempt == 1 && waited >= SHORT && waited < LONG, "{attempt} {waited:?}");
}

/// However long it takes.
pub async fn a_run_that_gives_signs_of_life_is_not_taken_over(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    // Long enough for a busy machine to beat in time, short enough to wait for three times.
    let limit = Duration::from_secs(2);
    let lively = |once: Once| once.max_processing_time(limit).heartbeat();
    let running = Arc::new(Notify::new());
    let first = {
        let (once, running) = (lively(once(&stage.ledger)), running.clone());
        tokio::spawn(async move {
            let effect = async || {
                running.notify_one();
                tokio::time::sleep(limit * 2).await;
                Ok::<_, Infallible>(1)
            };
            once.protect("1", effect).await.unwrap()
        })
    };
    running.notified().await;
    let second = lively(once(&stage.other)).protect("1", async || Ok::<_, Infallible>(2)).await.unwrap();
    assert_eq!((first.await.unwrap(), second), (Outcome::Ran(1), Outcome::Duplicate(1)));
}

/// The successor's result stands, and the zombie is told.
pub async fn a_run_that_outlives_its_time_is_refused_when_it_completes(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let (running, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let zombie = {
        let once = once(&stage.ledger).max_processing_time(SHORT);
        let (running, go) = (running.clone(), go.clone());
        tokio::spawn(async move {
            let effect = async || {
                running.notify_one();
                go.notified().await;
                Ok::<_, Infallible>("zombie".to_owned())
            };
            once.protect("1", effect).await
        })
    };
    running.notified().await;
    let other = once(&stage.other);
    let successor = other.protect("1", async || Ok::<_, Infallible>("successor".to_owned())).await;
    assert_eq!(successor.unwrap(), Outcome::Ran("successor".to_owned()));
    go.notify_one();
    let refused = zombie.await.unwrap();
    assert!(
        matches!(refused, Err(ProtectError::Once(OnceError::Superseded { attempt: 1, .. }))),
        "{refused:?}"
    );
    until(async || stage.sees("1").await.state == State::Completed).await;
    assert_eq!(stage.sees("1").await.result, Some(kept("\"successor\"")));
}
