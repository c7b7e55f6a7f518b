//! What a host costs that has nothing to do, in requests to DynamoDB and in the capacity units that it charges for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use serde_json::Value;
use seriatim::source::MemoryFeed;
use seriatim::{Change, Context, Failure, FeedName, Host, Store, clock};
use seriatim_dynamodb::aws_sdk_dynamodb::Client;
use seriatim_dynamodb::aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextMut,
};
use seriatim_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use seriatim_dynamodb::aws_sdk_dynamodb::error::BoxError;
use seriatim_dynamodb::{DynamoDbStore, Table};

use crate::server::Server;

/// How long a host is watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Requests and capacity units.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    writes: f64,
    written: f64,
    reads: f64,
    read: f64,
}

/// Whether a request reads.
#[derive(Clone, Copy, Debug)]
struct Reads(bool);

impl Storable for Reads {
    type Storer = StoreReplace<Self>;
}

/// Counts what requests cost.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<Mutex<Cost>>);

impl Counting {
    fn now(&self) -> Cost {
        *self.0.lock().unwrap()
    }
}

impl Intercept for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    /// Has each answer say what it cost.
    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let reads = ["GetItem", "BatchGetItem", "Query"].iter().any(|read| target.ends_with(read));
        bag.interceptor_state().store_put(Reads(reads));
        let mut body: Value = serde_json::from_slice(request.body().bytes().unwrap_or_default())?;
        body["ReturnConsumedCapacity"] = "TOTAL".into();
        let body = body.to_string();
        request.headers_mut().insert("content-length", body.len().to_string());
        *request.body_mut() = SdkBody::from(body);
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer: Value = serde_json::from_slice(context.response().body().bytes().unwrap_or_default())?;
        let units = |of: &Value| of["CapacityUnits"].as_f64().unwrap_or_default();
        let consumed = match &answer["ConsumedCapacity"] {
            Value::Array(tables) => tables.iter().map(units).sum(),
            table => units(table),
        };
        let mut cost = self.0.lock().unwrap();
        match bag.load::<Reads>().is_some_and(|reads| reads.0) {
            true => (cost.reads, cost.read) = (cost.reads + 1.0, cost.read + consumed),
            false => (cost.writes, cost.written) = (cost.writes + 1.0, cost.written + consumed),
        }
        Ok(())
    }
}

async fn until_all_owned(store: &DynamoDbStore, feed: &FeedName, partitions: usize) {
    let began = clock::now();
    loop {
        // A busy server may not answer in time.
        let leases = store.view(std::slice::from_ref(feed)).await.map(|view| view.leases).unwrap_or_default();
        if leases.iter().filter(|lease| lease.owner.is_some()).count() == partitions {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the leases are not taken");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until the last round of taking is over: it reads what it took, and looks once more.
async fn until_settled(counting: &Counting) {
    let began = clock::now();
    loop {
        let before = counting.now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = counting.now();
        if now.reads - before.reads <= 8.0 && now.read - before.read <= 16.0 {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "it never comes to rest");
    }
}

/// What a host with so many partitions costs in a second in which nothing happens.
async fn idle(partitions: u32) -> Cost {
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
    until_settled(&counting).await;
    let (before, began) = (counting.now(), clock::now());
    tokio::time::sleep(WATCHED).await;
    let (after, seconds) = (counting.now(), began.elapsed().as_secs_f64());
    running.abort();
    let each = |after: f64, before: f64| (after - before) / seconds;
    Cost {
        writes: each(after.writes, before.writes),
        written: each(after.written, before.written),
        reads: each(after.reads, before.reads),
        read: each(after.read, before.read),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idling_costs_the_same_for_16_and_for_1000_partitions() {
    for partitions in [16, 1000] {
        let cost = idle(partitions).await;
        println!(
            "{partitions} partitions, a second: {:.2} writes ({:.2} units), {:.2} reads ({:.2} units)",
            cost.writes, cost.written, cost.reads, cost.read
        );
        assert!(cost.writes <= 2.0 && cost.written <= 2.0, "{partitions}: {cost:?}");
        assert!(cost.reads <= 3.0 && cost.read <= 3.0, "{partitions}: {cost:?}");
        assert!(cost.writes > 0.0 && cost.written > 0.0 && cost.read > 0.0, "nothing was counted: {cost:?}");
    }
}
