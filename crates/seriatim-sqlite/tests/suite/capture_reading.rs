//! Reads serve partitions together, fairly and within limits; what everybody has read is pruned.

use std::time::Duration;

use seriatim::change::Position;
use seriatim::name::Partition;
use seriatim::source::{Cursor, Feed, Install, Limit, SourceError, Start};

use crate::capture_kit::{File, Follower, LIMIT, consumer, told};

const ORDERS: &str = "create table orders (id integer primary key, amount)";

fn fill(file: &File, from: usize, to: usize) {
    file.sql(&format!(
        "with recursive n(i) as (select {from} union all select i + 1 from n where i < {to}) insert into orders select i, 'some text' from n"
    ));
}

fn cursor(partition: u32, after: u64) -> Cursor {
    Cursor { partition: Partition(partition), after: Position::number(after) }
}

#[tokio::test]
async fn partitions_share_the_changes_among_them() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders").partitions(4), Start::Now).await;
    fill(&file, 1, 400);
    follower.cursors.truncate(1);
    let some = follower.drain().await;
    assert!((50..150).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|change| change.partition == Partition(0)));
    assert_eq!(follower.position(), &Position::number(400), "what is others' is passed over");
}

#[tokio::test]
async fn groups_that_meet_are_read_together_from_there_on() {
    let file = File::with(ORDERS);
    let follower = Follower::open(file.source().journal("orders").partitions(3), Start::Now).await;
    fill(&file, 1, 100);
    follower.capture.read(&follower.cursors, LIMIT).await.unwrap();
    let slices = follower.capture.read(&[cursor(2, 10), cursor(0, 40), cursor(1, 10)], LIMIT).await.unwrap();
    let served: Vec<u32> = slices.iter().map(|slice| slice.partition.0).collect();
    assert_eq!(served, [2, 1]);
    assert!(slices.iter().all(|slice| slice.upto == Position::number(40) && !slice.caught_up));
    let slices = follower.capture.read(&[cursor(2, 40), cursor(0, 40), cursor(1, 40)], LIMIT).await.unwrap();
    assert_eq!(slices.len(), 3);
    assert!(slices.iter().all(|slice| slice.upto == Position::number(100) && slice.caught_up));
}

#[tokio::test]
async fn limits_hold_and_one_row_always_fits() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders").partitions(1), Start::Now).await;
    fill(&file, 1, 100);
    let (changes, caught_up) = follower.read(Limit { rows: 7, bytes: usize::MAX }).await;
    assert_eq!((changes.len(), caught_up), (7, false));
    let weight = changes[0].weight();
    let (changes, _) = follower.read(Limit { rows: 100, bytes: 3 * weight }).await;
    assert_eq!(changes.len(), 3);
    let (changes, _) = follower.read(Limit { rows: 100, bytes: 0 }).await;
    assert_eq!(changes.len(), 1);
    assert_eq!(follower.drain().await.first().unwrap().id, 12);
}

#[tokio::test]
async fn reading_again_gives_the_same_changes() {
    let file = File::with(&format!("{ORDERS}; insert into orders values (-1, 1), (0, 1)"));
    let mut follower = Follower::open(file.source().journal("orders"), Start::Beginning).await;
    let start = follower.cursors.clone();
    fill(&file, 1, 50);
    let once = follower.drain().await;
    file.sql("update orders set amount = 0");
    follower.cursors = start;
    assert_eq!(follower.drain().await[..once.len()], once);
}

#[tokio::test]
async fn what_all_consumers_have_read_is_pruned_in_steps() {
    let file = File::with(ORDERS);
    let capture = |name: &str| file.source().journal("orders").named(consumer(name, "store").feed);
    let mut fast = Follower::open(capture("fast"), Start::Now).await;
    let mut slow = Follower::open(capture("slow"), Start::Now).await;
    fill(&file, 1, 13_000);
    fast.drain().await;
    assert_eq!(fast.consumed().await, 0, "the other one has not read it");
    slow.drain().await;
    assert_eq!(slow.consumed().await, 10_000, "five steps at a time");
    assert_eq!(slow.consumed().await, 3_000);
    assert_eq!(file.number("select count(*) from seriatim_journal_1"), 0);
    fill(&file, 13_001, 13_001);
    assert_eq!(fast.drain().await[0].id, 13_001, "numbers are never drawn twice");
}

#[tokio::test]
async fn a_backfill_keeps_what_changed_since_its_snapshot() {
    let file = File::with(ORDERS);
    fill(&file, 1, 10);
    let mut follower = Follower::open(file.source().journal("orders").partitions(2), Start::Beginning).await;
    file.sql("update orders set amount = 1");
    follower.read(Limit { rows: 3, bytes: usize::MAX }).await;
    assert_eq!(follower.consumed().await, 0);
    assert_eq!(follower.drain().await.len(), 17);
    assert_eq!(follower.consumed().await, 10);
}

#[tokio::test]
async fn a_position_that_retention_has_passed_is_an_error() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    fill(&file, 1, 10);
    follower.drain().await;
    follower.consumed().await;
    let behind = follower.capture.read(&[cursor(0, 5)], LIMIT).await.unwrap_err();
    assert!(matches!(behind, SourceError::NeedsAttention { .. }));
    let behind = behind.to_string();
    assert!(
        behind.contains("position 5 is no longer retained") && behind.contains("after 10, up to 10"),
        "{behind}"
    );
    assert!(behind.contains("seriatim rewind orders --to beginning"), "{behind}");
    assert!(follower.capture.validate(&Position::number(5)).await.is_err());
    assert!(follower.capture.validate(&Position::number(10)).await.is_ok());
    assert!(follower.capture.validate(&Position::text("b:99:0:[]")).await.is_err());
    assert!(follower.capture.validate(&Position::text("next tuesday")).await.is_err());
}

#[tokio::test]
async fn a_file_restored_from_a_backup_is_noticed() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql(&format!("vacuum into '{}'", file.folder.path().join("backup.db").display()));
    fill(&file, 1, 10);
    follower.drain().await;
    let restored = seriatim_sqlite::Source::new(file.folder.path().join("backup.db")).journal("orders");
    let refused = restored.read(&follower.cursors, LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("replaced or restored from a backup"), "{refused}");
}

#[tokio::test]
async fn a_consumer_that_nobody_registered_is_told_so() {
    let file = File::with(ORDERS);
    let follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    let stranger = consumer("orders", "another store");
    assert!(!follower.capture.knows(&stranger).await.unwrap());
    let refused = follower.capture.consumed(&stranger, &[Position::number(1)]).await.unwrap_err().to_string();
    assert!(refused.contains("orders of store another store is not registered"), "{refused}");
    assert!(follower.capture.rewind(&stranger, &Start::Now).await.is_err());
}

#[tokio::test]
async fn lag_is_counted_for_each_partition() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders").partitions(3), Start::Now).await;
    let idle = follower.capture.lag(&follower.cursors).await.unwrap();
    assert!(idle.iter().all(|lag| lag.changes == Some(0) && lag.seconds == Some(0.0)));
    fill(&file, 1, 300);
    file.sql("update seriatim_journal_1 set at = at - 90000");
    let lags = follower.capture.lag(&follower.cursors).await.unwrap();
    assert_eq!(lags.iter().map(|lag| lag.changes.unwrap()).sum::<u64>(), 300);
    assert!(lags.iter().all(|lag| lag.seconds.unwrap() >= 90.0));
    follower.drain().await;
    let lags = follower.capture.lag(&[cursor(0, 300), follower.cursors[1].clone()]).await.unwrap();
    assert!(lags.iter().all(|lag| lag.changes == Some(0)));
    let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    let among_existing_rows = Cursor { partition: Partition(0), after: start };
    let lag = follower.capture.lag(&[among_existing_rows]).await.unwrap()[0];
    assert_eq!((lag.changes, lag.seconds), (None, None), "unknown is never zero");
}

#[tokio::test]
async fn a_consumer_that_is_gone_for_long_is_named() {
    let file = File::with(ORDERS);
    let capture = |name: &str| file.source().journal("orders").named(consumer(name, "store").feed);
    let alive = Follower::open(capture("alive"), Start::Now).await;
    Follower::open(capture("forgotten"), Start::Now).await;
    fill(&file, 1, 5);
    assert!(alive.capture.blockers().await.unwrap().is_empty());
    for (ago, seconds) in [("61 s", 61), ("3 min", 190), ("3 h", 3 * 3600)] {
        file.sql(&format!("update seriatim_consumer set seen_at = seen_at - {seconds} * 1000"));
        alive.consumed().await;
        let blockers = alive.capture.blockers().await.unwrap();
        assert_eq!(blockers.len(), 1, "{blockers:?}");
        let what = format!("feed forgotten of store store was last seen {ago} ago and keeps 5 changes");
        assert!(blockers[0].what.contains(&what), "{blockers:?}");
        assert!(blockers[0].remedy.contains("`seriatim run forgotten`"), "{blockers:?}");
        assert!(blockers[0].remedy.contains("`seriatim unwatch forgotten --store store`"), "{blockers:?}");
        file.sql(&format!(
            "update seriatim_consumer set seen_at = seen_at + {seconds} * 1000 where feed = 'forgotten'"
        ));
    }
    file.sql("update seriatim_consumer set seen_at = seen_at - 61 * 1000");
    assert_eq!(alive.capture.blockers().await.unwrap().len(), 2, "whoever asks may be one of them");
}

#[tokio::test]
async fn numbers_drawn_for_others_rows_hold_nobody_back() {
    let file = File::with(ORDERS);
    fill(&file, 1, 5);
    let capture = |name: &str| file.source().journal("orders").named(consumer(name, "store").feed);
    let idle = Follower::open(capture("idle"), Start::Now).await;
    Follower::open(capture("late"), Start::Beginning).await;
    file.sql("update seriatim_consumer set seen_at = seen_at - 61 * 1000");
    assert!(idle.capture.blockers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_start_in_the_future_is_refused() {
    let file = File::with(ORDERS);
    let soon: jiff::Timestamp = "2999-12-31T00:00:00Z".parse().unwrap();
    let refused = Follower::try_open(file.source().journal("orders"), Start::Time(soon)).await.err().unwrap();
    assert!(matches!(refused, SourceError::NeedsAttention { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("feed orders") && said.contains("is in the future"), "{said}");
    assert!(said.contains("use `now`"), "{said}");
    assert_eq!(file.number("select count(*) from sqlite_master where name like 'seriatim_journal%'"), 0);
    let follower = Follower::open(file.source().log("orders"), Start::Now).await;
    let refused = follower.capture.rewind(&follower.consumer, &Start::Time(soon)).await.unwrap_err();
    assert!(refused.to_string().contains("is in the future"), "{refused}");
}

#[tokio::test]
async fn a_start_before_the_first_change_that_is_retained_is_that_change() {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    fill(&file, 1, 5);
    follower.drain().await;
    follower.consumed().await;
    fill(&file, 6, 7);
    let long_ago = Start::Time(jiff::Timestamp::UNIX_EPOCH);
    let start = follower.capture.rewind(&follower.consumer, &long_ago).await.unwrap();
    assert_eq!(start, Position::number(5));
}

#[tokio::test]
async fn waiting_ends_with_a_commit_and_not_with_one_that_is_none_of_its_business() {
    let file = File::with(&format!("{ORDERS}; create table other (x)"));
    let mut follower =
        Follower::open(file.source().journal("orders").every(Duration::from_millis(1)), Start::Now).await;
    follower.drain().await;
    file.sql("insert into other values (1)");
    let waited =
        tokio::time::timeout(Duration::from_millis(30), follower.capture.wait(Duration::from_secs(60))).await;
    assert!(waited.is_err(), "still waiting");
    file.sql("insert into orders values (1, 1)");
    let waited =
        tokio::time::timeout(Duration::from_secs(30), follower.capture.wait(Duration::from_secs(60))).await;
    assert!(waited.is_ok(), "the commit ended it");
    assert_eq!(told(&follower.drain().await), [r#"insert {"id":1}"#]);
    follower.capture.wait(Duration::from_millis(5)).await;
}

/// A consumer that has read ten changes of a file whose backup has none of them.
async fn restored_from_before() -> (File, Follower) {
    let file = File::with(ORDERS);
    let mut follower = Follower::open(file.source().journal("orders"), Start::Now).await;
    fill(&file, 1, 2);
    follower.drain().await;
    file.sql(&format!("vacuum into '{}'", file.folder.path().join("backup.db").display()));
    fill(&file, 3, 10);
    follower.drain().await;
    (file, follower)
}

#[tokio::test]
async fn a_restored_file_that_has_gone_on_since_is_noticed_too() {
    let (file, follower) = restored_from_before().await;
    let path = file.folder.path().join("backup.db");
    let application = rusqlite::Connection::open(&path).unwrap();
    for id in 100..150 {
        application.execute("insert into orders (id) values (?1)", [id]).unwrap();
    }
    let restored = seriatim_sqlite::Source::new(&path).journal("orders");
    restored.open(&follower.consumer, &Start::Now).await.unwrap();
    let refused = restored.read(&follower.cursors, LIMIT).await.unwrap_err().to_string();
    assert!(
        refused.contains("restored from a backup that is older than the store's checkpoint"),
        "{refused}"
    );
    let again = restored.read(&follower.cursors, LIMIT).await.unwrap_err().to_string();
    assert_eq!(again, refused, "and it stays refused");
}

#[tokio::test]
async fn a_file_restored_in_place_under_a_reader_is_noticed() {
    let (file, mut follower) = restored_from_before().await;
    let backup = rusqlite::Connection::open(file.folder.path().join("backup.db")).unwrap();
    let mut live = rusqlite::Connection::open(file.path()).unwrap();
    let restoring = rusqlite::backup::Backup::new(&backup, &mut live).unwrap();
    restoring.run_to_completion(1000, std::time::Duration::ZERO, None).unwrap();
    drop(restoring);
    for id in 100..150 {
        live.execute("insert into orders (id) values (?1)", [id]).unwrap();
    }
    let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(
        refused.contains("restored from a backup that is older than the store's checkpoint"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_rewound_consumer_goes_on_wherever_it_was_set() {
    let (_file, mut follower) = restored_from_before().await;
    let newest = follower.capture.newest().await.unwrap();
    for start in [Start::Position(Position::number(3)), Start::Now, Start::Position(newest), Start::Beginning]
    {
        let position = follower.capture.rewind(&follower.consumer, &start).await.unwrap();
        for cursor in &mut follower.cursors {
            cursor.after = position.clone();
        }
        follower.drain().await;
    }
    let gone = Start::Position(Position::number(1_000));
    assert!(follower.capture.rewind(&follower.consumer, &gone).await.is_err());
}
