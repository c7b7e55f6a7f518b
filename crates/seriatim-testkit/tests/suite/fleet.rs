//! A large fleet in memory and on simulated time: how soon it is balanced, and what that costs the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seriatim::host::Host;
use seriatim::source::MemoryFeed;
use seriatim::{Change, Context, Failure, FeedName, MemoryStore, Store};
use seriatim_testkit::faulty::{Fault, FaultyStore, Operation};
use tokio::task::JoinSet;

/// How often a host looks, by default. A round of the balancer.
const ROUND: Duration = Duration::from_secs(1);

/// Hosts that share one store and one feed. What each asks of the store is counted.
struct Fleet {
    store: MemoryStore,
    feed: MemoryFeed,
    doors: Vec<Arc<FaultyStore>>,
    hosts: JoinSet<()>,
}

impl Fleet {
    fn new(partitions: u32) -> Self {
        let feed = MemoryFeed::new(FeedName::new("f").unwrap(), partitions);
        Fleet { store: MemoryStore::new(), feed, doors: Vec::new(), hosts: JoinSet::new() }
    }

    fn join(&mut self, hosts: usize) {
        for _ in 0..hosts {
            let door = Arc::new(FaultyStore::new(Arc::new(self.store.clone())));
            // Like a server in the same building; so all hosts are really at it at the same time.
            for operation in Operation::ALL {
                door.always(operation, Fault::Slow(Duration::from_millis(1)));
            }
            self.doors.push(Arc::clone(&door));
            let name = format!("h{}", self.doors.len());
            let host = Host::new(&name, door)
                .feed(self.feed.clone(), |_: Change, _: Context| async { Ok::<(), Failure>(()) });
            self.hosts.spawn(async move { host.run_until(std::future::pending()).await.unwrap() });
        }
    }

    async fn counts(&self) -> BTreeMap<Option<String>, usize> {
        let mut counts = BTreeMap::new();
        for lease in self.store.view(&[FeedName::new("f").unwrap()]).await.unwrap().leases {
            *counts.entry(lease.owner.map(|owner| owner.host.to_string())).or_default() += 1;
        }
        counts
    }

    async fn is_balanced(&self) -> bool {
        let counts = self.counts().await;
        let owned: Vec<usize> =
            counts.iter().filter_map(|(owner, has)| owner.as_ref().map(|_| *has)).collect();
        let even = || owned.iter().max().unwrap() - owned.iter().min().unwrap() <= 1;
        !counts.contains_key(&None) && owned.len() == self.doors.len() && even()
    }

    /// How many rounds it took until everything was owned and even.
    async fn rounds_to_balance(&self) -> f64 {
        let began = seriatim::clock::now();
        while !self.is_balanced().await {
            assert!(began.elapsed() < 60 * ROUND, "not balanced: {:?}", self.counts().await);
            tokio::time::sleep(ROUND / 10).await;
        }
        began.elapsed().as_secs_f64() / ROUND.as_secs_f64()
    }

    fn calls(&self, operation: Operation) -> u64 {
        self.doors.iter().map(|door| door.calls(operation)).sum()
    }

    fn all_calls(&self) -> u64 {
        Operation::ALL.into_iter().map(|operation| self.calls(operation)).sum()
    }

    /// Operations per second while nobody comes or goes, with one change per partition and second, roughly.
    async fn calls_per_second(&self, partitions: u32) -> u64 {
        const SECONDS: u64 = 6;
        let before = self.all_calls();
        for second in 0..SECONDS {
            for key in 0..partitions {
                self.feed.push(i64::from(key), second as i64);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        (self.all_calls() - before) / SECONDS
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_partitions_and_a_hundred_hosts_are_balanced_within_ten_rounds() {
    let mut fleet = Fleet::new(1000);
    fleet.join(100);
    let rounds = fleet.rounds_to_balance().await;
    assert!(rounds <= 10.0, "{rounds} rounds");
    let taken = fleet.calls(Operation::Acquire);
    assert!(taken <= 2 * 1000, "not each host ran after each of 1000 leases: {taken}");
    println!("started together: balanced after {rounds:.1} rounds, {taken} tries to acquire");
}

#[tokio::test(start_paused = true)]
async fn many_hosts_that_join_one_are_balanced_within_ten_rounds() {
    // With the same share for each as a hundred that join one with a thousand, which takes a while.
    let mut fleet = Fleet::new(400);
    fleet.join(1);
    fleet.rounds_to_balance().await;
    fleet.join(39);
    let rounds = fleet.rounds_to_balance().await;
    assert!(rounds <= 10.0, "{rounds} rounds");
    let asked = fleet.calls(Operation::RequestHandOver);
    assert!(asked <= 2 * 390, "not each host asked for each of 390 leases: {asked}");
    println!("39 joined one: balanced after {rounds:.1} rounds, {asked} requests");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_has_to_do_grows_with_the_partitions_and_not_with_the_hosts_too() {
    let mut costs = BTreeMap::new();
    for (partitions, hosts) in [(100, 10), (200, 10), (100, 20), (200, 20), (400, 40)] {
        let mut fleet = Fleet::new(partitions);
        fleet.join(hosts);
        fleet.rounds_to_balance().await;
        costs.insert((partitions, hosts), fleet.calls_per_second(partitions).await);
    }
    println!("operations per second by (partitions, hosts): {costs:?}");
    let ratio = |more: (u32, usize), less: (u32, usize)| costs[&more] as f64 / costs[&less] as f64;
    assert!(ratio((200, 10), (100, 10)) < 2.2, "linear in partitions: {costs:?}");
    assert!(ratio((100, 20), (100, 10)) < 1.5, "hosts alone cost little: {costs:?}");
    assert!(ratio((200, 20), (100, 10)) < 2.2, "both doubled, twice as much and not four times: {costs:?}");
    assert!(
        ratio((400, 40), (100, 10)) < 4.4,
        "both fourfold, four times as much and not sixteen: {costs:?}"
    );
}
