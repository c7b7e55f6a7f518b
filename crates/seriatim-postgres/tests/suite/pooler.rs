//! Poolers between Seriatim and the server: those that keep sessions are as good as none, others are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim::handler::{Handler, Handling};
use seriatim::host::FeedSettings;
use seriatim::source::{Install as _, Start};
use seriatim::{Change, Context, Failure, Host};
use seriatim_postgres::{PostgresStore, Source};
use seriatim_testkit::servers::{PgBouncer, Postgres};

use crate::support::{client, until};

async fn is_refused(pooler: &PgBouncer, database: &str) {
    let refused = PostgresStore::connect(&pooler.url_of(database)).await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("pooler"), "{refused}");
    assert!(refused.remedy().unwrap().contains("pool_mode = session"), "{refused:?}");
    let source = Source::connect(&pooler.url_of(database)).unwrap();
    let refused = source.journal("orders").check().await.unwrap_err().to_string();
    assert!(refused.contains("pooler") && refused.contains("pool_mode = session"), "{refused}");
}

#[tokio::test]
async fn a_pooler_that_hands_sessions_around_is_refused_before_anything_is_set_in_them() {
    let server = Postgres::shared();
    let settings: [(&str, &[&str]); 4] = [
        ("transaction", &[]),
        ("transaction", &["default_pool_size = 1"]),
        ("transaction", &["server_round_robin = 1", "min_pool_size = 4"]),
        ("statement", &[]),
    ];
    for (mode, settings) in settings {
        let database = server.database().unwrap();
        let pooler = PgBouncer::before(server, mode, settings).unwrap();
        // Sessions that are there already, as in a pool that others use.
        let others = client(&pooler.url_of(&database)).await;
        others.simple_query("create table orders (id bigint primary key)").await.unwrap();
        is_refused(&pooler, &database).await;
        let path = others.simple_query("select id from orders").await;
        assert!(path.is_ok(), "nobody's search path has changed: {path:?}");
    }
}

#[tokio::test]
async fn a_pool_whose_sessions_are_busy_is_refused_all_the_same() {
    let server = Postgres::shared();
    let database = server.database().unwrap();
    let pooler = PgBouncer::before(server, "transaction", &[]).unwrap();
    let busy = client(&pooler.url_of(&database)).await;
    busy.simple_query("create table orders (id bigint primary key); begin; insert into orders values (1)")
        .await
        .unwrap();
    is_refused(&pooler, &database).await;
    busy.simple_query("commit").await.unwrap();
}

struct Count(AtomicU64);

#[async_trait::async_trait]
impl Handler for Count {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        self.0.fetch_add(changes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_runs_through_a_pooler_that_keeps_sessions_and_survives_the_loss_of_all_of_them() {
    let server = Postgres::shared();
    let database = server.database().unwrap();
    let pooler = PgBouncer::before(server, "session", &["default_pool_size = 100"]).unwrap();
    let direct = client(&server.url_of(&database)).await;
    direct.batch_execute("create table orders (id bigint primary key)").await.unwrap();
    let store = PostgresStore::connect(&pooler.url_of(&database)).await.unwrap();
    let feed = Source::connect(&pooler.url_of(&database)).unwrap().journal("orders").partitions(4);
    let count = Arc::new(Count(AtomicU64::new(0)));
    let settings = FeedSettings { start: Start::Beginning, ..FeedSettings::default() };
    let handling = Handling::AtLeastOnce(count.clone());
    let host = Host::new("one", Arc::new(store)).feed_with(Arc::new(feed), handling, settings);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    let handled = async |at_least: u64| {
        until("the feed has handled them", async || count.0.load(Ordering::Relaxed) >= at_least).await;
    };
    direct.batch_execute("insert into orders select generate_series(1, 100)").await.unwrap();
    handled(100).await;
    // Whoever listened, prepared or held a lock has lost it.
    let lost = direct.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()", &[]).await.unwrap();
    assert!(!lost.is_empty());
    direct.batch_execute("insert into orders select generate_series(101, 200)").await.unwrap();
    handled(200).await;
    drop(stop);
    running.await.unwrap().unwrap();
}
