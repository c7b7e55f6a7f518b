//! Runs that timed out and must not be repeated blindly.

use std::convert::Infallible;

use seriatim::once::{
    Claim, Completion, Held, OnTimeout, OnceError, Outcome, ProtectError, Resolution, State,
};

use super::LedgerHarness;
use super::stage::{Stage, claim, completion, found, is_claimed, kept, once, run_of, signal};

async fn unknown(stage: &Stage) -> Claim {
    let lost = stage.claims("1").await;
    assert!(stage.other.doubt(&signal("1"), &run_of(&lost)).await.unwrap());
    lost
}

fn happened(result: &str) -> Resolution {
    Resolution::Completed(Completion { result: kept(result), expires_after: None })
}

/// Nobody gets it, not even by naming the run.
pub async fn a_doubted_run_is_unknown_until_resolved(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    for replacing in [None, Some(&run_of(&lost))] {
        let seen = found(stage.other.start(&claim("1"), replacing).await.unwrap());
        assert_eq!((seen.state, &seen.run), (State::Unknown, &run_of(&lost)));
    }
    assert!(stage.other.doubt(&signal("1"), &run_of(&lost)).await.unwrap(), "repeating it is harmless");
}

/// A sign of life in between, or a completion, makes the doubt void.
pub async fn a_run_is_doubted_as_it_was_seen(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let alive = stage.claims("1").await;
    let early = stage.sees("1").await.run;
    stage.ledger.extend(&alive).await.unwrap();
    assert!(!stage.other.doubt(&signal("1"), &early).await.unwrap());
    let late = stage.sees("1").await.run;
    stage.ledger.complete(&alive, &completion("r", None)).await.unwrap();
    assert!(!stage.other.doubt(&signal("1"), &late).await.unwrap());
    assert_eq!(stage.sees("1").await.state, State::Completed);
    assert!(!stage.other.doubt(&signal("never"), &late).await.unwrap());
}

/// With the result that somebody found out.
pub async fn an_unknown_run_resolved_as_completed_is_a_duplicate(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    assert!(stage.other.resolve(&signal("1"), &run_of(&lost), &happened("5")).await.unwrap());
    let outcome = once(&stage.ledger).protect("1", async || Ok::<_, Infallible>(6)).await.unwrap();
    assert_eq!(outcome, Outcome::Duplicate(5));
}

/// At once, and its old run cannot complete any more.
pub async fn an_unknown_run_resolved_to_run_again_runs(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    assert!(stage.other.resolve(&signal("1"), &run_of(&lost), &Resolution::RunAgain).await.unwrap());
    assert_eq!(stage.ledger.complete(&lost, &completion("5", None)).await.unwrap(), Held::Lost);
    let outcome = once(&stage.ledger).protect("1", async || Ok::<_, Infallible>(6)).await.unwrap();
    assert_eq!(outcome, Outcome::Ran(6));
}

/// Somebody else has resolved it, or the run has come back.
pub async fn resolving_what_changed_meanwhile_is_refused(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    stage.ledger.complete(&lost, &completion("own", None)).await.unwrap();
    for resolution in [happened("other"), Resolution::RunAgain] {
        assert!(!stage.other.resolve(&signal("1"), &run_of(&lost), &resolution).await.unwrap());
    }
    assert_eq!(stage.sees("1").await.result, Some(kept("own")));
}

/// Its answer may have been lost the first time.
pub async fn repeating_a_resolution_is_harmless(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    for result in ["5", "6"] {
        assert!(stage.other.resolve(&signal("1"), &run_of(&lost), &happened(result)).await.unwrap());
    }
    assert_eq!(stage.sees("1").await.result, Some(kept("5")));
    assert!(!stage.other.resolve(&signal("1"), &run_of(&lost), &Resolution::RunAgain).await.unwrap());
    let again = Stage { ledger: stage.ledger.clone(), other: stage.other.clone() };
    let second = again.claims("2").await;
    assert!(stage.other.doubt(&signal("2"), &run_of(&second)).await.unwrap());
    for _ in 0..2 {
        assert!(stage.other.resolve(&signal("2"), &run_of(&second), &Resolution::RunAgain).await.unwrap());
    }
    assert!(stage.is_gone("2").await);
}

/// It knows best.
pub async fn a_run_that_completes_late_is_not_unknown_any_more(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    assert_eq!(stage.ledger.complete(&lost, &completion("r", None)).await.unwrap(), Held::Kept);
    let seen = stage.sees("1").await;
    assert_eq!((seen.state, seen.result), (State::Completed, Some(kept("r"))));
    let failed = stage.claims("2").await;
    assert!(stage.other.doubt(&signal("2"), &run_of(&failed)).await.unwrap());
    stage.ledger.fail(&failed).await.unwrap();
    assert!(stage.is_gone("2").await, "a run that says that it failed is believed too");
}

/// It was only slow.
pub async fn a_run_that_gives_a_sign_of_life_is_not_unknown_any_more(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let lost = unknown(&stage).await;
    assert_eq!(stage.ledger.extend(&lost).await.unwrap(), Held::Kept);
    assert_eq!(stage.sees("1").await.state, State::Running);
    assert!(!stage.other.resolve(&signal("1"), &run_of(&lost), &Resolution::RunAgain).await.unwrap());
}

/// Nothing runs, and the caller is told what to do.
pub async fn a_timed_out_run_becomes_unknown_where_it_is_asked_for(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.dies("1").await;
    let careful = once(&stage.other).on_timeout(OnTimeout::Unknown);
    for _ in 0..2 {
        let refused = careful.protect("1", async || -> Result<(), Infallible> { panic!("it ran") }).await;
        assert!(
            matches!(refused, Err(ProtectError::Once(OnceError::Unknown { attempt: 1, .. }))),
            "{refused:?}"
        );
    }
    assert_eq!(stage.sees("1").await.state, State::Unknown);
}

/// A live run is not somebody's to end.
pub async fn only_an_unknown_run_is_resolved(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let alive = stage.claims("1").await;
    for resolution in [happened("r"), Resolution::RunAgain] {
        assert!(!stage.other.resolve(&signal("1"), &run_of(&alive), &resolution).await.unwrap());
    }
    assert!(!stage.other.resolve(&signal("never"), &run_of(&alive), &happened("r")).await.unwrap());
    assert!(is_claimed(&stage.ledger.start(&alive, None).await.unwrap()));
}
