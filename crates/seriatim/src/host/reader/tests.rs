//! Who is served when, and how often a row is read for that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;

use super::*;
use crate::name::FeedName;
use crate::source::{Backfill, Blocker, Consumer, Lag, MemoryFeed, Start};

/// A feed that counts how many rows were looked at, and in how many passes.
pub(in crate::host) struct Counting {
    feed: MemoryFeed,
    ahead: bool,
    rows: AtomicU64,
    passes: AtomicU64,
    away: AtomicBool,
    /// After so many passes the next one does not come to an end.
    pub hangs_after: u64,
}

impl Counting {
    pub(in crate::host) fn new(feed: MemoryFeed, ahead: bool) -> Self {
        let zero = || AtomicU64::new(0);
        Counting {
            feed,
            ahead,
            rows: zero(),
            passes: zero(),
            away: AtomicBool::new(false),
            hangs_after: u64::MAX,
        }
    }
}

fn number(position: &Position) -> u64 {
    position.as_number().unwrap()
}

#[async_trait]
impl Feed for Counting {
    fn name(&self) -> &FeedName {
        self.feed.name()
    }
    fn partitions(&self) -> u32 {
        self.feed.partitions()
    }
    async fn knows(&self, consumer: &Consumer) -> Result<bool, SourceError> {
        self.feed.knows(consumer).await
    }
    async fn open(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.feed.open(consumer, start).await
    }
    async fn read(&self, cursors: &[Cursor], limit: Limit) -> Result<Vec<Slice>, SourceError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(SourceError::unavailable("reading", "it is away"));
        }
        if self.passes.load(Ordering::Relaxed) >= self.hangs_after {
            std::future::pending::<()>().await;
        }
        let slices = self.feed.read(cursors, limit).await?;
        let from = cursors.iter().map(|cursor| number(&cursor.after)).min();
        let upto = slices.first().map(|slice| number(&slice.upto));
        self.rows.fetch_add(upto.zip(from).map_or(0, |(upto, from)| upto - from), Ordering::Relaxed);
        self.passes.fetch_add(1, Ordering::Relaxed);
        Ok(slices)
    }
    fn may_be_read_ahead(&self) -> bool {
        self.ahead
    }
    async fn wait(&self, timeout: Duration) {
        self.feed.wait(timeout).await;
    }
    async fn consumed(&self, consumer: &Consumer, positions: &[Position]) -> Result<u64, SourceError> {
        self.feed.consumed(consumer, positions).await
    }
    async fn close(&self, consumer: &Consumer) -> Result<(), SourceError> {
        self.feed.close(consumer).await
    }
    async fn rewind(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.feed.rewind(consumer, start).await
    }
    async fn validate(&self, position: &Position) -> Result<(), SourceError> {
        self.feed.validate(position).await
    }
    async fn lag(&self, cursors: &[Cursor]) -> Result<Vec<Lag>, SourceError> {
        self.feed.lag(cursors).await
    }
    async fn backfill(&self, at: &Position) -> Result<Option<Backfill>, SourceError> {
        self.feed.backfill(at).await
    }
    async fn blockers(&self) -> Result<Vec<Blocker>, SourceError> {
        self.feed.blockers().await
    }
}

/// A feed of so many changes in so many partitions, and the reader of it.
struct Scene {
    feed: Arc<Counting>,
    reader: ReaderHandle,
    _open: Vec<OpenGuard>,
}

impl Scene {
    fn new(partitions: u32, changes: i64, ahead: bool) -> Self {
        let feed = MemoryFeed::new(FeedName::new("f").unwrap(), partitions);
        for change in 1..=changes {
            feed.push(change % 1000, change);
        }
        let feed = Arc::new(Counting::new(feed, ahead));
        let reader = spawn(
            Arc::clone(&feed) as Arc<dyn Feed>,
            Duration::from_secs(1),
            watch::Sender::new(None).subscribe(),
        );
        let _open = (0..partitions).map(|partition| reader.enter(Partition(partition))).collect();
        Scene { feed, reader, _open }
    }

    fn want(&self, partition: u32, after: u64) -> oneshot::Receiver<Answer> {
        self.reader.want(Partition(partition), Position::number(after))
    }

    async fn read(&self, partition: u32, after: u64) -> Slice {
        self.want(partition, after).await.unwrap().unwrap()
    }

    /// All changes of a partition after a place, as one who asks on and on gets them.
    async fn read_all(&self, partition: u32, mut after: u64) -> Vec<u64> {
        let mut ids = Vec::new();
        loop {
            let slice = self.read(partition, after).await;
            after = number(&slice.upto);
            let caught_up = slice.caught_up;
            ids.extend(slice.changes.map(|change| change.id));
            if caught_up {
                return ids;
            }
        }
    }

    fn rows(&self) -> u64 {
        self.feed.rows.load(Ordering::Relaxed)
    }

    fn passes(&self) -> u64 {
        self.feed.passes.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn each_row_is_read_once_however_far_partitions_are_apart() {
    let scene = Scene::new(4, 1_500, true);
    let first = futures_util::future::join_all((0..4).map(|partition| scene.read(partition, 0))).await;
    let after = number(&first[0].upto);
    let mut ids: Vec<u64> =
        first.into_iter().flat_map(|slice| slice.changes).map(|change| change.id).collect();
    // One after another: the last begins when the first has long seen the end.
    for partition in 0..4 {
        ids.extend(scene.read_all(partition, after).await);
    }
    ids.sort_unstable();
    assert_eq!(ids, (1..=1_500).collect::<Vec<_>>());
    assert_eq!(scene.rows(), 1_500);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_stay_true_is_read_when_it_is_asked_for() {
    let scene = Scene::new(2, 1_000, false);
    let slice = scene.read(0, 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.rows(), number(&slice.upto), "nothing is read ahead");
    let other = scene.read(1, 0).await;
    assert_eq!(scene.rows(), number(&slice.upto) + number(&other.upto), "nor kept");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_far_behind_does_not_hold_up_the_rest() {
    for ahead in [false, true] {
        let scene = Scene::new(4, 8_000, ahead);
        let others = (1..4).map(|partition| scene.read(partition, 7_900));
        let slices = tokio::select! {
            slices = futures_util::future::join_all(others) => slices,
            _ = scene.read_all(0, 0) => panic!("they waited until it had caught up"),
        };
        assert!(slices.iter().all(|slice| slice.caught_up && !slice.changes.is_empty()));
        assert!(scene.passes() <= u64::from(TURNS), "after {} passes", scene.passes());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_ahead_does_not_wait_for_those_who_do_not_ask() {
    let scene = Scene::new(4, 16_000, true);
    // The others asked once, and are at work on that for ever.
    drop(futures_util::future::join_all((1..4).map(|partition| scene.read(partition, 0))).await);
    let slice = scene.read(0, 12_000).await;
    assert!(number(&slice.upto) > 12_000);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_slow_gets_everything_in_order_though_not_all_of_it_was_kept() {
    let scene = Scene::new(2, 8_000, true);
    let (slow, quick) = tokio::join!(scene.read(0, 0), scene.read(1, 0));
    let of_quick = scene.read_all(1, number(&quick.upto)).await;
    let after = number(&slow.upto);
    let mut ids: Vec<u64> = slow.changes.map(|change| change.id).collect();
    ids.extend(scene.read_all(0, after).await);
    assert!(ids.is_sorted());
    let count = ids.len() + quick.changes.len() + of_quick.len();
    assert_eq!(count, 8_000);
    let cursor = Cursor { partition: Partition(0), after: Position::number(0) };
    let all = scene.feed.feed.read(&[cursor], Limit { rows: 1 << 40, bytes: 1 << 40 }).await.unwrap();
    let weight = all[0].changes.weight();
    assert!(scene.rows() > 8_000, "what is forgotten is read again");
    assert!(weight > MOST + LIMIT.bytes, "{weight} bytes could all have been kept");
}

#[tokio::test(start_paused = true)]
async fn who_goes_back_is_read_for_anew_and_who_closed_is_not_read_for() {
    let mut scene = Scene::new(2, 3_000, true);
    let (first, _) = tokio::join!(scene.read(0, 0), scene.read(1, 0));
    let again = scene.read(0, 0).await;
    let ids = |slice: Slice| slice.changes.map(|change| change.id).collect::<Vec<_>>();
    assert_eq!(ids(first), ids(again.clone())[..]);
    scene._open.remove(1);
    assert_eq!(scene.read_all(0, number(&again.upto)).await.last(), Some(&last_of(&scene)));
}

fn last_of(scene: &Scene) -> u64 {
    let partition = |key: u64| {
        let key = crate::value::Key::of("id", crate::value::Value::Integer((key % 1000) as i64));
        crate::order::partition_of(&key, scene.feed.partitions())
    };
    (1..=3_000).rev().find(|id| partition(*id) == Partition(0)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_failed_while_nobody_asked_is_tried_again_when_somebody_does() {
    let scene = Scene::new(1, 4_000, true);
    let slice = scene.read(0, 0).await;
    scene.feed.away.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let passes = scene.passes();
    scene.feed.away.store(false, Ordering::Relaxed);
    let ids = scene.read_all(0, number(&slice.upto)).await;
    assert_eq!(ids.len() + slice.changes.len(), 4_000);
    assert!(scene.passes() > passes);
}

#[tokio::test(start_paused = true)]
async fn whoever_never_asks_is_waited_for_once() {
    // So few of the changes are of one partition that nothing is read ahead.
    let scene = Scene::new(8, 1_000, true);
    let began = clock::now();
    assert!(!scene.read_all(0, 0).await.is_empty());
    assert!(scene.passes() > 4);
    assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
}
