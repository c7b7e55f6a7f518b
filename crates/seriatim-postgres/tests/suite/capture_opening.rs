//! Feeds that many open in the same moment, and tables that others use while a feed is opened.

use futures_util::future::join_all;
use seriatim::FeedName;
use seriatim::source::{Feed, Start};
use seriatim_postgres::{Capture, Source};

use crate::journal_kit::{Follower, ORDERS, Shop, consumer, run};
use crate::support::until;

const HOSTS: usize = 8;

type Watch = fn(Source) -> Capture;

const WATCHES: [Watch; 2] = [
    |source| source.journal("orders").partitions(2).named(FeedName::new("journal").unwrap()),
    |source| source.log("orders").partitions(2).named(FeedName::new("log").unwrap()),
];

/// Each has connections of its own, as a host has.
async fn opened_at_once(shop: &Shop, watch: Watch, start: &Start) -> Vec<Follower> {
    let open = (0..HOSTS).map(|_| Follower::open(watch(shop.source()), start.clone()));
    join_all(open).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_open_a_feed_at_once_agree_where_it_begins() {
    for watch in WATCHES {
        for (start, existing) in [(Start::Beginning, 20), (Start::Now, 0)] {
            let shop = Shop::with(ORDERS).await;
            shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
            let followers = opened_at_once(&shop, watch, &start).await;
            let begins = followers[0].cursors[0].after.clone();
            shop.sql("insert into orders values (21, 1)").await;
            for mut follower in followers {
                assert_eq!(follower.cursors[0].after, begins, "{start:?}");
                let told = follower.all().await.len();
                // A log may show a row as one that existed, and then as one that changed.
                assert!(told == existing + 1 || (told == existing + 2 && existing > 0), "{start:?}: {told}");
            }
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
