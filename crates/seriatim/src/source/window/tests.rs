//! A processor in a host, in memory and on simulated time: what its windows promise, sentence by sentence.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{Age, Arguments, Clock, Processor, Result, Tie, Window, Windows};
use crate::clock;
use crate::host::{Host, HostError};
use crate::name::FeedName;
use crate::source::SourceError;
use crate::store::{MemoryStore, Store};

/// A table of records in a database whose clock is wherever the test puts it.
#[derive(Clone)]
struct Database {
    records: Arc<Mutex<BTreeMap<i64, Timestamp>>>,
    began: Instant,
    epoch: Timestamp,
}

impl Database {
    fn at(epoch: Timestamp) -> Self {
        Database { records: Arc::default(), began: clock::now(), epoch }
    }

    fn new() -> Self {
        Database::at("2001-02-03T04:05:06Z".parse().unwrap())
    }

    fn present(&self) -> Timestamp {
        self.epoch + SignedDuration::try_from(self.began.elapsed()).unwrap()
    }

    fn write(&self, key: i64, at: Timestamp) {
        self.records.lock().unwrap().insert(key, at);
    }

    /// Writes records, one after another by key, so many seconds after the beginning.
    fn write_at_seconds(&self, seconds: &[i64]) {
        for (key, second) in seconds.iter().enumerate() {
            self.write(key as i64, self.epoch + SignedDuration::from_secs(*second));
        }
    }
}

#[async_trait::async_trait]
impl Clock for Database {
    async fn now(&self) -> std::result::Result<Timestamp, SourceError> {
        Ok(self.present())
    }
}

/// Notes what it processes; told apart by its constants.
#[derive(Clone)]
struct Noting<const COUNT: usize, const TIED: bool, const STALE_SECONDS: u64 = 0> {
    database: Database,
    batches: Arc<Mutex<Vec<Vec<i64>>>>,
    fails: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
    region: Option<&'static str>,
}

impl<const COUNT: usize, const TIED: bool, const STALE: u64> Noting<COUNT, TIED, STALE> {
    fn on(database: &Database) -> Self {
        Noting {
            database: database.clone(),
            batches: Arc::default(),
            fails: Arc::default(),
            running: Arc::default(),
            region: None,
        }
    }

    fn batches(&self) -> Vec<Vec<i64>> {
        self.batches.lock().unwrap().clone()
    }

    fn processed(&self) -> Vec<i64> {
        self.batches().concat()
    }

    fn host(&self, name: &str, store: &MemoryStore) -> Host {
        let windows = Windows::new("invoices", self.clone(), self.database.clone()).unwrap();
        Host::new(name, Arc::new(store.clone())).windows(windows)
    }
}

impl<const COUNT: usize, const TIED: bool, const STALE: u64> Processor for Noting<COUNT, TIED, STALE> {
    type Record = (i64, Timestamp);
    const EXCESSIVE_COUNT: usize = COUNT;
    const STALE_AGE: Age = if STALE == 0 { Age::Infinite } else { Age::Of(Duration::from_secs(STALE)) };

    async fn fetch(&self, window: Window) -> Result<Vec<(i64, Timestamp)>> {
        let after = window.after.map(|tie| tie.number()).transpose()?;
        let records = self.database.records.lock().unwrap();
        let passed = |key: i64, at: Timestamp| at == window.from && after.is_some_and(|after| key <= after);
        let inside = |at: Timestamp| at >= window.from && at < window.to;
        let mut found: Vec<(i64, Timestamp)> = records
            .iter()
            .map(|(key, at)| (*key, *at))
            .filter(|(key, at)| inside(*at) && !passed(*key, *at))
            .collect();
        found.sort_by_key(|(key, at)| (*at, *key));
        found.truncate(window.limit);
        Ok(found)
    }

    async fn process(&self, records: Vec<(i64, Timestamp)>) -> Result<()> {
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "one window at a time, whoever works");
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err("the mail server is away".into());
        }
        self.batches.lock().unwrap().push(records.iter().map(|(key, _)| *key).collect());
        Ok(())
    }

    fn changed_at(&self, (_, at): &(i64, Timestamp)) -> Timestamp {
        *at
    }

    fn tie(&self, (key, _): &(i64, Timestamp)) -> Option<Tie> {
        TIED.then(|| Tie::from(*key))
    }

    fn arguments(&self) -> Arguments {
        Arguments::new(self.region.map(|region| ("region", region)))
    }
}

async fn tracker(store: &MemoryStore, feed: &str) -> String {
    let view = store.view(&[FeedName::new(feed).unwrap()]).await.unwrap();
    view.leases.first().map_or_else(String::new, |lease| lease.position.to_string())
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(3600), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(waited.await.is_ok(), "never happened: {what}");
}

#[tokio::test(start_paused = true)]
async fn one_two_three_three_comes_as_one_and_two_and_then_both_threes() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2, 3, 3]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<3, false> = Noting::on(&database);
    processor.host("a", &store).run_once().await.unwrap();
    assert_eq!(processor.batches(), [vec![0, 1], vec![2, 3]]);
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_records_as_are_too_many_are_all_processed() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2, 3]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<3, false> = Noting::on(&database);
    processor.host("a", &store).run_once().await.unwrap();
    assert_eq!(processor.batches(), [vec![0, 1], vec![2]]);
}

#[tokio::test(start_paused = true)]
async fn too_many_at_one_instant_stop_the_feed_with_a_sentence_and_the_tracker_stays() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 7, 7, 7]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<3, false> = Noting::on(&database);
    let HostError::Stopped(feeds) = processor.host("a", &store).run_once().await.unwrap_err() else {
        panic!()
    };
    let said = &feeds[0].1;
    for part in [
        "feed invoices: 3 records changed at 2001-02-03T04:05:13Z",
        "as many as one window may have (3)",
        "INVOICES_EXCESSIVE_COUNT=30",
        "`tie`",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert_eq!(processor.batches(), [[0]]);
    assert_eq!(tracker(&store, "invoices").await, "2001-02-03T04:05:13Z");
    // Somebody gives it a tie, or a higher count: it goes on where it stopped.
    let relieved: Noting<4, false> = Noting::on(&database);
    relieved.host("a", &store).run_once().await.unwrap();
    assert_eq!(relieved.batches(), [[1, 2, 3]]);
}

#[tokio::test(start_paused = true)]
async fn with_a_tie_any_number_may_share_an_instant() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[7; 8]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<3, true> = Noting::on(&database);
    processor.host("a", &store).run_once().await.unwrap();
    assert_eq!(processor.batches(), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
}

#[tokio::test(start_paused = true)]
async fn with_a_tie_one_at_a_time_works_and_without_it_is_an_error() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 7, 7]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let tied: Noting<1, true> = Noting::on(&database);
    tied.host("a", &store).run_once().await.unwrap();
    assert_eq!(tied.batches(), [[0], [1], [2]]);
    let untied: Noting<1, false> = Noting::on(&database);
    let said = untied.host("a", &MemoryStore::new()).run_once().await.unwrap_err().to_string();
    assert!(said.contains("1 records changed at"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn the_tracker_stays_while_processing_fails() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<10, false> = Noting::on(&database);
    processor.fails.store(true, Ordering::SeqCst);
    let run = tokio::spawn(processor.host("a", &store).run_once());
    // Less than a run that is to end waits for progress.
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(tracker(&store, "invoices").await, "beginning");
    processor.fails.store(false, Ordering::SeqCst);
    run.await.unwrap().unwrap();
    assert_eq!(processor.batches(), [[0, 1]]);
    assert!(tracker(&store, "invoices").await.starts_with("2001-02-03"));
}

#[tokio::test(start_paused = true)]
async fn a_single_run_ends_although_processing_fails() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<10, false> = Noting::on(&database);
    processor.fails.store(true, Ordering::SeqCst);
    let began = clock::now();
    let said = processor.host("a", &store).run_once().await.unwrap_err().to_string();
    assert!(said.contains("nothing has moved for 5m; feed invoices: its target fails since"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(900), "{:?}", began.elapsed());
    assert_eq!(tracker(&store, "invoices").await, "beginning");
}

#[tokio::test(start_paused = true)]
async fn what_is_younger_than_the_buffer_is_waited_for() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write(1, database.present());
    let processor: Noting<10, true> = Noting::on(&database);
    let began = clock::now();
    processor.host("a", &store).run_once().await.unwrap();
    assert_eq!(processor.processed(), [1], "what was there when it began");
    assert!(began.elapsed() >= Duration::from_secs(5) && began.elapsed() < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_host_does_not_matter() {
    let day = SignedDuration::from_hours(24);
    let mut results = Vec::new();
    for epoch in
        [clock::wall(), clock::wall() - day, clock::wall() + day, "1980-01-01T00:00:00Z".parse().unwrap()]
    {
        let (database, store) = (Database::at(epoch), MemoryStore::new());
        database.write_at_seconds(&[1, 2, 3, 3, 58, 100]);
        tokio::time::advance(Duration::from_secs(60)).await;
        let processor: Noting<3, false, 59> = Noting::on(&database);
        processor.host("a", &store).run_once().await.unwrap();
        results.push(processor.batches());
    }
    assert_eq!(results[0], [vec![0, 1], vec![2, 3], vec![4]], "not what is still to come");
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_tracker_begins_with_what_is_not_stale_or_with_everything() {
    let database = Database::new();
    database.write_at_seconds(&[1, 2, 50, 51]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let (everything, fresh): (Noting<9, true>, Noting<9, true, 30>) =
        (Noting::on(&database), Noting::on(&database));
    for _ in 0..2 {
        let store = MemoryStore::new();
        everything.host("a", &store).run_once().await.unwrap();
        let store = MemoryStore::new();
        fresh.host("a", &store).run_once().await.unwrap();
    }
    assert_eq!(everything.processed(), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(fresh.processed(), [2, 3, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn stale_records_are_dropped_and_counted() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2, 3, 3, 3, 70]);
    tokio::time::advance(Duration::from_secs(1)).await;
    let processor: Noting<2, true, 30> = Noting::on(&database);
    let run = tokio::spawn(processor.host("a", &store).run_once());
    run.await.unwrap().unwrap();
    let seen = processor.processed().len();
    tokio::time::advance(Duration::from_secs(70)).await;
    processor.host("a", &store).run_once().await.unwrap();
    assert_eq!(processor.processed().len() - seen, 1, "the one of second 70");
    let tracker = tracker(&store, "invoices").await;
    let dropped = 5 - seen;
    assert!(dropped >= 3);
    assert!(tracker.contains(&format!(" dropped={dropped}")), "{dropped} in {tracker}");
}

#[tokio::test(start_paused = true)]
async fn of_two_hosts_one_works_and_the_tracker_only_goes_forward() {
    let (database, store) = (Database::new(), MemoryStore::new());
    let processor: Noting<3, true> = Noting::on(&database);
    let hosts = ["a", "b"].map(|name| tokio::spawn(processor.host(name, &store).run_until(pending())));
    let moment = |tracker: String| tracker.split(' ').next().and_then(|at| at.parse::<Timestamp>().ok());
    let mut last = None;
    for key in 0..200 {
        database.write(key, database.present());
        tokio::time::sleep(Duration::from_millis(300)).await;
        if key == 100 {
            hosts[0].abort();
        }
        let now = moment(tracker(&store, "invoices").await);
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    until("all are processed", || processor.processed().last() == Some(&199)).await;
    let mut processed = processor.processed();
    processed.dedup();
    assert!(processed.len() >= 200 && (0..200).all(|key| processed.contains(&key)));
    assert!(processor.processed().len() <= 203, "at most the window of the crash came twice");
    hosts[1].abort();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_never_rests_is_processed_within_a_bound() {
    async fn bound<const TIED: bool>() -> Duration {
        let (database, store) = (Database::new(), MemoryStore::new());
        let processor: Noting<10, TIED> = Noting::on(&database);
        let host = tokio::spawn(processor.host("a", &store).run_until(pending()));
        let began = clock::now();
        let mut key = 100;
        while !processor.processed().contains(&1) {
            assert!(began.elapsed() < Duration::from_secs(600), "it starves");
            // It changes every second, five times as often as the buffer; others come and go.
            database.write(1, database.present());
            database.write(key, database.present());
            key += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        host.abort();
        let others = processor.processed().iter().filter(|key| **key >= 100).count();
        assert!(others as u64 + 15 >= began.elapsed().as_secs(), "and everything else goes on");
        began.elapsed()
    }
    assert!(bound::<true>().await <= Duration::from_secs(2 * 10 + 3));
    assert!(bound::<false>().await <= Duration::from_secs(2 * 50 + 3));
}

#[tokio::test(start_paused = true)]
async fn each_set_of_arguments_has_a_tracker_of_its_own() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2]);
    tokio::time::advance(Duration::from_secs(60)).await;
    for region in ["eu", "us"] {
        let processor: Noting<10, true> = Noting { region: Some(region), ..Noting::on(&database) };
        processor.host("a", &store).run_once().await.unwrap();
        processor.host("a", &store).run_once().await.unwrap();
        assert_eq!(processor.processed(), [0, 1], "once for each region");
    }
    let feeds: Vec<String> =
        store.feeds().await.unwrap().iter().map(|feed| feed.as_str().to_owned()).collect();
    assert_eq!(feeds, ["invoices(region=eu)", "invoices(region=us)"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_stops_the_feed_instead_of_losing_what_is_written() {
    let (database, store) = (Database::new(), MemoryStore::new());
    database.write_at_seconds(&[1, 2]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let processor: Noting<10, true> = Noting::on(&database);
    processor.host("a", &store).run_once().await.unwrap();
    let set_back = Database { epoch: database.epoch - SignedDuration::from_hours(24), ..database.clone() };
    let processor: Noting<10, true> = Noting::on(&set_back);
    let said = processor.host("a", &store).run_once().await.unwrap_err().to_string();
    assert!(said.contains("the clock was set back"), "{said}");
}
