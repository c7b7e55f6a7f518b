//! Feeds that many open in the same moment, and tables that others use while a feed is opened.

use futures_util::future::join_all;
use seriatim::FeedName;
use seriatim::source::{Feed, Start};
use seriatim_postgres::{Capture, Source};

use crate::journal_kit::{Follower, ORDERS, Shop, consumer, run};
use crate::support::until;

type Watch = fn(Source) -> Capture;

const WATCHES: [Watch; 2] = [
    |source| source.journal("orders").partitions(2).named(FeedName::new("journal").unwrap()),
    |source| source.log("orders").partitions(2).named(FeedName::new("log").unwrap()),
];

/// Opens a feed as so many hosts do, each with connections of its own; all agree where it begins, and read all of it.
async fn opens_at_once(hosts: usize, watch: Watch, start: &Start) {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    let existing = if *start == Start::Beginning { 20 } else { 0 };
    let open = (0..hosts).map(|_| Follower::open(watch(shop.source()), start.clone()));
    let mut followers = join_all(open).await;
    let begins: Vec<_> = followers.iter().map(|follower| follower.cursors[0].after.clone()).collect();
    assert!(begins.iter().all(|position| *position == begins[0]), "{start:?}: {begins:?}");
    shop.sql("insert into orders values (21, 1)").await;
    let told = followers[hosts - 1].all().await.len();
    // A log may show a row as one that existed, and then as one that changed.
    assert!(told == existing + 1 || (told == existing + 2 && existing > 0), "{start:?}: {told}");
}

/// `SERIATIM_STARTS=100` does it so many times with three hosts, and with ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_open_a_feed_at_once_agree_where_it_begins() {
    let times = std::env::var("SERIATIM_STARTS").map_or(1, |times| times.parse().unwrap());
    for _ in 0..times {
        for watch in WATCHES {
            opens_at_once(3, watch, &Start::Beginning).await;
            opens_at_once(10, watch, &Start::Beginning).await;
            opens_at_once(3, watch, &Start::Now).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_is_opened_makes_way_for_writers_and_tries_again() {
    for watch in WATCHES {
        let shop = Shop::with(ORDERS).await;
        let holder = shop.session().await;
        run(&holder, "begin; insert into orders values (1, 1)").await;
        let capture = watch(shop.source());
        let opening =
            tokio::spawn(
                async move { capture.open(&consumer(capture.name().as_str()), &Start::Beginning).await },
            );
        shop.place.waits_for_a_lock().await;
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        until("it makes way", async || shop.number(waiting).await == 0).await;
        // Others write meanwhile.
        shop.sql("insert into orders values (2, 2)").await;
        run(&holder, "commit").await;
        opening.await.unwrap().unwrap();
    }
}
