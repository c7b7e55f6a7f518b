//! Who has a signal.

use std::time::Duration;

use seriatim::clock;
use seriatim::once::{AttemptId, Claim, Held, ProcessorId, Run, Signal, SignalId, Started, State};

use super::LedgerHarness;
use super::stage::{LONG, Stage, claim, completion, found, is_claimed, kept, run_of, signal, until};

/// The first attempt is number one.
pub async fn a_signal_never_seen_is_claimed(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    assert!(stage.is_gone("1").await);
    let claim = claim("1");
    assert_eq!(stage.ledger.start(&claim, None).await.unwrap(), Started::Claimed { number: 1 });
    let seen = stage.sees("1").await;
    assert_eq!((seen.state, seen.number, seen.result), (State::Running, 1, None));
    assert_eq!((seen.signal, seen.run.attempt), (signal("1"), claim.attempt));
}

/// And they see who has it.
pub async fn a_claim_keeps_others_out(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let mine = stage.claims("1").await;
    let seen = found(stage.other.start(&claim("1"), None).await.unwrap());
    assert_eq!((seen.state, seen.run), (State::Running, run_of(&mine)));
    let wrong = Run { attempt: AttemptId::random(), beat: 0 };
    assert!(!is_claimed(&stage.other.start(&claim("1"), Some(&wrong)).await.unwrap()));
}

/// However close together they come.
pub async fn of_many_who_start_at_once_one_has_it(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    assert_eq!(how_many_start(&stage, None).await, 1);
}

async fn how_many_start(stage: &Stage, replacing: Option<Run>) -> usize {
    let starts = (0..50).map(|turn| {
        let ledger = if turn % 2 == 0 { stage.ledger.clone() } else { stage.other.clone() };
        let replacing = replacing.clone();
        tokio::spawn(async move { ledger.start(&claim("1"), replacing.as_ref()).await.unwrap() })
    });
    let starts: Vec<_> = starts.collect();
    let mut claimed = 0;
    for start in starts {
        claimed += usize::from(is_claimed(&start.await.unwrap()));
    }
    claimed
}

/// Its answer may have been lost the first time.
pub async fn repeating_a_start_recognises_its_own_claim(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let claim = stage.claims("1").await;
    assert_eq!(stage.other.start(&claim, None).await.unwrap(), Started::Claimed { number: 1 });
    assert_eq!(stage.ledger.complete(&claim, &completion("r", None)).await.unwrap(), Held::Kept);
    assert_eq!(found(stage.ledger.start(&claim, None).await.unwrap()).state, State::Completed);
}

/// By naming exactly what was seen; the next attempt has the next number.
pub async fn a_run_is_taken_over_as_it_was_seen(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let dead = stage.claims("1").await;
    let next = claim("1");
    let started = stage.other.start(&next, Some(&run_of(&dead))).await.unwrap();
    assert_eq!(started, Started::Claimed { number: 2 });
    assert_eq!(stage.sees("1").await.run, run_of(&next));
}

/// It was seen before that sign.
pub async fn a_run_that_gave_a_sign_of_life_is_not_taken_over(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let alive = stage.claims("1").await;
    let seen = stage.sees("1").await.run;
    assert_eq!(stage.ledger.extend(&alive).await.unwrap(), Held::Kept);
    assert!(!is_claimed(&stage.other.start(&claim("1"), Some(&seen)).await.unwrap()));
    let now = stage.sees("1").await.run;
    assert!(now.attempt == alive.attempt && now != seen, "the beat moves: {now:?}");
}

/// A hundred waiters may see it time out at the same moment.
pub async fn of_many_who_take_over_at_once_one_has_it(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let dead = stage.claims("1").await;
    assert_eq!(how_many_start(&stage, Some(run_of(&dead))).await, 1);
    assert_eq!(stage.sees("1").await.number, 2);
}

/// Its answer may have been lost the first time.
pub async fn repeating_a_take_over_recognises_its_own_claim(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let dead = stage.claims("1").await;
    let next = claim("1");
    for _ in 0..2 {
        let started = stage.other.start(&next, Some(&run_of(&dead))).await.unwrap();
        assert_eq!(started, Started::Claimed { number: 2 });
    }
}

/// Its successor's result stands.
pub async fn a_zombie_cannot_complete(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.claims("1").await;
    let successor = stage.takes_over("1").await;
    assert_eq!(stage.ledger.complete(&zombie, &completion("old", None)).await.unwrap(), Held::Lost);
    assert_eq!(stage.sees("1").await.state, State::Running);
    assert_eq!(stage.other.complete(&successor, &completion("new", None)).await.unwrap(), Held::Kept);
    assert_eq!(stage.ledger.complete(&zombie, &completion("old", None)).await.unwrap(), Held::Lost);
    assert_eq!(stage.sees("1").await.result, Some(kept("new")));
}

/// Nor make its successor's waiters wait.
pub async fn a_zombie_cannot_extend(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.claims("1").await;
    let successor = stage.takes_over("1").await;
    assert_eq!(stage.ledger.extend(&zombie).await.unwrap(), Held::Lost);
    assert_eq!(stage.sees("1").await.run, run_of(&successor));
}

/// It is not its own any more.
pub async fn a_zombie_cannot_give_the_claim_back(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let zombie = stage.claims("1").await;
    let successor = stage.takes_over("1").await;
    stage.ledger.fail(&zombie).await.unwrap();
    assert_eq!(stage.sees("1").await.run, run_of(&successor));
}

/// Whoever saw it run came too late.
pub async fn a_completion_is_not_taken_over(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let done = stage.completes("1", "r", None).await;
    let seen = found(stage.other.start(&claim("1"), Some(&run_of(&done))).await.unwrap());
    assert_eq!((seen.state, seen.result), (State::Completed, Some(kept("r"))));
    assert_eq!(stage.ledger.extend(&done).await.unwrap(), Held::Lost);
}

/// Also by whoever wanted to take it over.
pub async fn a_signal_that_vanished_is_claimed(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let gone = stage.claims("1").await;
    stage.ledger.fail(&gone).await.unwrap();
    let started = stage.other.start(&claim("1"), Some(&run_of(&gone))).await.unwrap();
    assert_eq!(started, Started::Claimed { number: 1 });
    assert_eq!(stage.ledger.complete(&gone, &completion("r", None)).await.unwrap(), Held::Lost);
}

/// Repeating it is harmless.
pub async fn giving_back_leaves_nothing(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let claim = stage.claims("1").await;
    for _ in 0..2 {
        stage.ledger.fail(&claim).await.unwrap();
        assert!(stage.is_gone("1").await);
    }
    assert_eq!(stage.ledger.complete(&claim, &completion("r", None)).await.unwrap(), Held::Lost);
    assert_eq!(stage.ledger.extend(&claim).await.unwrap(), Held::Lost);
    assert!(stage.is_gone("1").await);
}

/// What took effect stays so.
pub async fn giving_back_leaves_a_completion_alone(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let done = stage.completes("1", "r", None).await;
    stage.ledger.fail(&done).await.unwrap();
    assert_eq!(stage.sees("1").await.state, State::Completed);
}

/// What one did says nothing about the other.
pub async fn processors_are_independent(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "r", None).await;
    let other = Signal { processor: ProcessorId::new("biller").unwrap(), id: SignalId::new("1").unwrap() };
    let started = stage.other.start(&Claim { signal: other, ..claim("1") }, None).await.unwrap();
    assert_eq!(started, Started::Claimed { number: 1 });
    assert_eq!(stage.sees("1").await.state, State::Completed);
}

/// Whatever is in them.
pub async fn ids_of_all_kinds_are_told_apart(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let long = "x".repeat(1023);
    let ids = [
        "1",
        "1 ",
        "01",
        "Ö",
        "O",
        "a'b\"c;--",
        "a:b|c/d\\e%f_g*",
        "{}",
        "NULL",
        &format!("{long}y"),
        &format!("{long}z"),
    ];
    for id in ids {
        assert!(is_claimed(&stage.ledger.start(&claim(id), None).await.unwrap()), "{id}");
    }
    for id in ids {
        assert_eq!(stage.sees(id).await.signal, signal(id));
    }
}

/// For people, and for whoever waits.
pub async fn a_claim_says_when_it_began_and_how_long_it_takes(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.claims("1").await;
    let seen = stage.sees("1").await;
    assert_eq!((seen.max_processing_time, seen.completed_at), (LONG, None));
    // The store's clock and this process's may differ, but the tests' server is on this machine.
    let apart = seen.started_at.duration_since(clock::wall()).unsigned_abs();
    assert!(apart < Duration::from_secs(60), "{apart:?}");
    let done = stage.completes("2", "r", None).await;
    let seen = stage.sees("2").await;
    assert_eq!(seen.run.attempt, done.attempt);
    assert!(seen.completed_at.unwrap() >= seen.started_at, "{seen:?}");
}

/// Otherwise a live run would be taken over.
pub async fn a_ledger_vouches_for_no_more_than_the_truth(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let began = clock::now();
    let claim = stage.claims("1").await;
    let received = clock::now();
    let vouched = async |since| {
        let stood_still = stage.sees("1").await.stood_still;
        let at_most = clock::now() - since;
        assert!(stood_still <= at_most, "{stood_still:?} of {at_most:?}");
        stood_still
    };
    // All stores have a clock of some kind, if only to the second.
    until(async || vouched(began).await > Duration::ZERO).await;
    assert!(clock::now() > received);
    let extended = clock::now();
    stage.ledger.extend(&claim).await.unwrap();
    vouched(extended).await;
}
