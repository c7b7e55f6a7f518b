//! Workers as real processes: killed with -9 at random, stopped beyond their lease and resumed.

use std::sync::Arc;

use seriatim::FeedName;
use seriatim_postgres::{Database, PostgresQueue};
use seriatim_testkit::queue::processes::{Again, WORKER, chaos, work};

use crate::support::Place;

const URL: &str = "SERIATIM_TEST_QUEUE";

async fn queue(url: &str) -> Arc<PostgresQueue> {
    let name = FeedName::new("works").unwrap();
    Arc::new(PostgresQueue::open(Database::connect(url).unwrap(), &name).await.unwrap())
}

#[tokio::test]
async fn the_child() {
    if std::env::var(WORKER).is_ok() {
        work(queue(&std::env::var(URL).unwrap()).await).await;
    }
}

#[tokio::test]
async fn every_chain_is_whole_whoever_is_killed_or_stopped() {
    let place = Place::new();
    let environment = vec![(URL, place.url().to_owned())];
    chaos(queue(place.url()).await, Again { test: "queue_processes::the_child", environment }).await;
}
