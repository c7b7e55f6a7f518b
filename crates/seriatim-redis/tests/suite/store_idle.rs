//! What hosts cost that have nothing to do, in commands to Redis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seriatim::source::MemoryFeed;
use seriatim::{Change, Context, Failure, FeedName, Host, Store, clock};
use seriatim_redis::{Prefix, Redis, RedisStore};
use seriatim_testkit::servers;

/// How long hosts are watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Commands, each with how often it came. Those inside of scripts count too.
type Commands = BTreeMap<String, u64>;

async fn commands(url: &str) -> Commands {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let count = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split_once(',')?.0.parse().ok()?))
    };
    stats.lines().filter_map(count).collect()
}

/// How often a command of a client's came in a second, scripts counting as one, and all commands with those inside of scripts.
async fn idle(hosts: usize, partitions: u32) -> (f64, f64) {
    let server = servers::Redis::start().unwrap();
    let prefix = Prefix::tagged("idle").unwrap();
    let open = async || {
        Arc::new(RedisStore::open(Redis::connect(&server.url()).await.unwrap(), prefix.clone()).unwrap())
    };
    let name = FeedName::new("idle").unwrap();
    let feed = MemoryFeed::new(name.clone(), partitions);
    let handler = |_: Change, _: Context| async { Ok::<(), Failure>(()) };
    let mut running = tokio::task::JoinSet::new();
    for number in 0..hosts {
        let host = Host::new(&format!("host-{number}"), open().await).feed(feed.clone(), handler);
        running.spawn(host.run_until(std::future::pending()));
    }
    until_shared(&*open().await, &name, hosts, partitions).await;
    let (before, began) = (commands(&server.url()).await, clock::now());
    tokio::time::sleep(WATCHED).await;
    let (after, seconds) = (commands(&server.url()).await, began.elapsed().as_secs_f64());
    let since = |name: &String, count: &u64| count - before.get(name).copied().unwrap_or_default();
    let all: u64 = after.iter().map(|(name, count)| since(name, count)).sum();
    let asked = |name: &str| ["evalsha", "eval", "xread"].contains(&name);
    let of_clients: u64 =
        after.iter().filter(|(name, _)| asked(name)).map(|(name, count)| since(name, count)).sum();
    (of_clients as f64 / seconds, all as f64 / seconds)
}

/// Waits until each host has its share, and nobody moves anything any more.
async fn until_shared(store: &dyn Store, feed: &FeedName, hosts: usize, partitions: u32) {
    let began = clock::now();
    let mut quiet = 0;
    while quiet < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "the leases are not shared");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for owner in
            store.view(std::slice::from_ref(feed)).await.unwrap().leases.into_iter().filter_map(|l| l.owner)
        {
            *shares.entry(owner.host.to_string()).or_default() += 1;
        }
        let shared = shares.len() == hosts && shares.values().sum::<usize>() == partitions as usize;
        let even = shares.values().all(|share| share.abs_diff(partitions as usize / hosts) <= 1);
        quiet = if shared && even { quiet + 1 } else { 0 };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idling_costs_the_same_for_16_and_for_1000_partitions() {
    for (hosts, partitions) in [(1, 16), (1, 1000), (5, 1000)] {
        let (of_clients, all) = idle(hosts, partitions).await;
        println!(
            "{hosts} hosts, {partitions} partitions, a second: {of_clients:.1} commands of clients, {all:.1} with those in scripts"
        );
        let most = 10.0 * hosts as f64;
        assert!(of_clients > 0.0 && of_clients <= most, "{hosts} x {partitions}: {of_clients}");
        // A look reads each host's record.
        assert!(all <= most * (3.0 + hosts as f64), "{hosts} x {partitions}: {all}");
    }
}
