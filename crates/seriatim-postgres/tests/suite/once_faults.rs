//! Answers that are lost on the wire, and a server that goes away while callers wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{
    AttemptId, Claim, Completion, Held, Ledger, Once, Outcome, ProcessorId, Recorded, Resolution, Run,
    Signal, SignalId, Started, State,
};
use seriatim::store::StoreError;
use seriatim_postgres::PostgresLedger;
use seriatim_testkit::servers::{Postgres, Proxy};
use tokio::sync::Notify;

use crate::support::{Place, until};

fn signal() -> Signal {
    Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new("the signal").unwrap() }
}

fn claim(max_processing_time: Duration) -> Claim {
    Claim { signal: signal(), attempt: AttemptId::random(), max_processing_time, kept_for: None }
}

fn run_of(claim: &Claim) -> Run {
    Run { attempt: claim.attempt.clone(), beat: 0 }
}

fn completion() -> Completion {
    Completion { result: Recorded::Kept(b"7".to_vec()), expires_after: None }
}

fn long() -> Duration {
    Duration::from_secs(120)
}

/// A ledger that is reached through a proxy, and one that is not.
struct Wire {
    place: Place,
    proxy: Proxy,
    far: PostgresLedger,
    near: PostgresLedger,
}

impl Wire {
    async fn new() -> Self {
        let server = Postgres::shared();
        let place = Place::on(server);
        let proxy = Proxy::before(server.port()).unwrap();
        let url = place.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
        let far = PostgresLedger::connect(&url).await.unwrap();
        let near = place.ledger().await;
        Wire { place, proxy, far, near }
    }

    /// The operation happens, its answer is lost, and it is repeated.
    async fn twice<T>(&self, lost: &str, operation: impl AsyncFn() -> Result<T, StoreError>) -> T {
        // Any statement is prepared on its connection first; what is lost is the answer to the one with the attempt in it.
        self.proxy.lose_answer_to(lost);
        let before = self.proxy.lost();
        let Err(error) = operation().await else { panic!("the answer should have been lost") };
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert_eq!(self.proxy.lost(), before + 1);
        operation().await.unwrap()
    }
}

#[tokio::test]
async fn every_operation_whose_answer_was_lost_can_be_repeated() {
    let wire = Wire::new().await;
    let (dead, next) = (claim(long()), claim(long()));
    let (first, second) = (dead.attempt.as_str(), next.attempt.as_str());

    let started = wire.twice(first, async || wire.far.start(&dead, None).await).await;
    assert_eq!(started, Started::Claimed { number: 1 });
    let taken = wire.twice(second, async || wire.far.start(&next, Some(&run_of(&dead))).await).await;
    assert_eq!(taken, Started::Claimed { number: 2 });
    assert_eq!(wire.twice(second, async || wire.far.extend(&next).await).await, Held::Kept);
    let seen = wire.near.show(&signal()).await.unwrap().unwrap().run;
    assert!(wire.twice(second, async || wire.far.doubt(&signal(), &seen).await).await);
    let completed = Resolution::Completed(completion());
    assert!(wire.twice(second, async || wire.far.resolve(&signal(), &seen, &completed).await).await);
    assert_eq!(wire.near.show(&signal()).await.unwrap().unwrap().state, State::Completed);
    assert!(wire.twice(second, async || wire.far.forget(&signal(), &seen).await).await);
    assert_eq!(wire.near.show(&signal()).await.unwrap(), None);

    let third = claim(long());
    let attempt = third.attempt.as_str();
    wire.near.start(&third, None).await.unwrap();
    let held = wire.twice(attempt, async || wire.far.complete(&third, &completion()).await).await;
    assert_eq!(held, Held::Kept);
    assert!(wire.near.forget(&signal(), &run_of(&third)).await.unwrap());

    let fourth = claim(long());
    let attempt = fourth.attempt.as_str();
    wire.near.start(&fourth, None).await.unwrap();
    assert!(wire.near.doubt(&signal(), &run_of(&fourth)).await.unwrap());
    let again = Resolution::RunAgain;
    let seen = run_of(&fourth);
    assert!(wire.twice(attempt, async || wire.far.resolve(&signal(), &seen, &again).await).await);
    wire.near.start(&fourth, None).await.unwrap();
    wire.twice(attempt, async || wire.far.fail(&fourth).await).await;
    assert_eq!(wire.near.show(&signal()).await.unwrap(), None);
}

#[tokio::test]
async fn a_request_that_is_still_at_work_is_recognised_by_its_repetition() {
    let place = Place::new();
    let (ledger, dead, next) = (place.ledger().await, claim(long()), claim(long()));
    ledger.start(&dead, None).await.unwrap();
    // The first sending of the take-over, whose caller has lost its connection, has written and not committed.
    let mut other = place.client().await;
    let first = other.transaction().await.unwrap();
    let take = "update seriatim.once set attempt = $1, number = 2";
    first.execute(take, &[&next.attempt.as_str()]).await.unwrap();
    let repetition = {
        let (ledger, next, seen) = (ledger.clone(), next.clone(), run_of(&dead));
        tokio::spawn(async move { ledger.start(&next, Some(&seen)).await.unwrap() })
    };
    place.waits_for_a_lock().await;
    first.commit().await.unwrap();
    assert_eq!(repetition.await.unwrap(), Started::Claimed { number: 2 });

    // And the same with its completion.
    let first = other.transaction().await.unwrap();
    let complete = "update seriatim.once set state = 'completed', completed_at = now(), result = '7'";
    first.execute(complete, &[]).await.unwrap();
    let repetition = {
        let (ledger, next) = (ledger.clone(), next.clone());
        tokio::spawn(async move { ledger.complete(&next, &completion()).await.unwrap() })
    };
    place.waits_for_a_lock().await;
    first.commit().await.unwrap();
    assert_eq!(repetition.await.unwrap(), Held::Kept);
}

#[tokio::test]
async fn a_lost_answer_costs_an_effect_no_second_run() {
    let wire = Wire::new().await;
    let once = Once::new(Arc::new(wire.far.clone()), "mailer").max_processing_time(long());
    wire.proxy.lose_answer_to("the signal");
    let effect = async || {
        wire.proxy.lose_answer_to("the signal");
        Ok::<_, Infallible>(7)
    };
    assert_eq!(once.protect("the signal", effect).await.unwrap(), Outcome::Ran(7));
    assert_eq!(wire.proxy.lost(), 2);
    let record = wire.near.show(&signal()).await.unwrap().unwrap();
    assert_eq!((record.state, record.number), (State::Completed, 1));
    let again = once.protect("the signal", async || Ok::<_, Infallible>(8)).await.unwrap();
    assert_eq!(again, Outcome::Duplicate(7));
    assert_eq!(wire.place.number("select count(*) from seriatim.once").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_get_the_result_although_the_server_is_restarted() {
    let server = Postgres::start().unwrap();
    let place = Place::on(&server);
    let once = Once::new(Arc::new(place.ledger().await), "mailer").max_processing_time(long());
    let (running, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runner = {
        let (once, running, go) = (once.clone(), running.clone(), go.clone());
        tokio::spawn(async move {
            let effect = async || {
                running.notify_one();
                go.notified().await;
                Ok::<_, Infallible>(7)
            };
            once.protect("the signal", effect).await.unwrap()
        })
    };
    running.notified().await;
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let once = once.clone();
            tokio::spawn(async move { once.protect("the signal", async || Ok::<_, Infallible>(8)).await })
        })
        .collect();
    until("somebody waits", async || {
        place.number("select count(*) from pg_stat_activity where query like '%expires_on%'").await > 2
    })
    .await;
    server.stop().unwrap();
    // The effect ends while nobody can be told.
    go.notify_one();
    server.start_again().unwrap();
    assert_eq!(runner.await.unwrap(), Outcome::Ran(7));
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap(), Outcome::Duplicate(7));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_run_from_before_a_restart_is_taken_over_by_one_after_its_time() {
    let server = Postgres::start().unwrap();
    let place = Place::on(&server);
    let (ledger, limit) = (place.ledger().await, Duration::from_secs(2));
    let began = clock::now();
    ledger.start(&claim(limit), None).await.unwrap();
    let once = Once::new(Arc::new(ledger.clone()), "mailer").max_processing_time(long());
    let waiters: Vec<_> = (0..10)
        .map(|number| {
            let once = once.clone();
            let effect = async move || Ok::<_, Infallible>((number, clock::now() - began));
            tokio::spawn(async move {
                let mut ran = None;
                let effect = async || {
                    let (number, after) = effect().await?;
                    ran = Some(after);
                    Ok::<_, Infallible>(number)
                };
                let outcome = once.protect("the signal", effect).await.unwrap();
                (outcome.into_inner(), ran)
            })
        })
        .collect();
    server.restart().unwrap();
    let mut outcomes = Vec::new();
    for waiter in waiters {
        outcomes.push(waiter.await.unwrap());
    }
    assert!(outcomes.iter().all(|(result, _)| *result == outcomes[0].0), "{outcomes:?}");
    let ran: Vec<Duration> = outcomes.into_iter().filter_map(|(_, ran)| ran).collect();
    assert!(ran.len() == 1 && ran[0] > limit, "{ran:?}");
}
