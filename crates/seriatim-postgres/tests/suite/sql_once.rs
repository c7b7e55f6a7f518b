//! The ledger for callers that speak SQL: part of their own transactions, on the rows that the program works on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use seriatim::once::{AttemptId, Once, Outcome, Resumed, State};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_postgres::{Database, PostgresLedger};

use crate::support::{Place, client, until};

/// A place with the ledger and its functions.
async fn made() -> Place {
    let place = Place::new();
    place.ledger().await;
    place
}

/// The answer of a function of the schema.
async fn call(client: &Client, call: &str) -> Value {
    let row = client.query_one(&format!("select coalesce(seriatim.{call}::text, 'null')"), &[]).await;
    let text: String = row.unwrap_or_else(|error| panic!("{call}: {error:?}")).get(0);
    serde_json::from_str(&text).unwrap()
}

/// The code that a call is refused with.
async fn refused(client: &Client, call: &str) -> String {
    let error = client.query_one(&format!("select seriatim.{call}"), &[]).await.unwrap_err();
    error.code().unwrap().code().to_owned()
}

async fn attempt(client: &Client, start: &str) -> String {
    let started = call(client, start).await;
    assert_eq!(started["state"], "run", "{started}");
    started["attempt"].as_str().unwrap().to_owned()
}

const START: &str = "once_start('mailer', '1', '1 hour')";

#[tokio::test]
async fn claim_effect_and_completion_are_one_transaction() {
    let place = made().await;
    let one = place.client().await;
    one.batch_execute("create table sent (id text)").await.unwrap();
    for end in ["rollback", "commit"] {
        one.batch_execute("begin; insert into sent values ('1')").await.unwrap();
        let mine = attempt(&one, START).await;
        call(&one, &format!("once_complete('mailer', '1', '{mine}', '{{\"sent\":1.50}}')")).await;
        one.batch_execute(end).await.unwrap();
    }
    assert_eq!(place.number("select count(*) from sent").await, 1);
    assert_eq!(call(&one, START).await, json!({"state": "completed", "result": {"sent": 1.5}}));
    assert_eq!(place.number("select number from seriatim.once").await, 1, "the first one never happened");
}

#[tokio::test]
async fn of_two_transactions_the_second_waits_for_the_first_and_follows_its_end() {
    let place = made().await;
    for (end, state) in [("rollback", "run"), ("commit", "completed")] {
        let (one, two) = (place.client().await, place.client().await);
        one.batch_execute("begin").await.unwrap();
        let mine = attempt(&one, START).await;
        let second = tokio::spawn(async move { call(&two, START).await });
        place.waits_for_a_lock().await;
        call(&one, &format!("once_complete('mailer', '1', '{mine}')")).await;
        one.batch_execute(end).await.unwrap();
        assert_eq!(second.await.unwrap()["state"], state, "{end}");
        place.run("delete from seriatim.once where state = 'running'").await;
    }
}

#[tokio::test]
async fn the_program_and_sql_see_the_same_signals() {
    let place = made().await;
    let sql = place.client().await;
    let once = Once::new(Arc::new(place.ledger().await), "mailer").max_wait(Duration::ZERO);
    // Begun by SQL, ended by the program.
    let begun = AttemptId::new(&attempt(&sql, START).await).unwrap();
    assert!(once.protect("1", async || Ok::<_, Infallible>(1)).await.is_err(), "it is running");
    let Resumed { mut attempt, state } = once.resume("1", &begun).await.unwrap();
    assert_eq!(state, State::Running);
    once.extend(&mut attempt).await.unwrap();
    once.complete(&attempt, seriatim::once::Recorded::Kept(b"7".to_vec())).await.unwrap();
    assert_eq!(call(&sql, START).await, json!({"state": "completed", "result": 7}));
    // Begun by the program, ended by SQL.
    let seriatim::once::Begun::Run(begun) = once.start("2").await.unwrap() else { panic!("it is new") };
    assert_eq!(call(&sql, "once_start('mailer', '2')").await, json!({"state": "running"}));
    call(&sql, &format!("once_beat('mailer', '2', '{}')", begun.id())).await;
    call(&sql, &format!("once_complete('mailer', '2', '{}', '\"done\"')", begun.id())).await;
    let again = once.protect("2", async || Ok::<_, Infallible>("again".to_owned())).await.unwrap();
    assert_eq!(again, Outcome::Duplicate("done".to_owned()));
}

#[tokio::test]
async fn an_attempt_that_no_longer_counts_cannot_commit_its_effect() {
    let place = made().await;
    let sql = place.client().await;
    let old = attempt(&sql, "once_start('mailer', '1', '1 millisecond')").await;
    let next = async || call(&sql, START).await["state"] == "run";
    until("the first attempt has timed out", next).await;
    sql.batch_execute("create table sent (id text)").await.unwrap();
    for verb in ["once_complete", "once_beat", "once_fail"] {
        sql.batch_execute("begin; insert into sent values ('1')").await.unwrap();
        assert_eq!(refused(&sql, &format!("{verb}('mailer', '1', '{old}')")).await, "SR001", "{verb}");
        sql.batch_execute("commit").await.unwrap();
    }
    assert_eq!(place.number("select count(*) from sent").await, 0);
}

#[tokio::test]
async fn a_completion_is_repeated_without_harm_and_a_failure_gives_back() {
    let place = made().await;
    let sql = place.client().await;
    let mine = attempt(&sql, START).await;
    for _ in 0..2 {
        let completed = call(&sql, &format!("once_complete('mailer', '1', '{mine}', '1', '1 second')")).await;
        assert_eq!(completed, json!(true));
    }
    assert_eq!(refused(&sql, &format!("once_fail('mailer', '1', '{mine}')")).await, "SR001");
    until("the completion has expired", async || call(&sql, START).await["state"] == "run").await;
    let other = attempt(&sql, "once_start('mailer', '2', '1 hour')").await;
    call(&sql, &format!("once_fail('mailer', '2', '{other}')")).await;
    attempt(&sql, "once_start('mailer', '2', '1 hour')").await;
}

#[tokio::test]
async fn a_run_from_another_life_of_the_server_has_its_whole_time_from_the_first_look() {
    let place = made().await;
    let sql = place.client().await;
    attempt(&sql, "once_start('mailer', '1', '300 milliseconds')").await;
    let moved = "update seriatim.once set beat_at = beat_at - interval '1 hour'";
    place.run(&format!("{moved}, beat_in = beat_in - interval '1 day'")).await;
    let began = seriatim::clock::now();
    assert_eq!(call(&sql, START).await, json!({"state": "running"}));
    until("it has timed out", async || call(&sql, START).await["state"] == "run").await;
    assert!(began.elapsed() > Duration::from_millis(300));
}

#[tokio::test]
async fn a_run_that_must_not_be_repeated_becomes_unknown() {
    let place = made().await;
    let sql = place.client().await;
    let start = "once_start('mailer', '1', '1 millisecond', 'unknown')";
    let mine = attempt(&sql, start).await;
    until("it is unknown", async || call(&sql, start).await == json!({"state": "unknown"})).await;
    assert_eq!(place.number("select count(*) from seriatim.once where removable_on is null").await, 1);
    call(&sql, &format!("once_complete('mailer', '1', '{mine}')")).await;
    assert_eq!(call(&sql, start).await["state"], "completed");
}

#[tokio::test]
async fn results_that_are_not_json_are_texts() {
    let place = made().await;
    let sql = place.client().await;
    for (bytes, shown) in [("", json!(null)), ("tea\n", json!("tea\n")), ("{\"a\":[1]}", json!({"a": [1]}))] {
        let hex: String = bytes.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(call(&sql, &format!("once_result('\\x{hex}')")).await.clone(), shown, "{bytes}");
    }
    assert_eq!(call(&sql, "once_result('\\xff00')").await, json!("/wA="));
}

#[tokio::test]
async fn names_that_the_program_could_not_read_are_refused() {
    let place = made().await;
    let sql = place.client().await;
    for call in [
        "once_start('', '1')",
        "once_start('a', null)",
        "once_start(E'a\\nb', '1')",
        "once_start('a', E'\\u0085')",
        "once_start('a', repeat('x', 1025))",
        "once_start('a', '1', '0')",
        "once_start('a', '1', null)",
        "once_start('a', '1', '1 second', 'again')",
    ] {
        assert_eq!(refused(&sql, call).await, "22023", "{call}");
    }
    attempt(&sql, "once_start('größte', repeat('x', 1024))").await;
}

#[tokio::test]
async fn a_role_needs_rights_on_the_table_alone() {
    let place = made().await;
    let role = format!("app_{}", fastrand::u64(..));
    place.run(&format!("create role {role} login; grant usage on schema seriatim to {role}")).await;
    let app = client(&place.url().replace("postgres@", &format!("{role}@"))).await;
    assert_eq!(refused(&app, START).await, "42501");
    place.run(&format!("grant select, insert, update, delete on seriatim.once to {role}")).await;
    let mine = attempt(&app, START).await;
    call(&app, &format!("once_beat('mailer', '1', '{mine}')")).await;
    call(&app, &format!("once_complete('mailer', '1', '{mine}')")).await;
    call(&app, "once_sweep(10)").await;
}

#[tokio::test]
async fn a_role_that_may_make_nothing_goes_on_with_the_ledger_of_before() {
    let place = made().await;
    // As a version without functions left it.
    let drops = "select string_agg(format('drop function %s', p.oid::regprocedure), '; ') from pg_proc p
        where p.pronamespace = 'seriatim'::regnamespace";
    let drops: String = place.client().await.query_one(drops, &[]).await.unwrap().get(0);
    let role = format!("app_{}", fastrand::u64(..));
    place
        .run(&format!(
            "{drops}; delete from seriatim.version where component = 'once functions'; create role {role} login;
             grant usage on schema seriatim to {role}; grant select on seriatim.version to {role};
             grant select, insert, update, delete on seriatim.once to {role}"
        ))
        .await;
    let url = place.url().replace("postgres@", &format!("{role}@"));
    let ledger = PostgresLedger::on(Database::connect(&url).unwrap()).await.unwrap();
    let once = Once::new(Arc::new(ledger), "mailer");
    assert_eq!(once.protect("1", async || Ok::<_, Infallible>(1)).await.unwrap(), Outcome::Ran(1));
    // The owner brings them with its next use.
    place.ledger().await;
    assert_eq!(call(&place.client().await, START).await, json!({"state": "completed", "result": 1}));
}
