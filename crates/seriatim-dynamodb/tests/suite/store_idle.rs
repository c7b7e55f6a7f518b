//! What a host costs that has nothing to do, in requests to DynamoDB.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seriatim::source::MemoryFeed;
use seriatim::{Change, Context, Failure, FeedName, Host, Store, clock};
use seriatim_dynamodb::aws_sdk_dynamodb::Client;
use seriatim_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use seriatim_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use seriatim_dynamodb::aws_sdk_dynamodb::error::BoxError;
use seriatim_dynamodb::{DynamoDbStore, Table};

use crate::server::Server;

/// How long a host is watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Counts requests that write, and those that read.
#[derive(Clone, Debug, Default)]
struct Counting {
    writes: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl Intercept for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let target = context.request().headers().get("x-amz-target").unwrap_or_default();
        let is_read = ["GetItem", "BatchGetItem", "Query"].iter().any(|read| target.ends_with(read));
        let counted = if is_read { &self.reads } else { &self.writes };
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

async fn until_all_owned(store: &DynamoDbStore, feed: &FeedName, partitions: usize) {
    let began = clock::now();
    loop {
        let leases = store.view(std::slice::from_ref(feed)).await.unwrap().leases;
        if leases.iter().filter(|lease| lease.owner.is_some()).count() == partitions {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the leases are not taken");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The writes and reads of a host with so many partitions, in a second in which nothing happens.
async fn idle(partitions: u32) -> (f64, f64) {
    let server = Server::share();
    let address = server.address();
    Table::new(address.client(), address.table()).make().await.unwrap();
    let counting = Counting::default();
    let config = address.client().config().to_builder().interceptor(counting.clone()).build();
    let counted = DynamoDbStore::with_client(&Client::from_conf(config), address.table()).await.unwrap();
    let watching = DynamoDbStore::connect(&address).await.unwrap();
    let name = FeedName::new("idle").unwrap();
    let feed = MemoryFeed::new(name.clone(), partitions);
    let handler = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    let host = Host::new("ada", Arc::new(counted)).feed(feed, handler);
    let running = tokio::spawn(host.run_until(std::future::pending()));
    until_all_owned(&watching, &name, partitions as usize).await;
    // The last round of taking looks once more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let (writes, reads, began) = (count(&counting.writes), count(&counting.reads), clock::now());
    tokio::time::sleep(WATCHED).await;
    let seconds = began.elapsed().as_secs_f64();
    running.abort();
    let each = |after: usize, before: usize| (after - before) as f64 / seconds;
    (each(count(&counting.writes), writes), each(count(&counting.reads), reads))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idling_costs_the_same_for_16_and_for_1000_partitions() {
    for partitions in [16, 1000] {
        let (writes, reads) = idle(partitions).await;
        println!("{partitions} partitions: {writes:.2} writes and {reads:.2} reads a second");
        assert!(writes <= 2.0 && reads <= 3.0, "{partitions}: {writes} writes, {reads} reads");
    }
}
