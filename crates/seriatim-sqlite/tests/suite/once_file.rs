//! What is particular to a ledger in a SQLite file: its clock, and how it finds what it needs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use seriatim::once::{AttemptId, Claim, Ledger, Once, Outcome, ProcessorId, Signal, SignalId, Started};
use seriatim_sqlite::{SqliteLedger, rusqlite};

use crate::support::File;

fn signal() -> Signal {
    Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new("1").unwrap() }
}

fn claim() -> Claim {
    let max_processing_time = Duration::from_millis(500);
    Claim { signal: signal(), attempt: AttemptId::random(), max_processing_time, kept_for: None }
}

async fn ledger(file: &File) -> SqliteLedger {
    SqliteLedger::open(&file.path()).await.unwrap()
}

#[tokio::test]
async fn a_run_from_before_the_machine_was_started_is_watched_for_its_whole_time() {
    let file = File::new();
    let ledger = ledger(&file).await;
    assert_eq!(ledger.start(&claim(), None).await.unwrap(), Started::Claimed { number: 1 });
    file.sqlite().execute("update seriatim_once set beat_boot = 'another', beat_at = 0", []).unwrap();
    assert_eq!(ledger.show(&signal()).await.unwrap().unwrap().stood_still, Duration::ZERO);
    let once = Once::new(Arc::new(ledger), "mailer").max_wait(Duration::from_secs(60));
    let began = seriatim::clock::now();
    let outcome = once.protect("1", async || Ok::<_, Infallible>(())).await.unwrap();
    assert_eq!(outcome, Outcome::Ran(()));
    assert!(began.elapsed() > Duration::from_millis(500));
}

#[tokio::test]
async fn a_time_of_day_that_is_wrong_by_an_hour_steals_nothing() {
    let file = File::new();
    let ledger = ledger(&file).await;
    ledger.start(&claim(), None).await.unwrap();
    for shift in ["- 3600000", "+ 3600000"] {
        file.sqlite()
            .execute(&format!("update seriatim_once set started_at = started_at {shift}"), [])
            .unwrap();
        let began = seriatim::clock::now();
        let seen = ledger.show(&signal()).await.unwrap().unwrap();
        assert!(seen.stood_still < Duration::from_secs(60) + began.elapsed(), "{seen:?}");
    }
}

#[tokio::test]
async fn a_ledger_that_is_not_there_is_not_made_by_looking() {
    let file = File::new();
    assert!(SqliteLedger::open_existing(&file.path()).await.unwrap().is_none());
    file.sqlite().execute_batch("create table mine (id)").unwrap();
    assert!(SqliteLedger::open_existing(&file.path()).await.unwrap().is_none());
    ledger(&file).await;
    assert!(SqliteLedger::open_existing(&file.path()).await.unwrap().is_some());
}

#[tokio::test]
async fn no_operation_reads_the_whole_table() {
    let file = File::new();
    ledger(&file).await;
    let connection = file.sqlite();
    let queries = [
        include_str!("../../queries/once/read.sql"),
        include_str!("../../queries/once/start.sql"),
        include_str!("../../queries/once/extend.sql"),
        include_str!("../../queries/once/complete.sql"),
        include_str!("../../queries/once/is_completed.sql"),
        include_str!("../../queries/once/fail.sql"),
        include_str!("../../queries/once/doubt.sql"),
        include_str!("../../queries/once/resolve_completed.sql"),
        include_str!("../../queries/once/resolve_again.sql"),
        include_str!("../../queries/once/forget.sql"),
        include_str!("../../queries/once/list.sql"),
        include_str!("../../queries/once/sweep.sql"),
    ];
    for query in queries {
        let mut statement = connection.prepare(&format!("explain query plan {query}")).unwrap();
        let nothing = vec![None::<i64>; statement.parameter_count()];
        let plan = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3));
        for step in plan.unwrap() {
            let step = step.unwrap();
            assert!(!step.starts_with("SCAN seriatim_once"), "{step} in {query}");
        }
    }
}
