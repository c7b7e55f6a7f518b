//! What is remembered of an effect.

use std::convert::Infallible;
use std::time::Duration;

use seriatim::once::{Completion, Held, OnceError, Outcome, ProtectError, Recorded, State};

use super::LedgerHarness;
use super::stage::{Stage, claim, completion, found, kept, once};

const SECOND: Duration = Duration::from_secs(1);

/// To everybody who asks.
pub async fn a_completion_is_returned_as_it_was_recorded(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "{\"sum\":42}", None).await;
    let seen = found(stage.other.start(&claim("1"), None).await.unwrap());
    assert_eq!((seen.state, seen.result), (State::Completed, Some(kept("{\"sum\":42}"))));
    assert_eq!(seen.number, 1);
}

/// Its answer may have been lost the first time.
pub async fn repeating_a_completion_changes_nothing(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let done = stage.completes("1", "first", None).await;
    let before = stage.sees("1").await;
    let again = completion("second", Some(SECOND));
    assert_eq!(stage.other.complete(&done, &again).await.unwrap(), Held::Kept);
    assert_eq!(stage.sees("1").await, before);
}

/// And it is completed all the same.
pub async fn a_result_that_was_not_kept_says_why(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let claim = stage.claims("1").await;
    let result = Recorded::NotKept("it was \"too\" large".to_owned());
    let completion = Completion { result: result.clone(), expires_after: None };
    assert_eq!(stage.ledger.complete(&claim, &completion).await.unwrap(), Held::Kept);
    let seen = stage.sees("1").await;
    assert_eq!((seen.state, seen.result), (State::Completed, Some(result)));
}

/// Up to what the ledger says it can take, or a quarter of a mebibyte.
pub async fn a_large_result_comes_back_whole(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let claim = stage.claims("1").await;
    let size = stage.ledger.largest_result().min(256 * 1024);
    let result = Recorded::Kept((0..size).map(|index| (index % 251) as u8).collect());
    let completion = Completion { result: result.clone(), expires_after: None };
    assert_eq!(stage.ledger.complete(&claim, &completion).await.unwrap(), Held::Kept);
    assert_eq!(stage.sees("1").await.result, Some(result));
}

/// A command that prints nothing has an empty one.
pub async fn an_empty_result_is_a_result(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "", None).await;
    assert_eq!(stage.sees("1").await.result, Some(kept("")));
}

/// An effect that returns nothing has happened too.
pub async fn a_unit_result_is_still_a_duplicate(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let (once, other) = (once(&stage.ledger), once(&stage.other));
    let first = once.protect("1", async || Ok::<_, Infallible>(())).await.unwrap();
    assert_eq!(first, Outcome::Ran(()));
    let second = other.protect("1", async || -> Result<(), Infallible> { panic!("it ran again") }).await;
    assert_eq!(second.unwrap(), Outcome::Duplicate(()));
    let none = once.protect("2", async || Ok::<Option<u8>, Infallible>(None)).await.unwrap();
    assert_eq!(none, Outcome::Ran(None));
    let again = other.protect("2", async || Ok::<_, Infallible>(Some(1))).await.unwrap();
    assert_eq!(again, Outcome::Duplicate(None));
}

/// It has happened, and must not happen again.
pub async fn a_result_over_the_limit_completes_all_the_same(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let once = once(&stage.ledger).result_limit(10);
    let long = once.protect("1", async || Ok::<_, Infallible>("more than ten bytes".to_owned())).await;
    assert_eq!(long.unwrap(), Outcome::Ran("more than ten bytes".to_owned()));
    let again = once.protect("1", async || -> Result<String, Infallible> { panic!("it ran again") }).await;
    let Err(ProtectError::Once(OnceError::ResultNotKept { why, .. })) = again else {
        panic!("there is no result to return: {again:?}")
    };
    assert_eq!(why, "its result has 21 bytes, and at most 10 are kept");
}

/// As the next attempt.
pub async fn an_expired_completion_runs_again(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let once = once(&stage.ledger).expires_after(Duration::from_millis(1));
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(1)).await.unwrap(), Outcome::Ran(1));
    stage.expires("1").await;
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(2)).await.unwrap(), Outcome::Ran(2));
    let seen = stage.sees("1").await;
    assert_eq!((seen.number, seen.result), (2, Some(kept("2"))));
}

/// Whoever asks for that takes care of its size.
pub async fn a_completion_that_never_expires_stays(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "r", None).await;
    let seen = stage.sees("1").await;
    assert_eq!((seen.state, seen.expires_on), (State::Completed, None));
}

/// In the form that stores' own expiry uses.
pub async fn expiry_is_to_the_second_and_rounded_up(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "r", Some(SECOND * 3600)).await;
    let seen = stage.sees("1").await;
    let (completed_at, expires_on) = (seen.completed_at.unwrap(), seen.expires_on.unwrap());
    assert_eq!(expires_on.subsec_nanosecond(), 0);
    let after = Duration::try_from(expires_on.duration_since(completed_at)).unwrap();
    // A store that knows its own time only to a second or two rounds up by more.
    assert!(after >= SECOND * 3600 && after <= SECOND * 3603, "{after:?}");
    assert_eq!(seen.state, State::Completed);
}
