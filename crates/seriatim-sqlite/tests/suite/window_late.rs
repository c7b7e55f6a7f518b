//! Windows: what is young, what is late, and what never rests.

use std::collections::HashSet;
use std::time::Duration;

use seriatim::clock;
use seriatim::source::{Feed, Start};
use seriatim_sqlite::{Horizon, Unit, WindowCapture, rusqlite};

use crate::capture_kit::File;
use crate::window_kit::{Follower, NOW, key, keys, orders};

const BUFFER: Duration = Duration::from_millis(200);

fn in_ms(file: &File) -> WindowCapture {
    file.source()
        .window("orders", "updated_at")
        .unit(Unit::Milliseconds)
        .buffer(BUFFER)
        .every(Duration::from_millis(5))
}

fn touch(file: &File, id: i64) {
    file.sql(&format!("replace into orders values ({id}, 'tea', {NOW})"));
}

#[tokio::test]
async fn a_row_is_waited_for_until_the_buffer_has_passed() {
    let file = orders(&[]);
    touch(&file, 1);
    let began = clock::now();
    let mut follower = Follower::open(in_ms(&file), Start::Beginning).await;
    let (changes, caught_up) = follower.read().await;
    assert!(changes.is_empty() && !caught_up, "it is there, and too young");
    assert_eq!(keys(&follower.drain().await), [1]);
    assert!(began.elapsed() >= BUFFER);
}

#[tokio::test]
async fn what_is_ahead_of_its_time_is_not_waited_for_and_is_named() {
    let file = orders(&[10]);
    file.sql(&format!("insert into orders values (2, 'tea', {NOW} + 86400000)"));
    let mut follower = Follower::open(in_ms(&file), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    let blockers = follower.window.blockers().await.unwrap();
    assert!(blockers[0].what.contains("has rows that change only in the future"), "{blockers:?}");
}

/// A row of the present second is committed; a transaction writes another one of the same second, with a smaller key, and
/// stays open for ten times the buffer. Returns what comes.
async fn with_a_long_transaction(horizon: Horizon) -> Vec<i64> {
    let file = File::with("create table orders (id integer primary key, at text)");
    file.sql("create index orders_at on orders (at)");
    let window =
        file.source().window("orders", "at").buffer(BUFFER).horizon(horizon).every(Duration::from_millis(5));
    let mut follower = Follower::open(window, Start::Beginning).await;
    let second = "strftime('%Y-%m-%d %H:%M:%S', 'now')";
    file.sql(&format!("insert into orders values (9, {second})"));
    let other = rusqlite::Connection::open(file.path()).unwrap();
    other.execute_batch("begin immediate; insert into orders select 1, at from orders where id = 9").unwrap();
    let (began, mut seen) = (clock::now(), Vec::new());
    let mut named = false;
    while began.elapsed() < 10 * BUFFER {
        seen.extend(keys(&follower.read().await.0));
        named = named || horizon == Horizon::Buffer || {
            let blockers = follower.window.blockers().await.unwrap();
            blockers.iter().any(|blocker| blocker.what.contains("a write transaction has been open"))
        };
    }
    assert!(named, "whoever holds the window back is named");
    other.execute_batch("commit").unwrap();
    // One second for the tick of the column.
    let bound = clock::now() + Duration::from_secs(2);
    while clock::now() < bound {
        seen.extend(keys(&follower.read().await.0));
    }
    seen
}

#[tokio::test]
async fn a_transaction_that_stays_open_for_ten_times_the_buffer_is_not_missed() {
    assert_eq!(with_a_long_transaction(Horizon::Exact).await, [1, 9]);
}

#[tokio::test]
async fn by_the_buffer_alone_a_transaction_that_takes_longer_is_missed() {
    assert_eq!(with_a_long_transaction(Horizon::Buffer).await, [9], "as documented");
}

#[tokio::test]
async fn a_clock_of_whole_seconds_is_waited_for_until_its_next_tick() {
    let file = File::with("create table orders (id integer primary key, at text default current_timestamp)");
    let window =
        file.source().window("orders", "at").buffer(Duration::from_millis(1)).every(Duration::from_millis(1));
    let mut follower = Follower::open(window, Start::Beginning).await;
    let mut seen = Vec::new();
    // Descending keys: within one tick, a later row comes before the place of an earlier one.
    for id in (1..400).rev() {
        file.sql(&format!("insert into orders (id) values ({id})"));
        seen.extend(keys(&follower.read().await.0));
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    seen.extend(keys(&follower.drain_all().await));
    seen.sort_unstable();
    assert_eq!(seen, (1..400).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_row_that_never_rests_comes_within_a_bound_and_no_version_comes_twice() {
    let file = orders(&[]);
    let mut follower = Follower::open(in_ms(&file), Start::Beginning).await;
    let (began, mut changes, mut writes) = (clock::now(), Vec::new(), 0);
    while began.elapsed() < 16 * BUFFER {
        touch(&file, 1);
        touch(&file, 1000 + writes);
        writes += 1;
        changes.extend(follower.read().await.0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let hot = changes.iter().filter(|change| key(change) == 1).count();
    assert!((2..=8).contains(&hot), "about every fourth buffer, not {hot} times in sixteen");
    assert!(changes.len() as i64 > writes / 2, "everything else goes on");
    // It comes to rest.
    changes.extend(follower.drain_all().await);
    let versions: HashSet<u64> = changes.iter().map(|change| change.id).collect();
    assert_eq!(versions.len(), changes.len(), "no version twice");
    let positions: HashSet<String> = changes.iter().map(|change| change.position.to_string()).collect();
    assert_eq!(positions.len(), changes.len(), "each at a position of its own");
    let last = changes.iter().rev().find(|change| key(change) == 1).unwrap();
    assert_eq!(last.at.as_millisecond(), file.number("select updated_at from orders where id = 1"));
    let mut others = keys(&changes);
    others.retain(|key| *key >= 1000);
    assert_eq!(others, (1000..1000 + writes).collect::<Vec<_>>());
    assert!(!follower.position().contains("early"), "{}", follower.position());
}

#[tokio::test]
async fn a_version_that_came_early_is_not_delivered_again_after_a_restart() {
    let file = orders(&[]);
    let mut follower = Follower::open(in_ms(&file), Start::Beginning).await;
    let mut early = Vec::new();
    let bound = clock::now() + Duration::from_secs(30);
    while early.is_empty() {
        assert!(clock::now() < bound, "it starves");
        touch(&file, 1);
        early.extend(follower.read().await.0);
    }
    assert!(follower.position().contains(" early="), "{}", follower.position());
    let position = follower.cursors[0].after.clone();
    let mut next_life = Follower::at(in_ms(&file), &position);
    assert!(next_life.drain_all().await.is_empty(), "it came to rest in what was delivered");
    file.sql("update orders set item = 'coffee' where id = 1");
    let mut another = Follower::at(in_ms(&file), &position);
    assert_eq!(another.drain_all().await.len(), 1, "the same moment, another state");
}

#[tokio::test]
async fn a_clock_that_was_set_back_stops_the_feed_instead_of_losing_what_is_written() {
    let file = orders(&[10]);
    let passed = file.number(&format!("select {NOW} + 3600000"));
    let mut follower = Follower::at(in_ms(&file), &seriatim::Position::text(&format!("{passed} [7]")));
    let said = follower.try_read().await.unwrap_err().to_string();
    assert!(
        said.contains("the clock was set back") && said.contains("seriatim rewind orders --to TIME"),
        "{said}"
    );
}

#[tokio::test]
async fn what_is_written_in_the_tick_in_which_a_feed_begins_is_not_lost() {
    let file = File::with("create table orders (id integer primary key, at text default current_timestamp)");
    let window =
        file.source().window("orders", "at").buffer(Duration::from_millis(1)).every(Duration::from_millis(1));
    let mut follower = Follower::open(window, Start::Now).await;
    file.sql("insert into orders (id) values (1)");
    assert_eq!(keys(&follower.drain_all().await), [1]);
}
