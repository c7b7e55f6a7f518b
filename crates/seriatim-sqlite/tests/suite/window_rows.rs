//! Windows: every row in its order, whatever its moment looks like, and again with the same id.

use std::num::NonZeroUsize;
use std::time::Duration;

use proptest::prelude::*;
use seriatim::source::window::Age;
use seriatim::source::{Cursor, Feed, Install, Start};
use seriatim::{Op, Partition, Position};
use seriatim_sqlite::{Unit, WindowCapture};

use crate::capture_kit::File;
use crate::window_kit::{Follower, key, keys, orders};

fn of_orders(file: &File, excessive_count: usize) -> WindowCapture {
    let window =
        file.source().window("orders", "updated_at").unit(Unit::Seconds).buffer(Duration::from_millis(50));
    window.excessive_count(NonZeroUsize::new(excessive_count).unwrap())
}

#[tokio::test]
async fn rows_come_by_their_moment_and_then_by_their_key() {
    let file = orders(&[30, 10, 20, 10]);
    let mut follower = Follower::open(of_orders(&file, 100), Start::Beginning).await;
    let changes = follower.drain().await;
    assert_eq!(keys(&changes), [2, 4, 3, 1]);
    assert!(changes.iter().all(|change| change.op == Op::Upsert && change.before.is_none()));
    assert_eq!(
        changes[0].to_json(),
        format!(
            r#"{{"feed":"orders","partition":0,"position":"10 [2]","key":{{"id":2}},"op":"upsert","at":"1970-01-01T00:00:10.000000Z","before":null,"after":{{"id":2,"item":"tea","updated_at":10}},"id":{},"prev":null}}"#,
            changes[0].id
        )
    );
    assert_eq!(follower.position(), "30 [1]");
    assert!(follower.drain().await.is_empty(), "and none twice");
}

#[tokio::test]
async fn any_number_of_rows_may_share_a_moment() {
    for (seconds, excessive_count) in [
        (vec![1, 2, 3, 3], 3),
        (vec![1, 2, 3], 3),
        (vec![7; 10], 3),
        (vec![1, 7, 7, 7, 9], 1),
        (vec![7; 4], 4),
    ] {
        let file = orders(&seconds);
        let mut follower = Follower::open(of_orders(&file, excessive_count), Start::Beginning).await;
        let expected: Vec<i64> = (1..=seconds.len() as i64).collect();
        assert_eq!(keys(&follower.drain().await), expected, "{seconds:?} by {excessive_count}");
    }
}

/// The primary key tells 'a' from 'A', the column's collation does not.
#[tokio::test]
async fn rows_of_one_moment_that_a_collation_takes_for_equal_all_come() {
    let file = File::with(
        "create table orders (name text collate nocase, updated_at integer, primary key (name collate binary))",
    );
    file.sql("insert into orders values ('b', 7), ('a', 7), ('B', 7), ('A', 7), ('c', 7)");
    for excessive_count in 1..4 {
        let mut follower = Follower::open(of_orders(&file, excessive_count), Start::Beginning).await;
        let names: Vec<String> =
            follower.drain().await.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
        let expected = ["A", "B", "a", "b", "c"].map(|name| format!("{{\"name\":\"{name}\"}}"));
        assert_eq!(names, expected, "by {excessive_count}");
    }
    let missing = of_orders(&file, 1).advice().await.unwrap().remove(0);
    assert!(missing.remedy.contains("(\"updated_at\", \"name\" collate binary)"), "{missing:?}");
    file.sql(&missing.remedy);
    assert_eq!(of_orders(&file, 1).advice().await.unwrap(), []);
}

#[tokio::test]
async fn a_page_is_never_larger_than_the_excessive_count() {
    let file = orders(&[7; 10]);
    let mut follower = Follower::open(of_orders(&file, 3), Start::Beginning).await;
    let mut pages = Vec::new();
    for _ in 0..4 {
        pages.push(keys(&follower.read().await.0));
    }
    assert_eq!(pages, [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9], vec![10]]);
}

#[tokio::test]
async fn every_form_of_time_is_followed_in_its_order() {
    for (unit, values) in [
        (
            None,
            [
                "'2026-01-01 00:00:09'",
                "'2026-01-01 00:00:09.25'",
                "'2026-01-01 00:00:10'",
                "'2026-01-02 00:00:00'",
            ],
        ),
        (
            None,
            [
                "'2026-01-01T00:00:09.000Z'",
                "'2026-01-01T00:00:09.250Z'",
                "'2026-01-01T00:00:10.000Z'",
                "'2026-01-02T00:00:00.000Z'",
            ],
        ),
        (
            None,
            [
                "'2026-01-01T00:00:09+00:00'",
                "'2026-01-01T00:00:09.25+00:00'",
                "'2026-01-01T00:00:10+00:00'",
                "'2026-01-02T00:00:00+00:00'",
            ],
        ),
        (Some(Unit::Seconds), ["9", "10", "11", "12"]),
        (Some(Unit::Milliseconds), ["9000", "9250", "10000", "100000"]),
        (Some(Unit::Microseconds), ["9000000", "9250001", "10000000", "100000000"]),
    ] {
        for column in ["text", "timestamp", "integer", "datetime", ""] {
            let file = File::with(&format!("create table orders (id integer primary key, at {column})"));
            for (id, value) in [(4, values[3]), (2, values[1]), (3, values[2]), (1, values[0])] {
                file.sql(&format!("insert into orders values ({id}, {value})"));
            }
            if column == "text" && unit.is_some() {
                continue;
            }
            let window = file.source().window("orders", "at").excessive_count(NonZeroUsize::MIN);
            let window = unit.map_or_else(|| file.source().window("orders", "at"), |unit| window.unit(unit));
            let mut follower = Follower::open(window, Start::Beginning).await;
            let changes = follower.drain().await;
            assert_eq!(keys(&changes), [1, 2, 3, 4], "{values:?} in {column}");
            assert!(changes.is_sorted_by_key(|change| change.at));
        }
    }
}

#[tokio::test]
async fn a_version_of_a_row_has_the_same_id_whenever_it_comes_and_another_has_another() {
    let file = orders(&[10, 20]);
    let first = Follower::open(of_orders(&file, 100), Start::Beginning).await.drain().await;
    let again = Follower::open(of_orders(&file, 1), Start::Beginning).await.drain().await;
    assert_eq!(first, again);
    file.sql("update orders set item = 'coffee' where id = 1");
    let changed = Follower::open(of_orders(&file, 100), Start::Beginning).await.drain().await;
    assert_ne!(changed[0].id, first[0].id, "its moment is the same, what is in it is not");
    assert_eq!(changed[1].id, first[1].id);
    assert!(first.iter().all(|change| i64::try_from(change.id).is_ok()), "it fits into SQL");
}

#[tokio::test]
async fn updated_rows_come_again_and_rows_without_a_moment_never() {
    let file = orders(&[10, 20]);
    file.sql("insert into orders values (3, 'water', null)");
    let mut follower = Follower::open(of_orders(&file, 100), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1, 2]);
    file.sql("update orders set updated_at = 30, item = 'x' where id = 1; update orders set updated_at = 31 where id = 3");
    assert_eq!(keys(&follower.drain().await), [1, 3]);
}

#[tokio::test]
async fn a_feed_can_begin_at_a_time_or_now() {
    let file = orders(&[10, 20, 20, 30]);
    let at = |second: i64| Start::Time(seriatim::jiff::Timestamp::from_second(second).unwrap());
    for (second, expected) in [(0, vec![1, 2, 3, 4]), (20, vec![2, 3, 4]), (21, vec![4]), (31, vec![])] {
        let mut follower = Follower::open(of_orders(&file, 1), at(second)).await;
        assert_eq!(keys(&follower.drain().await), expected, "{second}");
    }
    let mut follower = Follower::open(of_orders(&file, 1), Start::Now).await;
    assert!(follower.drain().await.is_empty());
    let text = File::with("create table orders (id integer primary key, at text)");
    text.sql("insert into orders values (1, '2026-01-01 00:00:00'), (2, '2026-01-01 12:00:00'), (3, '2026-01-02 00:00:00')");
    let noon = Start::Time("2026-01-01T12:00:00Z".parse().unwrap());
    let mut follower = Follower::open(text.source().window("orders", "at"), noon).await;
    assert_eq!(keys(&follower.drain().await), [2, 3]);
}

#[tokio::test]
async fn a_query_is_followed_like_a_table() {
    let file = orders(&[10, 20, 30]);
    let query =
        "select id, upper(item) as item, updated_at * 1000 as at from orders where id <> 2 -- all but one";
    let window =
        file.source().window_of_query(query, "at").unit(Unit::Milliseconds).key(vec!["id".to_owned()]);
    let changes = Follower::open(window, Start::Beginning).await.drain().await;
    assert_eq!(keys(&changes), [1, 3]);
    assert_eq!(
        changes[0].after.as_ref().unwrap().to_json().to_string(),
        r#"{"id":1,"item":"TEA","at":10000}"#
    );
}

#[tokio::test]
async fn tables_without_a_number_for_a_key_are_paged_too() {
    let file = File::with(
        "create table stock (shop text, item text, n integer, at integer, primary key (shop, item)) without rowid",
    );
    let mut expected = Vec::new();
    for shop in ["a", "B", "ä'\""] {
        for item in 0..5 {
            file.sql(&format!("insert into stock values ('{}', '{item}', 1, 7)", shop.replace('\'', "''")));
            expected.push(format!(r#"{{"shop":{},"item":"{item}"}}"#, serde_json::to_string(shop).unwrap()));
        }
    }
    let window = file
        .source()
        .window("stock", "at")
        .unit(Unit::Seconds)
        .excessive_count(NonZeroUsize::new(2).unwrap());
    let changes = Follower::open(window, Start::Beginning).await.drain().await;
    let mut told: Vec<String> =
        changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn stale_rows_are_dropped_and_counted_and_a_lost_tracker_begins_with_what_is_not_stale() {
    let file = orders(&[]);
    file.sql(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 500)
         insert into orders select i, 'old', 1000 + i from n",
    );
    file.sql("insert into orders values (1000, 'new', cast(strftime('%s', 'now') as integer) - 60)");
    let window = || of_orders(&file, 7).stale_age(Age::Of(Duration::from_secs(3600)));
    let tracker = Position::text("1100 [100]");
    let mut follower = Follower::at(window(), &tracker);
    assert_eq!(keys(&follower.drain().await), [1000]);
    assert!(follower.position().ends_with(" [1000] dropped=400"), "{}", follower.position());
    assert!(follower.drain().await.is_empty());
    assert!(follower.position().ends_with(" dropped=400"), "counted once: {}", follower.position());
    // Nobody knows what was missed by a tracker that is lost.
    let mut lost = Follower::open(window(), Start::Beginning).await;
    assert_eq!(keys(&lost.drain().await), [1000]);
    assert!(!lost.position().contains("dropped"), "{}", lost.position());
    let mut everything = Follower::open(of_orders(&file, 1000), Start::Beginning).await;
    assert_eq!(everything.drain().await.len(), 501);
}

#[tokio::test]
async fn partitions_share_the_rows_by_their_keys() {
    let file = orders(&(0..200).map(|n| n / 7).collect::<Vec<_>>());
    let mut follower = Follower::open(of_orders(&file, 9).partitions(4), Start::Beginning).await;
    // One of them is far ahead of the others.
    let ahead = Cursor { partition: Partition(2), after: Position::text("20 [141]") };
    follower.cursors[2] = ahead;
    let mut changes = follower.drain().await;
    let mut passes = 0;
    while follower.cursors.iter().any(|cursor| cursor.after != follower.cursors[0].after) {
        changes.extend(follower.drain().await);
        passes += 1;
        assert!(passes < 100, "they never meet");
    }
    let mut seen = keys(&changes);
    seen.sort_unstable();
    let skipped: Vec<i64> = (1..=141).filter(|key| !seen.contains(key)).collect();
    assert!(!skipped.is_empty() && seen.is_sorted_by(|one, next| one < next), "none twice");
    assert_eq!(seen.len() + skipped.len(), 200);
}

#[tokio::test]
async fn lag_counts_what_is_left_and_how_old_it_is() {
    let file = orders(&[10, 20]);
    file.sql("update orders set updated_at = cast(strftime('%s', 'now') as integer) - 100 where id = 2");
    let follower = Follower::open(of_orders(&file, 100), Start::Beginning).await;
    let lag = follower.window.lag(&follower.cursors).await.unwrap()[0];
    assert_eq!(lag.changes, Some(2));
    let at_first = Cursor { partition: Partition(0), after: Position::text("10 [1]") };
    let lag = follower.window.lag(&[at_first]).await.unwrap()[0];
    assert_eq!(lag.changes, Some(1));
    assert!((99.0..110.0).contains(&lag.seconds.unwrap()), "{lag:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: i64, tick: i64 },
    Read,
    Crash,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Writes go on while windows are read, by moments that go forward; a crash forgets what was read since the last checkpoint.
    #[test]
    fn whatever_is_written_arrives_in_order_and_once(
        steps in prop::collection::vec(
            prop_oneof![
                3 => (1..6i64, 0..2i64).prop_map(|(key, tick)| Step::Write { key, tick }),
                2 => Just(Step::Read),
                1 => Just(Step::Crash),
            ],
            1..60,
        ),
        excessive_count in 1..5usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let file = orders(&[]);
            let window = || of_orders(&file, excessive_count).every(Duration::from_millis(1));
            let mut follower = Follower::open(window(), Start::Beginning).await;
            let (mut now, mut handled) = (1000, Vec::new());
            for step in steps {
                match step {
                    Step::Write { key, tick } => {
                        // What was read to its end is complete: whoever writes after that takes a later moment.
                        now += tick + 1;
                        file.sql(&format!("replace into orders values ({key}, 'tea', {now})"));
                    }
                    Step::Read => {
                        let (changes, _) = follower.read().await;
                        handled.extend(changes);
                    }
                    Step::Crash => {
                        let position = follower.cursors[0].after.clone();
                        drop(follower.read().await);
                        follower = Follower::at(window(), &position);
                    }
                }
            }
            handled.extend(follower.drain().await);
            prop_assert!(handled.is_sorted_by(|one, next| one.at < next.at), "in order, none twice");
            for row in file.rows("select id, updated_at from orders") {
                let (seriatim::Value::Integer(id), seriatim::Value::Integer(second)) = (&row[0], &row[1]) else { panic!() };
                let last = handled.iter().rev().find(|change| key(change) == *id).map(|change| change.at.as_second());
                prop_assert_eq!(last, Some(*second), "the last state of {}", id);
            }
            Ok(())
        })?;
    }
}
