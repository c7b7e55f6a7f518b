//! A feed divided into another number of partitions: where the old ones end and the new ones begin, and whose keys are whose.

use std::collections::BTreeSet;
use std::sync::Arc;

use seriatim::change::{Change, Position};
use seriatim::lease::Part;
use seriatim::source::{Cursor, Feed, Sliced, Start};
use seriatim::{Key, Partition};
use seriatim_postgres::{Capture, Source};

use crate::journal_kit::{LIMIT, ORDERS, Shop, consumer, run};

const KINDS: [fn(&Source, &str) -> Capture; 2] = [Source::journal, Source::log];

/// All changes of the partitions of a part after a position, and where each of them is then.
async fn read(feed: &Arc<dyn Feed>, part: &Part, from: &Position) -> (Vec<Change>, Vec<Position>) {
    let sliced = Sliced::of(feed, part).expect("it can be divided");
    sliced.open(&consumer("orders"), &Start::Now).await.unwrap();
    let numbers = part.first..part.first + part.count;
    let mut cursors: Vec<Cursor> =
        numbers.map(|number| Cursor { partition: Partition(number), after: from.clone() }).collect();
    let mut all = Vec::new();
    loop {
        let mut ends = 0;
        for slice in sliced.read(&cursors, LIMIT).await.unwrap() {
            let cursor = cursors.iter_mut().find(|cursor| cursor.partition == slice.partition).unwrap();
            cursor.after = slice.upto;
            ends += usize::from(slice.caught_up);
            all.extend(slice.changes.inspect(|change| assert_eq!(change.partition, slice.partition)));
        }
        let is_over = part.upto.is_some() && cursors.iter().all(|cursor| part.ends_at(&cursor.after));
        if is_over || ends == cursors.len() {
            return (all, cursors.into_iter().map(|cursor| cursor.after).collect());
        }
    }
}

fn keys(changes: &[Change]) -> BTreeSet<String> {
    changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect()
}

#[tokio::test]
async fn old_partitions_end_exactly_at_the_barrier_and_new_ones_begin_there() {
    for kind in KINDS {
        let shop = Shop::with(ORDERS).await;
        let feed: Arc<dyn Feed> = Arc::new(kind(&shop.source(), "orders").partitions(4));
        let start = feed.open(&consumer("orders"), &Start::Now).await.unwrap();
        shop.sql("insert into orders select g, 0 from generate_series(1, 40) g").await;
        let late = shop.session().await;
        run(&late, "begin; insert into orders select g, 0 from generate_series(41, 50) g").await;
        // Some have read on, as hosts do before a change is announced.
        let (before, reached) = read(&feed, &Part::of_first(4), &start).await;
        shop.sql("insert into orders select g, 0 from generate_series(51, 60) g").await;
        let barrier = feed.barrier().await.unwrap();
        run(&late, "commit").await;
        shop.sql("insert into orders select g, 0 from generate_series(61, 90) g").await;
        let ending = Part { upto: Some(barrier.clone()), ..Part::of_first(4) };
        let (rest, ends) = read(&feed, &ending, &reached[0]).await;
        assert_eq!(ends, vec![barrier.clone(); 4]);
        let child = Part { first: 4, ..Part::of_first(7) };
        let (after, _) = read(&feed, &child, &barrier).await;
        assert_eq!(before.len() + rest.len() + after.len(), 90, "each once");
        let all = [before, rest, after.clone()].concat();
        assert_eq!(keys(&all).len(), 90);
        assert!(after.len() >= 30 && after.iter().all(|change| (4..11).contains(&change.partition.0)));
    }
}

/// As parked objects come back from a store.
fn kept(key: &Key) -> Key {
    serde_json::from_str(&serde_json::to_string(key).unwrap()).unwrap()
}

#[tokio::test]
async fn a_parked_key_belongs_to_the_partition_that_its_changes_are_in() {
    let types = [
        ("bigint", "g::bigint * 1000000007"),
        ("text", "'ü''\"' || g"),
        ("uuid", "md5(g::text)::uuid"),
        ("numeric", "(g / 4.0)::numeric(20, 7)"),
        ("float8", "g / 3.0"),
        ("timestamptz", "'2026-11-16 08:00:00.123456+02'::timestamptz + g * interval '1 hour'"),
        ("timestamp", "'2026-11-16 08:00:00.5'::timestamp + g * interval '1 hour'"),
        ("date", "'2026-11-16'::date + g"),
        ("bytea", "decode(md5(g::text), 'hex')"),
        ("varchar(40)", "'ü' || g"),
        ("int", "g * 7"),
        ("smallint", "g"),
        ("boolean", "g % 2 = 0"),
        ("real", "(g / 3.0)::real"),
        ("char(12)", "'a' || g"),
        ("time", "'08:00'::time + g * interval '1 minute'"),
        ("inet", "'10.0.0.1'::inet + g"),
        ("bit(8)", "g::bit(8)"),
    ];
    let mut wrong = Vec::new();
    for (name, value) in types {
        for kind in KINDS {
            let shop =
                Shop::with(&format!("create table orders (a {name}, b int, amount int, primary key (a, b))"))
                    .await;
            let feed: Arc<dyn Feed> = Arc::new(kind(&shop.source(), "orders").partitions(50));
            let start = feed.open(&consumer("orders"), &Start::Now).await.unwrap();
            shop.sql(&format!("insert into orders select {value}, g, 0 from generate_series(1, 20) g")).await;
            let (changes, _) = read(&feed, &Part::of_first(50), &start).await;
            assert_eq!(changes.len(), 20);
            let parked: Vec<Key> = changes.iter().map(|change| kept(change.key.as_ref().unwrap())).collect();
            let hashes = feed.hashes(&parked).await.unwrap();
            for (change, hash) in changes.iter().zip(hashes) {
                if change.partition.0 as u64 != hash % 50 {
                    wrong.push(format!("{name}: {:?}", change.key));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
