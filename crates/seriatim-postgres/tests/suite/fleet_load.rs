//! What a fleet asks of the server: little while nothing happens, and no more connections than it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seriatim::handler::{Handler, Handling};
use seriatim::host::FeedSettings;
use seriatim::source::{Consumer, Cursor, Install, Limit, Start};
use seriatim::{Change, Context, Failure, FeedName, Host, Partition, Store, clock};
use seriatim_postgres::tokio_postgres::{NoTls, connect};
use seriatim_postgres::{Database, PostgresStore, Source};
use seriatim_testkit::servers::Postgres;
use tokio::task::JoinHandle;

use crate::support::{Place, until};

const HOSTS: usize = 3;
const FEEDS: usize = 10;

/// What the whole fleet may ask of the server while nothing happens. The sequencer looks some sixty times a second; the rest are
/// the hosts' signs of life.
const TRANSACTIONS: f64 = 63.0 + 7.0 * HOSTS as f64;

/// The most connections that a host may have to one database (see docs/postgres.md).
const CONNECTIONS: i64 = 10;

#[derive(Default)]
struct Count(AtomicU64);

#[async_trait::async_trait]
impl Handler for Count {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        self.0.fetch_add(changes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn name(feed: usize) -> String {
    format!("orders_{feed}")
}

/// A host of all feeds that has everything of its own, as a process would.
async fn host(number: usize, url: &str, count: &Arc<Count>) -> JoinHandle<()> {
    let url = format!("{url}?application_name=host{number}");
    let database = Database::connect(&url).unwrap();
    let store = PostgresStore::on(database.clone()).await.unwrap();
    let source = Source::new(database);
    let settings = FeedSettings { start: Start::Now, ..FeedSettings::default() };
    let mut host = Host::new(&format!("host{number}"), Arc::new(store));
    for feed in 0..FEEDS {
        let journal = Arc::new(source.journal(&name(feed)).partitions(16));
        host = host.feed_with(journal, Handling::AtLeastOnce(count.clone()), settings.clone());
    }
    tokio::spawn(async move { host.run_until(std::future::pending()).await.unwrap() })
}

async fn is_balanced(store: &PostgresStore) -> bool {
    let feeds: Vec<FeedName> = (0..FEEDS).map(|feed| FeedName::new(&name(feed)).unwrap()).collect();
    let view = store.view(&feeds).await.unwrap();
    let held = |host: &str| {
        view.leases
            .iter()
            .filter(|lease| lease.owner.as_ref().is_some_and(|owner| owner.host.as_str() == host))
            .count()
    };
    let shares: Vec<usize> = (0..HOSTS).map(|number| held(&format!("host{number}"))).collect();
    view.leases.len() == FEEDS * 16 && shares.iter().all(|share| share.abs_diff(FEEDS * 16 / HOSTS) <= 1)
}

/// How many transactions this database has seen. Sessions tell the server once a second at most, so it is asked over a while.
async fn transactions(place: &Place) -> i64 {
    place
        .number("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")
        .await
}

async fn per_second(place: &Place, over: Duration) -> f64 {
    let (before, began) = (transactions(place).await, clock::now());
    tokio::time::sleep(over).await;
    (transactions(place).await - before) as f64 / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_fleet_asks_little_of_the_server_and_keeps_few_connections() {
    let server = Postgres::start().unwrap();
    let place = Place::on(&server);
    for feed in 0..FEEDS {
        place.run(&format!("create table {} (id bigint primary key)", name(feed))).await;
    }
    let count = Arc::new(Count::default());
    let mut hosts = Vec::new();
    for number in 0..HOSTS {
        hosts.push(host(number, place.url(), &count).await);
    }
    let store = place.store().await;
    until("the fleet is balanced", async || is_balanced(&store).await).await;
    drop(store);
    // A busy machine delays looks; it never makes more of them. The least of some measurements is free of what came before.
    let mut least = f64::INFINITY;
    for _ in 0..4 {
        least = least.min(per_second(&place, Duration::from_secs(3)).await);
        if least <= TRANSACTIONS {
            break;
        }
    }
    assert!(least <= TRANSACTIONS, "{least:.0} transactions a second, {TRANSACTIONS} at most");
    for number in 0..FEEDS {
        place.run(&format!("insert into {} values (1)", name(number))).await;
    }
    until("all inserts are handled", async || count.0.load(Ordering::Relaxed) >= FEEDS as u64).await;
    for number in 0..HOSTS {
        let sql = format!("select count(*) from pg_stat_activity where application_name = 'host{number}'");
        let open = place.number(&sql).await;
        assert!(open <= CONNECTIONS, "host{number} has {open} connections");
    }
    hosts.iter().for_each(JoinHandle::abort);
}

/// Everything that is ever asked of a capture.
async fn live_through(capture: impl Install, consumer: Consumer) {
    capture.check().await.unwrap();
    drop(capture.install_sql().await.unwrap());
    let start = capture.install(&consumer, &Start::Beginning).await.unwrap();
    assert_eq!(capture.open(&consumer, &Start::Beginning).await.unwrap(), start);
    assert!(capture.knows(&consumer).await.unwrap());
    let cursors = [Cursor { partition: Partition(0), after: start.clone() }];
    let limit = Limit { rows: 10, bytes: 1 << 20 };
    let upto = capture.read(&cursors, limit).await.unwrap().remove(0).upto;
    capture.consumed(&consumer, std::slice::from_ref(&upto)).await.unwrap();
    capture.lag(&cursors).await.unwrap();
    capture.backfill(&start).await.unwrap();
    capture.blockers().await.unwrap();
    capture.validate(&upto).await.unwrap();
    capture.newest().await.unwrap();
    capture.oldest().await.unwrap();
    capture.shape().await.unwrap();
    capture.rewind(&consumer, &Start::Position(upto)).await.unwrap();
    capture.rewind(&consumer, &Start::Now).await.unwrap();
    capture.close(&consumer).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_fewest_connections_no_call_waits_for_one_that_itself_holds() {
    let place = Place::new();
    let database = Database::connect(&place.url_with("seriatim_connections=7&application_name=few")).unwrap();
    let store = PostgresStore::on(database.clone()).await.unwrap();
    let source = Source::new(database.clone());
    let mut tasks = Vec::new();
    for number in 0..2 {
        place
            .run(&format!(
                "create table few_{number} (id bigint primary key, changed timestamptz not null default now());
                 insert into few_{number} (id) select generate_series(1, 100)"
            ))
            .await;
        let (table, consumer) = (format!("few_{number}"), |feed: &str| Consumer {
            feed: FeedName::new(feed).unwrap(),
            store: seriatim::name::StoreId::new("store").unwrap(),
        });
        let named = |kind: &str| FeedName::new(&format!("{kind}_{number}")).unwrap();
        let journal = source.journal(&table).named(named("journal")).partitions(1);
        tasks.push(tokio::spawn(live_through(journal, consumer(&format!("journal_{number}")))));
        let log = source.log(&table).named(named("log")).partitions(1);
        tasks.push(tokio::spawn(live_through(log, consumer(&format!("log_{number}")))));
        let window = source.window(&table, "changed").named(named("window")).partitions(1);
        tasks.push(tokio::spawn(live_through(window, consumer(&format!("window_{number}")))));
    }
    let mut most = 0;
    let all = futures_util::future::join_all(tasks);
    let watch = async {
        loop {
            let open =
                place.number("select count(*) from pg_stat_activity where application_name = 'few'").await;
            most = most.max(open);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::select! {
        done = tokio::time::timeout(Duration::from_secs(100), all) => done,
        () = watch => unreachable!("it never ends"),
    };
    done.expect("somebody waits for ever").into_iter().for_each(|task| task.unwrap());
    assert!(most <= 8, "{most} connections: 7, and one while an index is made");
    drop(store);
}

#[tokio::test]
async fn a_server_without_connections_is_waited_for() {
    let server = Postgres::start().unwrap();
    let place = Place::on(&server);
    let database = Database::connect(place.url()).unwrap();
    drop(database.client().await.unwrap());
    let mut others = Vec::new();
    while let Ok((client, connection)) = connect(place.url(), NoTls).await {
        tokio::spawn(connection);
        others.push(client);
    }
    let refusals =
        || std::fs::read_to_string(server.folder().join("log")).unwrap().matches("too many clients").count();
    let before = refusals();
    let waiting = tokio::spawn(async move { database.users_client("a").await.map(drop) });
    until("it is refused twice", async || refusals() >= before + 2).await;
    assert!(!waiting.is_finished());
    drop(others);
    waiting.await.unwrap().unwrap();
}
