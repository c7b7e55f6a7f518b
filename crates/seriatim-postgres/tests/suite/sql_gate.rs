//! The gate for consumers that speak SQL: an object moves on with the effect, or not at all.

use seriatim::FeedName;
use seriatim::name::ObjectName;
use seriatim::order::{Admit, Arrived, EventId, Gate, Limits, Link};
use seriatim_postgres::tokio_postgres::Client;
use seriatim_postgres::{Database, PostgresGateState};

use crate::support::{Place, client};

async fn made() -> Place {
    let place = Place::new();
    PostgresGateState::make(&Database::connect(place.url()).unwrap()).await.unwrap();
    place
}

/// The answer about an event of `work:1`, or the code that it is refused with.
async fn admit(client: &Client, id: &str, prev: &str) -> String {
    let call = format!("select seriatim.gate_admit('partner', 'work:1', {id}, {prev})");
    match client.query_one(&call, &[]).await {
        Ok(row) => row.get(0),
        Err(error) => error.code().unwrap().code().to_owned(),
    }
}

#[tokio::test]
async fn an_event_is_applied_in_its_turn_and_once() {
    let place = made().await;
    let sql = place.client().await;
    for (id, prev, answer) in [
        ("5", "3", "wait"),
        ("3", "null", "apply"),
        ("3", "null", "duplicate"),
        ("9", "5", "wait"),
        ("5", "3", "apply"),
        ("4", "3", "duplicate"),
        ("9", "5", "apply"),
        ("10", "5", "SR002"),
        ("10", "null", "SR002"),
        ("10", "10", "22023"),
        ("null", "9", "22023"),
    ] {
        assert_eq!(admit(&sql, id, prev).await, answer, "{id} after {prev}");
    }
    let state = "select seriatim.gate_admit('partner', 'work:1', 12, 5, true)";
    assert_eq!(sql.query_one(state, &[]).await.unwrap().get::<_, String>(0), "apply");
}

#[tokio::test]
async fn an_effect_that_is_rolled_back_is_to_be_applied_again() {
    let place = made().await;
    let sql = place.client().await;
    for end in ["rollback", "commit"] {
        sql.batch_execute("begin").await.unwrap();
        assert_eq!(admit(&sql, "1", "null").await, "apply");
        sql.batch_execute(end).await.unwrap();
    }
    assert_eq!(admit(&sql, "1", "null").await, "duplicate");
}

#[tokio::test]
async fn of_two_consumers_with_one_event_the_second_finds_a_duplicate() {
    let place = made().await;
    for (id, prev) in [("1", "null"), ("2", "1")] {
        let (one, two) = (place.client().await, place.client().await);
        one.batch_execute("begin").await.unwrap();
        assert_eq!(admit(&one, id, prev).await, "apply");
        let second = tokio::spawn(async move { admit(&two, id, prev).await });
        place.waits_for_a_lock().await;
        one.batch_execute("commit").await.unwrap();
        assert_eq!(second.await.unwrap(), "duplicate");
    }
}

#[tokio::test]
async fn the_library_and_sql_share_a_gate() {
    let place = made().await;
    let sql = place.client().await;
    let (database, name) = (Database::connect(place.url()).unwrap(), FeedName::new("partner").unwrap());
    let state = PostgresGateState::open(database, &name);
    let mut gate = Gate::open(state.await.unwrap(), Limits::default()).await.unwrap();
    let event = |id, prev: Option<u64>| Arrived {
        object: ObjectName::new("work:1").unwrap(),
        link: Link::new(EventId(id), prev.map(EventId)).unwrap(),
        body: "{}".to_owned(),
    };
    assert_eq!(admit(&sql, "1", "null").await, "apply");
    assert_eq!(gate.admit(&event(1, None)).await.unwrap(), Admit::Duplicate);
    assert_eq!(gate.admit(&event(3, Some(2))).await.unwrap(), Admit::Wait { prev: EventId(2) });
    assert_eq!(admit(&sql, "2", "1").await, "apply");
    assert_eq!(admit(&sql, "3", "2").await, "apply");
    assert_eq!(place.number("select count(*) from seriatim.gate_held").await, 0, "what was held is applied");
    assert_eq!(gate.admit(&event(4, Some(3))).await.unwrap(), Admit::Apply);
}

#[tokio::test]
async fn a_chain_can_begin_after_a_copy() {
    let place = made().await;
    let sql = place.client().await;
    sql.batch_execute("select seriatim.gate_begin('partner', 'work:1', 7)").await.unwrap();
    sql.batch_execute("select seriatim.gate_begin('partner', 'work:1', 6)").await.unwrap();
    assert_eq!(admit(&sql, "7", "5").await, "duplicate");
    assert_eq!(admit(&sql, "8", "7").await, "apply");
}

#[tokio::test]
async fn a_consumer_needs_rights_on_the_tables_alone() {
    let place = made().await;
    let role = format!("app_{}", fastrand::u64(..));
    place.run(&format!("create role {role} login; grant usage on schema seriatim to {role}")).await;
    let app = client(&place.url().replace("postgres@", &format!("{role}@"))).await;
    assert_eq!(admit(&app, "1", "null").await, "42501");
    let grants = "grant select, insert, update on seriatim.gate to app; grant select, delete on seriatim.gate_held to app";
    place.run(&grants.replace(" app", &format!(" {role}"))).await;
    assert_eq!(admit(&app, "1", "null").await, "apply");
    assert_eq!(admit(&app, "2", "1").await, "apply");
}
