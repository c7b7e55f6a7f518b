//! An ordinary role is enough, and one that lacks something is told what.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::Store;
use seriatim::store::{Checkpoint, StoreError};
use seriatim::{Position, Value};
use seriatim_postgres::{Database, PostgresStore};
use seriatim_testkit::conformance::Harness;
use seriatim_testkit::servers::Postgres;

use crate::support::{Place, change, own, see};

/// A database, and a role of its own that may do nothing yet.
struct Ordinary {
    place: Place,
    role: String,
}

impl Ordinary {
    async fn new() -> Self {
        let place = Place::new();
        let role = format!("app \"{}\"", place.url().rsplit('/').next().unwrap());
        let quoted = role.replace('"', "\"\"");
        place.run(&format!("create role \"{quoted}\" login")).await;
        Ordinary { place, role }
    }

    fn url(&self) -> String {
        let role = self.role.replace('"', "%22").replace(' ', "%20");
        self.place.url().replace("postgres@", &format!("{role}@"))
    }

    fn database(&self) -> Database {
        Database::connect(&self.url()).unwrap()
    }

    /// Runs what is missing, as somebody who may, until nothing is.
    async fn grant_what_is_missing(&self) -> Vec<String> {
        let mut granted = Vec::new();
        loop {
            let missing = PostgresStore::missing_grants(&self.database()).await.unwrap();
            if missing.is_empty() {
                return granted;
            }
            for grant in missing {
                self.place.run(&grant).await;
                granted.push(grant);
            }
        }
    }
}

#[tokio::test]
async fn a_role_that_may_not_make_the_schema_is_told_what_to_run() {
    let app = Ordinary::new().await;
    let refused = PostgresStore::connect(&app.url()).await.unwrap_err();
    let remedy = refused.remedy().unwrap().to_owned();
    assert!(remedy.contains("create schema \"seriatim\" authorization"), "{refused}: {remedy}");
    assert!(refused.to_string().contains("may not"), "{refused}");
    let (_, sql) = remedy.split_once("run: ").unwrap();
    app.place.run(sql).await;
    let store = PostgresStore::connect(&app.url()).await.unwrap();
    own(&store, "ada").await;
}

#[tokio::test]
async fn what_is_missing_is_listed_as_what_grants_it() {
    let app = Ordinary::new().await;
    let granted = app.grant_what_is_missing().await;
    assert_eq!(granted.len(), 1);
    assert!(granted[0].starts_with("grant create on database \"test_"), "{granted:?}");
    own(&PostgresStore::connect(&app.url()).await.unwrap(), "ada").await;
}

#[tokio::test]
async fn a_role_beside_the_schemas_owner_needs_grants_on_each_table_and_no_more() {
    let app = Ordinary::new().await;
    app.place.store().await;
    let refused = PostgresStore::connect(&app.url()).await.unwrap_err();
    assert!(!refused.is_transient(), "{refused}");
    let granted = app.grant_what_is_missing().await;
    assert!(granted.iter().any(|grant| grant.starts_with("grant usage on schema")), "{granted:?}");
    assert!(
        granted.iter().any(|grant| grant.starts_with("grant update on \"seriatim\".lease")),
        "{granted:?}"
    );
    let store = PostgresStore::connect(&app.url()).await.unwrap();
    let (session, lease) = own(&store, "ada").await;
    let state = seriatim::store::ParkedState::Parked;
    let failure =
        Some(seriatim::store::ParkedFailure { error: "no".to_owned(), attempts: 1, state, next_try: None });
    let mut checkpoint = Checkpoint::at(Position::number(5));
    checkpoint.parked.push(seriatim::store::Parking { change: change(1, 1, Value::Null), failure });
    store.checkpoint(&lease, &checkpoint).await.unwrap();
    let (key, what) = (seriatim::Key::of("id", Value::Integer(1)), seriatim::store::Discard::All(1));
    let discarding = store.discard_parked(&lease.id.feed, &key, what, "a test").await.unwrap();
    assert_eq!(discarding, seriatim::store::Discarding::Done(1));
    store.leave(&session).await.unwrap();
    assert_eq!(see(&store).await.position, Position::number(5));
}

#[tokio::test]
async fn a_grant_that_is_taken_away_needs_attention() {
    let app = Ordinary::new().await;
    app.grant_what_is_missing().await;
    let store = PostgresStore::connect(&app.url()).await.unwrap();
    let (_, lease) = own(&store, "ada").await;
    let role = app.role.replace('"', "\"\"");
    app.place
        .run(&format!(
            "alter table seriatim.lease owner to postgres; revoke all on seriatim.lease from \"{role}\""
        ))
        .await;
    let refused = store.release(&lease, None).await;
    assert!(
        matches!(&refused, Err(StoreError::NeedsAttention { remedy, .. }) if remedy.contains("grant")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn wrong_names_need_attention_and_say_which() {
    let url = |database: &str| Postgres::shared().url_of(database);
    let refused = PostgresStore::connect(&url("nowhere")).await.unwrap_err();
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    assert!(refused.remedy().unwrap().contains("create the database"), "{refused}");
    let nobody = url("postgres").replace("postgres@", "nobody:secret@");
    let refused = PostgresStore::connect(&nobody).await.unwrap_err();
    assert!(refused.remedy().is_some(), "{refused}");
    assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_worth_another_try() {
    let port = seriatim_testkit::servers::free_port().unwrap();
    let refused =
        PostgresStore::connect(&format!("postgres://a:secret@127.0.0.1:{port}/shop")).await.unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    assert!(refused.to_string().contains("database shop on 127.0.0.1"), "{refused}");
    assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
}

/// The store under another schema's name, with an ordinary role, keeps every promise as well.
struct Billing(Ordinary);

#[async_trait]
impl Harness for Billing {
    async fn open(&self) -> Arc<dyn Store> {
        let url = format!("{}?seriatim_schema=user", self.0.url());
        Arc::new(PostgresStore::connect(&url).await.unwrap())
    }

    fn knows_the_dead(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn another_schema_and_an_ordinary_role_will_do() {
    use seriatim_testkit::conformance::{hosts, parked, rewind};
    let new = async || {
        let app = Ordinary::new().await;
        app.grant_what_is_missing().await;
        Billing(app)
    };
    parked::parked_changes_come_back_whole_and_in_order(&new().await).await;
    rewind::rewinding_keeps_or_drops_what_is_parked_in_its_partition(&new().await).await;
    hosts::a_dead_host_is_known_where_the_store_can_tell(&new().await).await;
    let billing = new().await;
    billing.open().await;
    let others = "select count(*) from pg_namespace where nspname = 'seriatim'";
    assert_eq!(billing.0.place.number(others).await, 0);
}
