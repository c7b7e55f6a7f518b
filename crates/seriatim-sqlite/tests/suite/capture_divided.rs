//! A feed divided into another number of partitions: where the old ones end and the new ones begin, and whose keys are whose.

use std::sync::Arc;

use seriatim::change::{Change, Position};
use seriatim::lease::Part;
use seriatim::name::StoreId;
use seriatim::source::{Consumer, Cursor, Feed, Limit, Sliced, Start};
use seriatim::{FeedName, Key, Partition};
use seriatim_sqlite::{Capture, Source};

const KINDS: [fn(&Source, &str) -> Capture; 2] = [Source::journal, Source::log];

const LIMIT: Limit = Limit { rows: 7, bytes: usize::MAX };

fn consumer() -> Consumer {
    Consumer { feed: FeedName::new("orders").unwrap(), store: StoreId::new("elsewhere").unwrap() }
}

/// All changes of the partitions of a part after a position, and where each of them is then.
async fn read(feed: &Arc<dyn Feed>, part: &Part, from: &Position) -> (Vec<Change>, Vec<Position>) {
    let sliced = Sliced::of(feed, part).expect("it can be divided");
    sliced.open(&consumer(), &Start::Now).await.unwrap();
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

/// As parked objects come back from a store.
fn kept(key: &Key) -> Key {
    serde_json::from_str(&serde_json::to_string(key).unwrap()).unwrap()
}

#[tokio::test]
async fn old_partitions_end_exactly_at_the_barrier_and_new_ones_begin_there() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let writer = rusqlite::Connection::open(&path).unwrap();
        writer.execute_batch("create table orders (id integer primary key, amount integer)").unwrap();
        let feed: Arc<dyn Feed> = Arc::new(kind(&Source::new(&path), "orders").partitions(4));
        let start = feed.open(&consumer(), &Start::Now).await.unwrap();
        let insert = |from: u32, to: u32| {
            let rows = (from..=to).map(|id| format!("({id}, 0)")).collect::<Vec<_>>().join(", ");
            writer.execute_batch(&format!("insert into orders values {rows}")).unwrap();
        };
        insert(1, 40);
        let (before, reached) = read(&feed, &Part::of_first(4), &start).await;
        insert(41, 60);
        let barrier = feed.barrier().await.unwrap();
        insert(61, 90);
        let ending = Part { upto: Some(barrier.clone()), ..Part::of_first(4) };
        let (rest, ends) = read(&feed, &ending, &reached[0]).await;
        assert_eq!(ends, vec![barrier.clone(); 4]);
        let (after, _) = read(&feed, &Part { first: 4, ..Part::of_first(7) }, &barrier).await;
        assert_eq!((before.len(), rest.len(), after.len()), (40, 20, 30));
        assert!(after.iter().all(|change| (4..11).contains(&change.partition.0)));
        let parked: Vec<Key> = after.iter().map(|change| kept(change.key.as_ref().unwrap())).collect();
        for (change, hash) in after.iter().zip(feed.hashes(&parked).await.unwrap()) {
            assert_eq!(u64::from(change.partition.0 - 4), hash % 7, "{:?}", change.key);
        }
    }
}
