//! Who is woken by a change: the readers of its partition, always; those of other partitions, seldom.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use seriatim::source::{Consumer, Cursor, Feed as _, Start};
use seriatim::{Partition, clock};
use seriatim_postgres::Capture;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::journal_kit::{LIMIT, ORDERS, Shop, consumer, run};

const PARTITIONS: u32 = 4;

/// Far less than a reader waits that nobody wakes.
const SOON: Duration = Duration::from_secs(15);

const LONG: Duration = Duration::from_secs(60);

/// A reader of one partition, in a process of its own.
struct Reader {
    capture: Capture,
    cursor: Cursor,
}

impl Reader {
    async fn new(shop: &Shop, partition: Partition) -> Self {
        let capture = shop.source().journal("orders").partitions(PARTITIONS);
        let me: Consumer = consumer("orders");
        let after = capture.open(&me, &Start::Now).await.unwrap();
        Reader { capture, cursor: Cursor { partition, after } }
    }

    /// Reads to the end, and returns the keys.
    async fn read(&mut self) -> Vec<String> {
        let mut keys = Vec::new();
        loop {
            let slices = self.capture.read(std::slice::from_ref(&self.cursor), LIMIT).await.unwrap();
            let caught_up = slices.iter().all(|slice| slice.caught_up);
            for slice in slices {
                self.cursor.after = slice.upto;
                keys.extend(slice.changes.map(|change| change.key.unwrap().to_string()));
            }
            if caught_up {
                return keys;
            }
        }
    }

    async fn wait(&self) {
        self.capture.wait_for(&[self.cursor.partition], LONG).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_leaves_those_asleep_who_wait_for_other_partitions() {
    let shop = Shop::with(ORDERS).await;
    let mut readers = Vec::new();
    for partition in 0..PARTITIONS {
        readers.push(Reader::new(&shop, Partition(partition)).await);
    }
    // Changes that may be late wake everybody, and anything may go on in a server: one that wakes only its own reader is enough.
    for id in 0..50 {
        for reader in &mut readers {
            reader.read().await;
        }
        shop.sql(&format!("insert into orders values ({id}, 1)")).await;
        let mut woken = 0;
        let waits =
            futures_util::future::join_all(readers.iter().map(|reader| timeout(SOON / 50, reader.wait())));
        for outcome in waits.await {
            woken += usize::from(outcome.is_ok());
        }
        if woken == 1 {
            return;
        }
    }
    panic!("every change wakes those who wait for other partitions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_wakes_its_reader_however_late_it_commits() {
    let shop = Arc::new(Shop::with(ORDERS).await);
    let (sender, mut seen) = mpsc::unbounded_channel();
    for partition in 0..PARTITIONS {
        let mut reader = Reader::new(&shop, Partition(partition)).await;
        let sender = sender.clone();
        tokio::spawn(async move {
            loop {
                reader.read().await.into_iter().for_each(|key| drop(sender.send(key)));
                reader.wait().await;
            }
        });
    }
    let mut writers = Vec::new();
    for writer in 0..6 {
        let session = shop.session().await;
        writers.push(tokio::spawn(async move {
            for row in 0..40 {
                let id = writer * 1000 + row;
                let late = fastrand::u32(0..8) * fastrand::u32(0..8);
                let insert = format!(
                    "begin; insert into orders values ({id}, 1); select pg_sleep({late} / 1000.0); commit"
                );
                run(&session, &insert).await;
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..40))).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let (mut keys, began) = (HashSet::new(), clock::now());
    while keys.len() < 240 {
        let left = SOON.saturating_sub(began.elapsed());
        match timeout(left, seen.recv()).await {
            Ok(Some(key)) => assert!(keys.insert(key.clone()), "{key} came twice"),
            _ => panic!("{} of 240 changes came within {SOON:?}", keys.len()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_wakes_its_reader_when_it_comes_with_a_newer_one_of_another_partition() {
    let shop = Shop::with(ORDERS).await;
    let mut readers = Vec::new();
    for partition in 0..PARTITIONS {
        readers.push(Reader::new(&shop, Partition(partition)).await);
    }
    shop.sql("insert into orders select id, 1 from generate_series(1, 50) id").await;
    let (first, second) = (readers[0].read().await.remove(0), readers[1].read().await.remove(0));
    let update = |key: &str| {
        format!("update orders set amount = amount + 1 where jsonb_build_object('id', id) = '{key}'")
    };
    let late = shop.session().await;
    run(&late, &format!("begin; {}", update(&first))).await;
    shop.sql(&update(&second)).await;
    readers[0].read().await;
    // While somebody else has its lock, the sequencer makes no tick: the next one sees both.
    let busy = shop.session().await;
    run(&busy, "begin; select pg_advisory_xact_lock(hashtextextended('seriatim.journal_tick', 0))").await;
    run(&late, "commit").await;
    shop.sql(&update(&second)).await;
    run(&busy, "commit").await;
    assert!(timeout(SOON, readers[0].wait()).await.is_ok(), "the late change woke nobody");
    assert_eq!(readers[0].read().await, [first]);
}
