//! What [`Once`] does around the ledger, on simulated time.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::clock;

const LIMIT: Duration = Duration::from_secs(10);

fn once() -> (Once, MemoryLedger) {
    let ledger = MemoryLedger::new();
    (Once::new(Arc::new(ledger.clone()), "mailer").max_processing_time(LIMIT), ledger)
}

async fn state(ledger: &MemoryLedger) -> Option<State> {
    let signal = Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new("1").unwrap() };
    ledger.show(&signal).await.unwrap().map(|record| record.state)
}

async fn never() -> Result<u8, Infallible> {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn dropping_a_run_leaves_its_claim_to_time_out() {
    let (once, ledger) = once();
    let dropped = tokio::time::timeout(LIMIT / 2, once.protect("1", never)).await;
    assert!(dropped.is_err());
    assert_eq!(state(&ledger).await, Some(State::Running));
    // Half of its time has passed already, as the ledger vouches.
    let began = clock::now();
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(2)).await.unwrap(), Outcome::Ran(2));
    let waited = began.elapsed();
    assert!(waited > LIMIT / 2 && waited < LIMIT / 2 + Duration::from_millis(10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_one_who_waits_leaves_nothing() {
    let (once, ledger) = once();
    let Begun::Run(attempt) = once.start("1").await.unwrap() else { panic!("it is new") };
    assert!(tokio::time::timeout(LIMIT / 2, once.protect("1", never)).await.is_err());
    once.fail(&attempt).await;
    assert_eq!(state(&ledger).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_goes_on_and_counts_if_nobody_took_over() {
    let (once, _) = once();
    let slow = once.protect("1", async || {
        tokio::time::sleep(LIMIT * 3).await;
        Ok::<_, Infallible>(1)
    });
    assert_eq!(slow.await.unwrap(), Outcome::Ran(1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_is_stopped_where_that_is_asked_for() {
    let (once, ledger) = once();
    let once = once.overrun(Overrun::Stop);
    let began = clock::now();
    let stopped = once.protect("1", never).await.unwrap_err();
    assert!(matches!(stopped, ProtectError::Once(OnceError::TookTooLong { .. })), "{stopped}");
    assert_eq!(began.elapsed(), LIMIT, "before anybody may take over");
    assert_eq!(state(&ledger).await, Some(State::Running));
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_heartbeat_is_stopped_when_it_has_lost_its_claim() {
    let (once, ledger) = once();
    let stopped = Cell::new(false);
    let effect = async || {
        let seen = ledger.list(&Listing::default(), None).await.unwrap().records.remove(0);
        ledger.forget(&seen.signal, &seen.run).await.unwrap();
        stopped.set(true);
        never().await
    };
    let began = clock::now();
    let lost = once.heartbeat().protect("1", effect).await.unwrap_err();
    assert!(matches!(lost, ProtectError::Once(OnceError::Superseded { attempt: 1, .. })), "{lost}");
    assert!(stopped.get() && began.elapsed() < LIMIT);
}

#[tokio::test(start_paused = true)]
async fn a_result_of_another_type_says_so() {
    let (once, _) = once();
    once.protect("1", async || Ok::<_, Infallible>("text".to_owned())).await.unwrap();
    let unreadable = once.protect("1", never).await.unwrap_err();
    assert!(matches!(unreadable, ProtectError::Once(OnceError::ResultUnreadable { .. })), "{unreadable}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_json_cannot_say_completes_all_the_same() {
    let (once, _) = once();
    let odd = || std::collections::HashMap::from([(vec![1_u8], 2_u8)]);
    once.protect("1", async || Ok::<_, Infallible>(odd())).await.unwrap();
    let again = once.protect("1", async || Ok::<_, Infallible>(odd())).await.unwrap_err();
    assert!(again.to_string().contains("cannot be written as JSON"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_no_good_are_refused() {
    let (once, _) = once();
    assert!(matches!(once.protect("", never).await, Err(ProtectError::Once(OnceError::BadName(_)))));
    let (_, ledger) = self::once();
    let nameless = Once::new(Arc::new(ledger), "");
    assert!(matches!(nameless.protect("1", never).await, Err(ProtectError::Once(OnceError::BadName(_)))));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_effect_is_a_crash() {
    let (once, ledger) = once();
    let panicking = once.clone();
    let panicked = tokio::spawn(async move {
        panicking.protect("1", async || -> Result<(), Infallible> { panic!("oh") }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(state(&ledger).await, Some(State::Running));
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(2)).await.unwrap(), Outcome::Ran(2));
}

#[tokio::test(start_paused = true)]
async fn what_expired_is_swept_by_those_who_come_later() {
    let (once, ledger) = once();
    let once = once.expires_after(Duration::from_secs(1));
    let left = async || {
        let all = Listing { page: 1_000_000, ..Listing::default() };
        ledger.list(&all, None).await.unwrap().records.len()
    };
    // Now and then is by chance: it has to come some time.
    for number in 0..50_000 {
        once.protect(&number.to_string(), async || Ok::<_, Infallible>(())).await.unwrap();
        tokio::time::advance(Duration::from_millis(100)).await;
        if number % 500 == 0 && left().await < number / 2 {
            return;
        }
    }
    panic!("{} are left", left().await);
}
