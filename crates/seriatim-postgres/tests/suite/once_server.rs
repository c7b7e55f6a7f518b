//! What is particular to a ledger in PostgreSQL: its clock, its commits, and how it finds what it needs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::once::{AttemptId, Claim, Ledger, Once, Outcome, ProcessorId, Signal, SignalId};
use seriatim_postgres::{Database, PostgresLedger};

use crate::support::Place;

fn signal() -> Signal {
    Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new("1").unwrap() }
}

fn claim() -> Claim {
    let max_processing_time = Duration::from_millis(500);
    Claim { signal: signal(), attempt: AttemptId::random(), max_processing_time, kept_for: None }
}

#[tokio::test]
async fn a_run_from_another_life_of_the_server_is_watched_for_its_whole_time() {
    let place = Place::new();
    let ledger = place.ledger().await;
    ledger.start(&claim(), None).await.unwrap();
    // As after a failover to a machine whose clock is an hour ahead.
    let moved = "update seriatim.once set beat_at = beat_at - interval '1 hour'";
    place.run(&format!("{moved}, beat_in = beat_in - interval '1 day'")).await;
    assert_eq!(ledger.show(&signal()).await.unwrap().unwrap().stood_still, Duration::ZERO);
    let once = Once::new(Arc::new(ledger), "mailer").max_wait(Duration::from_secs(60));
    let began = clock::now();
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(())).await.unwrap(), Outcome::Ran(()));
    assert!(began.elapsed() > Duration::from_millis(500));
}

#[tokio::test]
async fn a_clock_that_was_set_back_vouches_for_nothing() {
    let place = Place::new();
    let ledger = place.ledger().await;
    ledger.start(&claim(), None).await.unwrap();
    place.run("update seriatim.once set beat_at = beat_at + interval '1 hour'").await;
    assert_eq!(ledger.show(&signal()).await.unwrap().unwrap().stood_still, Duration::ZERO);
}

#[tokio::test]
async fn commits_are_flushed_whatever_the_role_has_set() {
    let place = Place::new();
    for (set, found) in [("off", "local"), ("remote_write", "remote_write"), ("on", "on")] {
        let url = place.url_with(&format!("options=-c%20synchronous_commit%3D{set}"));
        let client = Database::connect(&url).unwrap().client().await.unwrap();
        let shown: String = client.query_one("show synchronous_commit", &[]).await.unwrap().get(0);
        assert_eq!(shown, found, "{set}");
    }
}

#[tokio::test]
async fn a_ledger_that_is_not_there_is_not_made_by_looking() {
    let place = Place::new();
    let existing = || PostgresLedger::existing(Database::connect(place.url()).unwrap());
    assert!(existing().await.unwrap().is_none());
    let script = PostgresLedger::script(&Database::connect(place.url()).unwrap()).await.unwrap();
    assert!(existing().await.unwrap().is_none());
    place.run(&script).await;
    let ledger = existing().await.unwrap().unwrap();
    ledger.start(&claim(), None).await.unwrap();
}

#[tokio::test]
async fn a_sweep_waits_for_nobody() {
    let place = Place::new();
    let ledger = place.ledger().await;
    place.run("insert into seriatim.once select 'mailer', n::text, 'completed', 'a', 1, 0, now(), now(), now(), now(), 1, 1, 1
        from generate_series(1, 10) n").await;
    let mut other = place.client().await;
    let transaction = other.transaction().await.unwrap();
    transaction
        .execute("update seriatim.once set removable_on = null where id in ('1', '2')", &[])
        .await
        .unwrap();
    assert_eq!(ledger.sweep(5).await.unwrap(), 5);
    assert_eq!(ledger.sweep(5).await.unwrap(), 3);
    transaction.commit().await.unwrap();
    assert_eq!(ledger.sweep(5).await.unwrap(), 0);
    assert_eq!(place.number("select count(*) from seriatim.once").await, 2);
}

#[tokio::test]
async fn no_operation_reads_the_whole_table() {
    let place = Place::new();
    place.ledger().await;
    let client = place.client().await;
    let fill = "insert into seriatim.once
        select 'p' || n % 10, n::text, 'completed', 'a', 1, 0, now(), now(), now(), now(), 4000000000, 1, 4000000000
        from generate_series(1, 20000) n; analyze seriatim.once; set plan_cache_mode = force_generic_plan";
    client.batch_execute(fill).await.unwrap();
    let queries = [
        (include_str!("../../queries/once_read.sql"), "'p1', '1'"),
        (include_str!("../../queries/once_start.sql"), "'p1', '1', 'a', 1, 1, 'a', 1"),
        (include_str!("../../queries/once_extend.sql"), "'p1', '1', 'a', 1"),
        (include_str!("../../queries/once_complete.sql"), "'p1', '1', 'a', 1, null, null"),
        (include_str!("../../queries/once_fail.sql"), "'p1', '1', 'a'"),
        (include_str!("../../queries/once_doubt.sql"), "'p1', '1', 'a', 1"),
        (include_str!("../../queries/once_resolve_completed.sql"), "'p1', '1', 'a', 1, 1, null, null"),
        (include_str!("../../queries/once_resolve_again.sql"), "'p1', '1', 'a', 1"),
        (include_str!("../../queries/once_forget.sql"), "'p1', '1', 'a'"),
        (include_str!("../../queries/once_list.sql"), "'p1', '1', null, null, 100"),
        (include_str!("../../queries/once_sweep.sql"), "100"),
    ];
    for (number, (query, values)) in queries.into_iter().enumerate() {
        client.batch_execute(&format!("prepare q{number} as {query}")).await.unwrap();
        let explain = format!("explain execute q{number} ({values})");
        let steps = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<String> = steps.iter().map(|row| row.get(0)).collect();
        let reads_all = |step: &&String| step.contains("Seq Scan");
        assert_eq!(plan.iter().find(reads_all), None, "{query}\n{}", plan.join("\n"));
    }
}
