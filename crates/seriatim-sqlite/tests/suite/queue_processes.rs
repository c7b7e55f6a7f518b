//! Workers as real processes: killed with -9 at random, stopped beyond their lease and resumed.

use std::path::Path;
use std::sync::Arc;

use seriatim::FeedName;
use seriatim_sqlite::SqliteQueue;
use seriatim_testkit::queue::processes::{Again, WORKER, chaos, work};

use crate::support::File;

const PATH: &str = "SERIATIM_TEST_QUEUE";

async fn queue(path: &Path) -> Arc<SqliteQueue> {
    Arc::new(SqliteQueue::open(path, &FeedName::new("works").unwrap()).await.unwrap())
}

#[tokio::test]
async fn the_child() {
    if std::env::var(WORKER).is_ok() {
        work(queue(Path::new(&std::env::var(PATH).unwrap())).await).await;
    }
}

#[tokio::test]
async fn every_chain_is_whole_whoever_is_killed_or_stopped() {
    let file = File::new();
    let environment = vec![(PATH, file.path().to_str().unwrap().to_owned())];
    chaos(queue(&file.path()).await, Again { test: "queue_processes::the_child", environment }).await;
}
