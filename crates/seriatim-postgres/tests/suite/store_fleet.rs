//! A fleet on one store, while hosts are lost and the server restarts: every change once, in order.

use std::sync::Arc;
use std::time::Duration;

use seriatim::handler::Handling;
use seriatim::host::{FeedSettings, LeaseSettings};
use seriatim::source::MemoryFeed;
use seriatim::{Change, Failure, Host, Store};
use seriatim_postgres::tokio_postgres::Transaction;
use seriatim_postgres::{PostgresStore, in_transaction};
use seriatim_testkit::servers::Postgres;
use tokio::task::JoinHandle;

use crate::support::{Place, feed, until};

const CHANGES: u64 = 2000;
const LEASES: LeaseSettings = LeaseSettings {
    acquire: Duration::from_millis(200),
    renew: Duration::from_millis(500),
    expire: Duration::from_secs(3),
};

async fn note(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in changes {
        let key = change.key.as_ref().map(ToString::to_string);
        let sql = "insert into seen (id, key) values ($1, $2)";
        transaction.execute(sql, &[&change.id.cast_signed(), &key]).await?;
    }
    Ok(())
}

/// A host with a store of its own; aborting it drops both, as the end of a process would.
fn start(name: &'static str, url: &str, watched: &MemoryFeed) -> JoinHandle<()> {
    let (url, watched) = (url.to_owned(), watched.clone());
    tokio::spawn(async move {
        let store = PostgresStore::connect(&url).await.unwrap();
        let handler = in_transaction(&store, note);
        let settings = FeedSettings { batch: 20, ..FeedSettings::default() };
        let host = Host::new(name, Arc::new(store))
            .feed_with(Arc::new(watched), Handling::ExactlyOnce(Arc::new(handler)), settings)
            .leases(LEASES);
        host.run_until(std::future::pending()).await.unwrap();
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_loses_doubles_and_inverts_nothing_while_hosts_die_and_the_server_restarts() {
    let server = Arc::new(Postgres::start().unwrap());
    let place = Place::on(&server);
    place.run("create table seen (n bigint generated always as identity, id bigint not null, key text not null)").await;
    let watched = MemoryFeed::new(feed(), 8);
    let _ada = start("ada", place.url(), &watched);
    let bob = start("bob", place.url(), &watched);
    let writer = watched.clone();
    let writing = tokio::spawn(async move {
        for id in 0..CHANGES.cast_signed() {
            writer.push(id % 50, id);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let handled = || async {
        place.client().await.query_one("select count(*) from seen", &[]).await.unwrap().get::<_, i64>(0)
    };
    until("the first changes", || async { handled().await > 100 }).await;
    bob.abort();
    let _carol = start("carol", place.url(), &watched);
    until("more changes", || async { handled().await > 500 }).await;
    let restarting = Arc::clone(&server);
    tokio::task::spawn_blocking(move || restarting.restart()).await.unwrap().unwrap();
    writing.await.unwrap();
    until("all changes", || async { handled().await >= CHANGES.cast_signed() }).await;
    for all in ["count(*)", "count(distinct id)", "max(id)"] {
        assert_eq!(place.number(&format!("select {all} from seen")).await, CHANGES.cast_signed(), "{all}");
    }
    let inverted = "select count(*) from (select id < lag(id) over (partition by key order by n) bad from seen) x where bad";
    assert_eq!(place.number(inverted).await, 0);
    let store = place.store().await;
    assert!(store.parked(&feed(), None).await.unwrap().is_empty());
}
